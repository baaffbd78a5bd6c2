"""What happens to a Produce while its batch is opened in the background: others send requests, topics go, rights and settings change."""

import pytest
from acl_kit import AclKit, creation
from node_kit import NodeKit

from barnabas.model.acl import Operation
from barnabas.model.errors import ErrorCode
from barnabas.sim.world import START_MS
from barnabas.wire import batch
from barnabas.wire.batch import Record
from barnabas.wire.compression import Codec
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)

BY_NAME, BY_ID = 9, 13


def packed(key=b"k"):
    """A small batch that takes long to open."""
    return batch.build([Record(0, START_MS, key, bytes(400_000))], codec=Codec.GZIP)


def plain(value=b"v"):
    return batch.build([Record(0, START_MS, b"k", value)])


def of_size(size):
    """A batch of just this many bytes that is taken at once."""
    return next(data for n in range(size) if len(data := plain(b"." * n)) == size)


def request(data, topic="t", acks=1, **named):
    topics = [
        TopicProduceData(
            **(named or {"name": topic}),
            partition_data=[PartitionProduceData(index=0, records=data)],
        )
    ]
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=topics)


def outcome(answer):
    found = answer.responses[0].partition_responses[0]
    return ErrorCode(found.error_code), found.base_offset


class Opening:
    """A request whose batch is being opened for a second or more."""

    def __init__(self, kit, client, asked, version=BY_NAME):
        self.kit, self.client = kit, client
        self.before = len(client.answers)
        background = kit.machine._background
        background.run, self._run = self._hold, background.run
        self._held = []
        client.send(asked, version)
        kit.run(lambda: self._held)
        background.run = self._run

    def _hold(self, job, done):
        self._held.append((job, done))

    def end(self):
        """Let it be opened; the answer."""
        assert len(self.client.answers) == self.before, "it was not waiting"
        for job, done in self._held:
            self._run(job, done)
        self.kit.run(lambda: len(self.client.answers) > self.before)
        return outcome(self.client.answers[-1])


@pytest.fixture
def kit():
    kit = NodeKit()
    kit.create("t")
    kit.create("u")
    return kit


def test_a_batch_that_was_opened_late_opens_no_lane(kit):
    """It did, with the bytes of whoever used the receive memory by then: their requests were written to its topic from then on."""
    slow, other = kit.new_client(), kit.new_client()
    data = packed()
    opening = Opening(kit, slow, request(data))
    assert outcome(other.ask(request(of_size(len(data)), "u"), BY_NAME)) == (ErrorCode.NONE, 0)
    assert opening.end() == (ErrorCode.NONE, 0)
    link = kit.machine.link_of(slow.connection)
    assert link.lanes is None
    for number in range(1, 4):
        answer = other.ask(request(of_size(len(data)), "u"), BY_NAME)
        assert answer.responses[0].name == "u"
        assert outcome(answer) == (ErrorCode.NONE, number)
    assert (kit.offset("t", -1), kit.offset("u", -1)) == (1, 4)


@pytest.mark.parametrize("version", [BY_NAME, BY_ID])
def test_a_topic_that_was_made_again_meanwhile_does_not_get_the_batch(kit, version):
    topic_id = kit.node.topics.by_name["t"].id
    named = {"topic_id": topic_id} if version == BY_ID else {"name": "t"}
    opening = Opening(kit, kit.new_client(), request(packed(), **named), version)
    gone = DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=1000)
    assert kit.ask(gone, 6).responses[0].error_code == 0
    assert kit.create("t") != topic_id
    code, _offset = opening.end()
    assert (
        code
        is {
            BY_NAME: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            BY_ID: ErrorCode.UNKNOWN_TOPIC_ID,
        }[version]
    )
    assert kit.offset("t", -1) == 0


def test_a_batch_is_opened_again_if_the_settings_changed_meanwhile(kit):
    """The topic is compacted by then, and takes no records without a key."""
    opening = Opening(kit, kit.new_client(), request(packed(key=None)))
    config = AlterableConfig(name="cleanup.policy", config_operation=0, value="compact")
    resource = AlterConfigsResource(resource_type=2, resource_name="t", configs=[config])
    assert (
        kit.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses[0].error_code
        == 0
    )
    assert opening.end()[0] is ErrorCode.INVALID_RECORD
    assert kit.offset("t", -1) == 0


def test_a_batch_that_has_become_too_large_meanwhile_is_refused(kit):
    opening = Opening(kit, kit.new_client(), request(packed()))
    config = AlterableConfig(name="max.message.bytes", config_operation=0, value="100")
    resource = AlterConfigsResource(resource_type=2, resource_name="t", configs=[config])
    assert (
        kit.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses[0].error_code
        == 0
    )
    assert opening.end()[0] is ErrorCode.MESSAGE_TOO_LARGE


def test_a_right_that_was_revoked_meanwhile_counts_no_more():
    kit = AclKit()
    kit.create("t")
    kit.allow(creation(Operation.WRITE))
    alice = kit.new_user("alice")
    assert outcome(alice.ask(request(plain()), BY_NAME)) == (ErrorCode.NONE, 0)
    opening = Opening(kit, alice, request(packed()))
    assert kit.revoke() == 1
    assert opening.end()[0] is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert outcome(alice.ask(request(plain()), BY_NAME))[0] is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert kit.node.replicas.get("t", 0).log.log_end_offset == 1


def test_a_disk_that_failed_meanwhile(kit):
    opening = Opening(kit, kit.new_client(), request(packed()))
    kit.node.replicas.get("t", 0).lose()
    assert opening.end()[0] is ErrorCode.KAFKA_STORAGE_ERROR
