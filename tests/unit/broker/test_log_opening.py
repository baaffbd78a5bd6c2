"""Making the logs of new partitions: a directory without room is passed over, and what fails leaves nothing behind."""

import errno
from random import Random

import pytest
from fuzz import good_request
from fuzz_world import FuzzLink, FuzzNode
from member_kit import new_store, put_topic, start_member
from node_kit import NodeKit

from barnabas.broker.config_changes import on_broker_changed, on_topic_changed
from barnabas.broker.log_opening import open_replicas
from barnabas.broker.tasks import drive
from barnabas.broker.znodes import ALL_BROKERS
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import TopicPartition
from barnabas.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from barnabas.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest

ONE, TWO = "/one", "/two"


@pytest.fixture
def kit():
    return NodeKit(log_dirs=f"{ONE},{TWO}")


def fill(kit, directory, *partitions, topic="t", code=errno.ENOSPC):
    """Let no file of these partitions be made there; folders can be, and removed again."""
    for index in partitions:
        kit.disk.fail_path(f"{directory}/{topic}-{index}/partition.metadata", code)


def create(kit, partitions, name="t"):
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    answer = kit.ask(CreateTopicsRequest(topics=[topic], timeout_ms=1000), 7)
    return answer.topics[0].error_code


def add(kit, count):
    topic = CreatePartitionsTopic(name="t", count=count, assignments=None)
    return kit.ask(CreatePartitionsRequest(topics=[topic], timeout_ms=1000), 3)


def places(kit):
    return {str(replica.key): replica.directory.path for replica in kit.node.replicas}


def folders(kit):
    return [
        f"{path}/{name}"
        for path in (ONE, TWO)
        for name in kit.disk.list(path)
        if name.startswith("t-")
    ]


def test_a_directory_without_room_is_passed_over(kit):
    fill(kit, TWO, 0, 1, 2, 3)
    assert create(kit, 4) == 0
    assert set(places(kit).values()) == {ONE}
    assert folders(kit) == [f"{ONE}/t-{index}" for index in range(4)]
    assert kit.produce("t", 3).error_code == 0


def test_so_is_one_that_somebody_wished_for(kit):
    directory = next(one for one in kit.node.directories if one.path == TWO)
    kit.node.placement.wish(("t", 0), directory)
    fill(kit, TWO, 0)
    assert create(kit, 1) == 0
    assert places(kit) == {"t-0": ONE}


def test_without_room_anywhere_nothing_is_left(kit, caplog):
    for directory in (ONE, TWO):
        fill(kit, directory, 2)
    assert create(kit, 4) == ErrorCode.KAFKA_STORAGE_ERROR
    assert folders(kit) == []
    assert "t" not in kit.node.topics.by_name
    kit.disk.heal()
    assert create(kit, 4) == 0
    assert sorted(places(kit).values()) == [ONE, ONE, TWO, TWO]
    kit.restart()
    assert not [folder for folder in folders(kit) if "stray" in folder]
    assert "stray" not in caplog.text


def test_what_a_failed_disk_interrupts_leaves_nothing_on_the_others(kit):
    fill(kit, TWO, 3, code=errno.EIO)
    assert create(kit, 4) == ErrorCode.KAFKA_STORAGE_ERROR
    assert [folder for folder in folders(kit) if folder.startswith(ONE)] == []
    assert create(kit, 4) == 0
    assert set(places(kit).values()) == {ONE}


def test_new_partitions_go_where_there_is_room(kit):
    assert create(kit, 1) == 0
    fill(kit, TWO, 1, 2)
    assert add(kit, 3).results[0].error_code == 0
    assert places(kit) == {"t-0": ONE, "t-1": ONE, "t-2": ONE}


def test_new_partitions_without_room_are_made_later(kit):
    assert create(kit, 1) == 0
    for directory in (ONE, TWO):
        fill(kit, directory, 1)
    assert add(kit, 2).results[0].error_code == 0
    assert folders(kit) == [f"{ONE}/t-0"]
    kit.disk.heal()
    kit.run(lambda: kit.node.replicas.get("t", 1) is not None)
    assert places(kit) == {"t-0": ONE, "t-1": TWO}


def test_the_folder_of_an_older_topic_is_no_victim(kit):
    kit.disk.make_dir(f"{ONE}/t-0")
    kit.disk.write_file_atomically(
        f"{ONE}/t-0/partition.metadata", b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n"
    )
    kit.disk.fail_path(f"{ONE}/t-0/partition.metadata", errno.ENOSPC)
    assert create(kit, 1) == 0
    assert places(kit) == {"t-0": TWO}
    assert f"{ONE}/t-0" in folders(kit)


@pytest.mark.parametrize("nth", range(1, 45, 2))
def test_wherever_room_ends_the_topic_is_whole_or_not_there(kit, nth):
    kit.disk.fail_call(nth, errno.ENOSPC)
    code = create(kit, 3)
    kit.disk.heal()
    if code:
        assert folders(kit) == []
        assert create(kit, 3) == 0
    assert len(places(kit)) == 3
    assert len([folder for folder in folders(kit) if "stray" not in folder]) == 3


def answer_late(events):
    """Let jobs in the background be done at once, and their answers wait."""

    def run(job, done):
        result = job()
        events.later(lambda: done(result, None))

    events.run = run


def test_settings_that_change_while_a_log_is_being_made_count_for_it():
    """The log was made with those of before, and kept them until the next change or start."""
    host, link = FuzzNode(Random(1)), FuzzLink()
    answer_late(host.events)
    topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
    request = good_request(CreateTopicsRequest(topics=[topic], timeout_ms=1000), 7, 1)
    assert host.node.on_request(link, memoryview(bytearray(request))) is None
    host.events._later.popleft()()  # the store has it, and the log is made
    assert host.disk.is_dir("/data/t-0")
    assert not len(host.node.replicas)
    on_broker_changed(host.node, ALL_BROKERS, {"log.retention.ms": "4711"})
    host.events.settle()
    assert len(link.answers) == 1
    replica = host.node.replicas.get("t", 0)
    assert replica.config.retention_ms == replica.log.config.retention_ms == 4711


def test_a_topics_own_settings_that_change_while_its_log_is_being_made_count_for_it():
    store = new_store()
    put_topic(store, "t", (1,), (1,))
    member = start_member(store)
    node, topic = member.node, member.node.topics.by_name["t"]
    node.replicas.drop(TopicPartition("t", 0))
    answer_late(member.events)
    opened = []
    drive(
        open_replicas(node, topic, range(1), are_new=False), lambda *answer: opened.append(answer)
    )
    on_topic_changed(node, "t", {"retention.ms": "4711"})
    member.events.settle()
    (((replica,), problem),) = opened
    assert problem is None
    node.replicas.add(replica)
    assert replica.config.retention_ms == replica.log.config.retention_ms == 4711
