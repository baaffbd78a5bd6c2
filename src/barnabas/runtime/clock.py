"""The machine's clocks, behind the port. Must not know who asks."""

from __future__ import annotations

import time


class SystemClock:
    """The machine's clocks."""

    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        """Milliseconds since some start."""
        return time.monotonic_ns() // 1_000_000

    def monotonic_ns(self) -> int:
        """Nanoseconds since the same start."""
        return time.monotonic_ns()
