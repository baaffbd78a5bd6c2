"""A group changes its protocol while it has members: classic to consumer and back (KIP-848, `group.consumer.migration.policy`).

A classic group becomes a consumer group when the first member comes with the new protocol; it becomes a classic group
again when the last such member leaves. Its members, their epochs (the generation), subscriptions and assignments go over.

Job: turn one kind of group into the records of the other. Must not know: who asked, bytes of the embedded protocol (a port
reads and writes them).
Invariants: an upgrade changes nothing but the turn until it is completed, since the request that brings it about may still be
refused; the records take the old group back before they bring the new one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.group import records as r
from barnabas.core.group.consumer.deadlines import Watch
from barnabas.core.group.consumer.group import ConsumerGroup, Member
from barnabas.core.group.consumer.requests import RefusedError
from barnabas.model.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from barnabas.core.group.classic.group import ClassicGroup
    from barnabas.core.group.classic.member import Member as ClassicMember
    from barnabas.core.group.classic.requests import Protocols
    from barnabas.core.group.consumer.context import Context, Turn
    from barnabas.core.group.topic_view import TopicView

CONSUMER_PROTOCOL_TYPE = "consumer"


# --- Classic to consumer ---------------------------------------------------------------------------------------------


def upgrade(ctx: Context, turn: Turn, classic: ClassicGroup) -> ConsumerGroup:
    """Write the move of a classic group with members, and give the group as it will be; or refuse.

    What cannot be taken back is left to `complete_upgrade`.
    """
    _check_upgrade(ctx, classic)
    members = [_consumer_member(ctx, classic, member) for member in classic.members.values()]
    group = ConsumerGroup(classic.group_id)
    names = {name for member in members for name in member.subscribed_topic_names}
    records = _group_records(classic, members, ctx.hashes.of_group(names))
    _refuse_shared(members)
    for record in records:
        group.replay(record)
    turn.records += [*classic.removal_records(), *records]
    turn.upgraded = {
        member.member_id: member.classic.session_timeout_ms
        for member in members
        if member.classic is not None
    }
    return group


def complete_upgrade(ctx: Context, turn: Turn, group_id: str) -> None:
    """Tell who waits in the classic group to join again, and watch its members: the request that upgrades it is accepted."""
    turn.replies += ctx.classic.release(group_id, turn.now_ms)
    for member_id, session_timeout_ms in turn.upgraded.items():
        ctx.expect_session(group_id, member_id, turn.now_ms + session_timeout_ms)


def _check_upgrade(ctx: Context, classic: ClassicGroup) -> None:
    if not ctx.settings.may_upgrade:
        raise _no_upgrade(classic, "online upgrade is disabled")
    if not classic.uses_consumer_protocol:
        raise _no_upgrade(classic, "the group does not use the consumer embedded protocol")
    if len(classic.members) > ctx.settings.consumer_max_size:
        raise _no_upgrade(classic, "the group size exceeds the consumer group maximum size")


def _no_upgrade(classic: ClassicGroup, why: str) -> RefusedError:
    return RefusedError(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Cannot upgrade classic group {classic.group_id} to consumer group because {why}.",
    )


def _consumer_member(ctx: Context, classic: ClassicGroup, member: ClassicMember) -> Member:
    # Before the first generation no protocol is chosen: then the member's own first choice speaks for it.
    metadata = member.metadata_by_name.get(classic.protocol_name or "", member.protocols[0][1])
    subscription = ctx.embedded.read_subscription(metadata)
    partitions: Mapping[str, Sequence[int]] = {}
    if member.assignment:
        assignment = ctx.embedded.read_assignment(member.assignment)
        if assignment is None:
            raise _no_upgrade(classic, "the embedded consumer protocol is malformed")
        if assignment.has_user_data:
            raise _no_upgrade(
                classic,
                "an unsupported custom assignor is in use. Please refer to the documentation "
                "or switch to a default assignor before re-attempting the upgrade",
            )
        partitions = assignment.partitions
    if subscription is None:
        raise _no_upgrade(classic, "the embedded consumer protocol is malformed")
    generation = classic.generation
    return Member(
        member.member_id,
        member_epoch=generation,
        previous_member_epoch=generation,
        instance_id=member.group_instance_id,
        rack_id=subscription.rack_id or None,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=tuple(sorted(set(subscription.topics))),
        assigned={
            topic_id: dict.fromkeys(numbers, generation)
            for topic_id, numbers in by_topic_id(partitions, ctx.topics).items()
        },
        classic=r.ClassicMemberMetadata(member.session_timeout_ms, member.protocols),
    )


def by_topic_id(
    partitions: Mapping[str, Sequence[int]], topics: TopicView
) -> dict[bytes, tuple[int, ...]]:
    """Turn names into ids; topics that are gone are left out."""
    found: dict[bytes, tuple[int, ...]] = {}
    for name, numbers in partitions.items():
        topic = topics.by_name(name)
        if topic is not None:
            found[topic.topic_id] = tuple(sorted(set(numbers)))
    return found


def _refuse_shared(members: list[Member]) -> None:
    """Refuse an assignment in which two members own one partition: here only one can."""
    seen: set[tuple[bytes, int]] = set()
    for member in members:
        for topic_id, partitions in member.assigned.items():
            for partition in partitions:
                if (topic_id, partition) in seen:
                    raise RefusedError(
                        ErrorCode.UNKNOWN_SERVER_ERROR,
                        f"Partition {partition} of a topic is assigned to two members.",
                    )
                seen.add((topic_id, partition))


def _group_records(
    classic: ClassicGroup, members: list[Member], metadata_hash: int
) -> list[r.Record]:
    group_id, generation = classic.group_id, classic.generation
    records: list[r.Record] = [member.subscription_record(group_id) for member in members]
    records.append(r.ConsumerGroupEpoch(group_id, generation, metadata_hash))
    records += [
        r.TargetAssignment(
            group_id,
            member.member_id,
            {topic_id: tuple(partitions) for topic_id, partitions in member.assigned.items()},
        )
        for member in members
    ]
    records.append(r.TargetAssignmentEpoch(group_id, generation, 0))
    records += [member.assignment_record(group_id) for member in members]
    return records


# --- Consumer to classic ---------------------------------------------------------------------------------------------


def downgrade(
    ctx: Context,
    turn: Turn,
    group: ConsumerGroup,
    gone: set[str],
    joining: Member | None = None,
    *,
    rebalance: bool = True,
) -> None:
    """Write the move of a group whose remaining members are all classic.

    `joining` is a static member that takes over from one of those who go; the records of that are written already.
    """
    staying = [member for member in group.members.values() if member.member_id not in gone]
    ids = list(group.members)
    targets = {member.member_id: group.target.get(member.member_id, {}) for member in staying}
    if joining is not None:
        replaced = group.static_members[joining.instance_id or ""]
        assert replaced in gone, "the joining member takes its place"
        ids = [joining.member_id if one == replaced else one for one in ids]
        targets[joining.member_id] = group.target.get(replaced, {})
        staying.append(joining)
    assert staying, "an empty group needs no other protocol"
    protocols = {member.member_id: _protocols(member) for member in staying}
    chosen = _choose(list(protocols.values()))
    saved = tuple(
        _classic_member(ctx, member, chosen, targets[member.member_id]) for member in staying
    )
    turn.records += group.removal_records_of(ids)
    turn.records.append(
        r.ClassicGroupSaved(
            group.group_id,
            CONSUMER_PROTOCOL_TYPE,
            group.group_epoch,
            chosen,
            staying[0].member_id,
            turn.wall_ms,
            saved,
        )
    )
    for member_id in group.members:
        ctx.deadlines.forget_member(group.group_id, member_id)
    # The classic side takes over once replay has built the group.
    ctx.downgraded[group.group_id] = (protocols, rebalance)
    ctx.deadlines.expect((Watch.DOWNGRADED, group.group_id, ""), turn.now_ms)


def _protocols(member: Member) -> Protocols:
    assert member.classic is not None, "only classic members stay"
    return member.classic.supported_protocols


def _choose(all_protocols: list[Protocols]) -> str:
    """Let each member vote among the protocols that all know."""
    known = [{name for name, _ in protocols} for protocols in all_protocols]
    common = set.intersection(*known)
    assert common, "a member joins only with a protocol that all know"
    votes: dict[str, int] = {}
    for protocols in all_protocols:
        choice = next(name for name, _ in protocols if name in common)
        votes[choice] = votes.get(choice, 0) + 1
    return max(votes, key=votes.__getitem__)


def _classic_member(
    ctx: Context, member: Member, protocol: str, target: r.TopicPartitions
) -> r.ClassicMember:
    assert member.classic is not None, "only classic members stay"
    metadata = dict(reversed(member.classic.supported_protocols))[protocol]
    return r.ClassicMember(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        member.classic.session_timeout_ms,
        metadata,
        ctx.embedded.write_assignment(by_topic_name(target, ctx.topics), metadata),
    )


def by_topic_name(partitions: r.TopicPartitions, topics: TopicView) -> dict[str, tuple[int, ...]]:
    """Turn ids into names; topics that are gone are left out."""
    found: dict[str, tuple[int, ...]] = {}
    for topic_id, numbers in partitions.items():
        topic = topics.by_id(topic_id)  # type: ignore[arg-type]
        if topic is not None:
            found[topic.name] = numbers
    return found
