"""A bar, the time left and what is being done, on stderr: one line that changes, or one line per step without a terminal."""

from __future__ import annotations

import sys
import time

WIDTH = 30


def clock(seconds: float) -> str:
    """Write a time as minutes and seconds."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def bar(share: float) -> str:
    """Draw the share that is done."""
    full = round(WIDTH * min(1.0, share))
    return "█" * full + "░" * (WIDTH - full)


class Progress:
    """Counts estimated seconds; the time left follows how fast they really went by."""

    def __init__(self, total_s: float) -> None:
        """Take the sum of all estimates."""
        self._total = total_s
        self._done = 0.0
        self._start = time.monotonic()
        self._terminal = sys.stderr.isatty()
        self._said = ""

    def left_s(self, spent_s: float) -> float:
        """Estimate the time that is left."""
        pace = spent_s / self._done if self._done else 1.0
        return (self._total - self._done) * pace

    def advance(self, seconds: float) -> None:
        """Count an estimate as done."""
        self._done = min(self._total, self._done + seconds)

    def show(self, what: str) -> None:
        """Say what is being done now."""
        spent = time.monotonic() - self._start
        share = self._done / self._total if self._total else 1.0
        left = clock(self.left_s(spent))
        line = f"{bar(share)} {share:4.0%}  {left} left  {what}"
        if self._terminal:
            print(f"\r\033[K{line}", end="", file=sys.stderr, flush=True)
        else:
            print(line, file=sys.stderr, flush=True)

    def say(self, line: str) -> None:
        """Print a line that stays."""
        if self._terminal:
            print("\r\033[K", end="", file=sys.stderr)
        print(line, file=sys.stderr, flush=True)

    def finish(self) -> None:
        """Clear the line."""
        if self._terminal:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
