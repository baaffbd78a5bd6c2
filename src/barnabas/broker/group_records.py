"""The records of `__consumer_offsets`: plain records <-> key and value bytes, as Kafka 4.3.1 writes them.

A key starts with two bytes that name the kind of record; a value starts with two bytes of its version; no value
is a tombstone. Must not know: who writes them or what they mean to a group.

Invariants: `decode(*encode(record)) == record`; kinds and versions that are not known here (share groups, streams groups,
whatever comes later) give None: they stay in the log, and nobody is disturbed. Malformed bytes of a known
kind raise WireError. (Here and not in `wire`, as it knows the records of `core.group`.)
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

from barnabas.core.group import records as kinds
from barnabas.wire.batch import build_pairs
from barnabas.wire.messages.records import (
    consumer_group_current_member_assignment as current,
)
from barnabas.wire.messages.records import consumer_group_member_metadata as member
from barnabas.wire.messages.records import consumer_group_metadata as epoch
from barnabas.wire.messages.records import consumer_group_partition_metadata as partition
from barnabas.wire.messages.records import consumer_group_regular_expression as regex
from barnabas.wire.messages.records import consumer_group_target_assignment_member as target
from barnabas.wire.messages.records import (
    consumer_group_target_assignment_metadata as target_epoch,
)
from barnabas.wire.messages.records import group_metadata as classic
from barnabas.wire.messages.records import legacy_offset_commit as legacy
from barnabas.wire.messages.records import offset_commit as offset
from barnabas.wire.primitives import MAX_STRING_BYTES, WireError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from barnabas.core.group.offset_requests import CommitRequest
    from barnabas.wire.batch import BatchHeader, Producer
    from barnabas.wire.compression import Codec
    from barnabas.wire.primitives import Buffer, Message

#: The version that carries an expiry of its own; and the one that all others have.
_OFFSET_WITH_EXPIRY: Final = 1
_OFFSET: Final = 4
_CLASSIC_GROUP: Final = 3
#: The old form of an offset's key; the newer form has the number 1 and the same layout.
_LEGACY_OFFSET: Final = 0
_NUMBER: Final = struct.Struct(">h")
_KEY_HEAD: Final = struct.Struct(">hh").pack
_INDEX: Final = struct.Struct(">i").pack
_OFFSET_HEAD: Final = struct.Struct(">hqiB").pack
_TIMESTAMP: Final = struct.Struct(">q").pack
#: From here on the length of a compact string (one more than its bytes) takes two bytes.
_LENGTH_IN_TWO_BYTES: Final = 127
#: Of a record with an offset, without names: seven bytes of its own, ten of its key, 24 of its value.
_LEAST_OFFSET_SIZE: Final = 41
_NO_TOPIC_ID: Final = bytes(16)
#: One tagged field, number 0, of 16 bytes.
_TOPIC_ID_TAG: Final = b"\x01\x00\x10"

Pair = tuple[bytes, bytes | None]


def encode(record: kinds.Record) -> Pair:
    """Give the key and the value to append."""
    return _ENCODERS[type(record)](record)


def encode_batch(
    records: Sequence[kinds.Record],
    timestamp_ms: int,
    codec: Codec,
    producer: Producer | None = None,
) -> tuple[memoryview, BatchHeader]:
    """Write records as one batch, ready to append, with what stands in its header."""
    pairs = [_ENCODERS[type(record)](record) for record in records]
    return build_pairs(pairs, timestamp_ms, codec, producer)


def least_size(request: CommitRequest) -> int:
    """Tell how many bytes the records of a commit have at least, by its partitions and names."""
    fixed = _LEAST_OFFSET_SIZE + len(request.group_id)
    return sum(len(topic.partitions) * (fixed + len(topic.name)) for topic in request.topics)


def decode(key: Buffer | None, value: Buffer | None) -> kinds.Record | None:
    """Read one record of the log; None if its kind or version is not known here."""
    if key is None or len(key) < _NUMBER.size:
        return None
    (number,) = _NUMBER.unpack_from(key)
    kind = _KINDS.get(number)
    if kind is None:
        return None
    key_type, value_type, make, make_tombstone = kind
    decoded_key = key_type.decode(key, 0, _NUMBER.size)
    if value is None:
        removed: kinds.Record = make_tombstone(decoded_key)
        return removed
    if len(value) < _NUMBER.size:
        raise WireError(f"a value of {len(value)} bytes has no version")
    (version,) = _NUMBER.unpack_from(value)
    if version not in value_type.DECODERS:
        return None
    # A later Kafka may have put tagged fields at the end; they are read and dropped by the message.
    made: kinds.Record = make(decoded_key, value_type.decode(value, version, _NUMBER.size))
    return made


def _key(message: Message) -> bytes:
    return b"".join((_NUMBER.pack(message.API_KEY), *message.encode(0)))


def _value(message: Message, version: int = 0) -> bytes:
    return b"".join((_NUMBER.pack(version), *message.encode(version)))


# Offsets


def _encode_offset(record: kinds.OffsetCommitted) -> Pair:
    """Write by hand what is written most: a third of the cost of a commit was making and encoding the two messages."""
    metadata = record.metadata.encode()
    if record.expire_timestamp_ms != -1 or len(metadata) >= _LENGTH_IN_TWO_BYTES:
        return _encode_rare_offset(record)
    tagged = b"\0" if record.topic_id == _NO_TOPIC_ID else _TOPIC_ID_TAG + record.topic_id
    value = (
        _OFFSET_HEAD(_OFFSET, record.offset, record.leader_epoch, len(metadata) + 1)
        + metadata
        + _TIMESTAMP(record.commit_timestamp_ms)
        + tagged
    )
    return _offset_key(record.group_id, record.topic, record.partition), value


def _encode_rare_offset(record: kinds.OffsetCommitted) -> Pair:
    expires = record.expire_timestamp_ms != -1
    value = offset.OffsetCommitValue(
        offset=record.offset,
        leader_epoch=-1 if expires else record.leader_epoch,
        metadata=record.metadata,
        commit_timestamp=record.commit_timestamp_ms,
        expire_timestamp=record.expire_timestamp_ms,
        topic_id=_NO_TOPIC_ID if expires else record.topic_id,
    )
    key = _offset_key(record.group_id, record.topic, record.partition)
    return key, _value(value, _OFFSET_WITH_EXPIRY if expires else _OFFSET)


def _offset_key(group_id: str, topic: str, index: int) -> bytes:
    group, name = group_id.encode(), topic.encode()
    if len(group) > MAX_STRING_BYTES or len(name) > MAX_STRING_BYTES:
        return _key(offset.OffsetCommitKey(group=group_id, topic=topic, partition=index))
    return b"".join((_KEY_HEAD(1, len(group)), group, _NUMBER.pack(len(name)), name, _INDEX(index)))


def _decode_offset(key: offset.OffsetCommitKey, value: offset.OffsetCommitValue) -> kinds.Record:
    return kinds.OffsetCommitted(
        key.group, key.topic, key.partition,
        value.offset, value.leader_epoch, value.metadata,
        value.commit_timestamp, value.expire_timestamp, bytes(value.topic_id),
    )  # fmt: skip


# Classic groups


def _encode_classic(record: kinds.ClassicGroupSaved) -> Pair:
    value = classic.GroupMetadataValue(
        protocol_type=record.protocol_type,
        generation=record.generation,
        protocol=record.protocol,
        leader=record.leader,
        current_state_timestamp=record.current_state_timestamp_ms,
        members=[
            classic.MemberMetadata(
                member_id=one.member_id,
                group_instance_id=one.group_instance_id,
                client_id=one.client_id,
                client_host=one.client_host,
                rebalance_timeout=one.rebalance_timeout_ms,
                session_timeout=one.session_timeout_ms,
                subscription=one.subscription,
                assignment=one.assignment,
            )
            for one in record.members
        ],
    )
    return _key(classic.GroupMetadataKey(group=record.group_id)), _value(value, _CLASSIC_GROUP)


def _decode_classic(
    key: classic.GroupMetadataKey, value: classic.GroupMetadataValue
) -> kinds.Record:
    members = tuple(
        kinds.ClassicMember(
            one.member_id, one.group_instance_id, one.client_id, one.client_host,
            # Version 0 had one time-out for both.
            one.session_timeout if one.rebalance_timeout == -1 else one.rebalance_timeout,
            one.session_timeout, bytes(one.subscription), bytes(one.assignment),
        )
        for one in value.members
    )  # fmt: skip
    return kinds.ClassicGroupSaved(
        key.group, value.protocol_type, value.generation, value.protocol, value.leader,
        value.current_state_timestamp, members,
    )  # fmt: skip


# Consumer groups (KIP-848)


def _encode_epoch(record: kinds.ConsumerGroupEpoch) -> Pair:
    value = epoch.ConsumerGroupMetadataValue(epoch=record.epoch, metadata_hash=record.metadata_hash)
    return _key(epoch.ConsumerGroupMetadataKey(group_id=record.group_id)), _value(value)


def _encode_member(record: kinds.ConsumerGroupMember) -> Pair:
    brought = record.classic_member_metadata
    value = member.ConsumerGroupMemberMetadataValue(
        instance_id=record.instance_id,
        rack_id=record.rack_id,
        client_id=record.client_id,
        client_host=record.client_host,
        subscribed_topic_names=list(record.subscribed_topic_names),
        subscribed_topic_regex=record.subscribed_topic_regex,
        rebalance_timeout_ms=record.rebalance_timeout_ms,
        server_assignor=record.server_assignor,
        classic_member_metadata=None
        if brought is None
        else member.ClassicMemberMetadata(
            session_timeout_ms=brought.session_timeout_ms,
            supported_protocols=[
                member.ClassicProtocol(name=name, metadata=metadata)
                for name, metadata in brought.supported_protocols
            ],
        ),
    )
    return _member_key(record.group_id, record.member_id), _value(value)


def _member_key(group_id: str, member_id: str) -> bytes:
    return _key(member.ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id))


def _decode_member(
    key: member.ConsumerGroupMemberMetadataKey, value: member.ConsumerGroupMemberMetadataValue
) -> kinds.Record:
    brought = value.classic_member_metadata
    return kinds.ConsumerGroupMember(
        key.group_id, key.member_id, value.instance_id, value.rack_id, value.client_id, value.client_host,
        tuple(value.subscribed_topic_names), value.subscribed_topic_regex, value.rebalance_timeout_ms,
        value.server_assignor,
        None if brought is None else kinds.ClassicMemberMetadata(
            brought.session_timeout_ms,
            tuple((one.name, bytes(one.metadata)) for one in brought.supported_protocols),
        ),
    )  # fmt: skip


def _encode_target_epoch(record: kinds.TargetAssignmentEpoch) -> Pair:
    value = target_epoch.ConsumerGroupTargetAssignmentMetadataValue(
        assignment_epoch=record.assignment_epoch,
        assignment_timestamp=record.assignment_timestamp_ms,
    )
    return _target_epoch_key(record.group_id), _value(value)


def _target_epoch_key(group_id: str) -> bytes:
    return _key(target_epoch.ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id))


def _encode_target(record: kinds.TargetAssignment) -> Pair:
    value = target.ConsumerGroupTargetAssignmentMemberValue(
        topic_partitions=[
            target.TopicPartition(topic_id=topic_id, partitions=list(indexes))
            for topic_id, indexes in record.partitions.items()
        ]
    )
    return _target_key(record.group_id, record.member_id), _value(value)


def _target_key(group_id: str, member_id: str) -> bytes:
    key = target.ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
    return _key(key)


def _decode_target(
    key: target.ConsumerGroupTargetAssignmentMemberKey,
    value: target.ConsumerGroupTargetAssignmentMemberValue,
) -> kinds.Record:
    partitions = {bytes(one.topic_id): tuple(one.partitions) for one in value.topic_partitions}
    return kinds.TargetAssignment(key.group_id, key.member_id, partitions)


def _encode_current(record: kinds.CurrentAssignment) -> Pair:
    value = current.ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=record.member_epoch,
        previous_member_epoch=record.previous_member_epoch,
        state=record.state,
        assigned_partitions=_with_epochs(record.assigned),
        partitions_pending_revocation=_with_epochs(record.pending_revocation),
    )
    return _current_key(record.group_id, record.member_id), _value(value)


def _with_epochs(partitions: kinds.TopicPartitionEpochs) -> list[current.TopicPartitions]:
    return [
        current.TopicPartitions(
            topic_id=topic_id, partitions=list(epochs), assignment_epochs=list(epochs.values())
        )
        for topic_id, epochs in partitions.items()
    ]


def _current_key(group_id: str, member_id: str) -> bytes:
    key = current.ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id)
    return _key(key)


def _decode_current(
    key: current.ConsumerGroupCurrentMemberAssignmentKey,
    value: current.ConsumerGroupCurrentMemberAssignmentValue,
) -> kinds.Record:
    return kinds.CurrentAssignment(
        key.group_id, key.member_id, value.member_epoch, value.previous_member_epoch, value.state,
        _read_epochs(value.assigned_partitions, value.member_epoch),
        _read_epochs(value.partitions_pending_revocation, value.member_epoch),
    )  # fmt: skip


def _read_epochs(
    topics: list[current.TopicPartitions], member_epoch: int
) -> kinds.TopicPartitionEpochs:
    """Read the epochs; Kafka before 4.3 wrote none: the member's own then bounds them from above."""
    found: kinds.TopicPartitionEpochs = {}
    for topic in topics:
        epochs = topic.assignment_epochs
        if not epochs:
            epochs = [member_epoch] * len(topic.partitions)
        elif len(epochs) != len(topic.partitions):
            raise WireError(f"{len(topic.partitions)} partitions with {len(epochs)} epochs")
        found[bytes(topic.topic_id)] = dict(zip(topic.partitions, epochs, strict=True))
    return found


def _encode_regex(record: kinds.ResolvedRegularExpression) -> Pair:
    value = regex.ConsumerGroupRegularExpressionValue(
        topics=list(record.topics), version=record.version, timestamp=record.timestamp_ms
    )
    return _regex_key(record.group_id, record.regular_expression), _value(value)


def _regex_key(group_id: str, expression: str) -> bytes:
    key = regex.ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=expression)
    return _key(key)


def _never_written(record: kinds.ConsumerGroupPartitionMetadata) -> Pair:
    raise AssertionError(f"nobody writes {record} any more")


_ENCODERS: Final[dict[type[Any], Callable[[Any], Pair]]] = {
    kinds.OffsetCommitted: _encode_offset,
    kinds.OffsetRemoved: lambda r: (_offset_key(r.group_id, r.topic, r.partition), None),
    kinds.ClassicGroupSaved: _encode_classic,
    kinds.ClassicGroupRemoved: lambda r: (_key(classic.GroupMetadataKey(group=r.group_id)), None),
    kinds.ConsumerGroupEpoch: _encode_epoch,
    kinds.ConsumerGroupEpochRemoved: lambda r: (
        _key(epoch.ConsumerGroupMetadataKey(group_id=r.group_id)),
        None,
    ),
    kinds.ConsumerGroupMember: _encode_member,
    kinds.ConsumerGroupMemberRemoved: lambda r: (_member_key(r.group_id, r.member_id), None),
    kinds.ConsumerGroupPartitionMetadata: _never_written,
    kinds.ConsumerGroupPartitionMetadataRemoved: lambda r: (
        _key(partition.ConsumerGroupPartitionMetadataKey(group_id=r.group_id)),
        None,
    ),
    kinds.TargetAssignmentEpoch: _encode_target_epoch,
    kinds.TargetAssignmentEpochRemoved: lambda r: (_target_epoch_key(r.group_id), None),
    kinds.TargetAssignment: _encode_target,
    kinds.TargetAssignmentRemoved: lambda r: (_target_key(r.group_id, r.member_id), None),
    kinds.CurrentAssignment: _encode_current,
    kinds.CurrentAssignmentRemoved: lambda r: (_current_key(r.group_id, r.member_id), None),
    kinds.ResolvedRegularExpression: _encode_regex,
    kinds.ResolvedRegularExpressionRemoved: lambda r: (
        _regex_key(r.group_id, r.regular_expression),
        None,
    ),
}

#: Number in the key -> key, value, and how a record or a tombstone is made of them.
_KINDS: Final[
    dict[int, tuple[type[Message], type[Message], Callable[[Any, Any], Any], Callable[[Any], Any]]]
] = {
    _LEGACY_OFFSET: (
        legacy.LegacyOffsetCommitKey,
        offset.OffsetCommitValue,
        _decode_offset,
        lambda k: kinds.OffsetRemoved(k.group, k.topic, k.partition),
    ),
    1: (
        offset.OffsetCommitKey,
        offset.OffsetCommitValue,
        _decode_offset,
        lambda k: kinds.OffsetRemoved(k.group, k.topic, k.partition),
    ),
    2: (
        classic.GroupMetadataKey,
        classic.GroupMetadataValue,
        _decode_classic,
        lambda k: kinds.ClassicGroupRemoved(k.group),
    ),
    3: (
        epoch.ConsumerGroupMetadataKey,
        epoch.ConsumerGroupMetadataValue,
        lambda k, v: kinds.ConsumerGroupEpoch(k.group_id, v.epoch, v.metadata_hash),
        lambda k: kinds.ConsumerGroupEpochRemoved(k.group_id),
    ),
    4: (
        partition.ConsumerGroupPartitionMetadataKey,
        partition.ConsumerGroupPartitionMetadataValue,
        lambda k, _v: kinds.ConsumerGroupPartitionMetadata(k.group_id),
        lambda k: kinds.ConsumerGroupPartitionMetadataRemoved(k.group_id),
    ),
    5: (
        member.ConsumerGroupMemberMetadataKey,
        member.ConsumerGroupMemberMetadataValue,
        _decode_member,
        lambda k: kinds.ConsumerGroupMemberRemoved(k.group_id, k.member_id),
    ),
    6: (
        target_epoch.ConsumerGroupTargetAssignmentMetadataKey,
        target_epoch.ConsumerGroupTargetAssignmentMetadataValue,
        lambda k, v: kinds.TargetAssignmentEpoch(
            k.group_id, v.assignment_epoch, v.assignment_timestamp
        ),
        lambda k: kinds.TargetAssignmentEpochRemoved(k.group_id),
    ),
    7: (
        target.ConsumerGroupTargetAssignmentMemberKey,
        target.ConsumerGroupTargetAssignmentMemberValue,
        _decode_target,
        lambda k: kinds.TargetAssignmentRemoved(k.group_id, k.member_id),
    ),
    8: (
        current.ConsumerGroupCurrentMemberAssignmentKey,
        current.ConsumerGroupCurrentMemberAssignmentValue,
        _decode_current,
        lambda k: kinds.CurrentAssignmentRemoved(k.group_id, k.member_id),
    ),
    16: (
        regex.ConsumerGroupRegularExpressionKey,
        regex.ConsumerGroupRegularExpressionValue,
        lambda k, v: kinds.ResolvedRegularExpression(
            k.group_id, k.regular_expression, tuple(v.topics), v.version, v.timestamp
        ),
        lambda k: kinds.ResolvedRegularExpressionRemoved(k.group_id, k.regular_expression),
    ),
}
