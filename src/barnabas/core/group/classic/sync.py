"""SyncGroup, Heartbeat and LeaveGroup of classic groups: what members do between two rebalances.

Job: the rules of each. Must not know: where groups are kept, the log, message versions.
Invariant: an assignment is given out only together with the record that keeps it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.group.classic.group import State
from barnabas.core.group.classic.requests import LeaveReply, LeftMember, SyncReply
from barnabas.core.group.classic.unsaved import Assigned
from barnabas.core.group.classic.views import saved_group
from barnabas.model.errors import ErrorCode

if TYPE_CHECKING:
    from barnabas.core.group.classic.group import ClassicGroup
    from barnabas.core.group.classic.rebalance import Rebalances
    from barnabas.core.group.classic.requests import (
        HeartbeatRequest,
        LeaveRequest,
        LeavingMember,
        SyncRequest,
    )
    from barnabas.core.group.classic.turn import Turn
    from barnabas.core.group.result import Ticket


class Syncs:
    """Takes the SyncGroup, Heartbeat and LeaveGroup requests of a shard's classic groups."""

    __slots__ = ("_rebalances",)

    def __init__(self, rebalances: Rebalances) -> None:
        """Work with the shard's rebalances."""
        self._rebalances = rebalances

    def sync(self, turn: Turn, group: ClassicGroup, ticket: Ticket, request: SyncRequest) -> None:
        """Give a member its assignment, now or when the leader has made it."""
        error = _check_sync(group, request)
        if error is not ErrorCode.NONE:
            turn.reply(ticket, SyncReply(error))
            return
        member = group.members[request.member_id]
        group.pending_sync.pop(member.member_id, None)
        if not group.pending_sync:
            group.sync_deadline_ms = None
        if group.state is State.STABLE:
            turn.reply(ticket, _sync_reply(group, member.assignment))
            return
        if member.sync_ticket is not None:
            # It asked before, over a link that is gone.
            turn.reply(member.sync_ticket, SyncReply(ErrorCode.REBALANCE_IN_PROGRESS))
        member.sync_ticket = ticket
        if member.member_id == group.leader:
            self._assign(turn, group, dict(request.assignments))

    def _assign(self, turn: Turn, group: ClassicGroup, assignments: dict[str, bytes]) -> None:
        """Write the leader's assignment down and give it out; who is not in it owns nothing."""
        assert group.state is State.COMPLETING_REBALANCE, "a generation is given out once"
        group.unsaved = Assigned()
        turn.write(saved_group(group, assignments))
        for member in group.members.values():
            if member.sync_ticket is not None:
                assignment = assignments.get(member.member_id, b"")
                turn.reply(member.sync_ticket, _sync_reply(group, assignment))
                member.sync_ticket = None
                self._rebalances.keep_session(group, member, turn.now_ms)

    def heartbeat(self, group: ClassicGroup, request: HeartbeatRequest, now_ms: int) -> ErrorCode:
        """Keep a member's session, and tell it to join when a rebalance is under way."""
        error = group.check_generation(
            request.member_id, request.group_instance_id, request.generation_id
        )
        if error is not ErrorCode.NONE:
            return error
        self._rebalances.keep_session(group, group.members[request.member_id], now_ms)
        if group.state is State.PREPARING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def leave(self, turn: Turn, group: ClassicGroup, ticket: Ticket, request: LeaveRequest) -> None:
        """Let members go, each by its own right, and rebalance once for all of them."""
        left = tuple(
            LeftMember(
                leaving.member_id,
                leaving.group_instance_id,
                self._let_go(turn, group, leaving),
            )
            for leaving in request.members
        )
        turn.reply(ticket, LeaveReply(members=left))
        somebody_left = any(member.error_code is ErrorCode.NONE for member in left)
        if somebody_left and group.state is not State.EMPTY:
            self._rebalances.rebalance_or_complete(turn, group)

    def _let_go(self, turn: Turn, group: ClassicGroup, leaving: LeavingMember) -> ErrorCode:
        member_id = leaving.member_id
        if not member_id:
            # An administrator names the instance only.
            if leaving.group_instance_id not in group.static_members:
                return ErrorCode.UNKNOWN_MEMBER_ID
            member_id = group.static_members[leaving.group_instance_id]
        elif member_id in group.pending:
            del group.pending[member_id]
            return ErrorCode.NONE
        else:
            error = group.check_member(member_id, leaving.group_instance_id)
            if error is not ErrorCode.NONE:
                return error
        self._rebalances.dismiss(turn, group, group.members[member_id])
        return ErrorCode.NONE


def _check_sync(group: ClassicGroup, request: SyncRequest) -> ErrorCode:
    error = group.check_generation(
        request.member_id, request.group_instance_id, request.generation_id
    )
    if error is not ErrorCode.NONE:
        return error
    if _differs(request.protocol_type, group.protocol_type) or _differs(
        request.protocol_name, group.protocol_name
    ):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.state is State.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _differs(said: str | None, chosen: str | None) -> bool:
    """Compare what a client says with what was chosen; old clients say nothing."""
    return said is not None and chosen is not None and said != chosen


def _sync_reply(group: ClassicGroup, assignment: bytes) -> SyncReply:
    return SyncReply(ErrorCode.NONE, group.protocol_type, group.protocol_name, assignment)
