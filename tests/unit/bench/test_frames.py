import struct

from bench.admin import COMMIT_VERSION, FETCH_VERSION, PRODUCE_VERSION
from bench.frames import (
    Batch,
    Place,
    commit_frame,
    error_position,
    fetch_frame,
    heartbeat_frame,
    produce_frame,
    value,
    write_fetch,
    write_produce,
)

from barnabas.wire import frame
from barnabas.wire.batch import checksum_matches, read_header, read_records
from barnabas.wire.compression import Codec
from barnabas.wire.messages.fetch import FetchRequest
from barnabas.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from barnabas.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

PLACES = [Place("a-topic", 0), Place("a-topic", 7), Place("another", 3, 9)]


def body(data, kind, version):
    assert struct.unpack(">i", data[:4])[0] == len(data) - 4
    head = frame.decode_request_header(memoryview(data)[4:])
    assert (head.api_key, head.api_version) == (kind.API_KEY, version)
    return kind.decode(data[4:], version, head.body_pos)


def test_a_produce_frame_is_a_request_with_one_good_batch():
    _, data = produce_frame(PLACES[1], Batch(10, 200, Codec.LZ4, acks=1))
    request = body(data, ProduceRequest, PRODUCE_VERSION)
    assert request.acks == 1
    (topic,) = request.topic_data
    (partition,) = topic.partition_data
    assert (topic.name, partition.index) == ("a-topic", 7)
    batch = memoryview(bytes(partition.records))
    assert checksum_matches(batch, read_header(batch))
    records = read_records(batch, 1 << 20)
    assert [len(record.value) for record in records] == [200] * 10


def test_the_error_code_stands_where_it_is_said_to():
    for place in PLACES:
        answer = ProduceResponse(
            responses=[
                TopicProduceResponse(
                    name=place.topic,
                    partition_responses=[
                        PartitionProduceResponse(
                            index=place.partition, error_code=19, base_offset=2**40
                        )
                    ],
                )
            ]
        )
        data = frame.response_header(5, answer.API_KEY, PRODUCE_VERSION)
        data += b"".join(bytes(part) for part in answer.encode(PRODUCE_VERSION))
        at = error_position(place)
        assert struct.unpack(">h", data[at : at + 2]) == (19,)


def test_offsets_can_be_patched_into_a_fetch_frame():
    data, positions = fetch_frame(PLACES)
    patched = bytearray(data)
    for number, at in enumerate(positions):
        struct.pack_into(">q", patched, at, 100 + number)
    request = body(bytes(patched), FetchRequest, FETCH_VERSION)
    found = [
        (topic.topic, partition.partition, partition.fetch_offset)
        for topic in request.topics
        for partition in topic.partitions
    ]
    assert found == [("a-topic", 0, 100), ("a-topic", 7, 101), ("another", 3, 102)]


def test_files_hold_every_frame(tmp_path):
    data = write_produce(tmp_path / "p", PLACES, Batch()).read_bytes()
    assert struct.unpack(">I", data[:4]) == (3,)
    at = 4
    for place in PLACES:
        error_at, records, size = struct.unpack(">III", data[at : at + 12])
        assert (error_at, records) == (error_position(place), 1)
        at += 12 + size
    assert at == len(data)
    data = write_fetch(tmp_path / "f", PLACES).read_bytes()
    size = struct.unpack(">I", data[:4])[0]
    assert struct.unpack(">I", data[4 + size : 8 + size]) == (3,)
    assert data.endswith(struct.pack(">iqI", 3, 9, 7) + b"another")


def test_values_compress_like_data_and_are_the_same_every_time():
    assert value(1000, 3) == value(1000, 3) != value(1000, 4)
    assert len(value(1000, 3)) == 1000
    plain = len(produce_frame(PLACES[0], Batch(100, 1024))[1])
    packed = len(produce_frame(PLACES[0], Batch(100, 1024, Codec.ZSTD))[1])
    assert 0.1 < packed / plain < 0.6


def test_commits_and_heartbeats_name_the_place_of_the_error_code():
    at, data = commit_frame("a-group", PLACES[1])
    request = body(data, OffsetCommitRequest, COMMIT_VERSION)
    assert (request.group_id, request.generation_id_or_member_epoch) == ("a-group", -1)
    (topic,) = request.topics
    assert (topic.name, [part.partition_index for part in topic.partitions]) == ("a-topic", [7])
    part = OffsetCommitResponsePartition(partition_index=7, error_code=25)
    answer = OffsetCommitResponse(
        topics=[OffsetCommitResponseTopic(name="a-topic", partitions=[part])]
    )
    assert code_at(answer, COMMIT_VERSION, at) == 25

    beat = HeartbeatRequest(group_id="a-group", generation_id=3, member_id="m")
    at, data = heartbeat_frame(beat, 4)
    assert body(data, HeartbeatRequest, 4).member_id == "m"
    assert code_at(HeartbeatResponse(throttle_time_ms=9, error_code=27), 4, at) == 27


def code_at(answer, version, at):
    data = frame.response_header(5, answer.API_KEY, version)
    data += b"".join(bytes(part) for part in answer.encode(version))
    return struct.unpack(">h", data[at : at + 2])[0]
