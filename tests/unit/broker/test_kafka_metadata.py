import random

import pytest
from metadata_kit import FOLDER, ID_A, ID_B, batch, setting, topic, write, write_log

from barnabas.broker.kafka_metadata import BROKER, TOPIC, read_cluster
from barnabas.sim.disk import SimDisk
from barnabas.wire.messages.metadata_records.abort_transaction_record import AbortTransactionRecord
from barnabas.wire.messages.metadata_records.access_control_entry_record import (
    AccessControlEntryRecord,
)
from barnabas.wire.messages.metadata_records.begin_transaction_record import BeginTransactionRecord
from barnabas.wire.messages.metadata_records.end_transaction_record import EndTransactionRecord
from barnabas.wire.messages.metadata_records.no_op_record import NoOpRecord
from barnabas.wire.messages.metadata_records.partition_change_record import PartitionChangeRecord
from barnabas.wire.messages.metadata_records.producer_ids_record import ProducerIdsRecord
from barnabas.wire.messages.metadata_records.remove_topic_record import RemoveTopicRecord

ROOT = "/data"


@pytest.fixture
def disk():
    disk = SimDisk(random.Random(1))
    disk.make_dir(ROOT)
    return disk


def names(cluster):
    return sorted(cluster.topics)


def test_a_directory_without_a_metadata_log(disk):
    assert read_cluster(disk, ROOT) is None


def test_topics_partitions_settings_and_ids(disk):
    changed = PartitionChangeRecord(partition_id=1, topic_id=ID_A, leader=1)
    same = PartitionChangeRecord(partition_id=0, topic_id=ID_A, isr=[1])
    write_log(
        disk,
        ROOT,
        topic("a", ID_A, 0, 3),
        [changed, same, NoOpRecord(), ProducerIdsRecord(broker_id=1, next_producer_id=3000)],
        [
            setting(TOPIC, "a", "retention.ms", "5"),
            setting(TOPIC, "a", "segment.ms", "7"),
            setting(TOPIC, "a", "segment.ms", None),
            setting(BROKER, "", "min.insync.replicas", "1"),
            AccessControlEntryRecord(),
        ],
    )
    cluster = read_cluster(disk, ROOT)
    assert cluster.topics["a"].topic_id == ID_A
    assert cluster.topics["a"].leader_epochs == {0: 0, 1: 4}
    assert cluster.configs == {
        (TOPIC, "a"): {"retention.ms": "5"},
        (BROKER, ""): {"min.insync.replicas": "1"},
    }
    assert cluster.next_producer_id == 3000
    assert cluster.others == {"ACLs": 1}
    assert not cluster.problem


def test_a_topic_that_was_deleted_and_made_again(disk):
    removed = RemoveTopicRecord(topic_id=ID_A)
    late = PartitionChangeRecord(partition_id=0, topic_id=ID_A, leader=1)
    write_log(
        disk,
        ROOT,
        [*topic("a", ID_A, 5), setting(TOPIC, "a", "retention.ms", "5")],
        [removed, removed, late],
        topic("a", ID_B, 0),
    )
    cluster = read_cluster(disk, ROOT)
    assert cluster.topics["a"].topic_id == ID_B
    assert cluster.topics["a"].leader_epochs == {0: 0}
    assert cluster.configs == {}


@pytest.mark.parametrize(("end", "expected"), [("end", ["a", "b"]), ("abort", ["b"]), ("", [])])
def test_transactions_count_when_they_end(disk, end, expected):
    ends = {"end": [EndTransactionRecord()], "abort": [AbortTransactionRecord()], "": []}
    write_log(
        disk,
        ROOT,
        [BeginTransactionRecord(), *topic("a", ID_A, 0), *ends[end]],
        topic("b", ID_B, 0),
    )
    assert names(read_cluster(disk, ROOT)) == expected


def test_the_newest_snapshot_comes_before_the_log(disk):
    write(disk, ROOT, "00000000000000000002-0000000001.checkpoint", [batch(topic("x", ID_A, 0), 0)])
    write(disk, ROOT, "00000000000000000005-0000000001.checkpoint", [batch(topic("a", ID_A, 2), 0)])
    write(disk, ROOT, "00000000000000000009-0000000001.checkpoint.part", [b"?"])
    # Offsets 1 and 2 are in the snapshot; 5 and 6 come after it.
    write_log(disk, ROOT, topic("old", ID_B, 0), base=0)
    write_log(disk, ROOT, topic("b", ID_B, 0), base=5)
    assert names(read_cluster(disk, ROOT)) == ["a", "b"]


def test_a_torn_end_is_passed_over_and_damage_is_told(disk):
    write_log(disk, ROOT, topic("a", ID_A, 0), tail=b"half a header")
    cluster = read_cluster(disk, ROOT)
    assert (names(cluster), cluster.problem) == (["a"], "")
    write_log(disk, ROOT, topic("a", ID_A, 0), topic("b", ID_B, 0))
    disk.flip(f"{ROOT}/{FOLDER}/00000000000000000000.log", 300)
    write_log(disk, ROOT, topic("c", ID_B, 0), base=9)
    cluster = read_cluster(disk, ROOT)
    assert names(cluster) == ["a"]
    assert "checksum" in cluster.problem
