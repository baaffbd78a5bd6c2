"""Waits until the host leaves this machine alone, and takes again what was measured while it did not.

A virtual machine's host may take a third of the time from one second to the next, and a figure of such a second says nothing of a broker. Whether a run is taken
again is decided by what the host took alone, never by the figure, and alike for both brokers. What that may cost is bounded: once the patience of a benchmark is
spent, everything counts as it comes.
"""

from __future__ import annotations

import hashlib
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, TypeVar

from bench.measure import CORES, machine_time

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

#: The host may take this share of the machine's time during a run that counts.
TAKEN_MAX: Final = 0.08
#: A run is taken so often at most; then the quietest counts.
TAKES_MAX: Final = 4
PROBE_S: Final = 0.3
PAUSE_S: Final = 1.0
#: What a core hashes in a few milliseconds, without holding Python's lock.
PIECE: Final = bytes(1 << 20)


class Patience:
    """How many seconds of waiting, and of runs that do not count, a benchmark has left: none, unless it was given some."""

    def __init__(self, seconds: float = 0.0) -> None:
        """Give the seconds."""
        self.left_s = seconds
        #: Runs that were taken again.
        self.again = 0

    def quietest(self, take: Callable[[], T]) -> T:
        """Measure until the host took next to nothing during it, or until the patience is spent; give the quietest run."""
        best, least = None, 0.0
        for number in range(TAKES_MAX):
            if self.left_s > 0:
                self.left_s -= wait_for_quiet(self.left_s)
            began_s, before_s = time.monotonic(), machine_time().stolen
            value = take()
            spent_s = time.monotonic() - began_s
            share = (machine_time().stolen - before_s) / (spent_s * CORES)
            if best is None or share < least:
                best, least = (value,), share
            if share <= TAKEN_MAX or self.left_s <= 0 or number == TAKES_MAX - 1:
                break
            self.left_s -= spent_s
            self.again += 1
        assert best is not None
        return best[0]


def wait_for_quiet(limit_s: float) -> float:
    """Wait until the host leaves busy cores alone, so long at most; give the seconds that it took."""
    began_s = time.monotonic()
    while host_takes() > TAKEN_MAX and time.monotonic() - began_s < limit_s:
        time.sleep(PAUSE_S)
    return time.monotonic() - began_s


def host_takes() -> float:
    """Keep every core busy for a moment: the share that the host took meanwhile. It takes nothing from idle ones."""
    began_s, before_s = time.monotonic(), machine_time().stolen
    with ThreadPoolExecutor(CORES) as pool:
        for _ in range(CORES):
            pool.submit(keep_busy, began_s + PROBE_S)
    return (machine_time().stolen - before_s) / ((time.monotonic() - began_s) * CORES)


def keep_busy(until_s: float) -> None:
    """Use up a core until then."""
    while time.monotonic() < until_s:
        hashlib.sha256(PIECE).digest()
