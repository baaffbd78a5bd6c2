"""ConsumerGroupHeartbeat: the one request with which a member of a consumer group joins, lives, changes and leaves.

| member epoch | meaning                                        |
|--------------|------------------------------------------------|
| 0            | join, or join again from nothing               |
| > 0          | live in this epoch, perhaps say what changed   |
| -1           | leave                                          |
| -2           | a static member leaves for a while             |

Job: that request. Must not know: how an assignment is made or reached (`membership` moves the group).
Invariants: a refusal changes nothing; a member that is not at its epoch (or the one before, if its last answer was lost)
is fenced; a heartbeat with nothing new costs a few look-ups and writes nothing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from barnabas.core.group.classic.group import ClassicGroup
from barnabas.core.group.consumer.classic_guests import check_holder, refuse_if_full
from barnabas.core.group.consumer.group import ConsumerGroup, Member, without_epochs
from barnabas.core.group.consumer.membership import (
    Change,
    assign_and_reconcile,
    note_subscription,
    regexes_are_due,
    remove_members,
    replace_static_member,
)
from barnabas.core.group.consumer.requests import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerHeartbeatReply,
    RefusedError,
    check_heartbeat,
)
from barnabas.core.group.consumer.upgrade import upgrade
from barnabas.model.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from barnabas.core.group.consumer.context import Context, Turn
    from barnabas.core.group.consumer.requests import ConsumerHeartbeatRequest
    from barnabas.core.group.records import TopicPartitionEpochs


class Heartbeats:
    """The heartbeats of all consumer groups of a shard."""

    __slots__ = ("_ctx",)

    def __init__(self, ctx: Context) -> None:
        """Work in these surroundings."""
        self._ctx = ctx

    def heartbeat(self, turn: Turn, request: ConsumerHeartbeatRequest) -> ConsumerHeartbeatReply:
        """Take a heartbeat. Refuses by raising."""
        check_heartbeat(request, self._ctx.settings.consumer_assignors)
        if request.member_epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH):
            return self._leave(turn, request)
        return self._live(turn, request)

    def nothing_new(
        self, request: ConsumerHeartbeatRequest, now_ms: int, wall_ms: int
    ) -> ConsumerHeartbeatReply | None:
        """Answer a heartbeat that changes nothing, by far the most; None when there is more to it."""
        group = self._ctx.groups.get(request.group_id)
        if not isinstance(group, ConsumerGroup):
            return None
        member = group.members.get(request.member_id)
        if (
            member is None
            or request.member_epoch != member.member_epoch
            or not member.is_reconciled_to(group.assignment_epoch)
            or group.group_epoch > group.assignment_epoch
            or group.metadata_is_stale
            or _says_something(member, request)
        ):
            return None
        if group.subscriptions.regexes and regexes_are_due(self._ctx, group, wall_ms):
            return None
        return self._reply(now_ms, group, member)

    def _reply(self, now_ms: int, group: ConsumerGroup, member: Member) -> ConsumerHeartbeatReply:
        group_id = group.group_id
        timeout_ms, interval_ms = self._ctx.member_times(group_id)
        self._ctx.expect_session(group_id, member.member_id, now_ms + timeout_ms)
        return ConsumerHeartbeatReply(
            ErrorCode.NONE, None, member.member_id, member.member_epoch, interval_ms
        )

    # Join and live

    def _live(self, turn: Turn, request: ConsumerHeartbeatRequest) -> ConsumerHeartbeatReply:
        joins = request.member_epoch == JOIN_EPOCH
        group = self._group(turn, request, joins=joins)
        refuse_if_full(self._ctx, group, request.member_id)
        member_id = request.member_id or self._ctx.new_uuid()
        if request.instance_id is None:
            before = _dynamic_member(group, member_id, request)
        else:
            before = _static_member(turn, group, member_id, request)
        change = Change(
            group,
            before,
            _updated(before, request),
            request.topic_partitions,
            request.may_describe,
        )
        note_subscription(self._ctx, turn, change)
        after = assign_and_reconcile(self._ctx, turn, change)
        reply = self._reply(turn.now_ms, group, after)
        if joins or _is_full(request) or after.assigned != before.assigned:
            reply.assignment = without_epochs(after.assigned)
        return reply

    def _group(
        self, turn: Turn, request: ConsumerHeartbeatRequest, *, joins: bool
    ) -> ConsumerGroup:
        group_id = request.group_id
        group = self._ctx.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return group
        if group is None and not joins:
            raise RefusedError(
                ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {group_id} not found."
            )
        if not joins:
            raise _not_a_consumer_group(group_id)
        if group is None:
            return ConsumerGroup(group_id)
        if group.is_empty:
            turn.records += group.removal_records()
            return ConsumerGroup(group_id)
        assert isinstance(group, ClassicGroup), "there are two kinds of groups"
        return upgrade(self._ctx, turn, group)

    # Leave

    def _leave(self, turn: Turn, request: ConsumerHeartbeatRequest) -> ConsumerHeartbeatReply:
        group = self._ctx.groups.get(request.group_id)
        if group is None:
            raise RefusedError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} not found.")
        if not isinstance(group, ConsumerGroup):
            raise _not_a_consumer_group(request.group_id)
        if request.instance_id is None:
            member = group.member(request.member_id)
        else:
            holder = group.static_member(request.instance_id)
            member = check_holder(holder, request.member_id, request.instance_id)
            if request.member_epoch == STATIC_LEAVE_EPOCH:
                turn.records.append(_away(member).assignment_record(group.group_id))
                return ConsumerHeartbeatReply(
                    member_id=member.member_id, member_epoch=STATIC_LEAVE_EPOCH
                )
        remove_members(self._ctx, turn, group, [member])
        return ConsumerHeartbeatReply(
            member_id=request.member_id, member_epoch=request.member_epoch
        )


def _not_a_consumer_group(group_id: str) -> RefusedError:
    return RefusedError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")


def _away(member: Member) -> Member:
    """Give a static member while it is away: it keeps its partitions, as if assigned from the beginning."""
    return replace(
        member,
        member_epoch=STATIC_LEAVE_EPOCH,
        pending_revocation={},
        assigned={
            topic_id: dict.fromkeys(partitions, 0)
            for topic_id, partitions in member.assigned.items()
        },
    )


def _dynamic_member(
    group: ConsumerGroup, member_id: str, request: ConsumerHeartbeatRequest
) -> Member:
    if request.member_epoch == JOIN_EPOCH:
        return group.members.get(member_id) or Member(member_id)
    return _check_epoch(group.member(member_id), request)


def _static_member(
    turn: Turn, group: ConsumerGroup, member_id: str, request: ConsumerHeartbeatRequest
) -> Member:
    instance_id = request.instance_id or ""
    holder = group.static_member(instance_id)
    if request.member_epoch != JOIN_EPOCH:
        return _check_epoch(check_holder(holder, member_id, instance_id), request)
    if holder is None:
        return group.members.get(member_id) or Member(member_id)
    if not holder.uses_classic_protocol and holder.member_epoch != STATIC_LEAVE_EPOCH:
        raise RefusedError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} cannot join the group "
            f"because the instance id is owned by {holder.member_id} member.",
        )
    return replace_static_member(turn, group, holder, member_id)


def _check_epoch(member: Member, request: ConsumerHeartbeatRequest) -> Member:
    received, known = request.member_epoch, member.member_epoch
    if received > known:
        raise _fenced("greater", received, known)
    if received < known and not (
        # Its last answer may have been lost: it comes from the epoch before, and owns nothing it may not.
        received == member.previous_member_epoch
        and _is_within(request.topic_partitions, member.assigned)
    ):
        raise _fenced("smaller", received, known)
    return member


def _fenced(how: str, received: int, known: int) -> RefusedError:
    return RefusedError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {how} member epoch ({received}) than the one known by "
        f"the group coordinator ({known}). The member must abandon all its partitions and rejoin.",
    )


def _is_within(owned: Mapping[bytes, Sequence[int]] | None, assigned: TopicPartitionEpochs) -> bool:
    if owned is None:
        return False
    return all(
        topic_id in assigned and all(partition in assigned[topic_id] for partition in partitions)
        for topic_id, partitions in owned.items()
    )


def _says_something(member: Member, request: ConsumerHeartbeatRequest) -> bool:
    """Tell whether a heartbeat says more than that the member lives."""
    return (
        member.classic is not None
        or request.subscribed_topic_names is not None
        or request.subscribed_topic_regex is not None
        or request.server_assignor is not None
        or request.rebalance_timeout_ms != -1
        or request.instance_id != member.instance_id
        or (request.rack_id is not None and request.rack_id != member.rack_id)
        or request.client_id != member.client_id
        or request.client_host != member.client_host
    )


def _updated(member: Member, request: ConsumerHeartbeatRequest) -> Member:
    """Give the member with what the request says of it; what is left out stays."""
    names, regex = request.subscribed_topic_names, request.subscribed_topic_regex
    timeout_ms = request.rebalance_timeout_ms
    return replace(
        member,
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        server_assignor=request.server_assignor or member.server_assignor,
        subscribed_topic_names=(
            member.subscribed_topic_names if names is None else tuple(sorted(set(names)))
        ),
        subscribed_topic_regex=member.subscribed_topic_regex if regex is None else regex,
        client_id=request.client_id,
        client_host=request.client_host,
        classic=None,
    )


def _is_full(request: ConsumerHeartbeatRequest) -> bool:
    """Tell whether the member said everything: it does after an error, and wants to hear everything too."""
    says_what = (
        request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    )
    return request.rebalance_timeout_ms != -1 and says_what and request.topic_partitions is not None
