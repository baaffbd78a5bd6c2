"""When a lane is opened, what it takes, and what closes it."""

import errno
import itertools
import struct

import pytest
from fuzz_world import FuzzLink
from property.test_produce_lane import NOW_MS, Peer, frame

from barnabas.broker.edge import Contained
from barnabas.broker.replicas import Replica
from barnabas.model.errors import ErrorCode
from barnabas.wire import batch as batches
from barnabas.wire.batch import Producer, Record
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from barnabas.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

VERSION = 12
TOPIC = 2


NO_PRODUCER = Producer()


def produce(
    correlation_id, partition=0, *, size=10, producer=NO_PRODUCER, version=VERSION, topic="plain"
):
    records = [Record(0, NOW_MS, None, b"v" * size)]
    data = PartitionProduceData(
        index=partition, records=bytes(batches.build(records, producer=producer))
    )
    topic_data = [TopicProduceData(name=topic, partition_data=[data])]
    request = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=topic_data)
    return frame(request, version, correlation_id)


def taken(peer, *frames):
    """How many of the frames go a lane, and what is answered to them."""
    stream = b"".join(frames)
    position = peer.link.lanes.take(memoryview(bytearray(stream)), 0, len(stream))
    peer.replies = b""
    peer.write()
    count = 0
    while position:
        position -= len(frames[count])
        count += 1
    return count, [decode(reply) for reply in cut(peer.replies)]


def cut(stream):
    while stream:
        size = struct.unpack_from(">i", stream)[0] + 4
        yield stream[:size]
        stream = stream[size:]


def decode(reply):
    (number,) = struct.unpack_from(">i", reply, 4)
    found = ProduceResponse.decode(reply, VERSION, 9).responses[0].partition_responses[0]
    return number, ErrorCode(found.error_code), found.base_offset


class Other:
    """A second connection to the same node, which has produced once."""

    def __init__(self, peer):
        self.link = FuzzLink()
        peer.host.node.on_request(self.link, memoryview(bytearray(produce(70)))[4:])


@pytest.fixture
def peer():
    peer = Peer()
    peer.general(produce(1))
    return peer


def test_the_first_request_opens_the_lane_and_the_next_ones_take_it(peer):
    assert taken(peer, produce(2), produce(3)) == (
        2, [(2, ErrorCode.NONE, 1), (3, ErrorCode.NONE, 2)],
    )  # fmt: skip


def test_batches_of_any_size_take_it(peer):
    assert taken(peer, produce(2, size=0), produce(3, size=200_000), produce(4, size=90))[0] == 3


def test_a_partition_that_was_not_seen_before_does_not(peer):
    assert taken(peer, produce(2), produce(3, 1), produce(4))[0] == 1
    peer.general(produce(3, 1))
    assert taken(peer, produce(4, 1), produce(5), produce(6, 1)) == (
        3, [(4, ErrorCode.NONE, 1), (5, ErrorCode.NONE, 2), (6, ErrorCode.NONE, 2)],
    )  # fmt: skip


def test_another_version_does_not_and_has_lanes_of_its_own(peer):
    assert taken(peer, produce(2, version=11))[0] == 0
    peer.general(produce(2, version=11))
    assert taken(peer, produce(3), produce(4, version=11), produce(5))[0] == 3


def test_topics_with_names_of_different_lengths_take_it_in_turns(peer):
    peer.general(produce(2, topic="small"))
    peer.general(produce(3, topic="stamped"))
    peer.general(produce(4, topic="other-plain"))
    assert taken(peer, produce(5), produce(6, topic="other-plain"), produce(7))[0] == 3


def test_a_second_connection_of_the_same_client_finds_the_lane(peer):
    other = Other(peer)
    stream = produce(2)
    assert other.link.lanes.take(memoryview(bytearray(stream)), 0, len(stream)) == len(stream)


@pytest.mark.parametrize("version", [8, VERSION])
def test_records_that_claim_to_reach_into_the_next_frame_do_not(peer, version):
    peer.general(produce(2, version=version))
    whole, behind = produce(3, version=version), produce(4, size=500, version=version)
    cut_off = bytearray(behind[: len(whole)])
    cut_off[:4] = whole[:4]  # a frame of this length, whose records say they are longer
    stream = bytes(cut_off) + behind[len(whole) :]
    assert peer.link.lanes.take(memoryview(bytearray(stream)), 0, len(stream)) == 0


def test_what_repeats_is_not_kept_if_it_is_long(peer):
    whole = produce(2)
    at = struct.calcsize(">ihhih2s")  # behind the client id stand the tagged fields: none
    long = whole[4:at] + b"\x01\x63\x80\x80\x04" + bytes(65536) + whole[at + 1 :]
    peer.general(struct.pack(">i", len(long)) + long)
    kept = peer.host.node.staging.lanes(VERSION)
    assert kept
    assert max(len(prefix) for prefix in kept) < 100


def test_a_frame_that_is_not_here_whole_waits(peer):
    whole = produce(2)
    for size in range(len(whole)):
        view = memoryview(bytearray(whole))
        assert peer.link.lanes.take(view, 0, size) == 0


def test_an_idempotent_producer_takes_it_and_its_repetition_does_not(peer):
    def sequence(number, count):
        return produce(number, producer=Producer(5, 0, count))

    assert taken(peer, sequence(2, 0), sequence(3, 1)) == (
        2, [(2, ErrorCode.NONE, 1), (3, ErrorCode.NONE, 2)],
    )  # fmt: skip
    assert taken(peer, sequence(4, 2), sequence(5, 2)) == (1, [(4, ErrorCode.NONE, 3)])
    assert taken(peer, sequence(6, 2))[0] == 0
    assert taken(peer, sequence(7, 9))[0] == 0


def test_what_idempotent_producers_send_one_after_another_is_written_at_once(peer):
    frames = [
        produce(number, producer=Producer(producer_id, 0, sequence))
        for number, (sequence, producer_id) in enumerate(itertools.product(range(4), (5, 6)))
    ]
    calls_before = peer.host.disk.calls
    assert taken(peer, *frames) == (8, [(n, ErrorCode.NONE, 1 + n) for n in range(8)])
    assert peer.host.disk.calls == calls_before + 1


@pytest.mark.parametrize("epoch_and_sequence", [(0, 0), (0, 3), (1, 1)])
def test_a_batch_that_does_not_follow_what_is_staged_is_judged_by_what_is_written(
    peer, epoch_and_sequence
):
    log = peer.host.node.replicas.get("plain", 0).log
    assert taken(peer, produce(2, producer=Producer(5, 0, 0)))[0] == 1
    stream = b"".join(
        produce(3, producer=Producer(5, *which)) for which in ((0, 1), epoch_and_sequence)
    )
    position = peer.link.lanes.take(memoryview(bytearray(stream)), 0, len(stream))
    assert position == len(stream) // 2
    assert log.log_end_offset == 3
    assert not peer.link.has_staged, "a stop would wait for an answer that was given already"


def test_a_new_epoch_of_a_producer_takes_it_in_the_same_turn(peer):
    frames = [produce(2, producer=Producer(5, 0, 0)), produce(3, producer=Producer(5, 1, 0))]
    assert taken(peer, *frames)[0] == 2


def test_a_sequence_goes_on_with_0_behind_its_last_number(peer):
    last = 2**31 - 1
    frames = [produce(2, producer=Producer(5, 0, last)), produce(3, producer=Producer(5, 0, 0))]
    calls_before = peer.host.disk.calls
    assert taken(peer, *frames)[0] == 2
    assert peer.host.disk.calls == calls_before + 1


def test_nothing_of_a_run_is_written_behind_what_failed(peer):
    """Else the next batch of an idempotent producer would be there without the one before."""
    peer.general(produce(2, topic="small"))
    replica = peer.host.node.replicas.get("small", 0)
    frames = [
        produce(number, size=100_000, topic="small", producer=Producer(5, 0, number))
        for number in range(14)
    ]
    peer.host.disk.fail_call(14, 28)  # no room: for the batch that begins the second segment
    count, answers = taken(peer, *frames)
    failed = [number for number, code, _ in answers if code]
    assert count == 14
    assert failed == list(range(failed[0], 14))
    assert len(failed) > 1
    assert replica.log.log_end_offset == 1 + failed[0]
    assert taken(peer, produce(20, topic="small", producer=Producer(5, 0, failed[0])))[0] == 1


def test_a_marker_goes_behind_what_was_staged_before_it(peer):
    replica = peer.host.node.replicas.get("plain", 0)
    stream = produce(2, producer=Producer(5, 0, 0))
    assert peer.link.lanes.take(memoryview(bytearray(stream)), 0, len(stream)) == len(stream)
    marker = WritableTxnMarker(
        producer_id=5,
        producer_epoch=1,
        topics=[WritableTxnMarkerTopic(name="plain", partition_indexes=[0])],
    )
    administrator = FuzzLink()
    data = frame(WriteTxnMarkersRequest(markers=[marker]), 1, 71)
    peer.host.node.on_request(administrator, memoryview(bytearray(data))[4:])
    peer.write()
    assert replica.log.log_end_offset == 3
    assert replica.log.producers.get(5).producer_epoch == 1


def test_what_two_connections_send_in_a_turn_is_written_at_once_and_each_gets_its_own_answers(peer):
    other = Other(peer)
    frames = [produce(n) for n in (2, 3)], [produce(n) for n in (71, 72)]
    for link, sent in zip((peer.link, other.link), frames, strict=True):
        stream = b"".join(sent)
        assert link.lanes.take(memoryview(bytearray(stream)), 0, len(stream)) == len(stream)
    calls_before = peer.host.disk.calls
    peer.host.node.staging.write()
    assert peer.host.disk.calls == calls_before + 1
    answers = [
        [decode(reply) for reply in cut(b"".join(link.answers))] for link in (peer.link, other.link)
    ]
    assert answers == [
        [(2, ErrorCode.NONE, 2), (3, ErrorCode.NONE, 3)],
        [(71, ErrorCode.NONE, 4), (72, ErrorCode.NONE, 5)],
    ]


def test_a_producer_with_two_connections_is_judged_by_what_both_sent(peer):
    other = Other(peer)
    stream = produce(2, producer=Producer(5, 0, 0))
    assert peer.link.lanes.take(memoryview(bytearray(stream)), 0, len(stream)) == len(stream)
    assert other.link.lanes.take(memoryview(bytearray(stream)), 0, len(stream)) == 0


@pytest.mark.parametrize("count", [1, 3])
def test_a_failed_write_is_told_to_each_and_appends_nothing(peer, count):
    replica = peer.host.node.replicas.get("plain", 0)
    peer.host.disk.fail_call(1, 28)  # no room
    frames = [produce(number) for number in range(count)]
    answers = [(number, ErrorCode.KAFKA_STORAGE_ERROR, -1) for number in range(count)]
    assert taken(peer, *frames) == (count, answers)
    assert replica.log.log_end_offset == 1
    assert replica.metrics.failed_produces == count
    assert taken(peer, produce(9)) == (1, [(9, ErrorCode.NONE, 1)])


def test_one_partition_that_fails_does_not_fail_its_neighbours(peer):
    peer.general(produce(2, 1))
    peer.host.disk.fail_path("/data/plain-0", errno.ENOENT)
    assert taken(peer, produce(3), produce(4, 1), produce(5)) == (
        3,
        [
            (3, ErrorCode.KAFKA_STORAGE_ERROR, -1),
            (4, ErrorCode.NONE, 1),
            (5, ErrorCode.KAFKA_STORAGE_ERROR, -1),
        ],
    )
    assert peer.host.node.replicas.get("plain", 0).offline
    assert taken(peer, produce(6))[0] == 0


def test_a_changed_setting_closes_it(peer):
    change = AlterableConfig(name="max.message.bytes", config_operation=0, value="50")
    resource = AlterConfigsResource(resource_type=TOPIC, resource_name="plain", configs=[change])
    peer.general(frame(IncrementalAlterConfigsRequest(resources=[resource]), 1, 2))
    assert taken(peer, produce(3))[0] == 0


def test_a_deleted_topic_closes_it(peer):
    gone = DeleteTopicsRequest(topics=[DeleteTopicState(name="plain")], timeout_ms=1000)
    peer.general(frame(gone, 6, 2))
    assert taken(peer, produce(3))[0] == 0


def test_a_run_over_the_end_of_a_segment_goes_on_in_the_next(peer):
    peer.general(produce(2, topic="small"))
    replica = peer.host.node.replicas.get("small", 0)
    frames = [produce(number, size=100_000, topic="small") for number in range(25)]
    assert taken(peer, *frames)[0] == 25
    assert replica.log.segment_count == 3
    assert replica.log.log_end_offset == 26


def test_a_frame_above_the_limit_of_requests_does_not(peer):
    peer.host.node.staging.request_bytes_max = 1000
    assert taken(peer, produce(2, size=500), produce(3, size=2000))[0] == 1


def test_a_deleted_topic_is_held_by_no_lane(peer):
    replica = peer.host.node.replicas.get("plain", 0)
    peer.host.node.staging.close_lanes([replica])
    assert taken(peer, produce(2))[0] == 0
    assert all(
        lane.target is not replica for lane in peer.host.node.staging.lanes(VERSION).values()
    )


@pytest.mark.source
def test_a_fault_in_writing_closes_those_who_wrote_there_and_answers_the_others(peer, monkeypatch):
    """Partition 0 fails; one connection wrote there and to partition 1, the other one to partition 1 alone."""
    peer.general(produce(2, 1))
    other = Other(peer)
    append = Replica.append

    def fail_on_first(replica, *args):
        if replica.key.partition == 0:
            raise RuntimeError("planted")
        return append(replica, *args)

    monkeypatch.setattr(Replica, "append", fail_on_first)
    monkeypatch.setattr(Replica, "append_run", lambda replica, run, now_ms: [
        replica.append(batch, header, now_ms) for batch, header in run
    ])  # fmt: skip
    log = peer.host.node.replicas.get("plain", 1).log
    end_offset = log.log_end_offset
    for link, frames in (
        (peer.link, [produce(3, 0), produce(4, 1)]),
        (other.link, [produce(5, 1)]),
    ):
        stream = memoryview(bytearray(b"".join(frames)))
        if link.lanes is None:
            link.lanes = peer.link.lanes.__class__(link, peer.host.node.staging)
        assert link.lanes.take(stream, 0, len(stream)) == len(stream)
    peer.host.node.staging.write()
    assert log.log_end_offset == end_offset + 2
    assert [peer.link.is_open, other.link.is_open] == [False, True]
    assert peer.link.answers == []
    [answer] = other.link.answers
    assert decode(answer) == (5, ErrorCode.NONE, end_offset + 1)
    with pytest.raises(Contained) as told:
        peer.host.events.advance(0)
    assert isinstance(told.value.__cause__, RuntimeError)
