"""One member of a classic group: what it said about itself, and which of its requests wait.

Job: hold it. Must not know: other members, the group's state, the clock.
Invariants: a member waits for at most one thing, the end of the join phase or its assignment; `queued_ms` is the
time under which it stands in the deadline heap (None: not there) and never later than `deadline_ms`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from barnabas.core.group.classic.requests import JoinRequest, Protocols
    from barnabas.core.group.records import ClassicMember
    from barnabas.core.group.result import Ticket


class Member:
    """A member of one classic group."""

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "deadline_ms",
        "group_instance_id",
        "is_new",
        "join_ticket",
        "member_id",
        "metadata_by_name",
        "protocols",
        "queued_ms",
        "rebalance_timeout_ms",
        "session_timeout_ms",
        "sync_ticket",
    )

    def __init__(
        self, member_id: str, group_instance_id: str | None, client_id: str, client_host: str
    ) -> None:
        """Start with nothing said and nothing waiting."""
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.protocols: Protocols = ()
        self.metadata_by_name: dict[str, bytes] = {}
        self.rebalance_timeout_ms = 0
        self.session_timeout_ms = 0
        self.assignment = b""
        self.join_ticket: Ticket = None
        self.sync_ticket: Ticket = None
        #: Not yet through a join phase: it has no id to send heartbeats with and may go at its deadline even while it waits.
        self.is_new = False
        self.deadline_ms = 0
        self.queued_ms: int | None = None

    @classmethod
    def from_request(cls, member_id: str, request: JoinRequest) -> Member:
        """Take a new member as it presents itself."""
        member = cls(member_id, request.group_instance_id, request.client_id, request.client_host)
        member.update(request)
        return member

    @classmethod
    def from_record(cls, saved: ClassicMember, protocol: str) -> Member:
        """Take a member as the log has it; of its protocols only the one that was chosen is known."""
        member = cls(saved.member_id, saved.group_instance_id, saved.client_id, saved.client_host)
        member.session_timeout_ms = saved.session_timeout_ms
        # Records of version 0 have no rebalance timeout: the session's served for both.
        member.rebalance_timeout_ms = (
            saved.session_timeout_ms
            if saved.rebalance_timeout_ms == -1
            else saved.rebalance_timeout_ms
        )
        member.set_protocols(((protocol, saved.subscription),))
        member.assignment = saved.assignment
        return member

    def update(self, request: JoinRequest) -> None:
        """Take over what a member says when it joins."""
        self.set_protocols(request.protocols)
        self.rebalance_timeout_ms = request.rebalance_timeout_ms
        self.session_timeout_ms = request.session_timeout_ms

    def set_protocols(self, protocols: Protocols) -> None:
        """Remember the protocols; of a name given twice the first counts."""
        self.protocols = protocols
        self.metadata_by_name = dict(reversed(protocols))

    def copy_as(self, member_id: str) -> Member:
        """Give the same member under another id, with nothing waiting: a static member came back."""
        twin = Member(member_id, self.group_instance_id, self.client_id, self.client_host)
        twin.set_protocols(self.protocols)
        twin.rebalance_timeout_ms = self.rebalance_timeout_ms
        twin.session_timeout_ms = self.session_timeout_ms
        twin.assignment = self.assignment
        return twin

    @property
    def awaits_join(self) -> bool:
        """Whether a JoinGroup of it waits."""
        return self.join_ticket is not None

    @property
    def waits(self) -> bool:
        """Whether any request of it waits for an answer."""
        return self.join_ticket is not None or self.sync_ticket is not None

    @property
    def needs_heartbeat(self) -> bool:
        """Whether silence until the deadline means that it is gone: who waits for the group cannot be blamed."""
        return self.is_new or not self.waits

    def vote(self, candidates: dict[str, int]) -> str:
        """Name the protocol it likes best among those that all members know."""
        return next(name for name, _ in self.protocols if name in candidates)
