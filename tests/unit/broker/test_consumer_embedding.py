"""The bytes of classic consumers, read and written for groups that change their protocol."""

import struct

import pytest

from barnabas.broker.consumer_embedding import ConsumerEmbedding
from barnabas.wire.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from barnabas.wire.messages.consumer_protocol_subscription import (
    ConsumerProtocolSubscription,
    TopicPartition,
)

EMBEDDING = ConsumerEmbedding()


def metadata(version=3, **fields):
    body = b"".join(ConsumerProtocolSubscription(**fields).encode(version))
    return struct.pack(">h", version) + body


def test_a_subscription_tells_topics_owned_partitions_and_rack():
    owned = [TopicPartition(topic="a", partitions=[0, 2])]
    read = EMBEDDING.read_subscription(
        metadata(topics=["a", "b"], owned_partitions=owned, rack_id="north")
    )
    assert read == (("a", "b"), {"a": (0, 2)}, "north")


def test_an_old_subscription_tells_topics_only():
    assert EMBEDDING.read_subscription(metadata(0, topics=["a"])) == (("a",), {}, None)


@pytest.mark.parametrize("junk", [b"", b"\x00", b"\xff\xff", b"\x00\x00\x00\x00\x00\x05"])
def test_what_cannot_be_read_is_none(junk):
    assert EMBEDDING.read_subscription(junk) is None
    assert EMBEDDING.read_assignment(junk) is None


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_an_assignment_comes_back_as_it_was_written(version):
    written = EMBEDDING.write_assignment({"a": (0, 1)}, metadata(version, topics=["a"]))
    assert struct.unpack_from(">h", written) == (version,)
    assert EMBEDDING.read_assignment(written) == ({"a": (0, 1)}, False)


def test_an_assignment_for_a_newer_client_is_in_the_newest_known_version():
    written = EMBEDDING.write_assignment({}, b"\x00\x09")
    newest = ConsumerProtocolAssignment.MAX_VERSION
    assert struct.unpack_from(">h", written) == (newest,)


def test_user_data_of_a_custom_assignor_is_noticed():
    body = b"".join(ConsumerProtocolAssignment(user_data=b"mine").encode(0))
    assert EMBEDDING.read_assignment(b"\x00\x00" + body).has_user_data
