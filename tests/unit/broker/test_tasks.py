"""Tasks: resumed with results, errors raised inside, ended once."""

import gc
import weakref

import pytest

from barnabas.broker.tasks import drive, side_by_side, together
from barnabas.model.errors import ErrorCode, KafkaError


def run(task):
    ends = []
    drive(task, lambda result, error: ends.append((result, error)))
    return ends


def test_a_task_gets_the_answers_it_asks_for():
    waiting = []

    def task():
        first = yield waiting.append
        second = yield waiting.append
        return first + second

    ends = run(task())
    waiting.pop()(1, None)
    assert ends == []
    waiting.pop()(2, None)
    assert ends == [(3, None)]


def test_an_error_is_raised_where_the_task_waits():
    waiting = []

    def task():
        try:
            yield waiting.append
        except OSError as problem:
            return f"seen {problem}"

    ends = run(task())
    waiting.pop()(None, OSError("boom"))
    assert ends == [("seen boom", None)]


def test_what_a_task_does_not_catch_ends_it():
    problem = ValueError("bad")

    def task():
        raise problem
        yield

    assert run(task()) == [(None, problem)]


def test_a_task_that_asks_for_nothing_ends_at_once():
    def task():
        return 5
        yield

    assert run(task()) == [(5, None)]


def test_several_things_go_on_together():
    waiting = []
    problem = OSError("one failed")

    def task():
        return (yield together([waiting.append, waiting.append, waiting.append]))

    ends = run(task())
    first, second, third = waiting
    third(None, None)
    first(None, problem)
    assert ends == []
    second("ignored", None)
    assert ends == [([problem, None, None], None)]


def test_any_number_of_answers_may_come_at_once():
    def at_once(done):
        done(1, None)

    def task():
        total = 0
        for _ in range(10_000):
            total += yield at_once
        return total

    assert run(task()) == [(10_000, None)]


def test_an_error_may_come_at_once():
    problem = OSError("boom")

    def task():
        try:
            yield lambda done: done(None, problem)
        except OSError as seen:
            return seen

    assert run(task()) == [(problem, None)]


@pytest.fixture
def no_collector():
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("make_error", [lambda: None, OSError])
def test_what_a_task_held_goes_with_it(no_collector, make_error):
    class Held:
        """Something large."""

    waiting = []

    def task(held):
        try:
            yield waiting.append
        except OSError:
            return None
        return held

    held = Held()
    known = weakref.ref(held)
    drive(task(held), lambda _result, _error, held=held: None)
    del held
    assert known() is not None
    waiting.pop()(None, make_error())
    assert known() is None


def test_tasks_side_by_side_give_their_results_in_order_once_all_have_ended():
    waiting = []

    def one():
        return (yield waiting.append)

    def task():
        return (yield side_by_side([one(), one(), one()]))

    ends = run(task())
    for number in (2, 0):
        waiting[number](number, None)
    assert ends == []
    waiting[1](1, None)
    assert ends == [([0, 1, 2], None)]


def test_a_task_beside_others_that_fails_is_told_when_all_have_ended():
    waiting = []

    def one():
        return (yield waiting.append)

    def task():
        yield side_by_side([one(), one()])

    ends = run(task())
    problem = OSError("boom")
    waiting[0](None, problem)
    assert ends == []
    waiting[1](1, None)
    assert ends == [(None, problem)]


def test_no_tasks_side_by_side_end_at_once():
    def task():
        return (yield side_by_side([]))

    assert run(task()) == [([], None)]


@pytest.mark.parametrize("outcome", [KafkaError(ErrorCode.NOT_COORDINATOR), OSError("gone")])
def test_an_outcome_that_is_kept_keeps_nothing_of_its_callers(outcome):
    """Its traceback kept the frames of all callers, and with them a reply of another broker that was only lent."""
    memory = bytearray(9)

    def task():
        yield lambda done: done(None, None)
        raise outcome

    def called_with(view):
        assert len(view) == len(memory)
        return run(task())

    assert called_with(memoryview(memory)) == [(None, outcome)]
    memory.clear()  # BufferError if a view of it still exists


def test_a_start_that_fails_is_an_error_where_the_task_waits():
    problem = RuntimeError("planted")

    def failing(_done):
        raise problem

    def task():
        try:
            yield failing
        except RuntimeError as seen:
            return seen

    assert run(task()) == [(problem, None)]


def test_a_start_that_fails_among_others_is_one_error():
    waiting = []
    problem = RuntimeError("planted")

    def failing(_done):
        raise problem

    def task():
        return (yield together([waiting.append, failing, waiting.append]))

    ends = run(task())
    for done in waiting:
        done(None, None)
    assert ends == [([None, problem, None], None)]


def test_a_second_answer_is_told_to_who_gives_it_and_the_task_does_not_hear_it():
    waiting = []

    def task():
        first = yield waiting.append
        second = yield waiting.append
        return first, second

    ends = run(task())
    waiting[0]("first", None)
    with pytest.raises(RuntimeError, match="twice"):
        waiting[0]("first again", None)
    waiting[1]("second", None)
    with pytest.raises(RuntimeError, match="twice"):
        waiting[1](None, OSError("late"))
    assert ends == [(("first", "second"), None)]


def test_of_a_start_that_answers_and_then_fails_the_task_hears_the_answer():
    def failing(done):
        done("answer", None)
        raise RuntimeError("planted")

    def task():
        return (yield failing)

    ends = []
    with pytest.raises(RuntimeError, match="planted"):
        drive(task(), lambda result, error: ends.append((result, error)))
    assert ends == [("answer", None)]
