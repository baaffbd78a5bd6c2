"""Produce of transactional records: what the coordinator is asked, and what clients of each version are told."""

from __future__ import annotations

import gc

import pytest
from node_kit import NodeKit

from barnabas.broker.batch_check import Refusal
from barnabas.model.errors import ErrorCode
from barnabas.wire.batch import TRANSACTIONAL, Producer, Record, build
from barnabas.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from barnabas.wire.messages.end_txn import EndTxnRequest
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

ID = "tx"


@pytest.fixture
def kit():
    kit = NodeKit()
    kit.create("t", partitions=2)
    request = FindCoordinatorRequest(key_type=1, coordinator_keys=[ID])
    kit.run(lambda: kit.ask(request, 4).coordinators[0].error_code == 0)
    return kit


def init(kit):
    answer = kit.ask(InitProducerIdRequest(transactional_id=ID, transaction_timeout_ms=60_000), 4)
    assert answer.error_code == 0
    return Producer(answer.producer_id, answer.producer_epoch, 0)


def add(kit, producer, *partitions):
    topic = AddPartitionsToTxnTopic(name="t", partitions=list(partitions))
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=ID,
        v3_and_below_producer_id=producer.id,
        v3_and_below_producer_epoch=producer.epoch,
        v3_and_below_topics=[topic],
    )
    answer = kit.ask(request, 3)
    for topic in answer.results_by_topic_v3_and_below:
        assert [one.partition_error_code for one in topic.results_by_partition] == [0] * len(
            partitions
        )


def end(kit, producer, *, commit, version=4):
    request = EndTxnRequest(
        transactional_id=ID,
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        committed=commit,
    )
    answer = kit.ask(request, version)
    assert answer.error_code == 0
    return Producer(answer.producer_id, answer.producer_epoch, 0)


def batch_by(producer, count=1):
    records = [Record(number, 1000, None, b"v") for number in range(count)]
    return bytes(build(records, attributes=TRANSACTIONAL, producer=producer))


def produce(kit, *batches, version=11, transactional_id=ID, acks=-1):
    """Write one batch to each partition; the codes that came back."""
    data = [PartitionProduceData(index=i, records=one) for i, one in enumerate(batches)]
    request = ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=1000,
        topic_data=[TopicProduceData(name="t", partition_data=data)],
    )
    answer = kit.ask(request, version).responses[0].partition_responses
    return [ErrorCode(one.error_code) for one in answer]


def ends(kit):
    return [kit.offset("t", -1, index) for index in range(2)]


@pytest.mark.parametrize(
    ("version", "code"), [(9, ErrorCode.INVALID_TXN_STATE), (11, ErrorCode.TRANSACTION_ABORTABLE)]
)
def test_partitions_must_be_added_first(kit, version, code):
    producer = init(kit)
    assert produce(kit, batch_by(producer), version=version) == [code]
    add(kit, producer, 1)
    assert produce(kit, batch_by(producer), version=version) == [code]
    add(kit, producer, 0)
    assert produce(kit, batch_by(producer), version=version) == [ErrorCode.NONE]
    assert ends(kit) == [1, 0]


@pytest.fixture
def no_collector():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def test_a_refusal_is_not_kept_by_its_own_frames(kit, no_collector):
    """It would keep the frames of all callers until the next look for garbage, and the memory that was lent to them."""
    producer = init(kit)
    assert produce(kit, batch_by(producer)) == [ErrorCode.TRANSACTION_ABORTABLE]
    assert not [each for each in gc.get_objects() if isinstance(each, Refusal)]


def test_one_partition_that_was_not_added_fails_alone(kit):
    producer = init(kit)
    add(kit, producer, 1)
    codes = produce(kit, batch_by(producer), batch_by(producer))
    assert codes == [ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.NONE]
    assert ends(kit) == [0, 1]


def test_newer_clients_add_by_writing(kit):
    producer = init(kit)
    assert produce(kit, batch_by(producer), batch_by(producer), version=12) == [ErrorCode.NONE] * 2
    following = end(kit, producer, commit=True, version=5)
    assert following.epoch == producer.epoch + 1
    assert ends(kit) == [2, 2]
    assert produce(kit, batch_by(following), version=12) == [ErrorCode.NONE]
    # What comes late from the transaction before is fenced by its epoch.
    late = batch_by(Producer(producer.id, producer.epoch, 1))
    assert produce(kit, late, version=12) == [ErrorCode.INVALID_PRODUCER_EPOCH]


def test_a_batch_after_its_transaction_begins_no_other(kit):
    producer = init(kit)
    add(kit, producer, 0)
    assert produce(kit, batch_by(producer)) == [ErrorCode.NONE]
    end(kit, producer, commit=False)
    late = batch_by(Producer(producer.id, producer.epoch, 1))
    assert produce(kit, late, version=9) == [ErrorCode.INVALID_TXN_STATE]
    assert ends(kit) == [2, 0]


def test_an_id_of_nobody(kit):
    init(kit)
    stranger = Producer(4711, 0, 0)
    assert produce(kit, batch_by(stranger)) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]
    codes = produce(kit, batch_by(stranger), transactional_id=None)
    assert codes == [ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED]
    assert ends(kit) == [0, 0]


def test_two_producers_in_one_request(kit):
    producer = init(kit)
    add(kit, producer, 0, 1)
    other = Producer(producer.id, producer.epoch + 1, 0)
    codes = produce(kit, batch_by(producer), batch_by(other))
    assert codes == [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 2
    assert ends(kit) == [0, 0]


def test_repeated_batches_are_recognised(kit):
    producer = init(kit)
    add(kit, producer, 0)
    batch = batch_by(producer, 3)
    assert produce(kit, batch) == produce(kit, batch) == [ErrorCode.NONE]
    assert ends(kit) == [3, 0]


def test_records_outside_the_transaction_are_refused(kit):
    producer = init(kit)
    add(kit, producer, 0)
    produce(kit, batch_by(producer))
    plain = bytes(build([Record(0, 0, None, b"v")], producer=Producer(producer.id, 0, 1)))
    assert produce(kit, plain) == [ErrorCode.INVALID_TXN_STATE]


def test_partitions_that_are_not_there(kit):
    producer = init(kit)
    codes = produce(kit, *[batch_by(producer)] * 3, version=12)
    assert codes == [ErrorCode.NONE, ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_verification_can_be_switched_off():
    kit = NodeKit(transaction_partition_verification_enable="false")
    kit.create("t", partitions=2)
    assert produce(kit, batch_by(Producer(7, 0, 0))) == [ErrorCode.NONE]
    assert ends(kit) == [1, 0]
