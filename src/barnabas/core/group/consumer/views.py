"""A consumer group as ConsumerGroupDescribe shows it.

Job: read a group into plain values. Must not know: how the group came to this state; changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.group.consumer.group import without_epochs
from barnabas.core.group.consumer.requests import (
    DescribedConsumer,
    DescribedConsumerGroup,
    DescribedTopicPartitions,
)

if TYPE_CHECKING:
    from barnabas.core.group.consumer.group import ConsumerGroup, Member
    from barnabas.core.group.records import TopicPartitions
    from barnabas.core.group.topic_view import TopicView

_CLASSIC, _CONSUMER = 0, 1


def described_group(
    group: ConsumerGroup, default_assignor: str, topics: TopicView
) -> DescribedConsumerGroup:
    """Give the whole picture."""
    return DescribedConsumerGroup(
        group.group_id,
        group_state=group.state_name,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.preferred_assignor() or default_assignor,
        members=tuple(
            _described_member(member, group.target.get(member.member_id, {}), topics)
            for member in group.members.values()
        ),
    )


def _described_member(
    member: Member, target: TopicPartitions, topics: TopicView
) -> DescribedConsumer:
    # What it has yet to give up is still its own.
    held = {
        topic_id: {**partitions, **member.pending_revocation.get(topic_id, {})}
        for topic_id, partitions in {**member.pending_revocation, **member.assigned}.items()
    }
    return DescribedConsumer(
        member.member_id,
        member.instance_id,
        member.rack_id,
        member.member_epoch,
        member.client_id,
        member.client_host,
        member.subscribed_topic_names,
        member.subscribed_topic_regex,
        _named(without_epochs(held), topics),
        _named(target, topics),
        _CLASSIC if member.uses_classic_protocol else _CONSUMER,
    )


def _named(partitions: TopicPartitions, topics: TopicView) -> tuple[DescribedTopicPartitions, ...]:
    """Name the topics; those that are gone are left out."""
    named = []
    for topic_id, numbers in partitions.items():
        topic = topics.by_id(topic_id)  # type: ignore[arg-type]
        if topic is not None:
            named.append(DescribedTopicPartitions(topic_id, topic.name, tuple(numbers)))
    return tuple(named)
