"""Who is in a classic group: members, their protocols, who leads, who waits in the join phase.

Job: keep the books. Must not know: the group's state, generations, the clock.
Invariants: there is a leader exactly when there are members, and it is one of them; every instance id belongs to one
member; `protocol_counts` and `joining_count` agree with the members; `pending` and `members` share no id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from barnabas.core.group.classic.member import Member
    from barnabas.core.group.classic.requests import JoinRequest, Protocols
    from barnabas.core.group.result import Ticket


class Roster:
    """The members of one classic group."""

    __slots__ = (
        "joining_count",
        "leader",
        "members",
        "pending",
        "pending_sync",
        "protocol_counts",
        "protocol_type",
        "static_members",
    )

    def __init__(self) -> None:
        """Start with nobody."""
        self.protocol_type: str | None = None
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}
        #: Ids that were given out and have not come back, each with its deadline.
        self.pending: dict[str, int] = {}
        #: Who has not asked for its assignment in this generation.
        self.pending_sync: dict[str, None] = {}
        self.protocol_counts: dict[str, int] = {}
        self.joining_count = 0

    def add(self, member: Member, protocol_type: str, ticket: Ticket) -> None:
        """Take a member in, waiting for the end of the join phase."""
        assert member.group_instance_id not in self.static_members, "an instance id has one holder"
        if not self.members:
            self.protocol_type = protocol_type
        assert protocol_type == self.protocol_type, "members are of one kind"
        if self.leader is None:
            self.leader = member.member_id
        self.put(member)
        self.await_join(member, ticket)
        self.pending.pop(member.member_id, None)

    def put(self, member: Member) -> None:
        """Enter a member that waits for nothing."""
        assert member.member_id not in self.members, "a member id is given once"
        self.members[member.member_id] = member
        if member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = member.member_id
        self._count(member, 1)

    def remove(self, member: Member) -> None:
        """Let a member go; if it led, another takes its place."""
        assert member.join_ticket is None, "who waits is answered before it goes"
        assert member.sync_ticket is None, "who waits is answered before it goes"
        del self.members[member.member_id]
        self._count(member, -1)
        if member.group_instance_id is not None:
            del self.static_members[member.group_instance_id]
        if self.leader == member.member_id:
            self.leader = next(iter(self.members), None)
        self.pending_sync.pop(member.member_id, None)

    def replace(self, old: Member, new: Member) -> None:
        """Put a member in the place of another with the same instance id, as leader too."""
        assert old.group_instance_id == new.group_instance_id, "only a static member is replaced"
        assert old.join_ticket is None, "who waits is answered before it goes"
        assert old.sync_ticket is None, "who waits is answered before it goes"
        led, owed_sync = self.leader == old.member_id, old.member_id in self.pending_sync
        self.remove(old)
        self.put(new)
        if led:
            self.leader = new.member_id
        if owed_sync:
            self.pending_sync[new.member_id] = None

    def update(self, member: Member, request: JoinRequest) -> None:
        """Take over what a member says anew."""
        self._count(member, -1)
        member.update(request)
        self._count(member, 1)

    def set_protocols(self, member: Member, protocols: Protocols) -> None:
        """Take over all protocols of a member of which the log kept one."""
        self._count(member, -1)
        member.set_protocols(protocols)
        self._count(member, 1)

    def await_join(self, member: Member, ticket: Ticket) -> None:
        """Note that a member's JoinGroup waits."""
        assert member.join_ticket is None, "one JoinGroup waits at a time"
        assert ticket is not None, "a ticket can be given back"
        member.join_ticket = ticket
        self.joining_count += 1

    def release_join(self, member: Member) -> Ticket:
        """Give the ticket of the JoinGroup that waits, to be answered."""
        ticket, member.join_ticket = member.join_ticket, None
        assert ticket is not None, "its JoinGroup waits"
        self.joining_count -= 1
        return ticket

    @property
    def waits(self) -> bool:
        """Whether a request of any member waits for an answer."""
        return any(member.waits for member in self.members.values())

    def _count(self, member: Member, by: int) -> None:
        for name in member.metadata_by_name:
            count = self.protocol_counts.get(name, 0) + by
            if count:
                self.protocol_counts[name] = count
            else:
                del self.protocol_counts[name]

    def select_protocol(self) -> str:
        """Let each member vote among the protocols that all know; on a tie the one named first."""
        assert self.members, "somebody votes"
        size = len(self.members)
        candidates = {name: 0 for name, count in self.protocol_counts.items() if count == size}
        votes: dict[str, int] = {}
        for member in self.members.values():
            choice = member.vote(candidates)
            votes[choice] = votes.get(choice, 0) + 1
        return max(votes, key=votes.__getitem__)

    @property
    def all_joined(self) -> bool:
        """Whether the join phase has nobody left to wait for."""
        return self.joining_count == len(self.members) and not self.pending

    @property
    def rebalance_timeout_ms(self) -> int:
        """How long the slowest member may take."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def elect_leader(self) -> bool:
        """Make sure that the leader is one who joined; False if nobody did."""
        assert self.leader is not None, "there are members to choose from"
        if self.members[self.leader].awaits_join:
            return True
        for member in self.members.values():
            if member.awaits_join:
                self.leader = member.member_id
                return True
        return False
