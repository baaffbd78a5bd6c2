"""The loop, with epoll and without: order of timers, calls from other threads, jobs, the end."""

import os
import signal
import threading

import pytest

from barnabas.runtime.loop import READ, Loop


@pytest.fixture(params=[False, True], ids=["epoll", "portable"])
def loop(request):
    made = Loop(portable=request.param)
    yield made
    made.close()


def test_timers_run_in_order_and_cancelled_ones_do_not(loop):
    now, seen = loop.clock.monotonic_ms(), []
    loop.call_at(now + 3, loop.stop)
    loop.call_at(now + 2, lambda: seen.append("second"))
    loop.call_at(now + 2, lambda: seen.append("never")).cancel()
    loop.call_at(now + 1, lambda: seen.append("first"))
    loop.run_forever()
    assert seen == ["first", "second"]


def test_thousands_of_cancelled_timers_are_not_kept(loop):
    far = loop.clock.monotonic_ms() + 10**9
    for _ in range(20_000):
        loop.call_at(far, lambda: None).cancel()
    assert len(loop._timers) < 10_000


def test_posts_from_other_threads_arrive_in_order(loop):
    seen = []

    def work():
        for number in range(1000):
            loop.post(lambda number=number: seen.append(number))
        loop.stop()

    thread = threading.Thread(target=work)
    thread.start()
    loop.run_forever()
    thread.join()
    assert seen == list(range(1000))


def test_jobs_come_back_on_the_loops_thread_with_result_or_error(loop):
    seen, here = [], threading.get_ident()

    def done(result, error):
        seen.append((result, repr(error), threading.get_ident() == here))
        if len(seen) == 2:
            loop.stop()

    loop.run(threading.get_ident, lambda result, error: done(result != here, error))
    loop.run(lambda: 1 // 0, done)
    loop.run_forever()
    assert sorted(seen, key=repr) == sorted(
        [(True, "None", True), (None, repr(ZeroDivisionError("integer division or modulo by zero")), True)],
        key=repr,
    )  # fmt: skip


def test_answers_of_jobs_are_delivered_at_the_close():
    loop, seen = Loop(), []
    loop.run(lambda: "late", lambda result, _error: seen.append(result))
    loop.close()
    assert seen == ["late"]
    loop.post(lambda: seen.append("too late"))
    assert seen == ["late"]


def test_a_descriptor_closed_by_another_callback_of_the_turn_is_not_called(loop):
    pipes = [os.pipe() for _ in range(2)]
    called = []

    def handler(own, other):
        def handle(_events):
            called.append(own)
            loop.unwatch(own)
            loop.unwatch(other)
            loop.stop()

        return handle

    reads = [read for read, _ in pipes]
    for at, (read, write) in enumerate(pipes):
        loop.watch(read, READ, handler(read, reads[1 - at]))
        os.write(write, b"x")
    loop.run_forever()
    assert len(called) == 1
    for pair in pipes:
        for fd in pair:
            os.close(fd)


def test_the_end_of_a_turn_is_told_after_its_events(loop):
    order = []
    loop.at_turn_end(lambda: order.append("end"))
    loop.post(lambda: order.append("event"))
    loop.stop()
    loop.run_forever()
    assert order[0] == "event"
    assert order[-1] == "end"


@pytest.mark.parametrize(("limit_ms", "is_told"), [(0, True), (3_600_000, False)])
def test_a_turn_that_comes_late_begins_with_being_told(loop, limit_ms, is_told):
    seen = []

    def read():
        seen.append("event")
        loop.stop()

    loop.post(read)
    loop.watch_standstill(limit_ms, lambda: seen.append("stood still"))
    loop.run_forever()
    assert seen[0] == ("stood still" if is_told else "event")
    assert ("stood still" in seen) == is_told


def test_polling_again_makes_a_turn_without_waiting_for_events(loop):
    turns, timers = [], []

    def on_turn_end():
        turns.append(loop.ready_count)
        if len(turns) == 1:
            loop.poll_again()
        elif len(turns) == 2:
            loop.stop()

    loop.at_turn_end(on_turn_end)
    loop.call_at(loop.clock.monotonic_ms() + 30_000, lambda: timers.append("waited for"))
    loop.post(lambda: None)
    loop.run_forever()
    assert turns[:2] == [1, 0]
    assert not timers


def wakeup_fd():
    fd = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(fd)
    return fd


def test_a_signal_ends_the_poll_by_itself_while_it_runs(loop):
    """Compiled code hands it to its handler only then."""
    seen = []

    def look():
        seen.append(wakeup_fd())
        loop.stop()

    before = wakeup_fd()
    loop.post(look)
    loop.run_forever()
    assert seen == [loop._wake_write]
    assert wakeup_fd() == before


def test_on_another_thread_signals_are_left_alone(loop):
    before, seen = wakeup_fd(), []
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    came = threading.Event()
    loop.post(came.set)
    came.wait()
    seen.append(wakeup_fd())
    loop.stop()
    thread.join()
    assert seen == [before]
