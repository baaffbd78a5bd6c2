"""How a change of one member moves a consumer group: epoch, target assignment, the member's own assignment.

Job: the steps that a heartbeat and a classic JoinGroup have in common, and the removal of members. Must not know:
requests and replies, deadlines' meaning, how partitions are shared.

Invariants: nothing durable changes here, everything goes into the turn's records; the group's epoch rises by one when
who reads what changed, and the target assignment follows it; an expression is tried only after it compiled.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from barnabas.core.group import records as r
from barnabas.core.group.consumer.deadlines import Watch
from barnabas.core.group.consumer.group import UNREVOKED_PARTITIONS, Member, removal_of
from barnabas.core.group.consumer.reconcile import Goal, plan_reconciliation
from barnabas.core.group.consumer.subscription import compile_pattern, resolve_patterns
from barnabas.core.group.consumer.target import plan_target
from barnabas.core.group.consumer.upgrade import downgrade

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from barnabas.core.group.consumer.context import Context, Turn
    from barnabas.core.group.consumer.group import ConsumerGroup
    from barnabas.core.group.consumer.reconcile import Owned
    from barnabas.core.group.consumer.subscription import Subscriptions
    from barnabas.core.group.topic_view import TopicView

#: Expressions of a group are not tried more often than this, whatever happens to topics (as in Kafka).
REGEX_MIN_INTERVAL_MS: Final = 10_000


@dataclass(slots=True)
class Change:
    """A member before and after what its request says of it."""

    group: ConsumerGroup
    before: Member
    after: Member
    #: What it says it owns.
    owned: Owned
    may_describe: Callable[[str], bool] | None = None
    group_epoch: int = 0
    subscription_changed: bool = False


class SubscribedTopics:
    """The ids of the topics that a member reads, without a list of them."""

    __slots__ = ("_names", "_resolved", "_view")

    def __init__(self, group: ConsumerGroup, member: Member, view: TopicView) -> None:
        """Ask for this member."""
        resolved = group.resolved.get(member.subscribed_topic_regex or "")
        self._names = member.subscribed_topic_names
        self._resolved = () if resolved is None else resolved.topics
        self._view = view

    def __contains__(self, topic_id: object) -> bool:
        """Tell whether the member reads the topic; one that is gone is read by nobody."""
        topic = self._view.by_id(topic_id)  # type: ignore[arg-type]
        if topic is None:
            return False
        return _is_in(topic.name, self._names) or _is_in(topic.name, self._resolved)


def _is_in(name: str, names: Sequence[str]) -> bool:
    place = bisect_left(names, name)
    return place < len(names) and names[place] == name


# --- Subscription and epoch ------------------------------------------------------------------------------------------


def note_subscription(
    ctx: Context, turn: Turn, change: Change, *, is_classic: bool = False
) -> None:
    """Write down what the member says of itself, and raise the group's epoch if who reads what changed."""
    group, before, after = change.group, change.before, change.after
    if after != before:
        turn.records.append(after.subscription_record(group.group_id))
    names_changed = after.subscribed_topic_names != before.subscribed_topic_names
    regex_changed, is_resolved = _note_regex(ctx, turn, change)
    change.subscription_changed = names_changed or regex_changed
    # An expression that is not resolved yet changes nothing yet; its resolution will raise the epoch.
    bump = change.subscription_changed if is_classic else names_changed or is_resolved
    change.group_epoch = group.group_epoch
    if not (bump or group.metadata_is_stale):
        return
    metadata_hash = ctx.hashes.of_group(_subscriptions_after(change).topics())
    if bump or metadata_hash != group.metadata_hash:
        change.group_epoch += 1
        turn.records.append(r.ConsumerGroupEpoch(group.group_id, change.group_epoch, metadata_hash))
    group.metadata_checked_epoch = change.group_epoch
    if group.has_partition_metadata_record:
        turn.records.append(r.ConsumerGroupPartitionMetadataRemoved(group.group_id))


def _subscriptions_after(change: Change) -> Subscriptions:
    group, before, after = change.group, change.before, change.after
    counts = group.subscriptions.copy()
    counts.add_member(before.subscribed_topic_names, before.subscribed_topic_regex, -1)
    counts.add_member(after.subscribed_topic_names, after.subscribed_topic_regex)
    old = before.subscribed_topic_regex
    if old and old not in counts.regexes and old in group.resolved:
        counts.add_matches(group.resolved[old].topics, -1)
    return counts


def _note_regex(ctx: Context, turn: Turn, change: Change) -> tuple[bool, bool]:
    """Take a member's expression; tell whether it changed, and whether that changes what the group reads at once."""
    group = change.group
    old, new = change.before.subscribed_topic_regex, change.after.subscribed_topic_regex
    counts = group.subscriptions.regexes
    is_new = is_resolved = False
    if old != new:
        if old and counts.get(old) == 1:
            turn.records.append(r.ResolvedRegularExpressionRemoved(group.group_id, old))
        if new:
            is_new = new not in counts
            if is_new:
                compile_pattern(new)
            is_resolved = not is_new and new in group.resolved
        else:
            is_resolved = bool(old)
    if is_new or counts:
        _schedule_regexes(ctx, turn, change, is_new)
    return old != new, is_resolved


def _schedule_regexes(ctx: Context, turn: Turn, change: Change, is_new: bool) -> None:
    group = change.group
    if group.regexes_are_tried or _were_just_tried(group, turn.wall_ms):
        return
    counts = group.subscriptions.copy()
    counts.add_member((), change.before.subscribed_topic_regex, -1)
    counts.add_member((), change.after.subscribed_topic_regex)
    is_due = is_new or len(counts.regexes) != len(group.resolved)
    if counts.regexes and (is_due or regexes_are_due(ctx, group, turn.wall_ms)):
        group.regexes_are_tried = True
        ctx.regex_eyes[group.group_id] = change.may_describe
        ctx.deadlines.expect((Watch.REGEX, group.group_id, ""), turn.now_ms)


def _tried_ms(group: ConsumerGroup) -> int:
    """Tell the wall-clock time of the last attempt."""
    for resolved in group.resolved.values():
        return resolved.timestamp_ms
    return -REGEX_MIN_INTERVAL_MS - 1


def _were_just_tried(group: ConsumerGroup, wall_ms: int) -> bool:
    # A time that is to come was written before the clock was set back: it must not hold the group up until it comes.
    return 0 <= wall_ms - _tried_ms(group) <= REGEX_MIN_INTERVAL_MS


def regexes_are_due(ctx: Context, group: ConsumerGroup, wall_ms: int) -> bool:
    """Tell whether the group's expressions should be tried, as far as time and topics go."""
    if group.regexes_are_tried or _were_just_tried(group, wall_ms):
        return False
    if group.regexes_are_stale or len(group.subscriptions.regexes) != len(group.resolved):
        return True
    return wall_ms > _tried_ms(group) + ctx.settings.consumer_regex_refresh_interval_ms


def try_regexes(ctx: Context, turn: Turn, group: ConsumerGroup) -> None:
    """Match the group's expressions with the topics there are; raise the epoch if that changes what is read."""
    group.regexes_are_tried = group.regexes_are_stale = False
    eyes = ctx.regex_eyes.pop(group.group_id, None)
    found = resolve_patterns(group.subscriptions.regexes, ctx.topics.names(), eyes)
    counts = group.subscriptions.copy()
    changed = False
    for regex, topics in found.items():
        known = group.resolved.get(regex)
        before = () if known is None else known.topics
        if before != topics:
            changed = True
            counts.add_matches(before, -1)
            counts.add_matches(topics)
        elif known is None:
            changed = changed or _has_unread_target(ctx, group, regex)
        turn.records.append(
            r.ResolvedRegularExpression(
                group.group_id, regex, topics, ctx.topics_version, turn.wall_ms
            )
        )
    metadata_hash = ctx.hashes.of_group(counts.topics())
    if changed or metadata_hash != group.metadata_hash:
        epoch = group.metadata_checked_epoch = group.group_epoch + 1
        turn.records.append(r.ConsumerGroupEpoch(group.group_id, epoch, metadata_hash))


def _has_unread_target(ctx: Context, group: ConsumerGroup, regex: str) -> bool:
    """Tell whether a member came to an expression that matches nothing from topics that are still kept for it.

    Others may read those topics, so that nothing else tells the group to share them out again.
    """
    return any(
        topic_id not in SubscribedTopics(group, member, ctx.topics)
        for member in group.members.values()
        if member.subscribed_topic_regex == regex
        for topic_id in group.target.get(member.member_id, ())
    )


# --- Target and reconciliation ---------------------------------------------------------------------------------------


def assign_and_reconcile(ctx: Context, turn: Turn, change: Change) -> Member:
    """Bring the target assignment up to the group's epoch, and the member a step nearer to it."""
    group = change.group
    epoch, target = group.assignment_epoch, group.target_of(change.after)
    if epoch < change.group_epoch and _may_assign(ctx, turn, group):
        assignor = group.preferred_assignor(change.before, change.after)
        plan = plan_target(
            group,
            change.after,
            change.group_epoch,
            ctx.topics,
            assignor or ctx.settings.consumer_assignors[0],
            turn.wall_ms,
        )
        turn.records += plan.records
        epoch, target = plan.epoch, plan.of_member
    return reconcile(ctx, turn, change, epoch, target)


def _may_assign(ctx: Context, turn: Turn, group: ConsumerGroup) -> bool:
    """Tell whether the last target is old enough: members come in crowds, and each would be a computation."""
    interval_ms = ctx.assignment_interval_ms(group.group_id)
    if not group.assignment_timestamp_ms or not interval_ms:
        return True
    # A time that is to come was written before the clock was set back: it must not hold the group up until it comes.
    return not 0 <= turn.wall_ms - group.assignment_timestamp_ms < interval_ms


def reconcile(
    ctx: Context, turn: Turn, change: Change, target_epoch: int, target: r.TopicPartitions
) -> Member:
    """Bring the member a step nearer to a target."""
    group, member = change.group, change.after
    if not change.subscription_changed and member.is_reconciled_to(target_epoch):
        return member
    goal = Goal(
        target_epoch,
        target,
        SubscribedTopics(group, member, ctx.topics),
        change.subscription_changed,
        group.owner,
        change.owned,
    )
    after = plan_reconciliation(member, goal)
    if after is not member:
        turn.records.append(after.assignment_record(group.group_id))
        if not after.uses_classic_protocol:
            _watch_revocation(ctx, turn, group, after)
    return after


def _watch_revocation(ctx: Context, turn: Turn, group: ConsumerGroup, member: Member) -> None:
    subject = (Watch.REBALANCE, group.group_id, member.member_id)
    if member.state == UNREVOKED_PARTITIONS:
        expect_revocation(ctx, group, member, turn.now_ms)
    else:
        ctx.deadlines.forget(subject)


def expect_revocation(ctx: Context, group: ConsumerGroup, member: Member, now_ms: int) -> None:
    """Give a member its rebalance timeout to give its partitions up."""
    ctx.revoking_epochs[group.group_id, member.member_id] = member.member_epoch
    ctx.deadlines.expect(
        (Watch.REBALANCE, group.group_id, member.member_id), now_ms + member.rebalance_timeout_ms
    )


# --- Members come back and go ----------------------------------------------------------------------------------------


def replace_static_member(turn: Turn, group: ConsumerGroup, old: Member, member_id: str) -> Member:
    """Put a static member that comes back under a new id into its own old place."""
    new = replace(old, member_id=member_id, member_epoch=0, previous_member_epoch=0)
    turn.records += removal_of(group.group_id, old.member_id)
    turn.records.append(new.subscription_record(group.group_id))
    target = group.target.get(old.member_id, {})
    turn.records.append(r.TargetAssignment(group.group_id, member_id, target))
    turn.records.append(new.assignment_record(group.group_id))
    return new


def remove_members(ctx: Context, turn: Turn, group: ConsumerGroup, members: list[Member]) -> None:
    """Let members go. If only classic ones stay, the group becomes a classic group."""
    if not members:
        return
    gone = {member.member_id for member in members}
    if may_downgrade(ctx, group, gone):
        downgrade(ctx, turn, group, gone)
        return
    counts = group.subscriptions.copy()
    for member in members:
        turn.records += removal_of(group.group_id, member.member_id)
        counts.add_member(member.subscribed_topic_names, member.subscribed_topic_regex, -1)
    for regex in group.subscriptions.regexes:
        if regex not in counts.regexes:
            turn.records.append(r.ResolvedRegularExpressionRemoved(group.group_id, regex))
            if regex in group.resolved:
                counts.add_matches(group.resolved[regex].topics, -1)
    metadata_hash = ctx.hashes.of_group(counts.topics())
    epoch = group.group_epoch + 1
    turn.records.append(r.ConsumerGroupEpoch(group.group_id, epoch, metadata_hash))
    for member in members:
        ctx.deadlines.forget_member(group.group_id, member.member_id)


def may_downgrade(ctx: Context, group: ConsumerGroup, gone: set[str]) -> bool:
    """Tell whether without these members (some may stay, in other hands) only classic ones are left."""
    staying = [member for member in group.members.values() if member.member_id not in gone]
    return (
        ctx.settings.may_downgrade
        and 0 < len(staying) <= ctx.settings.max_size
        and all(member.uses_classic_protocol for member in staying)
    )


def may_downgrade_replacing(ctx: Context, group: ConsumerGroup, replaced: Member) -> bool:
    """Tell whether only classic members are in the group once a classic one replaces this one."""
    return (
        ctx.settings.may_downgrade
        and not replaced.uses_classic_protocol
        and group.classic_member_count == len(group.members) - 1
        and len(group.members) <= ctx.settings.max_size
    )
