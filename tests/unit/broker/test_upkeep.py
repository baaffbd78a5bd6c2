"""What the clock does: flushes by time, checkpoints, and producers that are forgotten."""

import pytest
from node_kit import DATA, NodeKit

from barnabas.sim.machine import Crash
from barnabas.wire import batch
from barnabas.wire.batch import Producer, Record
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData


def test_flush_ms_brings_records_to_the_medium_by_itself():
    kit = NodeKit()
    kit.create("t", flush_ms="2000")
    kit.produce("t", count=3)
    kit.advance(5000)
    kit.crash(Crash.POWER)
    assert kit.offset("t", -1) == 3


def test_without_it_they_wait_for_a_roll_or_a_stop():
    kit = NodeKit()
    kit.create("t")
    kit.produce("t", count=3)
    kit.advance(5000)
    assert kit.node.replicas.get("t", 0).log.recovery_point == 0


@pytest.mark.parametrize(
    "name", ["recovery-point-offset-checkpoint", "replication-offset-checkpoint"]
)
def test_checkpoints_are_written_by_the_clock(name):
    kit = NodeKit()
    kit.create("t", flush_messages="1")
    kit.produce("t", count=3)
    kit.advance(6000)
    assert kit.disk.read_file(f"{DATA}/{name}") == b"0\n1\nt 0 3\n"


def test_idle_producers_are_forgotten():
    settings = {
        "producer_id_expiration_ms": "1000",
        "producer_id_expiration_check_interval_ms": "1000",
    }
    kit = NodeKit(**settings)
    kit.create("t")
    data = batch.build([Record(0, 0, b"k", b"v")], producer=Producer(7, 0, 0))
    topic = TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=data)])
    kit.ask(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[topic]), 9)
    producers = kit.node.replicas.get("t", 0).log.producers
    assert len(producers) == 1
    kit.advance(60_000)
    assert len(producers) == 0
