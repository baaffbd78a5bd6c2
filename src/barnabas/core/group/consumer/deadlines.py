"""What consumer groups must look at when: sessions, rebalances and jobs in one heap.

Job: tell what is due. Must not know: what follows from it.
Invariants: a subject has at most one deadline; moving one later only changes a table (its entry comes up at the old time
and is put back), so a heartbeat costs a look-up; an entry that no longer holds is recognised when it comes up.
"""

from __future__ import annotations

from enum import IntEnum
from heapq import heappop, heappush


class Watch(IntEnum):
    """What a deadline is about. The smaller comes first when two are due together."""

    SESSION = 0  #: a member must be heard of
    REBALANCE = 1  #: a member must give its partitions up
    JOIN = 2  #: a classic member must join again
    SYNC = 3  #: a classic member must ask for its assignment
    REGEX = 4  #: the group's regular expressions are to be tried
    DOWNGRADED = 5  #: the group became a classic one


#: What, group id, member id (empty when it is about the group).
Subject = tuple[Watch, str, str]


class ConsumerDeadlines:
    """All deadlines of one shard's consumer groups."""

    __slots__ = ("_due", "_heap", "_queued")

    def __init__(self) -> None:
        """Start with none."""
        self._due: dict[Subject, int] = {}
        self._queued: dict[Subject, int] = {}
        self._heap: list[tuple[int, Subject]] = []

    def expect(self, subject: Subject, deadline_ms: int) -> None:
        """Set or move a deadline."""
        self._due[subject] = deadline_ms
        queued_ms = self._queued.get(subject)
        if queued_ms is None or deadline_ms < queued_ms:
            self._queued[subject] = deadline_ms
            heappush(self._heap, (deadline_ms, subject))

    def forget(self, subject: Subject) -> None:
        """Drop a deadline, if there is one."""
        self._due.pop(subject, None)

    def forget_member(self, group_id: str, member_id: str) -> None:
        """Drop everything a member was to do."""
        for watch in (Watch.SESSION, Watch.REBALANCE, Watch.JOIN, Watch.SYNC):
            self._due.pop((watch, group_id, member_id), None)

    def __contains__(self, subject: object) -> bool:
        """Tell whether the subject has a deadline."""
        return subject in self._due

    def next_ms(self) -> int | None:
        """Tell when to look again; sometimes earlier than needed, never later."""
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now_ms: int) -> Subject | None:
        """Give what is due, one after the other; None when nothing (more) is."""
        while self._heap and self._heap[0][0] <= now_ms:
            queued_ms, subject = heappop(self._heap)
            if self._queued.get(subject) != queued_ms:
                continue  # it was moved to an earlier time
            del self._queued[subject]
            deadline_ms = self._due.get(subject)
            if deadline_ms is None:
                continue
            if deadline_ms <= now_ms:
                del self._due[subject]
                return subject
            self._queued[subject] = deadline_ms
            heappush(self._heap, (deadline_ms, subject))
        return None
