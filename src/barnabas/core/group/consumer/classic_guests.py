"""Members of a consumer group that speak the classic protocol: JoinGroup, SyncGroup, Heartbeat and LeaveGroup to it.

A guest's generation is its member epoch. It is told to join again (REBALANCE_IN_PROGRESS) when the target assignment moves
on, when it must give partitions up, and when partitions it waits for are free; its JoinGroup and SyncGroup are answered at
once, with the assignment that the coordinator made.

Job: these four requests. Must not know: bytes of the embedded protocol, how an assignment is made.
Invariants: a guest has one generation at a time; who is asked to join or sync and does not within its rebalance timeout is
removed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from barnabas.core.group.classic.requests import (
    HeartbeatReply,
    JoinReply,
    LeaveReply,
    LeftMember,
    SyncReply,
)
from barnabas.core.group.consumer.deadlines import Watch
from barnabas.core.group.consumer.group import (
    UNRELEASED_PARTITIONS,
    UNREVOKED_PARTITIONS,
    Member,
    without_epochs,
)
from barnabas.core.group.consumer.membership import (
    Change,
    assign_and_reconcile,
    may_downgrade_replacing,
    note_subscription,
    reconcile,
    remove_members,
    replace_static_member,
)
from barnabas.core.group.consumer.requests import RefusedError
from barnabas.core.group.consumer.upgrade import (
    CONSUMER_PROTOCOL_TYPE,
    by_topic_id,
    by_topic_name,
    downgrade,
)
from barnabas.core.group.records import ClassicMemberMetadata
from barnabas.model.errors import ErrorCode

if TYPE_CHECKING:
    from barnabas.core.group.classic.requests import (
        HeartbeatRequest,
        JoinRequest,
        LeaveRequest,
        LeavingMember,
        SyncRequest,
    )
    from barnabas.core.group.consumer.context import Context, EmbeddedSubscription, Turn
    from barnabas.core.group.consumer.group import ConsumerGroup


class ClassicGuests:
    """The classic members of all consumer groups of a shard."""

    __slots__ = ("_ctx",)

    def __init__(self, ctx: Context) -> None:
        """Work in these surroundings."""
        self._ctx = ctx

    # Join

    def join(self, turn: Turn, group: ConsumerGroup, request: JoinRequest) -> JoinReply:
        """JoinGroup to a consumer group that has members. Refuses by raising."""
        self._check_join(request)
        member_id = request.member_id or self._ctx.new_uuid()
        self._check_fit(group, member_id, request)
        if (
            request.requires_known_member_id
            and not request.member_id
            and request.group_instance_id is None
        ):
            return JoinReply(ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id)
        subscription = self._ctx.embedded.read_subscription(request.protocols[0][1])
        if subscription is None:
            raise RefusedError(
                ErrorCode.UNKNOWN_SERVER_ERROR,
                "Malformed embedded consumer protocol in subscription deserialization.",
            )
        before = self._member_before(turn, group, member_id, request)
        change = self._change(group, before, request, subscription)
        replaced = group.static_member(request.group_instance_id)
        downgrades = replaced is not None and may_downgrade_replacing(self._ctx, group, replaced)
        note_subscription(self._ctx, turn, change, is_classic=True)
        if downgrades:
            assert replaced is not None, "so it can be replaced"
            after = self._downgrade(turn, change, replaced)
        else:
            after = assign_and_reconcile(self._ctx, turn, change)
            self._expect_sync(turn, group, after)
        return JoinReply(
            generation_id=after.member_epoch,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            protocol_name=_protocol_name(after),
            member_id=after.member_id,
        )

    def _check_join(self, request: JoinRequest) -> None:
        settings = self._ctx.settings
        if not (
            settings.min_session_timeout_ms
            <= request.session_timeout_ms
            <= settings.max_session_timeout_ms
        ):
            raise RefusedError(
                ErrorCode.INVALID_SESSION_TIMEOUT, "The session timeout is out of range."
            )
        if settings.consumer_migration_policy == "disabled":
            raise RefusedError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                f"Cannot join the consumer group {request.group_id} with the classic protocol "
                "because the group migration is disabled.",
            )

    def _check_fit(self, group: ConsumerGroup, member_id: str, request: JoinRequest) -> None:
        refuse_if_full(self._ctx, group, member_id)
        guests = [_names(member) for member in group.members.values() if member.classic]
        fits = any(all(name in known for known in guests) for name, _ in request.protocols)
        if request.protocol_type != CONSUMER_PROTOCOL_TYPE or not fits:
            raise RefusedError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                f"Member {member_id}'s protocols are not supported.",
            )

    def _member_before(
        self, turn: Turn, group: ConsumerGroup, member_id: str, request: JoinRequest
    ) -> Member:
        instance_id = request.group_instance_id
        if instance_id is None:
            return group.members.get(member_id) or Member(member_id)
        holder = group.static_member(instance_id)
        if request.member_id:
            return check_holder(holder, member_id, instance_id)
        if holder is None:
            return Member(member_id)
        return replace_static_member(turn, group, holder, member_id)

    def _change(
        self,
        group: ConsumerGroup,
        before: Member,
        request: JoinRequest,
        subscription: EmbeddedSubscription,
    ) -> Change:
        rebalance_timeout_ms = request.rebalance_timeout_ms
        after = replace(
            before,
            instance_id=request.group_instance_id or before.instance_id,
            rack_id=subscription.rack_id or before.rack_id,
            rebalance_timeout_ms=(
                before.rebalance_timeout_ms if rebalance_timeout_ms == -1 else rebalance_timeout_ms
            ),
            subscribed_topic_names=tuple(sorted(set(subscription.topics))),
            subscribed_topic_regex="",
            client_id=request.client_id,
            client_host=request.client_host,
            classic=ClassicMemberMetadata(request.session_timeout_ms, request.protocols),
        )
        return Change(group, before, after, by_topic_id(subscription.owned, self._ctx.topics))

    def _downgrade(self, turn: Turn, change: Change, replaced: Member) -> Member:
        """The last member of the new protocol was replaced by a guest: the group becomes a classic one."""
        group, after = change.group, change.after
        is_behind = group.assignment_epoch < change.group_epoch
        if not is_behind:
            after = reconcile(
                self._ctx, turn, change, group.assignment_epoch, group.target_of(after)
            )
        downgrade(self._ctx, turn, group, {replaced.member_id}, after, rebalance=is_behind)
        return after

    def _expect_sync(self, turn: Turn, group: ConsumerGroup, member: Member) -> None:
        assert member.classic is not None, "it just joined"
        deadlines, key = self._ctx.deadlines, (group.group_id, member.member_id)
        deadlines.forget((Watch.JOIN, *key))
        deadlines.expect((Watch.SESSION, *key), turn.now_ms + member.classic.session_timeout_ms)
        deadlines.expect((Watch.SYNC, *key), turn.now_ms + member.rebalance_timeout_ms)

    # Sync, heartbeat, leave

    def sync(self, turn: Turn, group: ConsumerGroup, request: SyncRequest) -> SyncReply:
        """SyncGroup. Refuses by raising."""
        member = _guest(group, request)
        assert member.classic is not None, "it is a guest"
        _check_protocol(member, request)
        if group.assignment_epoch > member.member_epoch and member.state != UNREVOKED_PARTITIONS:
            self._expect_join(turn, group, member)
            raise RefusedError(ErrorCode.REBALANCE_IN_PROGRESS, "The member must join again.")
        key = (group.group_id, member.member_id)
        self._ctx.deadlines.forget((Watch.SYNC, *key))
        self._ctx.expect_session(*key, turn.now_ms + member.classic.session_timeout_ms)
        partitions = by_topic_name(without_epochs(member.assigned), self._ctx.topics)
        metadata = member.classic.supported_protocols[0][1]
        return SyncReply(
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignment=self._ctx.embedded.write_assignment(partitions, metadata),
        )

    def heartbeat(
        self, turn: Turn, group: ConsumerGroup, request: HeartbeatRequest
    ) -> HeartbeatReply:
        """Heartbeat. Refuses by raising."""
        member = _guest(group, request)
        assert member.classic is not None, "it is a guest"
        self._ctx.expect_session(
            group.group_id, member.member_id, turn.now_ms + member.classic.session_timeout_ms
        )
        waited_long_enough = member.state == UNRELEASED_PARTITIONS and not group.waits_for_others(
            member
        )
        if (
            member.member_epoch < group.assignment_epoch
            or member.state == UNREVOKED_PARTITIONS
            or waited_long_enough
        ):
            self._expect_join(turn, group, member)
            return HeartbeatReply(ErrorCode.REBALANCE_IN_PROGRESS)
        return HeartbeatReply()

    def leave(self, turn: Turn, group: ConsumerGroup, request: LeaveRequest) -> LeaveReply:
        """LeaveGroup, for members of either protocol."""
        leaving: dict[str, Member] = {}
        left: list[LeftMember] = []
        for one in request.members:
            outcome = LeftMember(one.member_id, one.group_instance_id)
            try:
                member = _leaver(group, one)
            except RefusedError as refusal:
                outcome.error_code = refusal.code
            else:
                leaving[member.member_id] = member
            left.append(outcome)
        remove_members(self._ctx, turn, group, list(leaving.values()))
        return LeaveReply(members=tuple(left))

    def _expect_join(self, turn: Turn, group: ConsumerGroup, member: Member) -> None:
        subject = (Watch.JOIN, group.group_id, member.member_id)
        if subject not in self._ctx.deadlines:
            self._ctx.deadlines.expect(subject, turn.now_ms + member.rebalance_timeout_ms)


def refuse_if_full(ctx: Context, group: ConsumerGroup, member_id: str) -> None:
    """Refuse a new member when the group has as many as it may have."""
    limit = ctx.settings.consumer_max_size
    if len(group.members) >= limit and member_id not in group.members:
        raise RefusedError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The consumer group has reached its maximum capacity of {limit} members.",
        )


def check_holder(holder: Member | None, member_id: str, instance_id: str) -> Member:
    """Give the holder of an instance id, if it is who asks."""
    if holder is None:
        raise RefusedError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if holder.member_id != member_id:
        raise RefusedError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced "
            f"by member {holder.member_id}.",
        )
    return holder


def _guest(group: ConsumerGroup, request: SyncRequest | HeartbeatRequest) -> Member:
    """Find the classic member that asks, in the generation it says."""
    if request.group_instance_id is None:
        member = group.member(request.member_id)
    else:
        holder = group.static_member(request.group_instance_id)
        member = check_holder(holder, request.member_id, request.group_instance_id)
    if not member.uses_classic_protocol:
        raise RefusedError(
            ErrorCode.UNKNOWN_MEMBER_ID,
            f"Member {member.member_id} does not use the classic protocol.",
        )
    if member.member_epoch != request.generation_id:
        raise RefusedError(
            ErrorCode.ILLEGAL_GENERATION,
            f"The request generation id {request.generation_id} is not equal to the member epoch "
            f"{member.member_epoch} of member {member.member_id}.",
        )
    return member


def _leaver(group: ConsumerGroup, one: LeavingMember) -> Member:
    if one.group_instance_id is None:
        return group.member(one.member_id)
    holder = group.static_member(one.group_instance_id)
    if holder is not None and not one.member_id:
        return holder  # an administrator removes whoever holds the instance id
    return check_holder(holder, one.member_id, one.group_instance_id)


def _check_protocol(member: Member, request: SyncRequest) -> None:
    wrong_type = request.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE)
    if wrong_type or request.protocol_name not in (None, _protocol_name(member)):
        raise RefusedError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            "The protocol is not the one that the answer to JoinGroup named.",
        )


def _protocol_name(member: Member) -> str:
    assert member.classic is not None, "it is a guest"
    return member.classic.supported_protocols[0][0]


def _names(member: Member) -> set[str]:
    assert member.classic is not None, "it is a guest"
    return {name for name, _ in member.classic.supported_protocols}
