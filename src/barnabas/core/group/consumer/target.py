"""The target assignment of a consumer group: what every member shall own in an epoch of the group.

Job: put the group before an assignor and write down what changed. Must not know: how an assignor decides, what members
own at this moment, when a new target is wanted.
Invariants: one computation per epoch of the group; records only for members whose target changed, and one for the epoch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from barnabas.core.group.consumer.assignors import MemberSpec, assign
from barnabas.core.group.records import TargetAssignment, TargetAssignmentEpoch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from barnabas.core.group.consumer.group import ConsumerGroup, Member
    from barnabas.core.group.records import Record, ResolvedRegularExpression, TopicPartitions
    from barnabas.core.group.topic_view import TopicInfo, TopicView


class Reading:
    """Turns subscriptions into the topics behind them; members with the same subscription share one answer."""

    __slots__ = ("_by_subscription", "_resolved", "_view", "topics")

    def __init__(self, view: TopicView, resolved: Mapping[str, ResolvedRegularExpression]) -> None:
        """Look topics up there; an expression without an answer matches nothing yet."""
        self._view = view
        self._resolved = resolved
        self._by_subscription: dict[tuple[tuple[str, ...], str | None], tuple[bytes, ...]] = {}
        #: Every topic that was found.
        self.topics: dict[bytes, TopicInfo] = {}

    def topic_ids(self, member: Member) -> tuple[bytes, ...]:
        """Give the ids of the existing topics that a member reads, in the order of their names."""
        key = (member.subscribed_topic_names, member.subscribed_topic_regex)
        known = self._by_subscription.get(key)
        if known is None:
            known = self._by_subscription[key] = self._look_up(*key)
        return known

    def _look_up(self, names: tuple[str, ...], regex: str | None) -> tuple[bytes, ...]:
        resolved = self._resolved.get(regex) if regex else None
        if resolved is not None:
            names = tuple(sorted({*names, *resolved.topics})) if names else resolved.topics
        found: list[bytes] = []
        for name in names:
            topic = self._view.by_name(name)
            if topic is not None:
                self.topics[topic.topic_id] = topic
                found.append(topic.topic_id)
        return tuple(found)


@dataclass(slots=True)
class TargetPlan:
    """What was decided: the records, and the target of the member that asked."""

    records: list[Record]
    epoch: int
    of_member: TopicPartitions


def plan_target(
    group: ConsumerGroup, updated: Member, epoch: int, view: TopicView, assignor: str, wall_ms: int
) -> TargetPlan:
    """Compute the target for an epoch of the group in which `updated` is (or stands in the place of) a member."""
    reading = Reading(view, group.resolved)
    members: dict[str, MemberSpec] = {}
    replaced = group.static_members.get(updated.instance_id or "")
    for member in group.members.values():
        if member.member_id not in (updated.member_id, replaced):
            members[member.member_id] = _spec(member, reading, group.target)
    members[updated.member_id] = spec = _spec(updated, reading, group.target)
    if replaced is not None:
        spec.previous = group.target.get(replaced, {})
    target = assign(assignor, members, reading.topics)
    records: list[Record] = [
        TargetAssignment(group.group_id, member_id, partitions)
        for member_id, partitions in target.items()
        if group.target.get(member_id) != partitions
    ]
    records.append(TargetAssignmentEpoch(group.group_id, epoch, wall_ms))
    return TargetPlan(records, epoch, target[updated.member_id])


def _spec(member: Member, reading: Reading, target: Mapping[str, TopicPartitions]) -> MemberSpec:
    return MemberSpec(
        reading.topic_ids(member),
        target.get(member.member_id, {}),
        member.instance_id,
        member.rack_id,
    )
