"""The consumer groups (KIP-848) of one shard: where requests, deadlines and records come in.

Job: let the rules (`heartbeat`, `classic_guests`, `membership`) work and hand out one result; replay, load, and put soft
state right when a result could not be written. Must not know: bytes, versions, offsets.

Durable state (who is a member, every epoch and assignment) changes only in `replay`. Soft state is deadlines, and whether
topics and expressions must be looked at again; losing it costs a look, never an answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from barnabas.core.group import records as r
from barnabas.core.group.classic.group import ClassicGroup, State
from barnabas.core.group.classic.requests import HeartbeatReply, JoinReply, LeaveReply, SyncReply
from barnabas.core.group.consumer.classic_guests import ClassicGuests
from barnabas.core.group.consumer.context import Context, Turn, no_overrides
from barnabas.core.group.consumer.deadlines import Watch
from barnabas.core.group.consumer.group import UNREVOKED_PARTITIONS, ConsumerGroup
from barnabas.core.group.consumer.heartbeat import Heartbeats
from barnabas.core.group.consumer.membership import expect_revocation, remove_members, try_regexes
from barnabas.core.group.consumer.requests import (
    ConsumerHeartbeatReply,
    DescribedConsumerGroup,
    RefusedError,
)
from barnabas.core.group.consumer.subscription import TopicHashes
from barnabas.core.group.consumer.upgrade import complete_upgrade
from barnabas.core.group.consumer.views import described_group
from barnabas.core.group.result import Result
from barnabas.model.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, MutableMapping

    from barnabas.core.group.classic.requests import (
        HeartbeatRequest,
        JoinRequest,
        LeaveRequest,
        SyncRequest,
    )
    from barnabas.core.group.consumer.context import ClassicSide, EmbeddedProtocol
    from barnabas.core.group.consumer.requests import ConsumerHeartbeatRequest
    from barnabas.core.group.group import Group
    from barnabas.core.group.result import Ticket
    from barnabas.core.group.settings import GroupOverrides, GroupSettings
    from barnabas.core.group.topic_view import TopicView

_E = ErrorCode
#: What a member is told when its group's records could not be written, by what the log said.
_AFTER_FAILED_APPEND: Final = {
    _E.UNKNOWN_TOPIC_OR_PARTITION: _E.COORDINATOR_NOT_AVAILABLE,
    _E.NOT_ENOUGH_REPLICAS: _E.COORDINATOR_NOT_AVAILABLE,
    _E.REQUEST_TIMED_OUT: _E.COORDINATOR_NOT_AVAILABLE,
    _E.NOT_LEADER_OR_FOLLOWER: _E.NOT_COORDINATOR,
    _E.KAFKA_STORAGE_ERROR: _E.NOT_COORDINATOR,
    _E.MESSAGE_TOO_LARGE: _E.UNKNOWN_SERVER_ERROR,
    _E.RECORD_LIST_TOO_LARGE: _E.UNKNOWN_SERVER_ERROR,
    _E.INVALID_FETCH_SIZE: _E.UNKNOWN_SERVER_ERROR,
}

#: Kinds whose records make a group if there is none.
_MAKING: Final = (
    r.ConsumerGroupEpoch,
    r.ConsumerGroupMember,
    r.ConsumerGroupPartitionMetadata,
    r.TargetAssignmentEpoch,
    r.TargetAssignment,
    r.CurrentAssignment,
    r.ResolvedRegularExpression,
)
#: Kinds that only take back: where there is no consumer group (any more) they say nothing.
_TAKING: Final = (
    r.ConsumerGroupEpochRemoved,
    r.ConsumerGroupMemberRemoved,
    r.ConsumerGroupPartitionMetadataRemoved,
    r.TargetAssignmentEpochRemoved,
    r.TargetAssignmentRemoved,
    r.CurrentAssignmentRemoved,
    r.ResolvedRegularExpressionRemoved,
)


class ConsumerGroups:
    """The consumer groups among a shard's groups."""

    #: The kinds of records whose replay is done here.
    RECORDS: Final = frozenset((*_MAKING, *_TAKING))

    def __init__(  # noqa: PLR0913 - the shard's surroundings, each by name
        self,
        settings: GroupSettings,
        groups: MutableMapping[str, Group],
        *,
        topics: TopicView,
        new_uuid: Callable[[], str],
        embedded: EmbeddedProtocol,
        classic: ClassicSide,
        overrides: Callable[[str], GroupOverrides] = no_overrides,
    ) -> None:
        """Work on the shard's `groups`; `overrides` gives the settings of a group by its id."""
        self._groups = groups
        self._ctx = Context(
            settings, overrides, groups, topics, TopicHashes(topics), new_uuid, embedded, classic
        )
        self._heartbeats = Heartbeats(self._ctx)
        self._guests = ClassicGuests(self._ctx)

    # Requests

    def heartbeat(
        self, ticket: Ticket, request: ConsumerHeartbeatRequest, now_ms: int, wall_ms: int
    ) -> Result:
        """ConsumerGroupHeartbeat. Answered at once."""
        known = self._heartbeats.nothing_new(request, now_ms, wall_ms)
        if known is not None:
            return Result([], [(ticket, known)], request.group_id)
        turn = Turn(now_ms, wall_ms)
        try:
            reply = self._heartbeats.heartbeat(turn, request)
        except RefusedError as refusal:
            reply = ConsumerHeartbeatReply(refusal.code, refusal.message)
            return Result(replies=[(ticket, reply)], group_id=request.group_id)
        if turn.upgraded:
            complete_upgrade(self._ctx, turn, request.group_id)
        return _result(turn, request.group_id, ticket, reply)

    def describe(self, group_id: str) -> DescribedConsumerGroup:
        """ConsumerGroupDescribe, for one group."""
        group = self._groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return described_group(
                group, self._ctx.settings.consumer_assignors[0], self._ctx.topics
            )
        why = "not found" if group is None else "is not a consumer group"
        message = f"Group {group_id} {why}."
        return DescribedConsumerGroup(group_id, ErrorCode.GROUP_ID_NOT_FOUND, message)

    def serves(self, group_id: str) -> bool:
        """Tell whether requests of the classic protocol to this group are to be taken here: a consumer group with members."""
        group = self._groups.get(group_id)
        return isinstance(group, ConsumerGroup) and not group.is_empty

    def classic_join(
        self, ticket: Ticket, request: JoinRequest, now_ms: int, wall_ms: int
    ) -> Result:
        """JoinGroup to a group that `serves` named. Answered at once."""
        return self._as_guest(self._guests.join, JoinReply, ticket, request, (now_ms, wall_ms))

    def classic_sync(
        self, ticket: Ticket, request: SyncRequest, now_ms: int, wall_ms: int
    ) -> Result:
        """SyncGroup to a group that `serves` named. Answered at once."""
        return self._as_guest(self._guests.sync, SyncReply, ticket, request, (now_ms, wall_ms))

    def classic_heartbeat(
        self, ticket: Ticket, request: HeartbeatRequest, now_ms: int, wall_ms: int = 0
    ) -> Result:
        """Heartbeat to a group that `serves` named."""
        return self._as_guest(
            self._guests.heartbeat, HeartbeatReply, ticket, request, (now_ms, wall_ms)
        )

    def classic_leave(
        self, ticket: Ticket, request: LeaveRequest, now_ms: int, wall_ms: int
    ) -> Result:
        """LeaveGroup to a group that `serves` named."""
        return self._as_guest(self._guests.leave, LeaveReply, ticket, request, (now_ms, wall_ms))

    def _as_guest(
        self,
        entry: Callable[[Turn, ConsumerGroup, Any], Any],
        refused: type,
        ticket: Ticket,
        request: Any,  # noqa: ANN401 - one of four, with what belongs to it
        moment: tuple[int, int],
    ) -> Result:
        group = self._groups[request.group_id]
        assert isinstance(group, ConsumerGroup), "the caller asked `serves`"
        turn = Turn(*moment)
        try:
            reply = entry(turn, group, request)
        except RefusedError as refusal:
            return Result(replies=[(ticket, refused(refusal.code))], group_id=request.group_id)
        return _result(turn, request.group_id, ticket, reply)

    # Topics

    def on_topics_changed(self, names: Iterable[str]) -> None:
        """Topics of these names came, went, got partitions or moved: their groups look again at the next heartbeat."""
        changed = list(names)
        self._ctx.topics_version += 1
        self._ctx.hashes.forget(changed)
        for group in self._groups.values():
            if isinstance(group, ConsumerGroup):
                group.regexes_are_stale = True
                if any(name in group.subscriptions for name in changed):
                    group.metadata_checked_epoch = None

    @property
    def has_regexes(self) -> bool:
        """Whether any group subscribes by a regular expression."""
        return any(
            isinstance(group, ConsumerGroup) and group.subscriptions.regexes
            for group in self._groups.values()
        )

    # Time

    def next_deadline_ms(self) -> int | None:
        """Tell when `on_time` wants to be called; sometimes earlier than needed, never later."""
        return self._ctx.deadlines.next_ms()

    def on_time(self, now_ms: int, wall_ms: int) -> list[Result]:
        """Do what is due: one result for each group that something happened in."""
        late: dict[str, list[str]] = {}
        regexes: list[str] = []
        results: list[Result] = []
        while (due := self._ctx.deadlines.pop_due(now_ms)) is not None:
            watch, group_id, member_id = due
            if watch is Watch.DOWNGRADED:
                results += self._hand_over(group_id, now_ms, wall_ms)
            elif watch is Watch.REGEX:
                regexes.append(group_id)
            elif self._is_late(watch, group_id, member_id):
                late.setdefault(group_id, []).append(member_id)
        results += self._remove(late, now_ms, wall_ms)
        results += self._try(regexes, late, now_ms, wall_ms)
        return [result for result in results if result.records or result.replies]

    def _is_late(self, watch: Watch, group_id: str, member_id: str) -> bool:
        group = self._groups.get(group_id)
        if not isinstance(group, ConsumerGroup) or member_id not in group.members:
            return False
        if watch is not Watch.REBALANCE:
            return True
        # It has gone on since, if its epoch has.
        epoch = self._ctx.revoking_epochs.pop((group_id, member_id), None)
        return group.members[member_id].member_epoch == epoch

    def _remove(self, late: dict[str, list[str]], now_ms: int, wall_ms: int) -> list[Result]:
        results = []
        for group_id, member_ids in late.items():
            group = self._groups[group_id]
            assert isinstance(group, ConsumerGroup), "checked just now"
            turn = Turn(now_ms, wall_ms)
            members = [group.members[member_id] for member_id in dict.fromkeys(member_ids)]
            remove_members(self._ctx, turn, group, members)
            results.append(Result(turn.records, group_id=group_id))
        return results

    def _try(
        self, group_ids: list[str], late: dict[str, list[str]], now_ms: int, wall_ms: int
    ) -> list[Result]:
        results = []
        for group_id in group_ids:
            group = self._groups.get(group_id)
            if not isinstance(group, ConsumerGroup) or not group.subscriptions.regexes:
                continue
            if group_id in late:
                # One result per group: what is tried must see what the other one changed.
                self._ctx.deadlines.expect((Watch.REGEX, group_id, ""), now_ms)
                continue
            turn = Turn(now_ms, wall_ms)
            try_regexes(self._ctx, turn, group)
            results.append(Result(turn.records, group_id=group_id))
        return results

    def _hand_over(self, group_id: str, now_ms: int, wall_ms: int) -> list[Result]:
        """Give a group that became a classic one to the classic side."""
        protocols, rebalance = self._ctx.downgraded.pop(group_id)
        group = self._groups.get(group_id)
        if not isinstance(group, ClassicGroup):
            return []  # the records were not written, or the group has changed again
        if group.state is not State.STABLE:
            # A member joined in the meantime: the rebalance is under way.
            return [self._ctx.classic.take_over(group_id, now_ms, wall_ms, rebalance=False)]
        known = {
            member_id: protocols.get(member_id, member.protocols)
            for member_id, member in group.members.items()
        }
        return [
            self._ctx.classic.take_over(
                group_id, now_ms, wall_ms, protocols=known, rebalance=rebalance
            )
        ]

    # The log

    def replay(self, record: r.Record) -> None:
        """Take a record that the log has: of a result just now, or of an earlier coordinator."""
        if isinstance(record, _MAKING):
            group = self._groups.get(record.group_id)
            if not isinstance(group, ConsumerGroup):
                # A classic group here only holds offsets that were replayed before.
                assert group is None or group.is_empty, (
                    "who waits is answered before the group goes"
                )
                group = self._groups[record.group_id] = ConsumerGroup(record.group_id)
            group.replay(record)
        elif isinstance(record, _TAKING):
            group = self._groups.get(record.group_id)
            if not isinstance(group, ConsumerGroup):
                return
            if isinstance(record, r.ConsumerGroupEpochRemoved):
                assert group.is_empty, "members are taken back first"
                del self._groups[record.group_id]
            else:
                group.replay(record)

    def on_append_failed(self, result: Result, error_code: ErrorCode, now_ms: int) -> Result:
        """Go on as before a result that could not be written, and answer with the reason."""
        code = _AFTER_FAILED_APPEND.get(error_code, error_code)
        group_id = str(result.group_id)
        group = self._groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            group.regexes_are_tried = False
            # What was looked at for these records counts for nothing: look again.
            group.regexes_are_stale = True
            group.metadata_checked_epoch = None
            self._watch_again(group, now_ms)
        replies = [(ticket, _failed(reply, code)) for ticket, reply in result.replies]
        return Result(replies=replies, group_id=group_id)

    def _watch_again(self, group: ConsumerGroup, now_ms: int) -> None:
        """Members that were to be removed stay: give them another session."""
        deadline_ms = now_ms + self._ctx.session_timeout_ms(group.group_id)
        for member in group.members.values():
            if (Watch.SESSION, group.group_id, member.member_id) not in self._ctx.deadlines:
                self._ctx.expect_session(group.group_id, member.member_id, deadline_ms)
                if member.state == UNREVOKED_PARTITIONS:
                    expect_revocation(self._ctx, group, member, now_ms)

    def on_loaded(self, now_ms: int, wall_ms: int) -> list[Result]:
        """Give the members of every group that was loaded a whole session to be heard of."""
        for group in self._groups.values():
            if isinstance(group, ConsumerGroup):
                self._watch_again(group, now_ms)
        return []

    def unload(self) -> list[tuple[Ticket, Any]]:
        """Stop serving: nothing waits here."""
        return []


def _result(turn: Turn, group_id: str, ticket: Ticket, reply: object) -> Result:
    return Result(turn.records, [*turn.replies, (ticket, reply)], group_id)


def _failed(reply: Any, code: ErrorCode) -> Any:  # noqa: ANN401 - the reply of any entry
    """Turn an answer that counted on the records into a refusal; other refusals stay."""
    return reply if reply.error_code is not ErrorCode.NONE else type(reply)(code)
