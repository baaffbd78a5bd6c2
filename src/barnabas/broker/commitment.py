"""What waits for a replica's high watermark: bytes that readers may see then, and answers to those who want to know that they are safe.

Job: remember how many bytes each append brought, and who waits for which offset. Must not know who is in sync: `core.partition` says
when something is committed. Bounded: appends that pile up are counted together, and each connection waits for one answer at a time.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final

from barnabas.broker.edge import call_all
from barnabas.model.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.tasks import Done, Start
    from barnabas.core.partition import PartitionState
    from barnabas.ports import Timer, World

#: Appends that are remembered one by one; more are counted with the last of them.
APPENDS_MAX: Final = 1000


class _Awaited:
    """One who waits."""

    __slots__ = ("_done", "_timer", "end_offset", "leader_epoch")

    def __init__(self, end_offset: int, leader_epoch: int, done: Done) -> None:
        self.end_offset = end_offset
        self.leader_epoch = leader_epoch
        self._done: Done | None = done
        self._timer: Timer | None = None

    def expire_at(self, deadline_ms: int, world: World) -> None:
        self._timer = world.timers.call_at(
            deadline_ms, lambda: self.answer(ErrorCode.REQUEST_TIMED_OUT)
        )

    def answer(self, code: ErrorCode) -> None:
        done, self._done = self._done, None
        if done is None:
            return  # its time was over
        if self._timer is not None:
            self._timer.cancel()
        done(code, None)


class Commitment:
    """See the module."""

    __slots__ = ("_appended", "_awaited", "_given_up")

    def __init__(self) -> None:
        """Start with everything committed."""
        #: End offset and bytes of each append above the high watermark.
        self._appended: deque[tuple[int, int]] = deque()
        #: In the order of their offsets.
        self._awaited: deque[_Awaited] = deque()
        #: Why nothing is committed here any more.
        self._given_up: ErrorCode | None = None

    def on_appended(self, end_offset: int, size_bytes: int) -> None:
        """Note bytes that nobody may read yet."""
        if len(self._appended) >= APPENDS_MAX:
            size_bytes += self._appended.pop()[1]
        self._appended.append((end_offset, size_bytes))

    def take_readable(self, high_watermark: int) -> int:
        """Return how many bytes may be read since the high watermark moved here."""
        size_bytes = 0
        while self._appended and self._appended[0][0] <= high_watermark:
            size_bytes += self._appended.popleft()[1]
        return size_bytes

    def on_truncated(self, end_offset: int) -> None:
        """Forget what was cut off."""
        while self._appended and self._appended[-1][0] > end_offset:
            self._appended.pop()

    def until(
        self, end_offset: int, leader_epoch: int, deadline_ms: int | None, world: World
    ) -> Start:
        """Wait in a task until all before `end_offset` is committed: the answer is an error code, NONE if it is.

        `leader_epoch` is that in which it was appended. Without a deadline until it is, or never will be.
        """

        def start(done: Done) -> None:
            if self._given_up is not None:
                done(self._given_up, None)
                return
            awaited = _Awaited(end_offset, leader_epoch, done)
            if deadline_ms is not None:
                awaited.expire_at(deadline_ms, world)
            self._insert(awaited)

        return start

    def _insert(self, awaited: _Awaited) -> None:
        """Keep the order of offsets: a request about several partitions comes late to those that it names last."""
        place = len(self._awaited)
        while place and self._awaited[place - 1].end_offset > awaited.end_offset:
            place -= 1
        self._awaited.insert(place, awaited)

    def settle(self, state: PartitionState, min_in_sync: int) -> None:
        """Answer those whose records are committed, or lost with the leadership."""
        answers: list[Callable[[], None]] = []
        while self._awaited:
            first = self._awaited[0]
            code = state.decide_acknowledged(first.end_offset, first.leader_epoch, min_in_sync)
            if code is None:
                break
            self._awaited.popleft()
            answers.append(partial(first.answer, code))
        if answers:
            call_all(answers)

    def give_up(self, code: ErrorCode) -> None:
        """Answer everybody, also who comes late, from a sync that was under way: the replica goes away."""
        self._given_up = code
        awaited, self._awaited = self._awaited, deque()
        call_all(partial(one.answer, code) for one in awaited)
