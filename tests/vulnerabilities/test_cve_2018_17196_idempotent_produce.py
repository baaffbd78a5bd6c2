"""CVE-2018-17196: a Produce request with a producer id went past the check of its topic. Every Produce is held against the topic's rules, whatever else it is."""

import pytest
from acl_kit import AclKit, creation

from barnabas.model.acl import Operation, ResourceType
from barnabas.model.errors import ErrorCode
from barnabas.wire import batch
from barnabas.wire.batch import TRANSACTIONAL, Producer, Record
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

KINDS = {
    "plain": (None, None, False),
    "idempotent": (Producer(1000, 0, 0), None, False),
    "transactional": (Producer(1000, 0, 0), "tx", True),
    "with the id of a transaction": (Producer(1000, 0, 0), "tx", False),
}


def produce(kind):
    producer, transactional_id, is_transactional = KINDS[kind]
    options = {"attributes": TRANSACTIONAL} if is_transactional else {}
    if producer is not None:
        options["producer"] = producer
    records = batch.build([Record(0, 1_000, b"k", b"v", ())], **options)
    topic = TopicProduceData(
        name="t", partition_data=[PartitionProduceData(index=0, records=records)]
    )
    return ProduceRequest(
        transactional_id=transactional_id, acks=-1, timeout_ms=1000, topic_data=[topic]
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "others", [(), (Operation.IDEMPOTENT_WRITE,), (Operation.DESCRIBE, Operation.WRITE)]
)
def test_no_kind_of_produce_goes_past_the_topics_rules(kind, others):
    kit = AclKit()
    kit.create("t")
    for operation in others:
        resource = (
            ResourceType.CLUSTER
            if operation == Operation.IDEMPOTENT_WRITE
            else ResourceType.TRANSACTIONAL_ID
        )
        name = "kafka-cluster" if resource == ResourceType.CLUSTER else "tx"
        kit.allow(creation(operation, resource, name))
    answer = kit.new_user("alice").ask(produce(kind), 9)
    code = answer.responses[0].partition_responses[0].error_code
    assert code in (
        ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    )  # fmt: skip
    assert kit.offset("t", -1) == 0


def test_a_topics_writer_needs_the_transactional_id_as_well():
    kit = AclKit()
    kit.create("t")
    kit.allow(creation(Operation.WRITE))
    answer = kit.new_user("alice").ask(produce("transactional"), 9)
    code = answer.responses[0].partition_responses[0].error_code
    assert code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert kit.offset("t", -1) == 0
