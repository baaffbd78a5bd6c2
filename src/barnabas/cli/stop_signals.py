"""SIGINT, SIGTERM and SIGHUP as the wish that a long run ends in order.

One job. Under `nohup` SIGHUP is ignored, and stays so: who wrote it wants to log out. A run that starts is given up where it stands; one that works looks for the wish between two waits, for an exception in the middle of a call to a JVM breaks the
conversation with it. Ctrl-C ends as everywhere, with KeyboardInterrupt (exit code 130), once everything is in order; the others end with nothing. The second Ctrl-C ends
the process at once.
"""

from __future__ import annotations

import contextlib
import signal
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def on_stop(act: Callable[[], object]) -> None:
    """Call this when the process is asked to end, from now on."""
    for number in _wanted():
        signal.signal(number, lambda *_: act())


def _wanted() -> list[signal.Signals]:
    is_nohup = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return [each for each in _SIGNALS if not (is_nohup and each is signal.SIGHUP)]


class StopAsked(KeyboardInterrupt):
    """A signal came where it ends what is done at once."""


class StopSignals:
    """Whether a stop was asked for. Used as a context manager around the run."""

    def __init__(self) -> None:
        """Nobody has asked yet."""
        self.asked = False
        self._is_ctrl_c = False
        self._raises = False

    def __enter__(self) -> StopSignals:
        """Take the signals over."""
        self._before = {number: signal.getsignal(number) for number in _wanted()}
        self.take()
        return self

    def take(self) -> None:
        """Take the signals over again: pyspark takes Ctrl-C for itself when it starts."""
        for number in self._before:
            signal.signal(number, self._on_signal)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        """Give the signals back; a stop that was asked for is the end of it, or KeyboardInterrupt if it was by Ctrl-C."""
        for number, before in self._before.items():
            signal.signal(number, before)
        is_stop = kind is None or issubclass(kind, StopAsked)
        if is_stop and self._is_ctrl_c:
            raise KeyboardInterrupt from None
        return is_stop

    def _on_signal(self, number: int, _frame: object) -> None:
        is_first = not self.asked
        self.asked = True
        if number == signal.SIGINT:
            self._is_ctrl_c = True
            signal.signal(signal.SIGINT, signal.SIG_DFL)
        if self._raises and is_first:
            raise StopAsked

    @contextlib.contextmanager
    def at_once(self) -> Iterator[None]:
        """Within this, and at its end at the latest, a signal raises StopAsked."""
        self._raises = True
        try:
            self._check()
            yield
            # Python drops what is raised while it tidies up (`__del__`).
            self._check()
        finally:
            self._raises = False

    def _check(self) -> None:
        if self.asked:
            raise StopAsked

    def wait(self, seconds: float) -> bool:
        """Wait so long, or until a stop is asked for; say whether it is. An Event cannot be used for this: a handler that sets it while its own thread waits may wait for itself."""
        with contextlib.suppress(StopAsked), self.at_once():
            time.sleep(seconds)
        return self.asked
