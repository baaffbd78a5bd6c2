"""Saying the same thing now and then, and not each time it happens.

Job: what a person needs to know of an error is that it began, and that it goes on; a line for each request that meets it would
fill the disk with it. Must not know what is said, nor where to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Hashable

#: The same thing is said so often at most.
QUIET_MS: Final = 60_000


class Quiet:
    """When each thing was last said, and how often it was left out since. There must be few things."""

    __slots__ = ("_said",)

    def __init__(self) -> None:
        """Nothing was said yet."""
        self._said: dict[Hashable, tuple[int, int]] = {}

    def ending(self, what: Hashable, now_ms: int) -> str | None:
        """Give what to put behind the sentence: how often it was left out; None if it is to be left out now."""
        said = self._said.get(what)
        if said is None:
            self._said[what] = now_ms, 0
            return ""
        said_ms, left_out = said
        if now_ms - said_ms < QUIET_MS:
            self._said[what] = said_ms, left_out + 1
            return None
        self._said[what] = now_ms, 0
        return f" ({left_out} more since the last line)" if left_out else ""


def place_of(problem: BaseException) -> tuple[object, ...]:
    """Name an error by its kind and where it was raised."""
    traceback = problem.__traceback__
    if traceback is None:
        return (type(problem),)
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    return type(problem), traceback.tb_frame.f_code.co_filename, traceback.tb_lineno
