"""Jobs beside the loop: those that wait for a network hold up no others, each is answered once, and a long queue has an end."""

import threading
from functools import partial

import pytest

from barnabas.broker.disk_failures import is_passing
from barnabas.runtime.loop import (
    DISK_THREADS,
    NETWORK_THREADS,
    NETWORK_WAITING_MAX,
    PROCESSOR_THREADS,
    Loop,
)
from barnabas.runtime.pool import NoThread, Pool, TooManyJobs

TIMEOUT_S = 60


class Held:
    """Jobs that do not end before `free` is set."""

    def __init__(self):
        self.free = threading.Event()
        self.began = threading.Semaphore(0)

    def __call__(self):
        self.began.release()
        assert self.free.wait(TIMEOUT_S)

    def await_begun(self, count):
        for _ in range(count):
            assert self.began.acquire(timeout=TIMEOUT_S)


@pytest.fixture
def loop():
    loop = Loop()
    yield loop
    loop.close()


@pytest.fixture
def held():
    held = Held()
    yield held
    held.free.set()


def ignore(_result, _error):
    pass


def run_until(loop, job_starter):
    """Run the loop until the job is answered; its answer."""
    answers = []

    def done(result, error):
        answers.append((result, error))
        loop.stop()

    job_starter(done)
    loop.run_forever()
    loop._stopping = False
    return answers


def test_network_jobs_that_never_end_hold_up_neither_a_flush_nor_a_handshake(loop, held):
    for _ in range(NETWORK_THREADS + 50):
        loop.ask_network(held, ignore)
    held.await_begun(NETWORK_THREADS)
    assert run_until(loop, lambda done: loop.run(lambda: "flushed", done)) == [("flushed", None)]
    assert run_until(loop, lambda done: loop.compute(lambda: "shaken", done)) == [("shaken", None)]


def test_jobs_that_compute_without_an_end_do_not_hold_up_a_flush(loop, held):
    for _ in range(PROCESSOR_THREADS + 50):
        loop.compute(held, ignore)
    held.await_begun(PROCESSOR_THREADS)
    assert run_until(loop, lambda done: loop.run(lambda: "flushed", done)) == [("flushed", None)]


def test_a_loop_closes_though_a_network_never_answers(held):
    loop, answers = Loop(), []
    loop.ask_network(held, lambda *answer: answers.append(answer))
    held.await_begun(1)
    loop.run(lambda: "flushed", lambda result, _error: answers.append(result))
    loop.close()
    assert answers == ["flushed"]


def test_a_queue_for_the_network_has_an_end_and_who_is_refused_hears_it_later(loop, held):
    for _ in range(NETWORK_THREADS):
        loop.ask_network(held, ignore)
    held.await_begun(NETWORK_THREADS)
    for _ in range(NETWORK_WAITING_MAX):
        loop.ask_network(held, ignore)
    network = loop.pools[2]
    assert (network.running, network.waiting) == (NETWORK_THREADS, NETWORK_WAITING_MAX)
    answers = []
    loop.ask_network(held, lambda *answer: (answers.append(answer), loop.stop()))
    assert answers == []
    loop.run_forever()
    [(result, error)] = answers
    assert result is None
    assert isinstance(error, TooManyJobs)
    assert isinstance(error, OSError)
    assert network.refused == 1


def test_what_waits_and_what_runs_is_counted(loop, held):
    for _ in range(DISK_THREADS + 3):
        loop.run(held, ignore)
    held.await_begun(DISK_THREADS)
    disk = loop.pools[0]
    assert (disk.name, disk.running, disk.waiting) == ("disk", DISK_THREADS, 3)
    held.free.set()
    run_until(loop, lambda done: loop.run(lambda: None, done))
    disk.close(finish=True)
    assert (disk.running, disk.waiting) == (0, 0)


def test_a_thread_lives_whatever_its_job_raises():
    posted = []
    pool = Pool("test", 1, posted.append)

    def end():
        raise SystemExit(3)

    answers = []
    pool.run(end, lambda *answer: answers.append(answer))
    pool.run(lambda: "next", lambda *answer: answers.append(answer))
    pool.close(finish=True)
    for call in posted:
        call()
    [(nothing, error), after] = answers
    assert nothing is None
    assert isinstance(error, SystemExit)
    assert after == ("next", None)


def test_threads_are_started_as_they_are_needed(held):
    posted = []
    pool = Pool("test", 4, posted.append)
    for count in range(1, 7):
        pool.run(held, ignore)
        assert len(pool._threads) == min(count, 4)
    held.free.set()
    pool.close(finish=True)
    assert len(posted) == 6


def test_a_closed_pool_begins_nothing():
    posted, began = [], []
    pool = Pool("test", 4, posted.append)
    pool.close(finish=True)
    pool.run(lambda: began.append(1), ignore)
    assert pool._threads == []
    assert (began, posted) == ([], [])


def test_where_the_system_gives_no_thread_others_take_the_job_or_it_is_refused(monkeypatch, held):
    def refuse(_thread):
        raise RuntimeError("can't start new thread")

    posted, answers = [], []
    lone, pool = Pool("lone", 4, posted.append), Pool("test", 4, posted.append)
    pool.run(held, ignore)
    held.await_begun(1)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        lone.run(lambda: "never", lambda *answer: answers.append(answer))
        pool.run(lambda: "later", lambda *answer: answers.append(answer))
    held.free.set()
    lone.close(finish=True)
    pool.close(finish=True)
    for call in posted:
        call()
    [(nothing, refused), later] = answers
    assert (nothing, later) == (None, ("later", None))
    assert isinstance(refused, NoThread)
    assert is_passing(refused), "no disk has failed"


def test_a_thread_keeps_nothing_of_a_job_once_its_answer_is_posted():
    """The loop may take the memory of the request back before the thread goes on. It did, and reported memory that was still in use."""
    memory, is_free = bytearray(9), []
    given = threading.Event()

    def post(call):
        call()
        del call
        try:
            memory.append(0)  # BufferError if a view of it exists
            is_free.append(True)
        except BufferError:
            is_free.append(False)
        given.set()

    pool = Pool("disk", 1, post)
    pool.run(partial(bytes, memoryview(memory)), ignore)
    assert given.wait(TIMEOUT_S)
    pool.run(partial(memoryview, memory), ignore)  # whose result is a view
    pool.close(finish=True)
    assert is_free == [True, True]
