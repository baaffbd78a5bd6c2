"""The time of day, without jumps ahead: what decides over deletion must not believe every clock.

Job: tell the time from two clocks, one that people set and one that never jumps. Must not read either, nor know who asks.

A clock that jumps ahead (somebody sets it, a machine wakes up) would make all records look old at once. So after a jump time
goes on from where it was, and the new time is believed once it has been kept for an hour: long enough for a wrong one to be
seen and set right. A clock that goes back is believed at once: then records only stay longer.
"""

from __future__ import annotations

from typing import Final

#: Between two looks a clock that is kept right moves by less than this against one that never jumps.
TOLERANCE_MS: Final = 10_000
#: For how long a clock must keep its new time to be believed.
HOLD_MS: Final = 3_600_000


class SteadyClock:
    """See the module."""

    __slots__ = ("_believed", "_doubted", "_doubted_since_ms")

    def __init__(self, now_ms: int, monotonic_ms: int) -> None:
        """Believe the clock as it is now."""
        #: What has to be added to the monotonic time.
        self._believed = now_ms - monotonic_ms
        #: The same for a clock that jumped ahead, and since when it is so.
        self._doubted: int | None = None
        self._doubted_since_ms = 0

    @property
    def is_doubted(self) -> bool:
        """Tell whether the clock jumped ahead and is not believed yet."""
        return self._doubted is not None

    def read(self, now_ms: int, monotonic_ms: int) -> int:
        """Tell the time, given what both clocks say now."""
        offset = now_ms - monotonic_ms
        if offset - self._believed <= TOLERANCE_MS or self._is_kept(offset, monotonic_ms):
            self._believed, self._doubted = offset, None
        elif self._doubted is None or abs(offset - self._doubted) > TOLERANCE_MS:
            self._doubted, self._doubted_since_ms = offset, monotonic_ms
        return monotonic_ms + self._believed

    def _is_kept(self, offset: int, monotonic_ms: int) -> bool:
        return (
            self._doubted is not None
            and abs(offset - self._doubted) <= TOLERANCE_MS
            and monotonic_ms - self._doubted_since_ms >= HOLD_MS
        )
