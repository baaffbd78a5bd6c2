"""Who must be looked at when: the deadlines of classic groups in one heap.

Job: tell what is due. Must not know: what follows from it.
Invariants: entries are never taken out of the middle; one that no longer holds is recognised when it comes up. A
heartbeat only moves `member.deadline_ms`: its entry comes up at the old time and is put back.
"""

from __future__ import annotations

from enum import Enum
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from barnabas.core.group.classic.member import Member

if TYPE_CHECKING:
    from barnabas.core.group.classic.group import ClassicGroup


class Phase(Enum):
    """What a whole group can be late with."""

    JOIN = "join"
    SYNC = "sync"


#: A member's session, a phase of the group, or (by id) a member that was given its id and has not come back.
Subject = Member | Phase | str


class Deadlines:
    """All deadlines of one shard's classic groups."""

    __slots__ = ("_heap", "_number")

    def __init__(self) -> None:
        """Start with none."""
        self._heap: list[tuple[int, int, ClassicGroup, Subject]] = []
        self._number = 0

    def next_ms(self) -> int | None:
        """Tell when to look again; sometimes earlier than needed, never later."""
        return self._heap[0][0] if self._heap else None

    def expect_member(self, group: ClassicGroup, member: Member, deadline_ms: int) -> None:
        """Give a member until then to be heard of."""
        member.deadline_ms = deadline_ms
        if member.queued_ms is None or deadline_ms < member.queued_ms:
            member.queued_ms = deadline_ms
            self._push(deadline_ms, group, member)

    def expect_return(self, group: ClassicGroup, member_id: str, deadline_ms: int) -> None:
        """Give who was sent away with an id until then to come back with it."""
        group.pending[member_id] = deadline_ms
        self._push(deadline_ms, group, member_id)

    def expect_joins(self, group: ClassicGroup, deadline_ms: int) -> None:
        """Give the join phase until then."""
        group.join_deadline_ms = deadline_ms
        self._push(deadline_ms, group, Phase.JOIN)

    def expect_syncs(self, group: ClassicGroup, deadline_ms: int) -> None:
        """Give members until then to ask for their assignment."""
        group.sync_deadline_ms = deadline_ms
        self._push(deadline_ms, group, Phase.SYNC)

    def pop_due(self, now_ms: int) -> tuple[ClassicGroup, Subject] | None:
        """Give what is due, one after the other; None when nothing (more) is."""
        while self._heap and self._heap[0][0] <= now_ms:
            deadline_ms, _, group, subject = heappop(self._heap)
            if isinstance(subject, Member):
                if self._is_due(group, subject, deadline_ms, now_ms):
                    return group, subject
            elif deadline_ms == _deadline_of(group, subject):
                return group, subject
        return None

    def _is_due(self, group: ClassicGroup, member: Member, queued_ms: int, now_ms: int) -> bool:
        """Tell whether a member's time is over; put it back if it was heard of since."""
        if member.queued_ms != queued_ms or group.members.get(member.member_id) is not member:
            return False
        if member.deadline_ms > now_ms:
            member.queued_ms = member.deadline_ms
            self._push(member.deadline_ms, group, member)
            return False
        member.queued_ms = None
        return True

    def _push(self, deadline_ms: int, group: ClassicGroup, subject: Subject) -> None:
        # The number keeps the order of coming and spares the heap from comparing groups.
        self._number += 1
        heappush(self._heap, (deadline_ms, self._number, group, subject))


def _deadline_of(group: ClassicGroup, subject: Phase | str) -> int | None:
    if isinstance(subject, str):
        return group.pending.get(subject)
    return group.join_deadline_ms if subject is Phase.JOIN else group.sync_deadline_ms
