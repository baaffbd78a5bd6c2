"""The records of `__consumer_offsets`: round trips, exact bytes, and what is left alone."""

import struct

import pytest

from barnabas.broker import group_records
from barnabas.core.group import records as kinds
from barnabas.core.group.offset_requests import CommitPartition, CommitRequest, CommitTopic
from barnabas.wire import batch
from barnabas.wire.batch import Record
from barnabas.wire.compression import Codec
from barnabas.wire.messages.records.offset_commit import OffsetCommitKey, OffsetCommitValue
from barnabas.wire.primitives import WireError

ID = bytes(range(16))
MEMBER = kinds.ClassicMember("m-1", "static", "c", "/127.0.0.1", 300_000, 45_000, b"sub", b"asg")
RECORDS = [
    kinds.OffsetCommitted("g", "t", 3, 42, 7, "note", 1000),
    kinds.OffsetCommitted("g", "t", 3, 42, -1, "note", 1000, 2000),
    kinds.OffsetCommitted("g", "t", 3, 42, 7, "", 1000, -1, ID),
    kinds.OffsetRemoved("g", "t", 3),
    kinds.ClassicGroupSaved("g", "consumer", 5, "range", "m-1", 1000, (MEMBER,)),
    kinds.ClassicGroupSaved("g", "", 0, None, None, -1, ()),
    kinds.ClassicGroupRemoved("g"),
    kinds.ConsumerGroupEpoch("g", 4, 99),
    kinds.ConsumerGroupEpochRemoved("g"),
    kinds.ConsumerGroupMember("g", "m", None, None, "c", "/h", ("a", "b"), None, 1000, None),
    kinds.ConsumerGroupMember(
        "g", "m", "i", "r", "c", "/h", (), "a.*", 1000, "range",
        kinds.ClassicMemberMetadata(45_000, (("range", b"x"), ("sticky", b"y"))),
    ),
    kinds.ConsumerGroupMemberRemoved("g", "m"),
    kinds.ConsumerGroupPartitionMetadataRemoved("g"),
    kinds.TargetAssignmentEpoch("g", 4, 5000),
    kinds.TargetAssignmentEpochRemoved("g"),
    kinds.TargetAssignment("g", "m", {ID: (0, 2)}),
    kinds.TargetAssignmentRemoved("g", "m"),
    kinds.CurrentAssignment("g", "m", 4, 3, 1, {ID: {0: 3, 2: 4}}, {ID: {1: 2}}),
    kinds.CurrentAssignmentRemoved("g", "m"),
    kinds.ResolvedRegularExpression("g", "a.*", ("aa", "ab"), 17, 1000),
    kinds.ResolvedRegularExpressionRemoved("g", "a.*"),
]  # fmt: skip


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_what_is_written_is_read_again(record):
    assert group_records.decode(*group_records.encode(record)) == record


def test_a_removal_has_the_key_of_what_it_removes_and_no_value():
    pairs = [
        (kinds.OffsetCommitted("g", "t", 3, 42, 7, "", 1000), kinds.OffsetRemoved("g", "t", 3)),
        (kinds.ConsumerGroupEpoch("g", 4), kinds.ConsumerGroupEpochRemoved("g")),
        (kinds.TargetAssignment("g", "m", {}), kinds.TargetAssignmentRemoved("g", "m")),
    ]
    for made, removed in pairs:
        key, value = group_records.encode(removed)
        assert (key, value) == (group_records.encode(made)[0], None)


def test_an_offset_is_written_byte_for_byte_as_kafka_does():
    key, value = group_records.encode(kinds.OffsetCommitted("g", "t", 3, 42, 7, "note", 1000))
    assert key == b"\x00\x01" + b"\x00\x01g" + b"\x00\x01t" + b"\x00\x00\x00\x03"
    assert (
        value
        == b"\x00\x04" + struct.pack(">qi", 42, 7) + b"\x05note" + struct.pack(">q", 1000) + b"\x00"
    )


def test_versions_of_older_brokers_are_read():
    key = b"\x00\x00" + b"\x00\x01g" + b"\x00\x01t" + b"\x00\x00\x00\x03"
    value = b"\x00\x00" + struct.pack(">q", 42) + b"\x00\x00" + struct.pack(">q", 1000)
    assert group_records.decode(key, value) == kinds.OffsetCommitted("g", "t", 3, 42, -1, "", 1000)
    assert group_records.decode(key, None) == kinds.OffsetRemoved("g", "t", 3)


def test_an_assignment_without_epochs_takes_the_members_own():
    record = kinds.CurrentAssignment("g", "m", 4, 3, 0, {ID: {0: 4}}, {})
    key, value = group_records.encode(record)
    old = value[: value.index(ID) + 16] + b"\x02\x00\x00\x00\x00\x00" + b"\x01\x00"
    assert group_records.decode(key, old) == record


@pytest.mark.parametrize("key", [None, b"", b"\x00", b"\x00\x0b\x00\x01g", b"\x7f\xff"])
def test_other_kinds_are_left_alone(key):
    assert group_records.decode(key, b"\x00\x00") is None


def test_a_version_from_the_future_is_left_alone():
    key, value = group_records.encode(RECORDS[0])
    assert group_records.decode(key, b"\x00\x63" + value[2:]) is None


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_cut_off_bytes_are_an_error(record):
    key, value = group_records.encode(record)
    with pytest.raises(WireError):
        group_records.decode(key[:-1], value)
    if value is not None:
        with pytest.raises(WireError):
            group_records.decode(key, value[:-1])
        with pytest.raises(WireError):
            group_records.decode(key, value[:1])


@pytest.mark.parametrize(
    "metadata", ["", "note", "x" * 125, "x" * 126, "x" * 127, "é" * 64, "x" * 4096]
)
@pytest.mark.parametrize("topic_id", [bytes(16), ID])
def test_an_offset_written_by_hand_is_the_message(metadata, topic_id):
    record = kinds.OffsetCommitted("gröup", "topic", 3, 42, 7, metadata, 1000, -1, topic_id)
    key = OffsetCommitKey(group="gröup", topic="topic", partition=3)
    value = OffsetCommitValue(
        offset=42, leader_epoch=7, metadata=metadata, commit_timestamp=1000, topic_id=topic_id
    )
    assert group_records.encode(record) == (
        b"\x00\x01" + b"".join(key.encode(0)),
        b"\x00\x04" + b"".join(value.encode(4)),
    )


def test_a_group_id_that_no_record_can_hold_is_an_error():
    with pytest.raises(WireError):
        group_records.encode(kinds.OffsetCommitted("g" * 40_000, "t", 0, 1, 0, "", 0))


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_a_batch_is_one_that_anybody_can_read(codec):
    data, header = group_records.encode_batch(RECORDS[:7] * 40, 1234, codec)
    assert batch.read_header(data) == header
    assert batch.checksum_matches(data, header)
    found = batch.read_records(data, 1 << 20)
    assert [(one.offset, one.timestamp, one.headers) for one in found] == [
        (number, 1234, ()) for number in range(280)
    ]
    assert [group_records.decode(one.key, one.value) for one in found] == RECORDS[:7] * 40
    again = batch.build(
        [
            Record(number, 1234, *group_records.encode(one))
            for number, one in enumerate(RECORDS[:7] * 40)
        ],
        codec=codec,
    )
    assert bytes(data) == bytes(again)


def test_a_consumer_member_is_written_byte_for_byte_as_kafka_does():
    key = b"\x00\x05\x00\x08consumer\x00\x01m"
    value = (
        b"\x00\x00\x00\x00\x07tester\x0b/127.0.0.1\x02\x02t\x01\x00\x04\x93\xe0\x00\x01\x00\x01\x00"
    )
    record = kinds.ConsumerGroupMember(
        "consumer", "m", None, None, "tester", "/127.0.0.1", ("t",), "", 300_000, None
    )
    assert group_records.encode(record) == (key, value)
    assert group_records.decode(key, value) == record


@pytest.mark.parametrize(("group", "topic"), [("", "t"), ("grüße", "täglich")])
def test_the_records_of_a_commit_are_never_smaller_than_told(group, topic):
    partitions = [CommitPartition(index, 0, -1, None) for index in range(50)]
    request = CommitRequest(group, [CommitTopic(topic, bytes(16), partitions)])
    least = group_records.least_size(request)
    records = [
        kinds.OffsetCommitted(group, topic, one.partition, one.offset, -1, "", 0)
        for one in partitions
    ]
    data, _ = group_records.encode_batch(records, 0, Codec.NONE)
    assert least <= len(data) <= least + batch.HEADER_SIZE + 50 * 10
