"""Replicas are placed where Apache Kafka 3.9 places them.

`placement_of_kafka.txt` is what its AdminUtils answers: brokers (1, 3, 5 …) | racks | replication factor | start | first partition | replicas.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from barnabas.core.controller.placement import alternating, place_partitions, start_of_added
from barnabas.model.cluster import LiveBroker
from barnabas.model.errors import ErrorCode, KafkaError

ANSWERS = (Path(__file__).parent / "placement_of_kafka.txt").read_text().splitlines()


def brokers(count, racks=()):
    return [LiveBroker(2 * i + 1, 1, racks[i] if racks else None) for i in range(count)]


@pytest.mark.parametrize("answer", ANSWERS)
def test_as_kafka_does(answer):
    count, racks, factor, start, first, replicas = answer.split("|")
    cluster = brokers(int(count), racks.split(",") if racks else ())
    numbers = range(int(first), int(first) + 9)
    placed = place_partitions(cluster, numbers, int(factor), int(start), int(start))
    assert list(placed) == list(numbers)
    assert " ".join(",".join(map(str, r)) for r in placed.values()) == replicas


def test_every_broker_leads_and_follows_equally_often():
    placed = place_partitions(brokers(5), range(20), 3, start=3, shift=1).values()
    assert set(Counter(replicas[0] for replicas in placed).values()) == {4}
    assert set(Counter(r for replicas in placed for r in replicas).values()) == {12}
    assert all(len(set(replicas)) == 3 for replicas in placed)


def test_every_rack_has_a_replica_before_one_has_two():
    racks = dict(zip(range(1, 13, 2), "aabbcc", strict=True))
    placed = place_partitions(brokers(6, "aabbcc"), range(30), 4, start=0, shift=2)
    for replicas in placed.values():
        assert {racks[r] for r in replicas[:3]} == set("abc")
        assert len(set(replicas)) == 4


def test_brokers_alternate_between_racks():
    assert alternating({0: "x", 1: "z", 2: "y", 3: "x", 4: "x"}) == [0, 2, 1, 3, 4]


def test_added_partitions_go_on_at_the_first_replica_of_the_first_partition():
    assert start_of_added(brokers(4), 5) == 2
    # It is not there any more: the next one.
    assert start_of_added(brokers(4), 4) == 2
    assert start_of_added(brokers(4), 99) == 0


@pytest.mark.parametrize(
    ("cluster", "partitions", "factor", "code", "words"),
    [
        (brokers(2), 1, 3, ErrorCode.INVALID_REPLICATION_FACTOR, "only 2 brokers alive"),
        (brokers(2), 1, 0, ErrorCode.INVALID_REPLICATION_FACTOR, "at least 1"),
        ([], 1, 1, ErrorCode.INVALID_REPLICATION_FACTOR, "only 0 brokers"),
        (brokers(2), 0, 1, ErrorCode.INVALID_PARTITIONS, "at least one partition"),
        (brokers(3, ["a", None, "b"]), 1, 1, ErrorCode.INVALID_REPLICA_ASSIGNMENT, "[3]"),
    ],
)
def test_what_cannot_be_placed(cluster, partitions, factor, code, words):
    with pytest.raises(KafkaError) as refused:
        place_partitions(cluster, range(partitions), factor, 0, 0)
    assert refused.value.code is code
    assert words in refused.value.message
