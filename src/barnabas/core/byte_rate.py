"""How many bytes per second went by lately: what throttles compare with their limit.

Job: count in windows and forget old ones. Must not know what is counted, or the limit. Time comes as `now_ms`.
"""

from __future__ import annotations

from collections import deque


class ByteRate:
    """Bytes per second over the last windows, the present one among them; as Kafka counts, 11 of a second each."""

    __slots__ = ("_total", "_window_ms", "_windows", "_windows_max")

    def __init__(self, windows_max: int, window_ms: int) -> None:
        """Start with nothing counted."""
        assert windows_max > 0
        assert window_ms > 0
        self._windows_max = windows_max
        self._window_ms = window_ms
        #: Start and bytes of each window in which something went by, oldest first.
        self._windows: deque[tuple[int, int]] = deque()
        self._total = 0

    def add(self, size_bytes: int, now_ms: int) -> None:
        """Count bytes that go by now."""
        start = now_ms - now_ms % self._window_ms
        if self._windows and self._windows[-1][0] == start:
            size_bytes_before = self._windows.pop()[1]
            self._windows.append((start, size_bytes_before + size_bytes))
        else:
            self._windows.append((start, size_bytes))
        self._total += size_bytes

    def per_second(self, now_ms: int) -> float:
        """Return the rate now. What just began is taken over one window at least, so that its first bytes are no storm."""
        oldest_kept = now_ms - self._windows_max * self._window_ms
        while self._windows and self._windows[0][0] <= oldest_kept:
            self._total -= self._windows.popleft()[1]
        if not self._windows:
            return 0.0
        elapsed_ms = max(self._window_ms, now_ms - self._windows[0][0])
        return self._total * 1000 / elapsed_ms
