"""JoinGroup: who is let into a classic group, and when its request is answered.

Job: the rules of joining. Must not know: where groups are kept, the log, message versions.

| who comes                       | what happens                                                                     |
|---------------------------------|----------------------------------------------------------------------------------|
| no id, dynamic                  | gets an id and must come again with it (or, by old versions, is in at once)      |
| no id, instance id unknown      | is in at once                                                                    |
| no id, instance id known        | takes the old holder's place; when stable without a rebalance                    |
| id that was given out           | is in                                                                            |
| member                          | joins the rebalance, begins one (leader, new metadata) or hears how things stand |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.group.classic.group import State
from barnabas.core.group.classic.member import Member
from barnabas.core.group.classic.requests import JoinReply, SyncReply
from barnabas.core.group.classic.unsaved import Replaced
from barnabas.core.group.classic.views import join_reply, refused_join, saved_group
from barnabas.model.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.core.group.classic.deadlines import Deadlines
    from barnabas.core.group.classic.group import ClassicGroup
    from barnabas.core.group.classic.rebalance import Rebalances
    from barnabas.core.group.classic.requests import JoinRequest
    from barnabas.core.group.classic.turn import Turn
    from barnabas.core.group.result import Ticket
    from barnabas.core.group.settings import GroupSettings


class Joins:
    """Takes the JoinGroup requests of a shard's classic groups."""

    __slots__ = ("_deadlines", "_new_uuid", "_rebalances", "_settings")

    def __init__(
        self,
        settings: GroupSettings,
        deadlines: Deadlines,
        rebalances: Rebalances,
        new_uuid: Callable[[], str],
    ) -> None:
        """Work with the shard's settings and deadlines; `new_uuid` makes member ids unique."""
        self._settings = settings
        self._deadlines = deadlines
        self._rebalances = rebalances
        self._new_uuid = new_uuid

    def join(self, turn: Turn, group: ClassicGroup, ticket: Ticket, request: JoinRequest) -> None:
        """Let a client in, have it wait, or refuse it."""
        member_id = request.member_id
        if not self._has_room(group, member_id):
            # A member that comes back to a group that became too small for it is out.
            if member_id in group.members:
                self._rebalances.dismiss(turn, group, group.members[member_id])
            group.pending.pop(member_id, None)
            turn.reply(ticket, refused_join(ErrorCode.GROUP_MAX_SIZE_REACHED))
        elif not group.supports(request.protocol_type, [name for name, _ in request.protocols]):
            turn.reply(ticket, refused_join(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id))
        elif not member_id:
            self._join_without_id(turn, group, ticket, request)
        elif member_id in group.pending:
            self._join_with_given_id(turn, group, ticket, request)
        else:
            self._join_as_member(turn, group, ticket, request)

    def _has_room(self, group: ClassicGroup, member_id: str) -> bool:
        """Tell whether a group takes one more; while it rebalances only those who joined count."""
        if group.state is State.EMPTY:
            return True
        member = group.members.get(member_id)
        if group.state is State.PREPARING_REBALANCE:
            waits = member is not None and member.awaits_join
            return waits or group.joining_count < self._settings.max_size
        return member is not None or len(group.members) < self._settings.max_size

    def _join_without_id(
        self, turn: Turn, group: ClassicGroup, ticket: Ticket, request: JoinRequest
    ) -> None:
        instance_id = request.group_instance_id
        stem = request.client_id if instance_id is None else instance_id
        member_id = f"{stem}-{self._new_uuid()}"
        if instance_id is not None and instance_id in group.static_members:
            self._replace(turn, group, ticket, request, member_id)
        elif instance_id is None and request.requires_known_member_id:
            deadline_ms = turn.now_ms + request.session_timeout_ms
            self._deadlines.expect_return(group, member_id, deadline_ms)
            turn.reply(ticket, refused_join(ErrorCode.MEMBER_ID_REQUIRED, member_id))
        else:
            self._add(turn, group, ticket, request, member_id)

    def _join_with_given_id(
        self, turn: Turn, group: ClassicGroup, ticket: Ticket, request: JoinRequest
    ) -> None:
        if request.group_instance_id is not None:
            # Ids are given out to dynamic members only, so this client made it up.
            turn.reply(ticket, JoinReply(ErrorCode.UNKNOWN_SERVER_ERROR))
            return
        self._add(turn, group, ticket, request, request.member_id)

    def _add(
        self, turn: Turn, group: ClassicGroup, ticket: Ticket, request: JoinRequest, member_id: str
    ) -> None:
        member = Member.from_request(member_id, request)
        member.is_new = True
        if group.state is State.PREPARING_REBALANCE and group.previous_state is State.EMPTY:
            group.member_was_added = True
        group.add(member, request.protocol_type, ticket)
        # Who is new cannot send heartbeats; if its link breaks it comes again under another id. This bounds how
        # many of such ghosts a long rebalance collects.
        timeout_ms = self._settings.new_member_join_timeout_ms
        self._deadlines.expect_member(group, member, turn.now_ms + timeout_ms)
        self._rebalances.rebalance_or_complete(turn, group)

    def _join_as_member(
        self, turn: Turn, group: ClassicGroup, ticket: Ticket, request: JoinRequest
    ) -> None:
        error = group.check_member(request.member_id, request.group_instance_id)
        if error is not ErrorCode.NONE:
            turn.reply(ticket, refused_join(error, request.member_id))
            return
        member = group.members[request.member_id]
        if self._begins_rebalance(group, member, request):
            self._release_waiting(turn, group, member, ErrorCode.REBALANCE_IN_PROGRESS)
            group.update(member, request)
            group.await_join(member, ticket)
            self._rebalances.rebalance_or_complete(turn, group)
        else:
            turn.reply(ticket, join_reply(group, member))

    def _begins_rebalance(self, group: ClassicGroup, member: Member, request: JoinRequest) -> bool:
        """Tell whether a member's JoinGroup is part of a rebalance; else it only missed an earlier answer."""
        if group.state is State.PREPARING_REBALANCE or member.protocols != request.protocols:
            return True
        # The leader comes again when it sees that the topics changed.
        return group.state is State.STABLE and member.member_id == group.leader

    def _release_waiting(
        self, turn: Turn, group: ClassicGroup, member: Member, error_code: ErrorCode
    ) -> None:
        """Answer a member's earlier requests: another one takes their place."""
        if member.awaits_join:
            turn.reply(group.release_join(member), refused_join(error_code, member.member_id))
        if member.sync_ticket is not None:
            turn.reply(member.sync_ticket, SyncReply(error_code))
            member.sync_ticket = None

    def _replace(
        self, turn: Turn, group: ClassicGroup, ticket: Ticket, request: JoinRequest, member_id: str
    ) -> None:
        """Let a static member that lost its id take its old place; whoever still uses it is fenced (KIP-345)."""
        assert request.group_instance_id is not None, "a static member comes back"
        old = group.members[group.static_members[request.group_instance_id]]
        leader = group.leader or ""
        self._release_waiting(turn, group, old, ErrorCode.FENCED_INSTANCE_ID)
        new = old.copy_as(member_id)
        group.replace(old, new)
        group.update(new, request)
        self._rebalances.keep_session(group, new, turn.now_ms)
        if group.state is State.STABLE and group.select_protocol() == group.protocol_name:
            group.unsaved = Replaced(old, new, leader)
            turn.write(saved_group(group))
            turn.reply(ticket, _welcome_back(group, new, request, leader))
            return
        # While members sync, the leader may have made the assignment for the old id: it must be made again.
        group.await_join(new, ticket)
        self._rebalances.rebalance_or_complete(turn, group)


def _welcome_back(
    group: ClassicGroup, member: Member, request: JoinRequest, leader_before: str
) -> JoinReply:
    """Answer a static member that takes its place without a rebalance."""
    reply = join_reply(group, member)
    if request.can_skip_assignment:
        reply.skip_assignment = member.member_id == group.leader
    else:
        # It must not think that it leads, or it would make an assignment nobody asked for.
        reply.leader, reply.members = leader_before, ()
    return reply
