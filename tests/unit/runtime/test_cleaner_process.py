"""The cleaner as a process: what it says, what it does, how it ends."""

import io
import os
import queue
import subprocess
import sys
import time

import pytest
from cleaner_kit import compacted, put, state_of
from log_kit import NOW, read_all

from barnabas.broker.cleaners import CleanerGone
from barnabas.runtime import cleaner_messages as messages
from barnabas.runtime.cleaner_process import ProcessCleaner
from barnabas.runtime.cleaner_worker import Throttle, serve
from barnabas.runtime.disk import RealDisk
from barnabas.storage.cleaned_segment import CleanedSegment
from barnabas.storage.cleaner import CleaningStats
from barnabas.storage.cleaning_plan import CleanerLimits, measure, plan
from barnabas.storage.log import Log
from barnabas.storage.segment import DamagedBatch
from barnabas.wire.batch import BatchError, Producer

FAST = 1e300


@pytest.fixture
def disk():
    disk = RealDisk()
    yield disk
    disk.close()


@pytest.fixture
def log(tmp_path, disk):
    log = Log.open(disk, str(tmp_path), compacted(segment_bytes=2000), now_ms=NOW, clean=True)
    for number in range(100):
        producer = Producer(7, 1, number) if number < 50 else None
        put(log, [(b"key-%d" % (number % 7), b"value-%d" % number)], producer=producer)
    log.roll(NOW)
    return log


def order_for(log):
    limits = CleanerLimits(1 << 20, 0.9, 1 << 16)
    return plan(log, measure(log, None, log.log_end_offset, NOW), limits, NOW)


def test_an_order_comes_over_as_it_is(log):
    order = order_for(log)
    assert order.producers
    line = messages.encode(messages.order_message(order, FAST))
    assert messages.read_order(messages.decode(line)) == (order, FAST)


@pytest.mark.parametrize(
    "problem",
    [
        OSError(28, "no room", "/a"),
        FileNotFoundError(2, "gone", "/a"),
        BatchError("bad"),
        DamagedBatch("bad", 7),
    ],
)
def test_a_problem_comes_over_as_it_is(problem):
    message = messages.decode(messages.encode(messages.problem_message(problem)))
    with pytest.raises(type(problem)) as raised:
        messages.read_answer(message)
    assert str(raised.value) == str(problem)
    assert getattr(raised.value, "base_offset", None) == getattr(problem, "base_offset", None)


def converse(*lines):
    answers = io.BytesIO()
    serve(io.BytesIO(b"".join(messages.encode(line) for line in lines)), answers)
    return [messages.decode(line) for line in answers.getvalue().splitlines()]


def test_a_worker_answers_line_by_line(log):
    order = messages.order_message(order_for(log), FAST)
    mapped, *segments, stats = converse(order, *[messages.NEXT] * 9)[:11]
    assert mapped == messages.MAPPED
    found = [messages.read_answer(one) for one in segments]
    new = [one for one in found if isinstance(one, CleanedSegment)]
    assert [base for one in new for base in one.sources] == log.base_offsets[:-1]
    assert messages.read_answer(stats).records_read == 100


def test_a_worker_tells_of_damage(log):
    log.closed_segments[0].log.write(70, [b"\xff"])
    (answer,) = converse(messages.order_message(order_for(log), FAST))
    assert "no whole batch" in answer["damaged"]
    assert answer["base_offset"] == 0


def test_a_worker_tells_of_a_failing_disk(log):
    order = messages.order_message(order_for(log), FAST)
    order["order"]["directory"] += "/nowhere"
    (answer,) = converse(order)
    assert answer["os_error"][0] == 2


def test_the_throttle_waits_for_what_is_too_much(monkeypatch):
    slept = []
    monkeypatch.setattr(time, "sleep", slept.append)
    monkeypatch.setattr(time, "monotonic", lambda: 1000.0)  # between two calls no time passes
    throttle = Throttle(1000.0, os.getppid())
    throttle(100)
    throttle(1000)
    assert slept == pytest.approx([0.1, 1.1])


def test_a_worker_whose_broker_went_away_ends():
    with pytest.raises(SystemExit):
        Throttle(1000.0, -1)(1)


def test_a_worker_whose_broker_was_killed_ends_without_a_word(log):
    """Its errors would stand in the log of the broker's next life."""
    worker = subprocess.Popen(
        [sys.executable, "-m", "barnabas.runtime.cleaner_worker"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    worker.stdout.close()
    _, said = worker.communicate(messages.encode(messages.order_message(order_for(log), FAST)))
    assert said == b""


class Caller:
    """Stands for the loop: makes posted calls when asked to, and waits for the answer to one request."""

    def __init__(self):
        self.calls = queue.SimpleQueue()

    def ask(self, request, *arguments):
        answers = []
        request(*arguments, lambda result, error: answers.append((result, error)))
        while not answers:
            self.calls.get(timeout=60)()
        result, error = answers[0]
        if error is not None:
            raise error
        return result


@pytest.fixture
def caller():
    return Caller()


@pytest.fixture
def cleaner(caller):
    cleaner = ProcessCleaner(caller.calls.put)
    yield cleaner
    cleaner.close()
    if cleaner._thread is not None:
        cleaner._thread.join(60)


def test_a_process_compacts_a_log_and_then_another_time(log, disk, caller, cleaner):
    expected = state_of(read_all(log))
    for _ in range(2):
        assert caller.ask(cleaner.begin, order_for(log), FAST) is None
        while not isinstance(found := caller.ask(cleaner.next_segment), CleaningStats):
            job = log.plan_swap(found, NOW)
            job.run()
            for path in log.on_swapped(job):
                disk.remove(path)
        assert found.clean_offset == 100
        assert state_of(read_all(log)) == expected
        assert len(read_all(log)) == 7
    assert cleaner._process.poll() is None


def test_a_process_that_is_killed(log, caller, cleaner):
    caller.ask(cleaner.begin, order_for(log), FAST)
    cleaner._process.kill()
    with pytest.raises(CleanerGone, match="status -9"):
        caller.ask(cleaner.next_segment)


def test_errors_of_the_process_are_raised_here(log, caller, cleaner):
    log.closed_segments[0].log.write(70, [b"\xff"])
    with pytest.raises(DamagedBatch, match="no whole batch"):
        caller.ask(cleaner.begin, order_for(log), FAST)


def test_a_closed_cleaner_has_no_process_and_takes_no_orders(log, caller, cleaner):
    caller.ask(cleaner.begin, order_for(log), FAST)
    cleaner.close()
    cleaner._thread.join(60)
    assert cleaner._process.poll() is not None
    with pytest.raises(CleanerGone):
        caller.ask(cleaner.next_segment)


def test_a_cleaner_that_is_closed_while_it_reads_answers_soon(log, caller, cleaner):
    """A deletion waits for that. At this rate reading would take hours."""
    answers = []
    cleaner.begin(order_for(log), 1.0, lambda *answer: answers.append(answer))
    cleaner.close()
    while not answers:
        caller.calls.get(timeout=60)()
    [(_, problem)] = answers
    assert isinstance(problem, CleanerGone)
