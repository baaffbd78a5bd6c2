"""What the fuzzer found, as the frames it found it with: each failed once."""

import struct

import pytest
from chaos.packed_lies import CODECS, lies, odd_but_good
from chaos.wire_kit import batch, fetch_request, produce_request
from crc32c import crc32c
from fuzz import NodeFuzzer, batch_problem, good_request
from fuzz_world import FuzzLink

from barnabas.wire.batch import read_header
from barnabas.wire.compression import Codec
from barnabas.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest
from barnabas.wire.messages.fetch import FetchRequest, ForgottenTopic
from barnabas.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from barnabas.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

LONGEST = "y" * 32767

FOUND = {
    "Metadata v10 by id: a null name could not be encoded": (
        "0003000a000002d1ffff000386d2c96e760e419b85c924c3597164c40000ffffffffffffffffffffffffffffffff000000000000"
    ),
    "CreatePartitions: the message quoted a name of 32,767 bytes": good_request(
        CreatePartitionsRequest(topics=[CreatePartitionsTopic(name=LONGEST, count=2)]), 3, 1
    ).hex(),
    "DeleteTopics: the message quoted a name of 32,767 bytes": good_request(
        DeleteTopicsRequest(topic_names=[LONGEST]), 5, 1
    ).hex(),
    "Metadata: a name of 32,767 bytes": good_request(
        MetadataRequest(topics=[MetadataRequestTopic(name=LONGEST)]), 9, 1
    ).hex(),
}


@pytest.mark.parametrize("frame", FOUND.values(), ids=FOUND.keys())
def test_frames_that_once_failed(frame):
    fuzzer = NodeFuzzer(0)
    fuzzer.send(bytes.fromhex(frame))
    assert fuzzer.counts.answered == 1


def test_a_batch_that_does_not_decompress_is_told_to_who_searches_by_time():
    fuzzer = NodeFuzzer(0)
    bad = bytearray(batch(b"value" * 50, codec=Codec.GZIP))
    bad[-6] ^= 0xFF
    struct.pack_into(">I", bad, 17, crc32c(bytes(bad[21:])))
    asked = ListOffsetsPartition(partition_index=0, timestamp=1)
    search = ListOffsetsRequest(topics=[ListOffsetsTopic(name="one", partitions=[asked])])
    # No producer can write it; a directory that another broker wrote may hold it.
    replica = fuzzer.fuzz_node.node.replicas.get("one", 0)
    assert replica.append(memoryview(bad), read_header(bad), 0) == 0
    fuzzer.send(good_request(search, 5, 2))
    assert fuzzer.counts.answered == 1


@pytest.mark.parametrize("codec", CODECS)
def test_nothing_is_appended_of_a_compressed_batch_that_lies(codec):
    fuzzer = NodeFuzzer(0)
    before = fuzzer.fuzz_node.ends()
    for number, (_name, data) in enumerate(lies(codec)):
        fuzzer.send(good_request(produce_request("one", data), 9, number))
    assert fuzzer.fuzz_node.ends() == before
    assert fuzzer.counts.answered == number + 1


@pytest.mark.parametrize("codec", CODECS)
def test_the_judge_of_what_was_appended_knows_a_compressed_batch_that_lies(codec):
    for name, data in lies(codec):
        assert batch_problem(data, 0) is not None, name
    for name, data in odd_but_good(codec):
        assert batch_problem(data, 0) is None, name


def test_a_session_whose_partition_another_request_drops_while_one_waits():
    """The bytes come after the partition has left the session: there is nothing to move to its end."""
    fuzzer = NodeFuzzer(0)
    first = fetch_request("one", 0)
    first.session_epoch = 0
    fuzzer.send(good_request(first, 11, 1))
    (session_id,) = fuzzer.scene.session_ids
    waiting = FetchRequest(max_wait_ms=60_000, min_bytes=1, session_id=session_id, session_epoch=1)
    link = FuzzLink()
    node = fuzzer.fuzz_node.node
    assert node.on_request(link, memoryview(bytearray(good_request(waiting, 11, 2)))) is None
    forgotten = [ForgottenTopic(topic="one", partitions=[0])]
    drop = FetchRequest(session_id=session_id, session_epoch=2, forgotten_topics_data=forgotten)
    fuzzer.send(good_request(drop, 11, 3))
    fuzzer.send(good_request(produce_request("one", batch(b"v")), 9, 4))
    assert len(link.answers) == 1
