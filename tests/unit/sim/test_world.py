"""Virtual time: order, lives, and a digest of all that happens."""

from barnabas.sim.world import (
    MS,
    START_MS,
    Life,
    Scheduler,
    SimBackground,
    SimClock,
    SimRng,
    SimTimers,
)


def enter(call):
    call()


def run_all(scheduler):
    scheduler.run(lambda: False, scheduler.now_us + 10_000_000)


def test_events_run_in_order_of_time_and_then_of_booking():
    scheduler, seen = Scheduler(1), []
    for name, delay_us in (("c", 30), ("a", 10), ("b", 10)):
        scheduler.after(delay_us, name, lambda name=name: seen.append((scheduler.now_us, name)))
    run_all(scheduler)
    assert seen == [(10, "a"), (10, "b"), (30, "c")]


def test_a_cancelled_event_does_not_happen():
    scheduler, seen = Scheduler(1), []
    scheduler.after(10, "x", lambda: seen.append(1)).cancel()
    run_all(scheduler)
    assert seen == []
    assert scheduler.events == 0


def test_a_run_ends_when_it_is_finished_or_its_time_is_over():
    scheduler, seen = Scheduler(1), []
    for delay_us in (10, 20, 30):
        scheduler.after(delay_us, "x", lambda: seen.append(scheduler.now_us))
    assert scheduler.run(lambda: len(seen) == 1, 1000)
    assert not scheduler.run(lambda: len(seen) == 3, 25)
    assert (seen, scheduler.now_us) == ([10, 20], 25)


def test_the_digest_tells_runs_apart():
    digests = set()
    for text, data in (("a", b""), ("b", b""), ("a", b"x")):
        scheduler = Scheduler(1)
        scheduler.note(text, data)
        digests.add(scheduler.digest)
    assert len(digests) == 3


def test_chance_has_a_stream_per_part():
    draws = [Scheduler(7).chance(name).random() for name in ("disk", "network", "disk")]
    assert draws[0] == draws[2] != draws[1]
    assert SimRng(Scheduler(7).chance("ids")).random_bytes(4) == Scheduler(7).chance(
        "ids"
    ).randbytes(4)


def test_the_wall_clock_may_be_set_and_the_other_one_not():
    scheduler = Scheduler(1)
    clock = SimClock(scheduler)
    scheduler.run(lambda: False, 5 * MS)
    clock.wrong_by_ms = -3_600_000
    assert clock.now_ms() == START_MS + 5 - 3_600_000
    assert clock.monotonic_ms() == 5


def test_timers_and_jobs_of_a_life_end_with_it():
    scheduler, life, seen = Scheduler(1), Life(1), []
    SimTimers(scheduler, life, enter).call_at(5, lambda: seen.append("timer"))
    SimBackground(scheduler, life, enter).run(
        lambda: seen.append("job"), lambda _result, _error: seen.append("done")
    )
    life.is_over = True
    run_all(scheduler)
    assert seen == []


def test_a_timer_comes_at_its_time_and_a_past_one_at_once():
    scheduler, seen = Scheduler(1), []
    timers = SimTimers(scheduler, Life(1), enter)
    timers.call_at(5, lambda: seen.append(scheduler.now_us))
    timers.call_at(-1, lambda: seen.append(scheduler.now_us))
    run_all(scheduler)
    assert seen == [0, 5 * MS]


def test_jobs_answer_later_with_what_came_of_them():
    scheduler, seen = Scheduler(1), []
    background = SimBackground(scheduler, Life(1), enter)
    background.run(lambda: 42, lambda result, error: seen.append((result, error)))
    background.run(lambda: 1 // 0, lambda _result, error: seen.append(type(error)))
    assert seen == []
    run_all(scheduler)
    assert sorted(map(str, seen)) == ["(42, None)", str(ZeroDivisionError)]


def test_jobs_end_in_any_order():
    orders = set()
    for seed in range(20):
        scheduler, seen = Scheduler(seed), []
        background = SimBackground(scheduler, Life(1), enter)
        for name in "ab":
            background.run(lambda: None, lambda _r, _e, name=name, seen=seen: seen.append(name))
        run_all(scheduler)
        orders.add("".join(seen))
    assert orders == {"ab", "ba"}
