"""DeleteTopics: gone at the commit, folders out of the way before the answer, files after a while."""

import pytest
from node_kit import NodeKit

from barnabas.model.errors import ErrorCode
from barnabas.sim.machine import Crash
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

NO_ID = bytes(16)


def by_name(*names):
    return DeleteTopicsRequest(topics=[DeleteTopicState(name=name) for name in names])


def codes(answer):
    return [ErrorCode(one.error_code) for one in answer.responses]


def test_a_deleted_topic_is_gone_and_its_files_follow():
    kit = NodeKit()
    topic_id = kit.create("t", partitions=2, file_delete_delay_ms="1000")
    kit.produce("t")
    answer = kit.ask(by_name("t"), 6).responses[0]
    assert (answer.name, answer.topic_id, answer.error_code) == ("t", topic_id, 0)
    assert kit.produce("t").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [name.endswith("-delete") for name in kit.folders()] == [True, True]
    kit.advance(2000)
    assert kit.folders() == []


def test_by_id_and_in_old_versions():
    kit = NodeKit()
    topic_id = kit.create("by-id")
    request = DeleteTopicsRequest(topics=[DeleteTopicState(topic_id=topic_id)])
    assert codes(kit.ask(request, 6)) == [ErrorCode.NONE]
    for version in range(1, 6):
        kit.create("t")
        request = DeleteTopicsRequest(topic_names=["t", "nosuch"])
        expected = [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert codes(kit.ask(request, version)) == expected


def test_what_is_refused():
    kit = NodeKit()
    topic_id = kit.create("t")
    states = [
        DeleteTopicState(name="t"),
        DeleteTopicState(topic_id=topic_id),
        DeleteTopicState(name="t", topic_id=topic_id),
        DeleteTopicState(),
        DeleteTopicState(topic_id=bytes(range(16))),
        DeleteTopicState(name="nosuch"),
        DeleteTopicState(name="twice"),
        DeleteTopicState(name="twice"),
    ]
    assert codes(kit.ask(DeleteTopicsRequest(topics=states), 6)) == [
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_REQUEST,
    ]
    assert kit.produce("t").error_code == 0


@pytest.mark.parametrize(
    ("version", "code"), [(1, ErrorCode.INVALID_REQUEST), (3, ErrorCode.TOPIC_DELETION_DISABLED)]
)
def test_deletion_can_be_switched_off(version, code):
    kit = NodeKit(delete_topic_enable="false")
    kit.create("t")
    assert codes(kit.ask(DeleteTopicsRequest(topic_names=["t"]), version)) == [code]
    assert kit.produce("t").error_code == 0


def test_a_topic_of_the_same_name_starts_anew_at_once():
    kit = NodeKit()
    first = kit.create("t")
    kit.produce("t", count=5)
    for _ in range(3):
        kit.ask(by_name("t"), 6)
        assert kit.create("t") != first
        assert kit.offset("t", -1) == 0
        kit.produce("t", count=2)
    kit.crash(Crash.PROCESS)
    assert kit.offset("t", -1) == 2


def test_two_who_delete_and_one_who_creates_at_the_same_time():
    for seed in range(20):
        kit = NodeKit(seed)
        kit.create("t", partitions=3)
        one, other = kit.new_client(), kit.new_client()
        one.send(by_name("t"), 6)
        other.send(by_name("t"), 6)
        kit.run(lambda one=one, other=other: one.answers and other.answers)
        both = sorted(codes(one.answers[0]) + codes(other.answers[0]))
        assert both == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        kit.create("t")
        assert kit.produce("t").base_offset == 0


def test_a_reader_that_waits_is_told():
    kit = NodeKit()
    kit.create("t")
    reader = kit.new_client()
    reader.send(kit.fetch_request("t", 0, max_wait_ms=1_000_000), 11)
    kit.ask(by_name("t"), 6)
    kit.run(lambda: reader.answers)
    partition = reader.answers[0].responses[0].partitions[0]
    assert partition.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_crash_at_any_disk_call_leaves_either_state_whole():
    outcomes = set()
    for nth in range(1, 40):
        kit = NodeKit(seed=nth)
        kit.create("t", partitions=2)
        kit.produce("t", count=3)
        kit.machine.crash_at_call(Crash.POWER, nth, 1000)
        kit.client.send(by_name("t"), 6)
        kit.advance(2000)
        kit.machine.disk.spare()
        kit.run(lambda kit=kit: kit.machine.is_up)
        kit.client = kit.new_client()
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name="t")], allow_auto_topic_creation=False
        )
        topic = kit.ask(request, 12).topics[0]
        outcomes.add(topic.error_code)
        if topic.error_code == 0:
            assert [p.error_code for p in topic.partitions] == [0, 0]
        else:
            assert not [name for name in kit.folders() if name in ("t-0", "t-1")]
            kit.create("t")
            assert kit.offset("t", -2) == kit.offset("t", -1) == 0
    assert ErrorCode.UNKNOWN_TOPIC_OR_PARTITION in outcomes
