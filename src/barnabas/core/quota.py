"""How much went by lately, and how long to wait for it: the arithmetic of Kafka's quotas.

Job: rates over windows, throttle times, and the token bucket of KIP-599. Must not know whose quota it is, nor what is counted.
Time comes as `now_ms`.

A rate is taken over all windows that may be kept, also by whoever has just begun: so a burst is spread over ten windows, and
throttled only when it is more than they allow. The throttle time is by how much longer the same sum would have to take in order to be
within the bound.
"""

from __future__ import annotations

from typing import Final, NamedTuple

#: What fits into a `throttle_time_ms`.
THROTTLE_MS_MAX: Final = 0x7FFFFFFF


class Windows(NamedTuple):
    """What is measured over: `quota.window.num` windows of `quota.window.size.seconds`."""

    number: int
    size_ms: int


class _Sample:
    __slots__ = ("last_ms", "start_ms", "value")

    def __init__(self, now_ms: int) -> None:
        self.start_ms = self.last_ms = now_ms
        self.value = 0.0


class Rate:
    """What went by per second, over the last windows."""

    __slots__ = ("_samples", "_windows")

    def __init__(self, windows: Windows) -> None:
        """Have seen nothing."""
        assert windows.number > 0
        assert windows.size_ms > 0
        self._windows = windows
        #: Oldest first. One more than windows: the oldest one lies in the measured time only in part.
        self._samples: list[_Sample] = []

    def record(self, value: float, now_ms: int) -> None:
        """Count what goes by now; less than nothing takes back what was counted."""
        samples = self._samples
        if not samples or now_ms - samples[-1].start_ms >= self._windows.size_ms:
            samples.append(_Sample(now_ms))
            if len(samples) > self._windows.number + 1:
                del samples[0]
        samples[-1].value += value
        samples[-1].last_ms = now_ms

    def total(self, now_ms: int) -> float:
        """Return the sum of what is still remembered."""
        self._forget(now_ms)
        return sum([sample.value for sample in self._samples])

    def per_second(self, now_ms: int) -> float:
        """Return the rate now."""
        return self.total(now_ms) * 1000 / self.window_ms(now_ms)

    def window_ms(self, now_ms: int) -> int:
        """Return what time the rate is taken over: since the oldest sample, and never less than all windows but one."""
        self._forget(now_ms)
        number, size_ms = self._windows
        elapsed_ms = now_ms - self._samples[0].start_ms if self._samples else 0
        missing = number - 1 - elapsed_ms // size_ms
        if missing > 0:
            elapsed_ms += missing * size_ms
        return max(elapsed_ms, 1)

    def throttle_ms(self, bound: float, now_ms: int) -> int:
        """Return how long whoever may have `bound` per second must wait; 0 if that is not exceeded."""
        assert bound > 0
        rate = self.per_second(now_ms)
        if rate <= bound:
            return 0
        return _rounded((rate - bound) / bound * self.window_ms(now_ms))

    def _forget(self, now_ms: int) -> None:
        oldest_kept = now_ms - self._windows.number * self._windows.size_ms
        samples = self._samples
        while samples and samples[0].last_ms <= oldest_kept:
            del samples[0]


class TokenBucket:
    """Permits that come at a steady rate and pile up to a burst; changes take them before they are made (KIP-599)."""

    __slots__ = ("_tokens", "_updated_ms", "_windows", "bound")

    def __init__(self, windows: Windows, bound: float, now_ms: int) -> None:
        """Start full: a burst of all windows' worth."""
        assert bound > 0
        self._windows = windows
        self.bound = bound
        self._tokens = self._burst
        self._updated_ms = now_ms

    @property
    def _burst(self) -> float:
        return self._windows.number * self._windows.size_ms / 1000 * self.bound

    def tokens(self, now_ms: int) -> float:
        """Return what is left; less than nothing if more was taken than was there."""
        come = self.bound * (now_ms - self._updated_ms) / 1000
        self._tokens = min(self._burst, self._tokens + come)
        self._updated_ms = max(now_ms, self._updated_ms)
        return self._tokens

    def take(self, permits: float, now_ms: int) -> None:
        """Take permits, also more than there are: a large change is not refused, but the next one waits longer."""
        self._tokens = self.tokens(now_ms) - permits

    def throttle_ms(self, now_ms: int) -> int:
        """Return how long until nothing is owed."""
        tokens = self.tokens(now_ms)
        return 0 if tokens >= 0 else _rounded(-tokens / self.bound * 1000)


def _rounded(throttle_ms: float) -> int:
    return min(int(throttle_ms + 0.5), THROTTLE_MS_MAX)
