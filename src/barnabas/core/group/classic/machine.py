"""The classic groups of one shard: where requests, deadlines and records come in.

Job: find the group, let the rules (`classic_join`, `classic_sync`, `classic_rebalance`) work, hand out one result; load,
unload, and take back what could not be written. Must not know: bytes, versions, consumer groups (KIP-848) beyond
that an empty one gives way.

Who is a member and who waits is soft state: a join phase is not written down, only its outcome. What the log keeps
(assignments, that a group is stable) changes in `replay`. A result's record is replayed or refused before the next entry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.group.classic.deadlines import Deadlines, Phase
from barnabas.core.group.classic.group import ClassicGroup
from barnabas.core.group.classic.join import Joins
from barnabas.core.group.classic.member import Member
from barnabas.core.group.classic.rebalance import Rebalances
from barnabas.core.group.classic.requests import (
    DescribedGroup,
    HeartbeatReply,
    JoinReply,
    LeaveReply,
    LeftMember,
    SyncReply,
)
from barnabas.core.group.classic.sync import Syncs
from barnabas.core.group.classic.turn import Turn
from barnabas.core.group.classic.unsaved import Assigned, Created, Replaced
from barnabas.core.group.classic.views import described_group, refused_join, saved_new_group
from barnabas.core.group.records import ClassicGroupRemoved, ClassicGroupSaved
from barnabas.core.group.result import Result
from barnabas.model.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, MutableMapping

    from barnabas.core.group.classic.deadlines import Subject
    from barnabas.core.group.classic.group import ReadTopics
    from barnabas.core.group.classic.requests import (
        HeartbeatRequest,
        JoinRequest,
        LeaveRequest,
        Protocols,
        SyncRequest,
    )
    from barnabas.core.group.group import Group
    from barnabas.core.group.records import Record
    from barnabas.core.group.result import Ticket
    from barnabas.core.group.settings import GroupSettings

_E = ErrorCode
#: What a member is told when its group's record could not be written, by what the log said.
_AFTER_FAILED_APPEND = {
    _E.UNKNOWN_TOPIC_OR_PARTITION: _E.COORDINATOR_NOT_AVAILABLE,
    _E.NOT_ENOUGH_REPLICAS: _E.COORDINATOR_NOT_AVAILABLE,
    _E.REQUEST_TIMED_OUT: _E.COORDINATOR_NOT_AVAILABLE,
    _E.NOT_LEADER_OR_FOLLOWER: _E.NOT_COORDINATOR,
    _E.KAFKA_STORAGE_ERROR: _E.NOT_COORDINATOR,
    _E.MESSAGE_TOO_LARGE: _E.UNKNOWN_SERVER_ERROR,
    _E.RECORD_LIST_TOO_LARGE: _E.UNKNOWN_SERVER_ERROR,
    _E.INVALID_FETCH_SIZE: _E.UNKNOWN_SERVER_ERROR,
}


class ClassicGroups:
    """The classic groups among a shard's groups."""

    def __init__(
        self,
        settings: GroupSettings,
        groups: MutableMapping[str, Group],
        new_uuid: Callable[[], str],
        read_topics: ReadTopics,
    ) -> None:
        """Work on the shard's `groups`; `read_topics` finds the topics in a consumer's metadata."""
        self._settings = settings
        self._groups = groups
        self._read_topics = read_topics
        self._deadlines = Deadlines()
        self._rebalances = Rebalances(settings, self._deadlines)
        self._joins = Joins(settings, self._deadlines, self._rebalances, new_uuid)
        self._syncs = Syncs(self._rebalances)
        #: Heartbeats are many and their answers few.
        self._heartbeat_replies = {code: HeartbeatReply(code) for code in ErrorCode}

    # Requests

    def join(self, ticket: Ticket, request: JoinRequest, now_ms: int, wall_ms: int) -> Result:
        """JoinGroup. Waits for the end of the join phase."""
        error = self._check_join(request)
        if error is not ErrorCode.NONE:
            return _answer(ticket, request.group_id, refused_join(error, request.member_id))
        turn = _new_turn(request.group_id, now_ms, wall_ms)
        group = self._find(request.group_id)
        if group is not None:
            self._joins.join(turn, group, ticket, request)
        else:
            self._join_new_group(turn, ticket, request)
        return turn.result

    def _check_join(self, request: JoinRequest) -> ErrorCode:
        if not request.group_id:
            return ErrorCode.INVALID_GROUP_ID
        shortest, longest = (
            self._settings.min_session_timeout_ms,
            self._settings.max_session_timeout_ms,
        )
        if not shortest <= request.session_timeout_ms <= longest:
            return ErrorCode.INVALID_SESSION_TIMEOUT
        if request.member_id and self._find(request.group_id) is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE

    def _join_new_group(self, turn: Turn, ticket: Ticket, request: JoinRequest) -> None:
        """Make the group with its first member; an empty group of the other protocol gives way."""
        group = ClassicGroup(request.group_id, turn.wall_ms, self._read_topics)
        self._joins.join(turn, group, ticket, request)
        assert not turn.result.records, "a new group's first rebalance waits for more members"
        if not (group.members or group.pending):
            return
        before = self._groups.get(group.group_id)
        assert before is None or before.is_empty, "members of a consumer group are served there"
        self._groups[group.group_id] = group
        group.unsaved = Created(before)
        turn.write(*(() if before is None else before.removal_records()), saved_new_group(group))

    def sync(self, ticket: Ticket, request: SyncRequest, now_ms: int, wall_ms: int) -> Result:
        """SyncGroup. Waits for the leader's assignment."""
        if not request.group_id:
            return _answer(ticket, request.group_id, SyncReply(ErrorCode.INVALID_GROUP_ID))
        group = self._find(request.group_id)
        if group is None:
            return _answer(ticket, request.group_id, SyncReply(ErrorCode.UNKNOWN_MEMBER_ID))
        turn = _new_turn(request.group_id, now_ms, wall_ms)
        self._syncs.sync(turn, group, ticket, request)
        return turn.result

    def heartbeat(self, ticket: Ticket, request: HeartbeatRequest, now_ms: int) -> Result:
        """Heartbeat. Answered at once."""
        group = self._groups.get(request.group_id)
        if isinstance(group, ClassicGroup):
            error = self._syncs.heartbeat(group, request, now_ms)
        else:
            error = ErrorCode.UNKNOWN_MEMBER_ID if request.group_id else ErrorCode.INVALID_GROUP_ID
        return Result([], [(ticket, self._heartbeat_replies[error])], request.group_id)

    def leave(self, ticket: Ticket, request: LeaveRequest, now_ms: int, wall_ms: int) -> Result:
        """LeaveGroup. Answered at once."""
        if not request.group_id:
            return _answer(ticket, request.group_id, LeaveReply(ErrorCode.INVALID_GROUP_ID))
        group = self._find(request.group_id)
        if group is None:
            unknown = tuple(
                LeftMember(one.member_id, one.group_instance_id, ErrorCode.UNKNOWN_MEMBER_ID)
                for one in request.members
            )
            return _answer(ticket, request.group_id, LeaveReply(members=unknown))
        turn = _new_turn(request.group_id, now_ms, wall_ms)
        self._syncs.leave(turn, group, ticket, request)
        return turn.result

    def describe(self, group_id: str) -> DescribedGroup:
        """DescribeGroups, for one group."""
        group = self._groups.get(group_id)
        if isinstance(group, ClassicGroup):
            return described_group(group)
        message = (
            f"Group {group_id} not found."
            if group is None
            else f"Group {group_id} is not a classic group."
        )
        return DescribedGroup(
            group_id, error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message=message
        )

    def make_simple(self, group_id: str) -> None:
        """Make a group that only keeps offsets; nothing of it but these is written down."""
        assert group_id not in self._groups, "there is none yet"
        self._groups[group_id] = ClassicGroup(group_id, -1, self._read_topics)

    # Time

    def next_deadline_ms(self) -> int | None:
        """Tell when `on_time` wants to be called; sometimes earlier than needed, never later."""
        return self._deadlines.next_ms()

    def on_time(self, now_ms: int, wall_ms: int) -> list[Result]:
        """Do what is due: one result for each group that something happened in."""
        turns: dict[str, Turn] = {}
        while (due := self._deadlines.pop_due(now_ms)) is not None:
            group, subject = due
            turn = turns.get(group.group_id)
            if turn is None:
                turn = turns[group.group_id] = _new_turn(group.group_id, now_ms, wall_ms)
            self._on_due(turn, group, subject)
        results = [turn.result for turn in turns.values()]
        return [result for result in results if result.records or result.replies]

    def _on_due(self, turn: Turn, group: ClassicGroup, subject: Subject) -> None:
        if isinstance(subject, Member):
            self._rebalances.on_session_end(turn, group, subject)
        elif subject is Phase.JOIN:
            self._rebalances.on_join_deadline(turn, group)
        elif subject is Phase.SYNC:
            self._rebalances.on_sync_deadline(turn, group)
        else:
            self._rebalances.on_return_deadline(turn, group, subject)

    # The log

    def replay(self, record: Record) -> None:
        """Take a record that the log has: of a result just now, or of an earlier coordinator."""
        if isinstance(record, ClassicGroupSaved):
            self.replay_saved(record)
        elif isinstance(record, ClassicGroupRemoved):
            self.replay_removed(record)

    def replay_saved(self, record: ClassicGroupSaved) -> None:
        """Take a group as it was written: confirm what is known here, or build it."""
        group = self._find(record.group_id)
        if group is None or group.unsaved is None:
            assert group is None or not group.waits, "who waits is answered before the group goes"
            self._groups[record.group_id] = ClassicGroup.from_record(record, self._read_topics)
            return
        unsaved, group.unsaved = group.unsaved, None
        if isinstance(unsaved, Assigned):
            group.take_assignments(record)

    def replay_removed(self, record: ClassicGroupRemoved) -> None:
        """Forget a group."""
        group = self._find(record.group_id)
        if group is not None:
            group.clear()
            del self._groups[record.group_id]

    def on_append_failed(self, result: Result, error_code: ErrorCode, now_ms: int) -> Result:
        """Take back what a result's record would have confirmed, and answer with the reason."""
        code = _AFTER_FAILED_APPEND.get(error_code, error_code)
        group = self._find(str(result.group_id))
        turn = _new_turn(str(result.group_id), now_ms, group.state_timestamp_ms if group else -1)
        for ticket, reply in result.replies:
            turn.reply(ticket, _failed(reply, code))
        if group is None:
            return turn.result
        unsaved, group.unsaved = group.unsaved, None
        if isinstance(unsaved, Created):
            self._undo_created(turn, group, unsaved, code)
        elif isinstance(unsaved, Assigned):
            self._rebalances.drop_assignments(turn, group, code)
            self._rebalances.prepare(turn, group)
        elif isinstance(unsaved, Replaced):
            self._undo_replaced(turn, group, unsaved)
        return turn.result

    def _undo_created(
        self, turn: Turn, group: ClassicGroup, unsaved: Created, code: ErrorCode
    ) -> None:
        for member in group.members.values():
            turn.reply(group.release_join(member), JoinReply(code))
        group.clear()
        del self._groups[group.group_id]
        if unsaved.before is not None:
            self._groups[group.group_id] = unsaved.before

    def _undo_replaced(self, turn: Turn, group: ClassicGroup, unsaved: Replaced) -> None:
        """Give a static member's place back to its old holder."""
        group.replace(unsaved.new, unsaved.old)
        unsaved.old.queued_ms = None
        self._rebalances.keep_session(group, unsaved.old, turn.now_ms)
        for _, reply in turn.result.replies:
            reply.generation_id, reply.leader = group.generation, unsaved.leader
            reply.protocol_type, reply.protocol_name = group.protocol_type, group.protocol_name

    def on_loaded(self, now_ms: int, wall_ms: int) -> None:
        """Give the members of every group that was loaded a whole session to be heard of."""
        for group in list(self._groups.values()):
            if isinstance(group, ClassicGroup):
                self.take_over(group.group_id, now_ms, wall_ms, rebalance=False)
                if len(group.members) > self._settings.max_size:
                    # The limit was lowered: have everybody join again, and take as many as it allows.
                    self._rebalances.prepare(_new_turn(group.group_id, now_ms, wall_ms), group)

    def unload(self) -> list[tuple[Ticket, JoinReply | SyncReply]]:
        """Give everything that waits its answer: another broker coordinates these groups now."""
        turn = _new_turn("", 0, 0)
        for group in self._groups.values():
            if isinstance(group, ClassicGroup):
                _release_all(turn, group, ErrorCode.NOT_COORDINATOR)
                group.clear()
        return turn.result.replies

    # Moves between the protocols

    def take_over(
        self,
        group_id: str,
        now_ms: int,
        wall_ms: int,
        *,
        protocols: dict[str, Protocols] | None = None,
        rebalance: bool = True,
    ) -> Result:
        """Watch the members of a group that `replay` built: just loaded, or a consumer group until now.

        `protocols` has what a record does not keep: all protocols of each member.
        """
        group = self._find(group_id)
        assert group is not None, "replay has built it"
        turn = _new_turn(group_id, now_ms, wall_ms)
        for member in group.members.values():
            if protocols is not None:
                group.set_protocols(member, protocols[member.member_id])
            self._rebalances.keep_session(group, member, now_ms)
        if rebalance and group.members:
            self._rebalances.prepare(turn, group)
        return turn.result

    def release(self, group_id: str, now_ms: int) -> list[tuple[Ticket, JoinReply | SyncReply]]:
        """Have everybody who waits come again: the group is about to become a consumer group."""
        group = self._find(group_id)
        assert group is not None, "it is a classic group until now"
        turn = _new_turn(group_id, now_ms, 0)
        for member in _release_all(turn, group, ErrorCode.REBALANCE_IN_PROGRESS):
            # If the records cannot be written, the group stays, and its members must be heard of again.
            self._rebalances.keep_session(group, member, now_ms)
        return turn.result.replies

    def _find(self, group_id: str) -> ClassicGroup | None:
        group = self._groups.get(group_id)
        return group if isinstance(group, ClassicGroup) else None


def _new_turn(group_id: str, now_ms: int, wall_ms: int) -> Turn:
    return Turn(now_ms, wall_ms, Result(group_id=group_id))


def _answer(ticket: Ticket, group_id: str, reply: JoinReply | SyncReply | LeaveReply) -> Result:
    return Result(replies=[(ticket, reply)], group_id=group_id)


def _failed(
    reply: JoinReply | SyncReply | LeaveReply, code: ErrorCode
) -> JoinReply | SyncReply | LeaveReply:
    """Turn an answer that counted on the record into a refusal; other refusals stay."""
    if reply.error_code not in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
        return reply
    return type(reply)(code)


def _release_all(turn: Turn, group: ClassicGroup, error_code: ErrorCode) -> list[Member]:
    """Answer everybody who waits; they are returned."""
    released = [member for member in group.members.values() if member.waits]
    for member in released:
        if member.awaits_join:
            reply = refused_join(error_code, member.member_id)
            turn.reply(group.release_join(member), reply)
        if member.sync_ticket is not None:
            turn.reply(member.sync_ticket, SyncReply(error_code))
            member.sync_ticket = None
    return released
