"""How one member comes from what it owns to what it shall own.

| the member is         | and                                    | then                                               |
|-----------------------|----------------------------------------|----------------------------------------------------|
| STABLE                | its epoch is not the target's          | step towards the target                            |
| STABLE                | its subscription changed               | give up what it does not read any more             |
| UNREVOKED_PARTITIONS  | it still owns what it must give up     | wait                                               |
| UNREVOKED_PARTITIONS  | it says it does not own them any more  | step towards the target                            |
| UNRELEASED_PARTITIONS |                                        | step towards the target: something may be free now |

A step first takes away: while there is something to give up that the member has not yet said it gave up, it stays in
its epoch. Only then it enters the target's epoch and gets those of its partitions that nobody holds.

Job: plan that step. Must not know: requests, other members (a question tells who holds a partition), deadlines.
Invariants: a partition that somebody else holds is never given; an epoch never falls.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from barnabas.core.group.consumer.group import (
    STABLE,
    UNRELEASED_PARTITIONS,
    UNREVOKED_PARTITIONS,
    Member,
)
from barnabas.core.group.consumer.requests import RefusedError
from barnabas.model.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping, Sequence

    from barnabas.core.group.records import TopicPartitionEpochs, TopicPartitions

    Owned = Mapping[bytes, Sequence[int]] | None


@dataclass(slots=True)
class Goal:
    """Where a member shall go and what is known on the way."""

    target_epoch: int
    target: TopicPartitions
    #: Ids of the topics that the member reads now.
    subscribed: Container[bytes]
    subscription_changed: bool
    #: Who holds a partition.
    owner: Callable[[bytes, int], str | None]
    #: What the member says it owns; None: it did not say.
    owned: Owned


class _Shares(NamedTuple):
    kept: TopicPartitionEpochs
    to_revoke: TopicPartitionEpochs
    to_assign: dict[bytes, list[int]]
    waits_for_others: bool


def plan_reconciliation(member: Member, goal: Goal) -> Member:
    """Give the member after one step; the same object when nothing changes."""
    if member.state == STABLE:
        if member.member_epoch != goal.target_epoch:
            return _step(member, goal)
        return _drop_unread(member, goal) if goal.subscription_changed else member
    if member.state == UNREVOKED_PARTITIONS:
        if _owns_any(goal.owned, member.pending_revocation):
            return _drop_unread(member, goal) if goal.subscription_changed else member
        return _step(member, goal)
    if member.state == UNRELEASED_PARTITIONS:
        return _step(member, goal)
    # Written by a newer coordinator: start it from nothing.
    if goal.owned is None or goal.owned:
        raise RefusedError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            "The consumer group member is in a unknown state. "
            "The member must abandon all its partitions and rejoin.",
        )
    return _step(replace(member, member_epoch=goal.target_epoch), goal)


def _step(member: Member, goal: Goal) -> Member:
    shares = _share_out(member, goal)
    if shares.to_revoke and _owns_any(goal.owned, shares.to_revoke):
        after = member.at_epoch(
            member.member_epoch,
            state=UNREVOKED_PARTITIONS,
            assigned=shares.kept,
            pending_revocation=shares.to_revoke,
        )
    else:
        assigned = shares.kept
        for topic_id, partitions in shares.to_assign.items():
            given = dict.fromkeys(partitions, goal.target_epoch)
            assigned[topic_id] = {**assigned.get(topic_id, {}), **given}
        after = member.at_epoch(
            goal.target_epoch,
            state=UNRELEASED_PARTITIONS if shares.waits_for_others else STABLE,
            assigned=assigned,
            pending_revocation={},
        )
    return member if after == member else after


def _share_out(member: Member, goal: Goal) -> _Shares:
    """Split what it has and shall have into what stays, goes, comes, and is not free yet."""
    kept: TopicPartitionEpochs = {}
    to_revoke: TopicPartitionEpochs = {}
    to_assign: dict[bytes, list[int]] = {}
    waits_for_others = False
    target = {
        topic_id: partitions
        for topic_id, partitions in goal.target.items()
        if topic_id in goal.subscribed
    }
    for topic_id, epochs in member.assigned.items():
        wanted = frozenset(target.get(topic_id, ()))
        stays = {partition: epoch for partition, epoch in epochs.items() if partition in wanted}
        goes = {partition: epoch for partition, epoch in epochs.items() if partition not in wanted}
        if stays:
            kept[topic_id] = stays
        if goes:
            to_revoke[topic_id] = goes
    for topic_id, partitions in target.items():
        has = member.assigned.get(topic_id, {})
        gave_up = member.pending_revocation.get(topic_id, {})
        for partition in partitions:
            if partition in has:
                continue
            # What it was to give up itself it may keep after all: nobody else can hold it.
            if goal.owner(topic_id, partition) is None or partition in gave_up:
                to_assign.setdefault(topic_id, []).append(partition)
            else:
                waits_for_others = True
    return _Shares(kept, to_revoke, to_assign, waits_for_others)


def _drop_unread(member: Member, goal: Goal) -> Member:
    """Take away the topics it does not read any more, in the epoch it is in."""
    unread = {
        topic_id: partitions
        for topic_id, partitions in member.assigned.items()
        if topic_id not in goal.subscribed
    }
    if not unread:
        return member
    assigned = {
        topic_id: partitions
        for topic_id, partitions in member.assigned.items()
        if topic_id not in unread
    }
    pending = dict(member.pending_revocation)
    for topic_id, partitions in unread.items():
        pending[topic_id] = {**pending.get(topic_id, {}), **partitions}
    if _owns_any(goal.owned, pending):
        return member.at_epoch(
            member.member_epoch,
            state=UNREVOKED_PARTITIONS,
            assigned=assigned,
            pending_revocation=pending,
        )
    return member.at_epoch(member.member_epoch, assigned=assigned)


def _owns_any(owned: Owned, partitions: TopicPartitionEpochs) -> bool:
    """Tell whether the member may still own one of these: it does until it says otherwise."""
    if owned is None:
        return True
    return any(
        partition in partitions.get(topic_id, ())
        for topic_id, mine in owned.items()
        for partition in mine
    )
