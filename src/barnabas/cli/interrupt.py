"""Ctrl-C as something a loop looks at, instead of an exception at any moment.

One job. Python raises KeyboardInterrupt wherever it stands, and inside a callback of librdkafka
that loses the exception and breaks the call. So it is raised only while the program waits for
input; at other times the loop asks. The second Ctrl-C ends the process at once.
"""

from __future__ import annotations

import contextlib
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class Interrupt:
    """Whether Ctrl-C was pressed. Used as a context manager around the loop."""

    def __init__(self) -> None:
        """Nothing pressed yet."""
        self.pressed = False
        self._raising = False

    def __enter__(self) -> Interrupt:
        """Take over Ctrl-C, unless the process was started to ignore it."""
        self._before = signal.getsignal(signal.SIGINT)
        if self._before is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, self._on_signal)
        return self

    def __exit__(self, *_exception: object) -> None:
        """Give Ctrl-C back."""
        signal.signal(signal.SIGINT, self._before)

    def _on_signal(self, _number: int, _frame: object) -> None:
        self.pressed = True
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        if self._raising:
            raise KeyboardInterrupt

    @contextlib.contextmanager
    def raising(self) -> Iterator[None]:
        """Within this, Ctrl-C raises KeyboardInterrupt: for a wait that nothing else can end."""
        self._raising = True
        try:
            if self.pressed:
                raise KeyboardInterrupt
            yield
        finally:
            self._raising = False
