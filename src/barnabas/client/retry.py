"""Trying again: how long to wait, and when to give up.

Job: pauses that grow from `retry.backoff.ms` to `retry.backoff.max.ms`, until `default.api.timeout.ms` is over. Must not know what is tried.
Invariants: only what is retriable is tried again; the error of the last try is what the caller gets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from barnabas.client.errors import ClientError, UnknownTopic
from barnabas.client.talk import Pause

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.client.settings import ClientSettings
    from barnabas.client.talk import Talk
    from barnabas.ports import Clock

Result = TypeVar("Result")

#: A new topic takes a moment until every broker knows it; one that is not there would cost the whole time-out.
UNKNOWN_TOPIC_PATIENCE_MS: Final = 5_000


class Attempts:
    """Counts the tries of one thing."""

    __slots__ = ("_clock", "_pause_ms", "_pause_ms_max", "_started_ms", "_timeout_ms")

    def __init__(
        self, clock: Clock, settings: ClientSettings, timeout_ms: int | None = None
    ) -> None:
        """Start the time now."""
        self._clock = clock
        self._timeout_ms = settings.api_timeout_ms if timeout_ms is None else timeout_ms
        self._pause_ms = settings.retry_backoff_ms
        self._pause_ms_max = settings.retry_backoff_max_ms
        self._started_ms = clock.monotonic_ms()

    def pause(self, problem: ClientError) -> Talk[None]:
        """Wait before the next try; raise the problem if there is to be none."""
        spent_ms = self._clock.monotonic_ms() - self._started_ms
        patience_ms = self._timeout_ms
        if isinstance(problem, UnknownTopic):
            patience_ms = min(patience_ms, UNKNOWN_TOPIC_PATIENCE_MS)
        if not problem.retriable or spent_ms + self._pause_ms > patience_ms:
            raise problem
        yield Pause(self._pause_ms)
        self._pause_ms = min(2 * self._pause_ms, self._pause_ms_max)


def retried(
    clock: Clock, settings: ClientSettings, attempt: Callable[[], Talk[Result]]
) -> Talk[Result]:
    """Hold a conversation until it succeeds."""
    attempts = Attempts(clock, settings)
    while True:
        try:
            return (yield from attempt())
        except ClientError as problem:
            yield from attempts.pause(problem)
