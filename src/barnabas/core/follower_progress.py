"""How far one follower has come, as its leader sees it.

Job: keep a follower's position and when it was last caught up. Must not know who is in sync, nor the high watermark.

A follower tells its position by fetching: it has all below the offset it asks for. It is *caught up* at the time of a fetch
that asks for the leader's end; and, since a busy leader's end has always moved on, at the time of the fetch before
if it now asks for what was the end then (KAFKA-2477).
"""

from __future__ import annotations

from typing import Final

#: Before every time, also where clocks start at 0.
NEVER_MS: Final = -(2**62)
UNKNOWN_OFFSET: Final = -1


class FollowerProgress:
    """See the module. Offsets are UNKNOWN_OFFSET until it has fetched from this leader."""

    __slots__ = (
        "_fetched_ms",
        "_leader_end_at_fetch",
        "end_offset",
        "last_caught_up_ms",
        "log_start_offset",
    )

    def __init__(self) -> None:
        """Start with nothing known."""
        self.end_offset = UNKNOWN_OFFSET
        self.log_start_offset = UNKNOWN_OFFSET
        self.last_caught_up_ms = NEVER_MS
        self._leader_end_at_fetch = UNKNOWN_OFFSET
        self._fetched_ms = NEVER_MS

    def on_epoch(self, leader_end_offset: int, now_ms: int, *, in_sync: bool) -> None:
        """Begin a leader epoch: who is in sync gets the whole time allowed to fetch, others have to catch up first."""
        self.last_caught_up_ms = self._fetched_ms = now_ms if in_sync else NEVER_MS
        self._leader_end_at_fetch = leader_end_offset

    def on_fetch(
        self, fetch_offset: int, log_start_offset: int, leader_end_offset: int, now_ms: int
    ) -> None:
        """Note that it asks for records from `fetch_offset` on."""
        if fetch_offset >= leader_end_offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, now_ms)
        elif fetch_offset >= self._leader_end_at_fetch:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self._fetched_ms)
        self.end_offset = fetch_offset
        self.log_start_offset = log_start_offset
        self._leader_end_at_fetch = leader_end_offset
        self._fetched_ms = now_ms

    def is_caught_up(self, leader_end_offset: int, now_ms: int, lag_max_ms: int) -> bool:
        """Tell whether it has all there is, or had it not too long ago."""
        return self.end_offset == leader_end_offset or now_ms - self.last_caught_up_ms <= lag_max_ms
