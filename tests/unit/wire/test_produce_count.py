"""How many topics and partitions a Produce request names, told without decoding it."""

import pytest

from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.wire.produce_count import names_more_than

VERSIONS = range(3, 14)


def encoded(version, *partition_counts, records=b"r" * 200, transactional_id=None):
    name = "" if version >= 13 else "topic"
    topic_id = b"\1" * 16 if version >= 13 else bytes(16)
    topics = [
        TopicProduceData(
            name=name,
            topic_id=topic_id,
            partition_data=[PartitionProduceData(index=n, records=records) for n in range(count)],
        )
        for count in partition_counts
    ]
    request = ProduceRequest(
        transactional_id=transactional_id, acks=1, timeout_ms=1, topic_data=topics
    )
    return b"before" + b"".join(bytes(part) for part in request.encode(version))


def tells(limit, data, version):
    return names_more_than(limit, memoryview(data), version, len(b"before"))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("transactional_id", [None, "transactional"])
@pytest.mark.parametrize("records", [None, b"", b"r" * 20_000])
def test_it_counts_every_topic_and_partition(version, transactional_id, records):
    data = encoded(version, 2, 0, 5, records=records, transactional_id=transactional_id)
    assert not tells(10, data, version)
    assert tells(9, data, version)


@pytest.mark.parametrize("version", VERSIONS)
def test_nothing_is_no_more_than_nothing(version):
    assert not tells(0, encoded(version), version)


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_cut_off_is_for_the_decoder(version):
    data = encoded(version, 3)
    whole = len(data)
    for end in range(len(b"before"), whole - 205):
        assert tells(10, data[:end], version)


def test_it_looks_no_further_than_it_counts():
    data = encoded(9, 1000)
    assert tells(5, data[:300], 9)


def test_tagged_fields_are_for_the_decoder():
    data = bytearray(encoded(9, 1))
    data[-3] = 1  # of the partition; those of its topic and of the request follow
    assert tells(10, data, 9)
