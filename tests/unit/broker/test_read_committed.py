"""What readers of committed records see, and when they are woken."""

from __future__ import annotations

import pytest
from node_kit import NodeKit

from barnabas.broker.api import fetch as fetch_api
from barnabas.sim.machine import Crash
from barnabas.sim.world import START_MS
from barnabas.wire.batch import TRANSACTIONAL, Producer, Record, build, read_header
from barnabas.wire.control_batch import EndMarker
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)


@pytest.fixture(autouse=True, params=[fetch_api.MANY, 0], ids=["at once", "in pieces"])
def many(request, monkeypatch):
    """What is found is the same, however many partitions are looked at at once."""
    monkeypatch.setattr(fetch_api, "MANY", request.param)


@pytest.fixture
def kit():
    kit = NodeKit()
    kit.topic_id = kit.create("t")
    return kit


def replica(kit):
    return kit.node.replicas.get("t", 0)


def write(kit, producer_id, sequence, count=1, timestamp=1000):
    """Write transactional records past the check of the coordinator."""
    records = [Record(number, timestamp + number, None, b"v") for number in range(count)]
    batch = build(records, attributes=TRANSACTIONAL, producer=Producer(producer_id, 0, sequence))
    base_offset = replica(kit).append(memoryview(batch), read_header(batch), 0)
    kit.node.on_turn_end()
    return base_offset


def end(kit, producer_id, *, commit):
    assert replica(kit).append_marker(EndMarker(commit, 0), producer_id, 0, 1) == 0
    kit.node.on_turn_end()


def fetch(kit, offset=0, *, committed=True, max_wait_ms=0, min_bytes=1):
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=1 << 20,
        isolation_level=int(committed),
        topics=[FetchTopic(topic="t", topic_id=kit.topic_id, partitions=[partition])],
    )


def only(answer):
    return answer.responses[0].partitions[0]


def latest(kit, *, committed, timestamp=-1):
    partition = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    topic = ListOffsetsTopic(name="t", partitions=[partition])
    request = ListOffsetsRequest(isolation_level=int(committed), topics=[topic])
    return kit.ask(request, 8).topics[0].partitions[0].offset


@pytest.mark.parametrize("version", [4, 11, 17])
def test_nothing_of_an_open_transaction_is_seen(kit, version):
    write(kit, 1, 0, count=3)
    found = only(kit.ask(fetch(kit), version))
    assert (found.high_watermark, found.last_stable_offset) == (3, 0)
    assert (len(found.records), found.aborted_transactions) == (0, [])
    found = only(kit.ask(fetch(kit, committed=False), version))
    assert (found.high_watermark, found.last_stable_offset) == (3, 0)
    assert len(found.records) > 0
    assert found.aborted_transactions is None


@pytest.mark.parametrize("version", [4, 11, 17])
def test_aborted_transactions_are_named(kit, version):
    write(kit, 1, 0)
    write(kit, 2, 0)
    end(kit, 2, commit=False)
    end(kit, 1, commit=True)
    found = only(kit.ask(fetch(kit), version))
    aborted = [(one.producer_id, one.first_offset) for one in found.aborted_transactions]
    assert aborted == [(2, 1)]
    assert found.last_stable_offset == 4
    assert only(kit.ask(fetch(kit, 3), version)).aborted_transactions == []


def test_offsets_by_isolation(kit):
    write(kit, 1, 0, count=2)
    assert (latest(kit, committed=False), latest(kit, committed=True)) == (2, 0)
    assert latest(kit, committed=False, timestamp=1001) == 1
    assert latest(kit, committed=True, timestamp=1001) == -1
    end(kit, 1, commit=True)
    assert (latest(kit, committed=False), latest(kit, committed=True)) == (3, 3)
    assert latest(kit, committed=True, timestamp=1001) == 1


def test_records_that_were_deleted_hold_nobody_up(kit):
    """Else a reader that starts at the end is sent below the start, and back, until the transaction is over."""
    write(kit, 1, 0, count=3)
    replica(kit).log.move_log_start(3)
    assert latest(kit, committed=True) == 3
    found = only(kit.ask(fetch(kit, 3), 17))
    assert (found.last_stable_offset, found.log_start_offset) == (3, 3)
    write(kit, 2, 0)
    assert latest(kit, committed=True) == 3
    end(kit, 1, commit=True)
    assert latest(kit, committed=True) == 3
    end(kit, 2, commit=True)
    assert latest(kit, committed=True) == 6


@pytest.mark.parametrize("again", ["on", "restart", "crash"])
@pytest.mark.parametrize("commit", [True, False])
def test_an_open_transaction_keeps_no_old_segment_and_its_end_counts_for_the_rest(commit, again):
    """Retention goes up to the high watermark, as in Kafka, whatever is open."""
    kit = NodeKit(log_initial_task_delay_ms="1000", log_retention_check_interval_ms="1000")
    kit.topic_id = kit.create("t", internal_segment_bytes="100", retention_ms="60000")
    for number in range(4):
        age_ms = 0 if number > 1 else 3_600_000
        write(kit, 1, number, timestamp=START_MS - age_ms)
    kit.run(lambda: replica(kit).log.log_start_offset == 2)
    kit.advance(500)  # until that is written down
    if again == "restart":
        kit.restart()
    elif again == "crash":
        kit.crash(Crash.PROCESS)
    assert (latest(kit, committed=False), latest(kit, committed=True)) == (4, 2)
    assert len(only(kit.ask(fetch(kit, 2), 17)).records) == 0
    end(kit, 1, commit=commit)
    found = only(kit.ask(fetch(kit, 2), 17))
    assert (found.log_start_offset, found.last_stable_offset) == (2, 5)
    hidden = [(one.producer_id, one.first_offset) for one in found.aborted_transactions]
    assert hidden == ([] if commit else [(1, 0)])
    assert len(found.records) > 0


def test_a_marker_wakes_who_waits(kit):
    reader = kit.new_client()
    reader.send(fetch(kit, max_wait_ms=10_000), 17)
    kit.run(lambda: kit.node.replicas.waiting.count == 1)
    write(kit, 1, 0)
    kit.advance(1000)
    assert reader.answers == []
    end(kit, 1, commit=True)
    kit.run(lambda: reader.answers != [])
    assert len(only(reader.answers[0]).records) > 0


def test_too_little_that_became_stable_waits_on(kit):
    reader = kit.new_client()
    write(kit, 1, 0)
    write(kit, 2, 0)
    reader.send(fetch(kit, max_wait_ms=10_000, min_bytes=120), 17)
    kit.run(lambda: kit.node.replicas.waiting.count == 1)
    end(kit, 1, commit=True)  # its one record is visible now: too few bytes
    kit.advance(100)
    assert reader.answers == []
    end(kit, 2, commit=True)
    kit.run(lambda: reader.answers != [])


def test_the_deadline_ends_the_waiting(kit):
    reader = kit.new_client()
    write(kit, 1, 0)
    reader.send(fetch(kit, max_wait_ms=500), 17)
    kit.advance(400)
    assert reader.answers == []
    kit.advance(200)
    assert len(only(reader.answers[0]).records) == 0


def test_after_a_restart_the_transaction_is_still_open(kit):
    write(kit, 1, 0)
    end(kit, 1, commit=False)
    write(kit, 1, 1)
    kit.restart()
    found = only(kit.ask(fetch(kit), 17))
    assert found.last_stable_offset == 2
    assert [one.first_offset for one in found.aborted_transactions] == [0]
    kit.crash()
    found = only(kit.ask(fetch(kit), 17))
    assert found.last_stable_offset == 2
