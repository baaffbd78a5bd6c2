"""Work that needs an answer from outside, written top to bottom.

A task is a generator. It yields a *start*: a function that takes `done`, sets something going (a commit
to the coordination store, a job in the background, a timer) and has `done(result, error)` called
later. The task is resumed with the result, or the error is raised inside it. No asyncio: the same
code runs under the simulator.

What a start does not catch is raised inside the task, too, and what a task does not catch goes to its owner: `finished`. What that does not
catch is raised to whoever has answered, and ends at the edge of the loop. A start that answers a second time is told that, and the task goes on
as if it had not.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Any, TypeVar

from barnabas.model.errors import KafkaError

Done = Callable[[Any, BaseException | None], None]
Start = Callable[[Done], None]
Result = TypeVar("Result")
Task = Generator[Start, Any, Result]


def together(starts: Sequence[Start]) -> Start:
    """Set several things going at once; the answer is the list of their errors, None for each that went well."""

    def start(done: Done) -> None:
        errors: list[BaseException | None] = [None] * len(starts)
        left = len(starts)

        def ended(number: int, error: BaseException | None) -> None:
            nonlocal left
            errors[number] = error
            left -= 1
            if not left:
                done(errors, None)

        for number, one in enumerate(starts):
            begin(one, lambda _result, error, number=number: ended(number, error))  # type: ignore[misc]

    return start


def begin(start: Start, done: Done) -> None:
    """Set one thing going. A start that fails is an answer: `done` gets what it raised, and nothing else from it."""
    answer = _Answer(done)
    try:
        start(answer)
    except Exception as fault:
        if answer.done is None:
            raise  # it has answered before it failed
        answer(None, fault)


class _Answer:
    """What a start is given to answer with: once."""

    __slots__ = ("done",)

    def __init__(self, done: Done) -> None:
        self.done: Done | None = done

    def __call__(self, result: Any, error: BaseException | None) -> None:  # noqa: ANN401
        done, self.done = self.done, None
        if done is None:
            raise RuntimeError("answered twice")
        done(result, error)


def side_by_side(tasks: Sequence[Task[Result]]) -> Start:
    """Run tasks at once; the answer is the list of their results. The first error is raised when all have ended."""

    def start(done: Done) -> None:
        results: list[Any] = [None] * len(tasks)
        problems: list[BaseException] = []
        left = len(tasks)

        def ended(number: int, result: Any, problem: BaseException | None) -> None:  # noqa: ANN401
            nonlocal left
            results[number] = result
            if problem is not None:
                problems.append(problem)
            left -= 1
            if not left:
                done(results, problems[0] if problems else None)

        if not tasks:
            done(results, None)
        for number, task in enumerate(tasks):
            drive(task, partial(ended, number))

    return start


def drive(
    task: Task[Result], finished: Callable[[Result | None, BaseException | None], None]
) -> None:
    """Run a task to its end, then call `finished(result, error)` once.

    An answer that comes before its start has returned is taken up when it has: a task may get any number of them.
    """
    _Drive(task, finished).resume(None, None)


class _Drive:
    """A task on its way. Only those who will answer it know it: what it holds goes with it, without the garbage collector."""

    __slots__ = ("_answers", "_finished", "_is_starting", "_task")

    def __init__(self, task: Task[Any], finished: Done) -> None:
        """Start with no answer."""
        self._task = task
        self._finished = finished
        self._is_starting = False
        self._answers: list[tuple[Any, BaseException | None]] = []

    def resume(self, result: Any, error: BaseException | None) -> None:  # noqa: ANN401
        """Take the answer to what the task has started."""
        self._answers.append((result, error))
        if not self._is_starting:
            self._go_on()

    def _go_on(self) -> None:
        task, fault = self._task, None
        while self._answers:
            result, error = self._answers.pop()
            try:
                start = task.throw(error) if error is not None else task.send(result)
            except StopIteration as end:
                self._finished(end.value, None)
                break
            except (KafkaError, OSError) as outcome:
                # An expected outcome. Its traceback would keep the frames of all callers alive, and the memory that was lent to them.
                self._finished(None, outcome.with_traceback(None))
                break
            except Exception as caught:  # noqa: BLE001  (an edge: the owner of the task gets it)
                self._finished(None, caught)
                break
            self._is_starting = True
            try:
                begin(start, self.resume)
            except Exception as problem:  # noqa: BLE001  (an edge: the task has its answer, and goes on with it)
                fault = problem
            finally:
                self._is_starting = False
        if fault is not None:
            raise fault
