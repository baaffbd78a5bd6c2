"""When a flow that failed is tried again. Pure.

Job: the state of one flow over its lives. Must not know Spark or a clock. A flow that fails is tried for ever, each time after a longer wait, up to WAIT_MAX_S; once it
has finished batches for as long as it had waited, it counts as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

WAIT_FIRST_S: Final = 1.0
WAIT_MAX_S: Final = 60.0

WAITING: Final = "waiting"
RUNNING: Final = "running"
FAILING: Final = "failing"
ENDED: Final = "ended"


@dataclass
class Life:
    """One flow: what it does, how often it failed, when it is tried again."""

    name: str
    state: str = WAITING
    failures: int = 0
    """In a row."""
    restarts: int = 0
    """In all."""
    last_error: str | None = None
    retry_at: float = 0.0
    _started_at: float = 0.0

    def is_due(self, now: float) -> bool:
        """Say whether it should be started now."""
        return self.state in {WAITING, FAILING} and now >= self.retry_at

    def on_started(self, now: float) -> None:
        """It runs."""
        self._started_at = now
        self.state = RUNNING

    def on_batch(self, now: float) -> None:
        """It has finished a batch."""
        if self.failures and now - self._started_at >= self._wait_s():
            self.failures = 0

    def on_failed(self, error: str, now: float) -> None:
        """It has failed, or could not be started."""
        self.failures += 1
        self.restarts += 1
        self.last_error = error
        self.state = FAILING
        self.retry_at = now + self._wait_s()

    def on_ended(self) -> None:
        """It was stopped."""
        self.state = ENDED

    def on_restart(self) -> None:
        """It is to be started again, without having failed."""
        self.state = WAITING

    def _wait_s(self) -> float:
        return min(WAIT_MAX_S, WAIT_FIRST_S * 2.0 ** min(30, max(0, self.failures - 1)))
