"""DeleteRecords: gone for readers at once, and still gone after a crash."""

import pytest
from fuzz import good_request
from fuzz_world import FuzzLink
from member_kit import new_store, put_topic, start_member
from node_kit import DATA, NodeKit

from barnabas.broker.log_opening import open_replicas
from barnabas.broker.tasks import drive
from barnabas.model.cluster import LiveBroker, Topic
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import TopicPartition
from barnabas.sim.machine import Crash
from barnabas.sim.world import START_MS
from barnabas.wire import batch
from barnabas.wire.batch import Record
from barnabas.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)


def delete(kit, offset, name="t", index=0):
    """Ask for it; code and low watermark."""
    asked = DeleteRecordsPartition(partition_index=index, offset=offset)
    topic = DeleteRecordsTopic(name=name, partitions=[asked])
    answer = kit.ask(DeleteRecordsRequest(topics=[topic], timeout_ms=1000), 2)
    found = answer.topics[0].partitions[0]
    return ErrorCode(found.error_code), found.low_watermark


@pytest.fixture
def kit():
    kit = NodeKit()
    kit.create("t", internal_segment_bytes="300", file_delete_delay_ms="1000", flush_messages="1")
    for _ in range(10):
        kit.produce("t", count=3)
    return kit


def logs(kit):
    return [name for name in kit.disk.list(f"{DATA}/t-0") if name.endswith(".log")]


def test_the_log_starts_there_and_whole_segments_go(kit):
    before = logs(kit)
    assert len(before) > 2
    assert delete(kit, 17) == (ErrorCode.NONE, 17)
    assert kit.offset("t", -2) == 17
    assert kit.ask(kit.fetch_request("t", 16), 11).responses[0].partitions[0].error_code == 1
    left = logs(kit)
    assert left == before[-len(left) :]
    assert len(left) < len(before)
    assert [name for name in kit.disk.list(f"{DATA}/t-0") if name.endswith(".deleted")]
    kit.advance(2000)
    assert not [name for name in kit.disk.list(f"{DATA}/t-0") if name.endswith(".deleted")]


def test_everything_up_to_the_high_watermark(kit):
    assert delete(kit, -1) == (ErrorCode.NONE, 30)
    assert kit.offset("t", -2) == kit.offset("t", -1) == 30
    assert kit.produce("t").base_offset == 30


def test_an_offset_already_deleted_changes_nothing(kit):
    delete(kit, 17)
    assert delete(kit, 5) == (ErrorCode.NONE, 17)


@pytest.mark.parametrize("offset", [31, -2, 1 << 40])
def test_out_of_range(kit, offset):
    assert delete(kit, offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert kit.offset("t", -2) == 0


def test_unknown_and_compacted(kit):
    assert delete(kit, 0, "nosuch") == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
    assert delete(kit, 0, index=7) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
    kit.create("c", cleanup_policy="compact")
    assert delete(kit, 0, "c") == (ErrorCode.POLICY_VIOLATION, -1)


@pytest.mark.parametrize("crash", list(Crash))
def test_an_answered_deletion_outlives_a_crash(kit, crash):
    delete(kit, 17)
    kit.crash(crash)
    assert (kit.offset("t", -2), kit.offset("t", -1)) == (17, 30)


def test_a_new_topic_of_the_same_name_does_not_inherit_the_start(kit):
    from barnabas.wire.messages.delete_topics import DeleteTopicsRequest

    delete(kit, 17)
    kit.ask(DeleteTopicsRequest(topic_names=["t"]), 5)
    kit.create("t", flush_messages="1")
    kit.produce("t", count=2)
    kit.crash()
    assert (kit.offset("t", -2), kit.offset("t", -1)) == (0, 2)


def a_batch():
    data = memoryview(bytearray(batch.build([Record(0, START_MS, None, b"v")])))
    return data, batch.read_header(data)


def ask_member(member, offset):
    asked = DeleteRecordsPartition(partition_index=0, offset=offset)
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name="t", partitions=[asked])], timeout_ms=60_000
    )
    link = FuzzLink()
    parts = member.node.on_request(link, memoryview(bytearray(good_request(request, 2, 1))))
    assert parts is None
    member.events.settle()
    return link


def code_of(link):
    answer = DeleteRecordsResponse.decode(link.answers[0], 2, 4 + 5)
    return ErrorCode(answer.topics[0].partitions[0].error_code)


@pytest.mark.parametrize(
    ("end", "code"),
    [
        ("delete", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("make again", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("lose", ErrorCode.KAFKA_STORAGE_ERROR),
        ("follow", ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
def test_who_waits_for_followers_of_what_is_led_here_no_more_hears_of_it(end, code):
    """It waited until the request's time was over, or told that all was done."""
    store = new_store()
    put_topic(store, "t", (1, 2), (1, 2))
    member = start_member(store)
    node, key = member.node, TopicPartition("t", 0)
    node.cluster.brokers = {1: LiveBroker(1), 2: LiveBroker(2)}
    replica = node.replicas.get(*key)
    replica.append(*a_batch(), 0)
    replica.state.high_watermark = 1
    link = ask_member(member, 1)
    assert not link.answers, "broker 2 has not deleted them yet"
    topic = node.topics.by_name["t"]
    if end == "lose":
        replica.lose()
    elif end == "follow":
        state = replica.state
        replica.follow(
            leader=2, leader_epoch=state.leader_epoch + 1, partition_epoch=9, replicas=(1, 2), in_sync=(2,),
        )  # fmt: skip
    else:
        node.replicas.drop(key)
        node.topics.drop(topic)
        if end == "make again":
            other = Topic("t", bytes(range(16)), list(topic.partitions))
            node.topics.put(other)
            opened = []
            drive(
                open_replicas(node, other, range(1), are_new=True), lambda *one: opened.append(one)
            )
            member.events.settle()
            (((again,), _problem),) = opened
            node.replicas.add(again)
            again.lead(leader_epoch=1, partition_epoch=0, replicas=(1, 2), in_sync=(1, 2), now_ms=0)
    member.events.advance(20)
    assert code_of(link) is code
