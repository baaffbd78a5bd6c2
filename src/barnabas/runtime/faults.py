"""The edge of the loop: logs what a callback did not catch, so that the loop goes on.

Job: log a fault with its traceback, once per place in the code and minute, and count all of them. Must not know what failed. Invariant: a
failed assertion of `core` or `storage` that comes up to here was contained nowhere. It ends the process, after the broker's state is
written to the log (docs/adr/0011).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from barnabas.broker.edge import Contained, is_broken_state
from barnabas.broker.quiet import Quiet, place_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.ports import Clock

log = logging.getLogger(__name__)


class StateBroken(Exception):
    """The process ends: an assertion has shown that what it has in memory is wrong. `__cause__` is that assertion."""


class Faults:
    """The faults of one loop."""

    def __init__(self, clock: Clock) -> None:
        """Start with none."""
        self._clock = clock
        self._quiet = Quiet()
        #: How many there were, including those that were not logged.
        self.count = 0
        #: The process ends: nothing else is to be called.
        self.is_state_broken = False
        #: Writes the broker's state down, for the log of a process that ends.
        self.describe_state: Callable[[], str] = lambda: "unknown"

    def tell(self, where: str, fault: BaseException) -> None:
        """Log a fault that is contained."""
        self.count += 1
        place = fault.place if isinstance(fault, Contained) else place_of(fault)
        ending = self._quiet.ending(place, self._clock.monotonic_ms())
        if ending is None:
            return
        if isinstance(fault, Contained):
            log.error("a fault of the broker, in %s; it goes on%s\n%s", fault, ending, fault.text)
        else:
            log.error("a fault of the broker, in %s; it goes on%s", where, ending, exc_info=fault)

    def tell_uncaught(self, where: str, fault: Exception) -> None:
        """Log a fault that nobody caught. StateBroken, which ends the process, if it shows that the broker's state is wrong."""
        if isinstance(fault, StateBroken):
            raise fault  # it comes through another edge of the loop
        if not is_broken_state(fault):
            self.tell(where, fault)
            return
        self.count += 1
        self.is_state_broken = True
        try:
            state = self.describe_state()
        except Exception as problem:  # noqa: BLE001  (an edge: the process ends in any case)
            state = f"it cannot be written down: {problem!r}"
        log.critical(
            "the broker's state is wrong, so the process ends; noticed in %s. Its state: %s",
            where, state, exc_info=fault,
        )  # fmt: skip
        raise StateBroken(
            "an assertion of the broker failed, see its log; the next start recovers its logs"
        ) from fault
