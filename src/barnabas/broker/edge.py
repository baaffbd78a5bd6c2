"""Containing faults: an unexpected exception fails only the operation in which it was raised (docs/adr/0011).

Job: tools for code that contains a fault. Such code fails its own operation and hands the fault over with `report`, so that its caller
goes on. The edge of the loop (`runtime/faults.py`) logs every fault with its traceback, and counts those that repeat. The simulator
ends a run at the first fault.
"""

from __future__ import annotations

from traceback import format_exception
from typing import TYPE_CHECKING, Final, NoReturn

from barnabas.broker.quiet import place_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from barnabas.ports import World

#: A failed assertion in these packages means that the state of the broker itself is wrong.
_STATE: Final = ("barnabas.core.", "barnabas.storage.")


class Contained(Exception):
    """A fault that has ended one thing alone. The message names the thing; `__cause__` is the fault.

    It keeps the traceback as text: the frames, and those of all callers, hold what was lent to them.
    """

    def __init__(self, what: str, fault: Exception) -> None:
        """Take the place and the traceback of the fault, and let go of its frames."""
        super().__init__(what)
        self.place = place_of(fault)
        self.text = "".join(format_exception(fault))
        one: BaseException | None = fault
        while one is not None:
            one.__traceback__ = None
            one = one.__context__


def report(world: World, what: str, fault: Exception) -> None:
    """Have the loop log a fault that is contained: `what` has failed, and the caller goes on."""
    contained = Contained(what, fault)

    def tell() -> NoReturn:
        raise contained from fault

    world.timers.call_at(world.clock.monotonic_ms(), tell)


def call_all(calls: Iterable[Callable[[], None]]) -> None:
    """Make every call, whatever becomes of those before it. The first fault is raised once all are made."""
    fault: Exception | None = None
    for call in calls:
        try:
            call()
        except Exception as problem:  # noqa: BLE001  (an edge: the others are called as well)
            if fault is None:
                fault = problem
            else:
                fault.add_note(f"and another one after it: {problem!r}")
    if fault is not None:
        raise fault


def is_broken_state(fault: BaseException) -> bool:
    """Tell whether an assertion of `core` or `storage` has failed: what the broker has in memory cannot be trusted any more."""
    entry = fault.__traceback__
    if not isinstance(fault, AssertionError) or entry is None:
        return False
    while entry.tb_next is not None:
        entry = entry.tb_next
    return str(entry.tb_frame.f_globals.get("__name__", "")).startswith(_STATE)
