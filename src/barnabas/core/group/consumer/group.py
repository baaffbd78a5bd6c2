"""One consumer group of KIP-848 and its members: what the log says of them.

| group state | meaning                                                        |
|-------------|----------------------------------------------------------------|
| Empty       | no members                                                     |
| Assigning   | the group's epoch is ahead of the target assignment's          |
| Reconciling | some member is not yet where the target assignment wants it    |
| Stable      | every member has what it shall have                            |

| member state         | meaning                                                              |
|----------------------|----------------------------------------------------------------------|
| STABLE               | has its target of its epoch                                          |
| UNREVOKED_PARTITIONS | must give partitions up before it reaches the next epoch             |
| UNRELEASED_PARTITIONS| in the target's epoch, waits for partitions that others still hold   |

Job: the durable state, changed only by `replay`, and the questions to it. Must not know: requests, deadlines, how an
assignment is made. Soft state is named as such.

Invariants: a partition is held (assigned or to be given up) by one member at a time; `subscriptions`, `static_members`
and `owners` agree with the members; a member is replaced as a whole, never changed in place.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from barnabas.core.group import records as r
from barnabas.core.group.classic.requests import ListedGroup
from barnabas.core.group.consumer.requests import LEAVE_EPOCH, RefusedError
from barnabas.core.group.consumer.subscription import Subscriptions
from barnabas.model.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

STABLE: Final = 0
UNREVOKED_PARTITIONS: Final = 1
UNRELEASED_PARTITIONS: Final = 2

#: A new group stands at epoch 1 with an (empty) target assignment of epoch 1, as in Kafka.
FIRST_EPOCH: Final = 1
NO_ASSIGNMENT_EPOCH: Final = -1


@dataclass(slots=True)
class Member:
    """A member of a consumer group; the defaults are those of one that has not joined yet."""

    member_id: str
    member_epoch: int = 0
    previous_member_epoch: int = -1
    state: int = STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: tuple[str, ...] = ()  # sorted, each once
    subscribed_topic_regex: str | None = ""
    server_assignor: str | None = None
    assigned: r.TopicPartitionEpochs = field(default_factory=dict)
    pending_revocation: r.TopicPartitionEpochs = field(default_factory=dict)
    classic: r.ClassicMemberMetadata | None = None

    @property
    def uses_classic_protocol(self) -> bool:
        """Whether it came with JoinGroup."""
        return self.classic is not None

    def is_reconciled_to(self, epoch: int) -> bool:
        """Tell whether it has the target assignment of that epoch."""
        return self.state == STABLE and self.member_epoch == epoch

    def at_epoch(self, epoch: int, **changes: Any) -> Member:  # noqa: ANN401 - fields of this class
        """Give the member at another epoch, remembering the one it had."""
        return replace(self, member_epoch=epoch, previous_member_epoch=self.member_epoch, **changes)

    def subscription_record(self, group_id: str) -> r.ConsumerGroupMember:
        """Give the record of what it said about itself."""
        return r.ConsumerGroupMember(
            group_id,
            self.member_id,
            self.instance_id,
            self.rack_id,
            self.client_id,
            self.client_host,
            self.subscribed_topic_names,
            self.subscribed_topic_regex,
            self.rebalance_timeout_ms,
            self.server_assignor,
            self.classic,
        )

    def assignment_record(self, group_id: str) -> r.CurrentAssignment:
        """Give the record of what it owns."""
        return r.CurrentAssignment(
            group_id,
            self.member_id,
            self.member_epoch,
            self.previous_member_epoch,
            self.state,
            self.assigned,
            self.pending_revocation,
        )


def without_epochs(assigned: r.TopicPartitionEpochs) -> r.TopicPartitions:
    """Give the partitions alone, ascending."""
    return {topic_id: tuple(sorted(partitions)) for topic_id, partitions in assigned.items()}


def removal_of(group_id: str, member_id: str) -> list[r.Record]:
    """Give the records that take a member out, in the order in which replay wants them."""
    return [
        r.CurrentAssignmentRemoved(group_id, member_id),
        r.TargetAssignmentRemoved(group_id, member_id),
        r.ConsumerGroupMemberRemoved(group_id, member_id),
    ]


class ConsumerGroup:
    """A group whose assignment is made by the coordinator."""

    __slots__ = (
        "assignment_epoch",
        "assignment_timestamp_ms",
        "classic_member_count",
        "group_epoch",
        "group_id",
        "has_partition_metadata_record",
        "members",
        "metadata_checked_epoch",
        "metadata_hash",
        "owners",
        "regexes_are_stale",
        "regexes_are_tried",
        "resolved",
        "static_members",
        "subscriptions",
        "target",
    )

    group_type = "consumer"

    def __init__(self, group_id: str) -> None:
        """Start empty."""
        self.group_id = group_id
        self.group_epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.assignment_epoch = FIRST_EPOCH
        self.assignment_timestamp_ms = 0  # wall clock; 0: not known
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}
        self.target: dict[str, r.TopicPartitions] = {}
        self.resolved: dict[str, r.ResolvedRegularExpression] = {}
        self.subscriptions = Subscriptions()
        #: Who holds a partition: topic id -> partition -> member id.
        self.owners: dict[bytes, dict[int, str]] = {}
        self.classic_member_count = 0
        #: A record of Kafka before 4.1 that is to be taken back.
        self.has_partition_metadata_record = False
        #: Soft: the group epoch for which the topics' shape was checked; None: it must be checked.
        self.metadata_checked_epoch: int | None = None
        #: Soft: topics came or went since the expressions were tried; an attempt is on its way.
        self.regexes_are_stale = True
        self.regexes_are_tried = False

    # Replay

    def replay(self, record: r.Record) -> None:
        """Take over what the log says."""
        _REPLAY[type(record)](self, record)

    def _replay_epoch(self, record: r.ConsumerGroupEpoch) -> None:
        self.group_epoch = record.epoch
        self.metadata_hash = record.metadata_hash

    def _replay_member(self, record: r.ConsumerGroupMember) -> None:
        known = self.members.get(record.member_id)
        if known is not None:
            self._count_out(known)
        member = self.members[record.member_id] = replace(
            known or Member(record.member_id),
            instance_id=record.instance_id,
            rack_id=record.rack_id,
            client_id=record.client_id,
            client_host=record.client_host,
            subscribed_topic_names=record.subscribed_topic_names,
            subscribed_topic_regex=record.subscribed_topic_regex,
            rebalance_timeout_ms=record.rebalance_timeout_ms,
            server_assignor=record.server_assignor,
            classic=record.classic_member_metadata,
        )
        self.subscriptions.add_member(member.subscribed_topic_names, member.subscribed_topic_regex)
        self.classic_member_count += member.uses_classic_protocol
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id

    def _replay_member_removed(self, record: r.ConsumerGroupMemberRemoved) -> None:
        known = self.members.get(record.member_id)
        if known is not None:
            assert known.member_epoch == LEAVE_EPOCH, "its assignment is taken back first"
            assert record.member_id not in self.target, "its target is taken back first"
            self._count_out(known)
            del self.members[record.member_id]

    def _count_out(self, member: Member) -> None:
        self.subscriptions.add_member(
            member.subscribed_topic_names, member.subscribed_topic_regex, -1
        )
        self.classic_member_count -= member.uses_classic_protocol
        # The holder of an instance id may be another by now.
        if self.static_members.get(member.instance_id or "") == member.member_id:
            self.static_members.pop(member.instance_id or "")

    def _replay_target(self, record: r.TargetAssignment) -> None:
        self.target[record.member_id] = record.partitions

    def _replay_target_removed(self, record: r.TargetAssignmentRemoved) -> None:
        self.target.pop(record.member_id, None)

    def _replay_target_epoch(self, record: r.TargetAssignmentEpoch) -> None:
        self.assignment_epoch = record.assignment_epoch
        self.assignment_timestamp_ms = record.assignment_timestamp_ms

    def _replay_target_epoch_removed(self, _: r.TargetAssignmentEpochRemoved) -> None:
        assert not self.target, "members' targets are taken back first"
        self.assignment_epoch = NO_ASSIGNMENT_EPOCH
        self.assignment_timestamp_ms = 0

    def _replay_current(self, record: r.CurrentAssignment) -> None:
        self._move(
            replace(
                self.members.get(record.member_id) or Member(record.member_id),
                member_epoch=record.member_epoch,
                previous_member_epoch=record.previous_member_epoch,
                state=record.state,
                assigned=record.assigned,
                pending_revocation=record.pending_revocation,
            )
        )

    def _replay_current_removed(self, record: r.CurrentAssignmentRemoved) -> None:
        known = self.members.get(record.member_id)
        if known is not None:
            self._move(
                replace(
                    known,
                    member_epoch=LEAVE_EPOCH,
                    previous_member_epoch=LEAVE_EPOCH,
                    assigned={},
                    pending_revocation={},
                )
            )

    def _move(self, member: Member) -> None:
        """Put a member with other partitions in its own place."""
        known = self.members.get(member.member_id)
        if known is not None:
            self._release(known.assigned)
            self._release(known.pending_revocation)
        self.members[member.member_id] = member
        self._hold(member, member.assigned)
        self._hold(member, member.pending_revocation)

    def _release(self, held: r.TopicPartitionEpochs) -> None:
        for topic_id, partitions in held.items():
            owners = self.owners[topic_id]
            for partition in partitions:
                del owners[partition]

    def _hold(self, member: Member, held: r.TopicPartitionEpochs) -> None:
        for topic_id, partitions in held.items():
            owners = self.owners.setdefault(topic_id, {})
            for partition in partitions:
                assert partition not in owners, "a partition has one owner at a time"
                owners[partition] = member.member_id

    def _replay_resolved(self, record: r.ResolvedRegularExpression) -> None:
        self._forget_resolved(record.regular_expression)
        self.resolved[record.regular_expression] = record
        self.subscriptions.add_matches(record.topics)

    def _replay_resolved_removed(self, record: r.ResolvedRegularExpressionRemoved) -> None:
        self._forget_resolved(record.regular_expression)

    def _replay_partition_metadata(self, _: r.ConsumerGroupPartitionMetadata) -> None:
        self.has_partition_metadata_record = True

    def _replay_partition_metadata_removed(
        self, _: r.ConsumerGroupPartitionMetadataRemoved
    ) -> None:
        self.has_partition_metadata_record = False

    def _forget_resolved(self, regex: str) -> None:
        known = self.resolved.pop(regex, None)
        if known is not None:
            self.subscriptions.add_matches(known.topics, -1)

    # Questions

    def owner(self, topic_id: bytes, partition: int) -> str | None:
        """Give the member that holds a partition."""
        owners = self.owners.get(topic_id)
        return None if owners is None else owners.get(partition)

    def member(self, member_id: str) -> Member:
        """Give a member, or refuse."""
        member = self.members.get(member_id)
        if member is None:
            raise RefusedError(
                ErrorCode.UNKNOWN_MEMBER_ID,
                f"Member {member_id} is not a member of group {self.group_id}.",
            )
        return member

    def static_member(self, instance_id: str | None) -> Member | None:
        """Give the member that holds an instance id."""
        member_id = None if instance_id is None else self.static_members.get(instance_id)
        return None if member_id is None else self.members[member_id]

    def target_of(self, member: Member) -> r.TopicPartitions:
        """Give the target of a member, or of the one that it replaces under the same instance id."""
        member_id = member.member_id
        if member.instance_id is not None:
            member_id = self.static_members.get(member.instance_id, member_id)
        return self.target.get(member_id, {})

    @property
    def metadata_is_stale(self) -> bool:
        """Whether the shape of the subscribed topics must be looked at. An epoch that was never written does not count."""
        checked = self.metadata_checked_epoch
        return checked is None or self.group_epoch < checked

    def preferred_assignor(
        self, without: Member | None = None, plus: Member | None = None
    ) -> str | None:
        """Give the assignor most members ask for, as if `plus` stood in the place of `without`."""
        counts: dict[str, int] = {}
        skipped = None if without is None else without.member_id
        voters = [member for member in self.members.values() if member.member_id != skipped]
        for member in [*voters, plus] if plus is not None else voters:
            if member.server_assignor is not None:
                counts[member.server_assignor] = counts.get(member.server_assignor, 0) + 1
        # On a tie Kafka's table order decides: `uniform` before `range`.
        return max(counts, key=lambda name: (counts[name], name)) if counts else None

    def waits_for_others(self, member: Member) -> bool:
        """Tell whether a partition of its target is still held by somebody."""
        return any(
            partition not in member.assigned.get(topic_id, ()) and self.owner(topic_id, partition)
            for topic_id, partitions in self.target.get(member.member_id, {}).items()
            for partition in partitions
        )

    @property
    def is_empty(self) -> bool:
        """Whether nobody is a member."""
        return not self.members

    @property
    def state_name(self) -> str:
        """The state as Kafka names it."""
        if not self.members:
            return "Empty"
        if self.group_epoch > self.assignment_epoch:
            return "Assigning"
        epoch = self.assignment_epoch
        if all(member.is_reconciled_to(epoch) for member in self.members.values()):
            return "Stable"
        return "Reconciling"

    def as_listed(self) -> ListedGroup:
        """Give the line in a list of groups."""
        return ListedGroup(self.group_id, "consumer", self.state_name, self.group_type)

    # Offsets and administration

    def validate_offset_commit(
        self,
        member_id: str,
        group_instance_id: str | None,
        generation_or_epoch: int,
        is_transactional: bool,
        version_has_epoch: bool,
    ) -> ErrorCode:
        """Tell whether this sender may commit offsets; one of an older epoch is then asked per partition."""
        if generation_or_epoch < 0 and not self.members:
            return ErrorCode.NONE  # a tool, or a consumer that takes its partitions by itself
        if (
            is_transactional
            and generation_or_epoch == -1
            and not member_id
            and group_instance_id is None
        ):
            return ErrorCode.NONE
        member = self.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if not (is_transactional or member.uses_classic_protocol or version_has_epoch):
            return ErrorCode.UNSUPPORTED_VERSION
        if generation_or_epoch > member.member_epoch:
            return _wrong_epoch(member)
        return ErrorCode.NONE

    def validate_partition_commit(
        self, member_id: str, generation_or_epoch: int, topic_id: bytes, partition: int
    ) -> ErrorCode:
        """Tell whether a partition may be committed: in an older epoch if it was assigned by then (KIP-1251)."""
        member = self.members.get(member_id)
        if member is None or generation_or_epoch == member.member_epoch:
            return ErrorCode.NONE
        for held in (member.assigned, member.pending_revocation):
            epoch = held.get(topic_id, {}).get(partition)
            if epoch is not None:
                return ErrorCode.NONE if generation_or_epoch >= epoch else _wrong_epoch(member)
        return _wrong_epoch(member)

    def on_offset_commit(self, member_id: str, now_ms: int) -> None:
        """A commit is no sign of life here: heartbeats are."""

    def validate_offset_fetch(
        self,
        member_id: str | None,
        member_epoch: int,
        now_ms: int,
    ) -> ErrorCode:
        """Tell whether this sender may read offsets: a member at its own epoch, and who does not claim to be one."""
        if member_id is None and member_epoch < 0:
            return ErrorCode.NONE
        member = self.members.get(member_id or "")
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if member_epoch == member.member_epoch else _wrong_epoch(member)

    def validate_offset_delete(self) -> ErrorCode:
        """Tell whether offsets of topics that nobody reads may be deleted: always."""
        return ErrorCode.NONE

    def validate_delete(self) -> ErrorCode:
        """Tell whether the group may be deleted."""
        return ErrorCode.NON_EMPTY_GROUP if self.members else ErrorCode.NONE

    def subscribed_topics(self) -> dict[str, int]:
        """Give the names of the topics that the members read."""
        return self.subscriptions.topics()

    def is_subscribed_to(self, topic: str) -> bool:
        """Tell whether a member reads the topic."""
        return topic in self.subscriptions

    def offsets_expiry_base(self, commit_timestamp_ms: int) -> int | None:
        """Give the wall-clock time from which retention counts: the commit."""
        return commit_timestamp_ms

    def removal_records(self) -> list[r.Record]:
        """Give the records that take the group out of the log, in the order in which replay wants them."""
        return self.removal_records_of(self.members)

    def removal_records_of(self, member_ids: Iterable[str]) -> list[r.Record]:
        """Give the same when these are its members (one may have taken another's place just now)."""
        ids = list(member_ids)
        group_id = self.group_id
        removal: list[r.Record] = [r.CurrentAssignmentRemoved(group_id, one) for one in ids]
        removal += [r.TargetAssignmentRemoved(group_id, one) for one in ids]
        removal.append(r.TargetAssignmentEpochRemoved(group_id))
        removal += [r.ConsumerGroupMemberRemoved(group_id, one) for one in ids]
        removal += [r.ResolvedRegularExpressionRemoved(group_id, one) for one in self.resolved]
        removal.append(r.ConsumerGroupPartitionMetadataRemoved(group_id))
        removal.append(r.ConsumerGroupEpochRemoved(group_id))
        return removal


def _wrong_epoch(member: Member) -> ErrorCode:
    if member.uses_classic_protocol:
        return ErrorCode.ILLEGAL_GENERATION
    return ErrorCode.STALE_MEMBER_EPOCH


_REPLAY: Final[dict[type, Callable[[ConsumerGroup, Any], None]]] = {
    r.ConsumerGroupEpoch: ConsumerGroup._replay_epoch,
    r.ConsumerGroupMember: ConsumerGroup._replay_member,
    r.ConsumerGroupMemberRemoved: ConsumerGroup._replay_member_removed,
    r.TargetAssignment: ConsumerGroup._replay_target,
    r.TargetAssignmentRemoved: ConsumerGroup._replay_target_removed,
    r.TargetAssignmentEpoch: ConsumerGroup._replay_target_epoch,
    r.TargetAssignmentEpochRemoved: ConsumerGroup._replay_target_epoch_removed,
    r.CurrentAssignment: ConsumerGroup._replay_current,
    r.CurrentAssignmentRemoved: ConsumerGroup._replay_current_removed,
    r.ResolvedRegularExpression: ConsumerGroup._replay_resolved,
    r.ResolvedRegularExpressionRemoved: ConsumerGroup._replay_resolved_removed,
    r.ConsumerGroupPartitionMetadata: ConsumerGroup._replay_partition_metadata,
    r.ConsumerGroupPartitionMetadataRemoved: ConsumerGroup._replay_partition_metadata_removed,
}
