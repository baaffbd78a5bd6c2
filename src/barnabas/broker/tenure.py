"""A tenure: the time of one replica in one role. It proves after a wait that the role is still the same.

Job: tell whether the replica still has the topic, the leader epoch and the role that it had. Must not know why they change.
Only `Replica` begins and ends a tenure.

Work that waits (for a claim, a disk, another broker, the store) takes `replica.tenure` before it begins. When it resumes, it looks at
`is_over` or calls `check`. If the tenure is over, the work is void: the replica may lead by now, follow somebody else, or be gone.

Invariants: a tenure that is over stays over; a replica that is hosted no more, or whose disk failed, has one that is over.
"""

from __future__ import annotations


class TenureOver(Exception):
    """The replica has another role, epoch or topic by now, or is hosted no more."""


class Tenure:
    """See the module. One comparison per look: lanes ask with each request."""

    __slots__ = ("is_leader", "is_over", "leader_epoch", "topic_id")

    def __init__(
        self, topic_id: bytes, leader_epoch: int, *, is_leader: bool, is_over: bool = False
    ) -> None:
        """Begin."""
        self.topic_id = topic_id
        self.leader_epoch = leader_epoch
        self.is_leader = is_leader
        self.is_over = is_over

    def check(self) -> None:
        """Raise TenureOver if it is over: called when work resumes."""
        if self.is_over:
            raise TenureOver
