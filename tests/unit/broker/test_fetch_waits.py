"""A Fetch that waits for bytes: what it may read is what it may read when it is answered."""

import pytest
from acl_kit import AclKit, creation

from barnabas.model.acl import Operation
from barnabas.model.errors import ErrorCode
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic

BY_NAME, BY_ID = 12, 13
PATIENCE_MS = 5_000


@pytest.fixture
def kit():
    kit = AclKit()
    kit.create("t")
    kit.allow(creation(Operation.READ))
    return kit


@pytest.fixture
def waiting(kit):
    """Give what begins a Fetch at the end of the topic that there is now, and waits until it is being waited for."""

    def begin(version, **fields):
        reader = kit.new_user("alice")
        topic_id = kit.node.topics.by_name["t"].id
        named = {"topic": "t"} if version < BY_ID else {"topic_id": topic_id}
        partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        request = FetchRequest(
            max_wait_ms=PATIENCE_MS, min_bytes=1, max_bytes=1 << 20,
            topics=[FetchTopic(**named, partitions=[partition])], **fields,
        )  # fmt: skip
        reader.send(request, version)
        kit.run(lambda: kit.node.waiters)
        return reader

    return begin


def found(kit, reader):
    kit.run(lambda: reader.answers)
    (topic,) = reader.answers[0].responses
    (partition,) = topic.partitions
    return ErrorCode(partition.error_code), len(partition.records or b"")


def make_again(kit):
    gone = DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=1000)
    assert kit.ask(gone, 6).responses[0].error_code == 0
    kit.create("t")
    assert kit.produce("t").error_code == 0


@pytest.mark.parametrize("session_epoch", [-1, 0])
def test_a_topic_that_is_made_again_is_not_read_by_the_old_id(kit, waiting, session_epoch):
    reader = waiting(BY_ID, session_epoch=session_epoch)
    make_again(kit)
    assert found(kit, reader) == (ErrorCode.UNKNOWN_TOPIC_ID, 0)


def test_nor_by_its_name_before_its_end_is_told(kit, waiting):
    """A name is whatever topic has it, as in Kafka; that the one before has gone is told at once."""
    reader = waiting(BY_NAME, session_epoch=-1)
    gone = DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=1000)
    assert kit.ask(gone, 6).responses[0].error_code == 0
    assert found(kit, reader) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0)


@pytest.mark.parametrize("version", [BY_NAME, BY_ID])
def test_a_right_that_was_revoked_meanwhile_counts_no_more(kit, waiting, version):
    reader = waiting(version, session_epoch=-1)
    assert kit.revoke() == 1
    assert not reader.answers
    assert kit.produce("t").error_code == 0
    assert found(kit, reader) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, 0)
