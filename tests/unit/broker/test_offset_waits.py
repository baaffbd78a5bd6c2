"""Offsets of topics that go, or are made again, while a request about them waits."""

from random import Random

import pytest
from fuzz import good_request
from fuzz_world import FuzzLink, FuzzNode

from barnabas.broker.pieces import PIECE
from barnabas.broker.tasks import drive
from barnabas.core.group.offset_requests import CommitPartition, CommitRequest, CommitTopic
from barnabas.model.errors import ErrorCode
from barnabas.wire import frame
from barnabas.wire.messages import offset_commit, offset_fetch, txn_offset_commit
from barnabas.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest

GROUP = "g"
BY_NAME, BY_ID = 9, 10
#: So many that they are looked up in pieces; only the first one is there.
MANY = range(2 * PIECE)
#: And so many that they are decoded in the background.
LONG = range(9_000)


class Asking:
    """A request under way; time stands still until `end`, and with it every pause."""

    def __init__(self, host, request, version):
        self.host, self.request, self.version = host, request, version
        self.link = FuzzLink()
        self.parts = host.node.on_request(
            self.link, memoryview(bytearray(good_request(request, version, 1)))
        )
        host.events.settle()

    @property
    def is_waiting(self):
        return self.parts is None and not self.link.answers

    def end(self):
        for _ in range(100):
            if self.is_waiting:
                self.host.events.advance(1)
        found = self.link.answers[0] if self.parts is None else b"".join(map(bytes, self.parts))
        header = frame.response_header(1, self.request.API_KEY, self.version)
        _, kind = frame.message_types(self.request.API_KEY)
        return kind.decode(found, self.version, 4 + len(header))


@pytest.fixture
def host():
    host = FuzzNode(Random(1))
    for key_type in (0, 1):
        asked = FindCoordinatorRequest(key_type=key_type, coordinator_keys=["x"])
        assert Asking(host, asked, 4).end().coordinators[0].error_code == 0
    create(host)
    return host


def create(host):
    topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
    request = CreateTopicsRequest(topics=[topic], timeout_ms=1000)
    return Asking(host, request, 7).end().topics[0].topic_id


def make_again(host):
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=1000)
    assert Asking(host, request, 6).end().responses[0].error_code == 0
    return create(host)


def kept(host):
    """What the group has committed for the topic that has the name now."""
    topic = offset_fetch.OffsetFetchRequestTopics(name="t", partition_indexes=[0])
    group = offset_fetch.OffsetFetchRequestGroup(group_id=GROUP, topics=[topic])
    answer = Asking(host, offset_fetch.OffsetFetchRequest(groups=[group]), 9).end()
    return answer.groups[0].topics[0].partitions[0].committed_offset


def commit_request(host, version, indexes):
    partitions = [
        offset_commit.OffsetCommitRequestPartition(partition_index=index, committed_offset=7)
        for index in indexes
    ]
    named = {"name": "t"} if version < BY_ID else {"topic_id": host.node.topics.by_name["t"].id}
    topic = offset_commit.OffsetCommitRequestTopic(**named, partitions=partitions)
    return offset_commit.OffsetCommitRequest(group_id=GROUP, topics=[topic])


@pytest.mark.parametrize(
    ("version", "code"),
    [(BY_NAME, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), (BY_ID, ErrorCode.UNKNOWN_TOPIC_ID)],
)
def test_a_topic_that_was_made_again_does_not_get_the_offsets_of_the_one_before(
    host, version, code
):
    asking = Asking(host, commit_request(host, version, LONG), version)
    assert asking.is_waiting
    make_again(host)
    (topic,) = asking.end().topics
    codes = {one.partition_index: one.error_code for one in topic.partitions}
    assert sorted(codes) == list(LONG)
    assert codes[0] == code
    assert kept(host) == -1


def test_the_offsets_of_a_topic_that_is_still_there_are_kept(host):
    asking = Asking(host, commit_request(host, BY_NAME, LONG), BY_NAME)
    assert asking.is_waiting
    (topic,) = asking.end().topics
    assert {one.partition_index: one.error_code for one in topic.partitions}[0] == 0
    assert kept(host) == 7


def test_nor_those_of_a_transaction(host):
    asked = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000)
    producer = Asking(host, asked, 4).end()
    assert producer.error_code == 0
    partitions = [
        txn_offset_commit.TxnOffsetCommitRequestPartition(partition_index=i, committed_offset=7)
        for i in MANY
    ]
    topic = txn_offset_commit.TxnOffsetCommitRequestTopic(name="t", partitions=partitions)
    request = txn_offset_commit.TxnOffsetCommitRequest(
        transactional_id="x", group_id=GROUP, producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch, topics=[topic],
    )  # fmt: skip
    asking = Asking(host, request, 5)
    assert asking.is_waiting
    make_again(host)
    (answered,) = asking.end().topics
    codes = {one.partition_index: one.error_code for one in answered.partitions}
    assert codes[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    pending = host.node.coordinators.find(GROUP).shard.offsets
    assert not pending.has_pending(GROUP, "t", 0)


def test_only_the_topic_that_has_gone_is_refused(host):
    topic = host.node.topics.by_name["t"]
    one = CommitPartition(0, 7, -1, "")
    request = CommitRequest(
        GROUP, [CommitTopic("t", topic.id, [one]), CommitTopic("u", bytes(range(16)), [one])]
    )
    answers = []
    drive(host.node.coordinators.commit_many(request), lambda *answer: answers.append(answer))
    host.events.settle()
    ((reply, problem),) = answers
    assert problem is None
    assert reply.topics == [
        ("t", [(0, ErrorCode.NONE)]),
        ("u", [(0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]),
    ]
    assert kept(host) == 7


def test_offsets_are_told_by_the_id_that_was_asked_for(host):
    topic_id = host.node.topics.by_name["t"].id
    Asking(host, commit_request(host, BY_NAME, [0]), BY_NAME).end()
    topic = offset_fetch.OffsetFetchRequestTopics(topic_id=topic_id, partition_indexes=list(MANY))
    group = offset_fetch.OffsetFetchRequestGroup(group_id=GROUP, topics=[topic])
    asking = Asking(host, offset_fetch.OffsetFetchRequest(groups=[group]), BY_ID)
    assert asking.is_waiting
    assert make_again(host) != topic_id
    (told,) = asking.end().groups[0].topics
    assert told.topic_id == topic_id
