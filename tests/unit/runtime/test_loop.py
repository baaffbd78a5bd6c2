"""The loop, with epoll and without: order of timers, calls from other threads, jobs, faults, the end."""

import logging
import os
import signal
import threading

import pytest

from barnabas.broker.edge import Contained
from barnabas.core.partition import PartitionState
from barnabas.runtime.faults import StateBroken
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
        turns.append(loop.pace.ready_count)
        if len(turns) == 1:
            loop.pace.is_restless = True
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


class PlantedFault(Exception):
    """Nobody foresaw it."""


def planted(*_args):
    raise PlantedFault


def in_a_timer(loop):
    loop.call_at(loop.clock.monotonic_ms(), planted)


def in_a_posted_call(loop):
    loop.post(planted)


def in_the_answer_of_a_job(loop):
    loop.run(lambda: None, planted)


def in_the_error_of_a_job(loop):
    loop.run(lambda: 1 // 0, planted)


def at_the_end_of_a_turn(loop):
    times = []

    def once():
        if not times:
            times.append(1)
            planted()

    loop.at_turn_end(once)


def after_a_standstill(loop):
    times = []

    def once():
        if not times:
            times.append(1)
            planted()

    loop.watch_standstill(0, once)


def in_a_handler(loop):
    read, write = os.pipe()
    os.write(write, b"x")  # it stays readable
    loop.watch(read, READ, planted)
    PIPES.append((read, write))


PIPES = []
EDGES = [
    in_a_timer, in_a_posted_call, in_the_answer_of_a_job, in_the_error_of_a_job, at_the_end_of_a_turn, after_a_standstill, in_a_handler,
]  # fmt: skip


@pytest.fixture
def pipes():
    yield
    while PIPES:
        for fd in PIPES.pop():
            os.close(fd)


@pytest.mark.usefixtures("pipes")
@pytest.mark.parametrize("plant", EDGES)
def test_a_fault_in_a_callback_is_told_once_and_the_others_are_called(loop, plant, caplog):
    plant(loop)
    turns = []

    def later():
        turns.append("timer")
        loop.post(lambda: turns.append("posted"))
        loop.run(lambda: None, lambda _result, _error: loop.stop())

    def wait():
        if loop.faults.count:
            later()
        else:
            loop.call_at(loop.clock.monotonic_ms() + 1, wait)

    wait()
    loop.run_forever()
    assert turns == ["timer", "posted"]
    assert loop.faults.count == 1
    [record] = caplog.records
    assert record.levelno == logging.ERROR
    assert record.exc_info[0] is PlantedFault
    for read, _write in PIPES:
        loop.unwatch(read)  # as its owner does when it closes: harmless


def test_a_fault_that_repeats_is_counted_and_not_told_again(loop, caplog):
    for _ in range(100):
        loop.post(planted)
    loop.stop()
    loop.run_forever()
    assert loop.faults.count == 100
    assert len(caplog.records) == 1


def break_an_invariant(*_args):
    PartitionState(broker_id=1, replicas=(2, 3), leader_epoch=0, high_watermark=0)


@pytest.mark.parametrize("is_portable", [False, True], ids=["epoll", "portable"])
@pytest.mark.parametrize(
    "plant",
    [
        lambda loop: loop.call_at(0, break_an_invariant),
        lambda loop: loop.post(break_an_invariant),
        lambda loop: loop.at_turn_end(break_an_invariant),
        lambda loop: loop.run(lambda: None, break_an_invariant),
    ],
    ids=["timer", "posted", "turn end", "done"],
)
def test_an_assertion_of_the_core_ends_the_loop_with_the_state_in_the_log(
    plant, is_portable, caplog
):
    loop, called = Loop(portable=is_portable), []
    loop.faults.describe_state = lambda: "state of the test"
    loop.call_at(0, lambda: None)
    plant(loop)
    with pytest.raises(StateBroken) as ended:
        loop.run_forever()
    assert isinstance(ended.value.__cause__, AssertionError)
    [record] = caplog.records
    assert record.levelno == logging.CRITICAL
    assert "state of the test" in record.getMessage()
    assert record.exc_info[0] is AssertionError
    loop.post(lambda: called.append("after the end"))
    loop.close()
    assert called == []


def test_an_assertion_of_anybody_else_is_a_fault_like_others(loop):
    def fail(*_args):
        raise AssertionError

    loop.post(fail)
    loop.stop()
    loop.run_forever()
    assert loop.faults.count == 1


def test_a_contained_fault_is_told_with_where_it_came_from(loop, caplog):
    def contain():
        try:
            planted()
        except PlantedFault as fault:
            raise Contained("the thing", fault) from fault

    for _ in range(3):
        loop.post(contain)
    loop.stop()
    loop.run_forever()
    assert loop.faults.count == 3
    [record] = caplog.records
    assert "the thing" in record.getMessage()
    assert "in planted" in record.getMessage()
