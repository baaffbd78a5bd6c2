"""When Python looks for garbage that refers to itself: often and little, not rarely and for long.

Job: keep each look short. Left to itself, Python looks through everything once there is a quarter more than before, and all threads
stand still meanwhile: for half a second, with the objects of 40,000 groups or of one request about 200,000 partitions. Here a
look is at what has come since the last one; what survives it is put aside and not looked at again.

What becomes such garbage after it was put aside stays, until a thorough look: after twice as many short ones each time, so
that a broker of any age has had few. Must not know what the objects are: who lets much go takes care that it does not refer to itself.
"""

from __future__ import annotations

import gc
import sys
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_OLDEST: Final = 2
#: A look is due when Python has moved what is young so many times: 80,000 objects that stayed, 20 ms.
_MOVES_PER_LOOK: Final = 11
#: Short looks before the first thorough one.
_FIRST_THOROUGH: Final = 128
#: So that Python never looks at everything by itself.
_NEVER: Final = 0x7FFFFFFF


class Collector:
    """Python's garbage collector in a process that is a broker."""

    def __init__(self, post: Callable[[Callable[[], None]], None]) -> None:
        """Let looks be made by `post`, which makes a call between others: from wherever objects are made, on any thread."""
        self._post = post
        self._is_booked = False
        self._looks = 0
        self._thorough_at = _FIRST_THOROUGH
        self._thresholds = gc.get_threshold()

    def start(self) -> None:
        """Put aside what is there: it stays."""
        gc.freeze()
        if sys.version_info < (3, 14):  # from there on Python itself looks at a little at a time
            gc.set_threshold(*self._thresholds[:_OLDEST], _NEVER)
            gc.callbacks.append(self._on_look)

    def stop(self) -> None:
        """Leave everything to Python again."""
        gc.unfreeze()
        gc.set_threshold(*self._thresholds)
        if self._on_look in gc.callbacks:
            gc.callbacks.remove(self._on_look)

    def _on_look(self, phase: str, _info: dict[str, Any]) -> None:
        if phase == "stop" and gc.get_count()[_OLDEST] >= _MOVES_PER_LOOK and not self._is_booked:
            self._is_booked = True
            self._post(self._look)

    def _look(self) -> None:
        self._is_booked = False
        self._looks += 1
        if self._looks == self._thorough_at:
            self._thorough_at *= 2
            gc.unfreeze()
        gc.collect()
        gc.freeze()
