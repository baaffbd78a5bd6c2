"""Work that needs an answer from outside, written top to bottom.

A task is a generator. It yields a *start*: a function that takes `done`, sets something going (a commit
to the coordination store, a job in the background, a timer) and has `done(result, error)` called
later. The task is resumed with the result, or the error is raised inside it. No asyncio: the same
code runs under the simulator.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, TypeVar

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
            one(lambda _result, error, number=number: ended(number, error))  # type: ignore[misc]

    return start


def drive(
    task: Task[Result], finished: Callable[[Result | None, BaseException | None], None]
) -> None:
    """Run a task to its end, then call `finished(result, error)` once.

    An answer that comes before its start has returned is taken up when it has: a task may get any number of them.
    """
    is_starting = False
    answers: list[tuple[Any, BaseException | None]] = []

    def resume(result: Any, error: BaseException | None) -> None:  # noqa: ANN401
        answers.append((result, error))
        if not is_starting:
            go_on()

    def go_on() -> None:
        nonlocal is_starting
        while answers:
            result, error = answers.pop()
            try:
                start = task.throw(error) if error is not None else task.send(result)
            except StopIteration as end:
                finished(end.value, None)
                return
            except Exception as caught:  # noqa: BLE001  (an edge: the owner of the task gets it)
                finished(None, caught)
                return
            is_starting = True
            try:
                start(resume)
            finally:
                is_starting = False

    resume(None, None)
