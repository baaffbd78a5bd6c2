"""Every transaction API with the same requests to Apache Kafka and to us: the answers agree, field by field.

Producer ids are each broker's own, so requests name the producer that the side gave out. Kafka writes markers after it has answered: where
that would be seen, both are waited for. See two_brokers.py for what may differ. BARNABAS_TEST_KAFKA=HOST:PORT takes an
Apache Kafka that runs already (with transaction.state.log.replication.factor=1 and transaction.state.log.min.isr=1).
"""

import pytest
from compat.apache_kafka import shared_kafka
from compat.conftest import running_broker
from compat.two_brokers import TwoBrokers

from barnabas.wire import batch
from barnabas.wire.batch import Producer, Record
from barnabas.wire.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    api_versions,
    describe_transactions,
    end_txn,
    find_coordinator,
    init_producer_id,
    list_transactions,
    offset_fetch,
    produce,
    txn_offset_commit,
    write_txn_markers,
)

pytestmark = pytest.mark.java

SETTINGS = (
    "transaction.state.log.replication.factor=1",
    "transaction.state.log.min.isr=1",
    "group.initial.rebalance.delay.ms=0",
)
NOT_COORDINATOR = (14, 15, 16)
TRANSACTION = 1
#: Version of EndTxn since which the epoch rises.
RISES = 5


@pytest.fixture(scope="module")
def kafka_address(tmp_path_factory):
    with shared_kafka(tmp_path_factory.mktemp("kafka"), *SETTINGS) as address:
        yield address


@pytest.fixture(scope="module")
def our_address(tmp_path_factory):
    with running_broker(tmp_path_factory.mktemp("broker"), *SETTINGS) as address:
        yield address


@pytest.fixture
def name(topic_name):
    return f"id-{topic_name}"


@pytest.fixture
def both(our_address, kafka_address, name):
    brokers = TwoBrokers(our_address, kafka_address)
    for side in brokers.sides:
        side.producers = {}
        for key_type in (0, TRANSACTION):
            request = find_coordinator.FindCoordinatorRequest(
                coordinator_keys=[name], key_type=key_type
            )
            side.ask_until(request, 4, lambda answer: answer.coordinators[0].error_code == 0)
        ready = describe_request(name)
        side.ask_until(
            ready, 0, lambda a: a.transaction_states[0].error_code not in NOT_COORDINATOR
        )
        # Kafka's first block of producer ids is on its way
        side.ask_until(init_request(f"{name}-first"), 5, lambda a: a.error_code == 0)
        fetch = fetch_offsets(name, name)
        side.ask_until(fetch, 8, lambda a: a.groups[0].error_code not in NOT_COORDINATOR)
    yield brokers
    for side in brokers.sides:
        side.client.close()
    assert not brokers.differences, "\n".join(brokers.differences)
    assert brokers.asked


@pytest.fixture
def topic(both, topic_name):
    both.create(topic_name, partitions=2)
    return topic_name


# Requests


def init_request(name, timeout_ms=60_000, producer_id=-1, epoch=-1):
    return init_producer_id.InitProducerIdRequest(
        transactional_id=name,
        transaction_timeout_ms=timeout_ms,
        producer_id=producer_id,
        producer_epoch=epoch,
    )


def init(both, name, version=5):
    """Become a producer on both sides; their ids and epochs are kept by side."""
    both.ask(init_request(name), version)
    for side in both.sides:
        assert side.last.error_code == 0, side.last
        side.producers[name] = (side.last.producer_id, side.last.producer_epoch)


def init_as_oneself(name, epoch_delta=0, **more):
    def request(side):
        producer_id, epoch = side.producers[name]
        return init_request(name, producer_id=producer_id, epoch=epoch + epoch_delta, **more)

    return request


def add_request(name, *partitions, epoch_delta=0, id_delta=0):
    def request(side):
        producer_id, epoch = side.producers.get(name, (1000, 0))
        return add_partitions_to_txn.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=name,
            v3_and_below_producer_id=producer_id + id_delta,
            v3_and_below_producer_epoch=epoch + epoch_delta,
            v3_and_below_topics=[
                add_partitions_to_txn.AddPartitionsToTxnTopic(name=topic, partitions=indexes)
                for topic, indexes in partitions
            ],
        )

    return request


def batched_request(name, *partitions, verify=False, epoch_delta=0, id_delta=0):
    def request(side):
        producer_id, epoch = side.producers.get(name, (1000, 0))
        one = add_partitions_to_txn.AddPartitionsToTxnTransaction(
            transactional_id=name,
            producer_id=producer_id + id_delta,
            producer_epoch=epoch + epoch_delta,
            verify_only=verify,
            topics=[
                add_partitions_to_txn.AddPartitionsToTxnTopic(name=topic, partitions=indexes)
                for topic, indexes in partitions
            ],
        )
        return add_partitions_to_txn.AddPartitionsToTxnRequest(transactions=[one])

    return request


def end_request(name, committed=True, epoch_delta=0, id_delta=0):
    def request(side):
        producer_id, epoch = side.producers.get(name, (1000, 0))
        return end_txn.EndTxnRequest(
            transactional_id=name,
            producer_id=producer_id + id_delta,
            producer_epoch=epoch + epoch_delta,
            committed=committed,
        )

    return request


def end(both, name, committed=True, version=RISES):
    """End on both sides and wait until the markers are written; newer clients go on with the epoch they are told."""
    both.ask(end_request(name, committed), version)
    for side in both.sides:
        if version >= RISES and not side.last.error_code:
            side.producers[name] = (side.last.producer_id, side.last.producer_epoch)
    settle(both, name)


def settle(both, name):
    for side in both.sides:
        side.ask_until(
            describe_request(name),
            0,
            lambda answer: not answer.transaction_states[0].transaction_state.startswith("Prepare"),
        )


def describe_request(*names):
    return describe_transactions.DescribeTransactionsRequest(transactional_ids=list(names))


def describe(both, name):
    both.ask(describe_request(name), 0, allowed=("transaction_start_time_ms", "partitions"))
    ours, kafkas = (partitions_of(side.last) for side in both.sides)
    assert ours == kafkas


def partitions_of(answer):
    """The partitions of a transaction, in order; those of the offsets topic depend on how many it has."""
    return sorted(
        (topic.topic, index)
        for topic in answer.transaction_states[0].topics
        for index in topic.partitions
        if topic.topic != "__consumer_offsets"
    )


def produce_request(name, topic, sequence=0, index=0, epoch_delta=0):
    def request(side):
        producer_id, epoch = side.producers[name]
        producer = Producer(producer_id, epoch + epoch_delta, sequence)
        data = batch.build(
            [Record(0, 1_700_000_000_000, b"k", b"v", ())],
            attributes=batch.TRANSACTIONAL,
            producer=producer,
        )
        partition = produce.PartitionProduceData(index=index, records=data)
        return produce.ProduceRequest(
            transactional_id=name,
            acks=-1,
            timeout_ms=30_000,
            topic_data=[
                produce.TopicProduceData(
                    name=topic, topic_id=side.ids[topic], partition_data=[partition]
                )
            ],
        )

    return request


def commit_request(name, group, topic, offset=5, epoch_delta=0, id_delta=0, metadata="", **more):
    def request(side):
        producer_id, epoch = side.producers.get(name, (1000, 0))
        partition = txn_offset_commit.TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset, committed_metadata=metadata
        )
        topics = [txn_offset_commit.TxnOffsetCommitRequestTopic(name=topic, partitions=[partition])]
        return txn_offset_commit.TxnOffsetCommitRequest(
            transactional_id=name,
            group_id=group,
            producer_id=producer_id + id_delta,
            producer_epoch=epoch + epoch_delta,
            topics=topics,
            **more,
        )

    return request


def add_offsets_request(name, group, epoch_delta=0, id_delta=0):
    def request(side):
        producer_id, epoch = side.producers.get(name, (1000, 0))
        return add_offsets_to_txn.AddOffsetsToTxnRequest(
            transactional_id=name,
            producer_id=producer_id + id_delta,
            producer_epoch=epoch + epoch_delta,
            group_id=group,
        )

    return request


def fetch_offsets(group, topic, require_stable=False):
    topics = [offset_fetch.OffsetFetchRequestTopics(name=topic, partition_indexes=[0])]
    groups = [offset_fetch.OffsetFetchRequestGroup(group_id=group, topics=topics)]
    return offset_fetch.OffsetFetchRequest(groups=groups, require_stable=require_stable)


# Features and coordinators


def test_features(both):
    request = api_versions.ApiVersionsRequest(client_software_name="x", client_software_version="1")
    for version in (3, 4):
        levels = []
        for side in both.sides:
            answer = side.ask(request, version)
            levels.append(
                (
                    [
                        (f.min_version, f.max_version)
                        for f in answer.supported_features
                        if f.name == "transaction.version"
                    ],
                    [
                        (f.min_version_level, f.max_version_level)
                        for f in answer.finalized_features
                        if f.name == "transaction.version"
                    ],
                )
            )
        assert levels[0] == levels[1]
    both.asked += 1


def test_find_coordinator(both, name):
    request = find_coordinator.FindCoordinatorRequest
    both.ask_all(request(key_type=TRANSACTION, key=name), since=1, until=3)
    both.ask_all(request(key_type=TRANSACTION, coordinator_keys=[name, "b"]), since=4)
    both.ask_all(request(key_type=TRANSACTION, coordinator_keys=[""]), since=4)


# InitProducerId


def test_epochs_of_a_transactional_id(both, name):
    both.ask_all(init_request(name))
    both.ask_all(init_request(name, timeout_ms=0))
    both.ask_all(init_request(name, timeout_ms=900_001))
    both.ask_all(init_request(name, timeout_ms=900_000))
    both.ask_all(init_request(""))
    describe(both, name)


def test_a_producer_names_itself(both, name):
    init(both, name)
    both.ask(init_as_oneself(name), 5)
    both.ask(init_as_oneself(name), 5)  # repeated
    both.ask(init_as_oneself(name, epoch_delta=5), 5)
    both.ask(init_as_oneself(name, epoch_delta=5), 3)
    both.ask(init_request(name, producer_id=999_999, epoch=0), 5)
    both.ask(init_request(name, producer_id=5), 5)
    both.ask(init_request(name, epoch=5), 5)
    init(both, name)
    both.ask(init_as_oneself(name, epoch_delta=-1), 5)
    both.ask(init_request(f"{name}-new", producer_id=5, epoch=3), 5)


def test_init_while_a_transaction_is_open(both, topic, name):
    init(both, name)
    both.ask(add_request(name, (topic, [0])), 3)
    both.ask(init_request(name), 5)
    settle(both, name)
    describe(both, name)
    both.ask(end_request(name), 4)
    both.ask(end_request(name, committed=False), RISES)
    both.ask(end_request(name, committed=True), RISES)
    both.ask(init_request(name), 5)


# AddPartitionsToTxn


def test_add_partitions(both, topic, name):
    both.ask_all(add_request(name, (topic, [0])), until=3)
    init(both, name)
    both.ask_all(add_request(name, (topic, [0]), epoch_delta=1), until=3)
    both.ask_all(add_request(name, (topic, [0]), id_delta=1), until=3)
    both.ask_all(add_request(name, (topic, [0, 7]), ("nowhere", [0])), until=3)
    both.ask_all(add_request(name, (topic, [0]), ("__consumer_offsets", [0])), until=3)
    both.ask_all(add_request("", (topic, [0])), until=3)
    both.ask_all(add_request(name), until=3)
    describe(both, name)
    both.ask_all(add_request(name, (topic, [0])), until=3)
    both.ask_all(add_request(name, (topic, [1])), until=3)
    describe(both, name)


def test_batched_and_verify_only(both, topic, name):
    both.ask_all(batched_request(name, (topic, [0])), since=4)
    both.ask_all(batched_request(name, (topic, [0]), verify=True), since=4)
    init(both, name)
    both.ask_all(batched_request(name, (topic, [0]), verify=True), since=4)
    both.ask_all(batched_request(name, (topic, [0]), epoch_delta=1), since=4)
    both.ask_all(batched_request(name, (topic, [0]), verify=True, epoch_delta=1), since=4)
    both.ask_all(batched_request(name, (topic, [0]), verify=True, id_delta=1), since=4)
    both.ask_all(batched_request(name, (topic, [0, 9])), since=4)
    both.ask_all(batched_request("", (topic, [0])), since=4)
    both.ask_all(batched_request(name, (topic, [0])), since=4)
    both.ask_all(batched_request(name, (topic, [0, 1]), verify=True), since=4)
    describe(both, name)


# EndTxn


@pytest.mark.parametrize("version", [1, 4])
def test_end_of_version_0(both, topic, name, version):
    both.ask(end_request(name), version)
    init(both, name)
    for committed in (True, False):
        both.ask(end_request(name, committed), version)
        both.ask(add_request(name, (topic, [0, 1])), 3)
        both.ask(end_request(name, committed, epoch_delta=1), version)
        both.ask(end_request(name, committed, epoch_delta=-1), version)
        both.ask(end_request(name, committed, id_delta=1), version)
        end(both, name, committed, version)
        describe(both, name)
        both.ask(end_request(name, committed), version)
        both.ask(end_request(name, not committed), version)
    both.ask(end_request(""), version)


def test_end_of_version_2(both, topic, name):
    both.ask(end_request(name), RISES)
    init(both, name)
    both.ask(end_request(name, committed=True), RISES)
    both.ask(end_request(name, committed=False, epoch_delta=-1), RISES)
    both.ask(end_request(name, committed=False, epoch_delta=1), RISES)
    both.ask(end_request(name, committed=False, id_delta=1), RISES)
    for committed in (True, False):
        both.ask(batched_request(name, (topic, [0])), 5)
        both.ask(end_request(name, committed, epoch_delta=-1), RISES)
        both.ask(end_request(name, not committed, epoch_delta=-1), RISES)
        end(both, name, committed)
        describe(both, name)
        for again in (True, False):
            both.ask(end_request(name, again, epoch_delta=-1), RISES)  # repeated
            both.ask(end_request(name, again, epoch_delta=-2), RISES)
            both.ask(end_request(name, again, epoch_delta=1), RISES)
        both.ask(end_request(name, committed=True), RISES)
    both.ask(end_request(""), RISES)


def test_abort_of_what_was_never_begun(both, name):
    init(both, name)
    for _ in range(2):
        end(both, name, committed=False)
        describe(both, name)
        both.ask(end_request(name, committed=False, epoch_delta=-1), RISES)
        both.ask(end_request(name, committed=True, epoch_delta=-1), RISES)


# Produce in transactions


def test_produce_needs_its_partition_in_the_transaction(both, topic, name):
    init(both, name)
    for version in (10, 11):
        both.ask(produce_request(name, topic), version)
    both.ask(add_request(name, (topic, [0])), 3)
    both.ask(produce_request(name, topic, epoch_delta=1), 11)
    both.ask(produce_request(name, topic), 11)
    both.ask(produce_request(name, topic, sequence=1), 11)
    both.ask(produce_request(name, topic, index=1), 11)
    end(both, name, version=4)
    both.ask(produce_request(name, topic, sequence=2), 11)


def test_produce_begins_the_transaction(both, topic, name):
    init(both, name)
    both.ask(produce_request(name, topic), 13)
    describe(both, name)
    both.ask(produce_request(name, topic, epoch_delta=1), 13)
    end(both, name)
    both.ask(produce_request(name, topic, epoch_delta=-1), 13)
    both.ask(produce_request(name, topic), 13)
    both.ask(produce_request(name, topic, index=1), 12)
    describe(both, name)


# Offsets


def test_offsets_in_a_transaction(both, topic, name):
    both.ask_all(add_offsets_request(name, name))
    both.ask_all(commit_request(name, name, topic), until=5)
    init(both, name)
    both.ask_all(commit_request(name, name, topic), until=4)
    both.ask_all(add_offsets_request(name, name, epoch_delta=1))
    both.ask_all(add_offsets_request(name, name, id_delta=1))
    both.ask_all(add_offsets_request("", name))
    both.ask_all(add_offsets_request(name, name))
    both.ask_all(commit_request(name, name, topic), until=4)
    both.ask_all(commit_request(name, name, "nowhere"), until=4)
    both.ask_all(commit_request(name, "", topic), until=4)
    both.ask_all(commit_request(name, name, topic, metadata="x" * 5000), until=4)
    member = {"member_id": "m", "generation_id_or_member_epoch": 3}
    both.ask_all(commit_request(name, name, topic, **member), since=3, until=4)
    for stable in (True, False):
        both.ask_all(fetch_offsets(name, topic, stable), since=8, until=9)
    end(both, name, version=4)
    for stable in (True, False):
        both.ask_all(fetch_offsets(name, topic, stable), since=8, until=9)


def test_offsets_begin_the_transaction(both, topic, name):
    init(both, name)
    both.ask(commit_request(name, name, topic, epoch_delta=1), 5)
    both.ask(commit_request(name, name, topic, id_delta=1), 5)
    both.ask(commit_request(name, name, topic), 5)
    describe(both, name)
    end(both, name, committed=False)
    both.ask(fetch_offsets(name, topic, require_stable=True), 9)
    both.ask(commit_request(name, name, topic, epoch_delta=-1), 5)
    both.ask(commit_request(name, name, topic, offset=9), 5)
    both.ask(fetch_offsets(name, topic, require_stable=True), 9)
    end(both, name)
    both.ask(fetch_offsets(name, topic, require_stable=True), 9)


def test_a_consumer_is_fenced(both, topic, name):
    init(both, name)
    unknown = {"member_id": "m", "generation_id_or_member_epoch": 3}
    both.ask(commit_request(name, name, topic, **unknown), 5)
    both.ask(commit_request(name, name, topic), 5)
    both.ask(commit_request(name, name, topic, **unknown), 5)
    instance = {"member_id": "m", "group_instance_id": "i"}
    both.ask(commit_request(name, name, topic, **instance), 5)


# Markers and lists


def test_write_markers(both, topic, name):
    init(both, name)
    init(both, name)  # so that there is an epoch before
    both.ask(add_request(name, (topic, [0])), 3)
    both.ask(produce_request(name, topic), 11)

    def marker(topic_name, epoch_delta=0, coordinator_epoch=0, partitions=(0,), version=0):
        def request(side):
            producer_id, epoch = side.producers[name]
            topics = [
                write_txn_markers.WritableTxnMarkerTopic(
                    name=topic_name, partition_indexes=list(partitions)
                )
            ]
            one = write_txn_markers.WritableTxnMarker(
                producer_id=producer_id,
                producer_epoch=epoch + epoch_delta,
                transaction_result=False,
                topics=topics,
                coordinator_epoch=coordinator_epoch,
                transaction_version=version,
            )
            return write_txn_markers.WriteTxnMarkersRequest(markers=[one])

        return request

    both.ask_all(marker(topic, epoch_delta=-1))
    both.ask_all(marker("nowhere"))
    both.ask_all(marker(topic, partitions=(0, 9)))
    both.ask_all(marker(topic, coordinator_epoch=-1))
    both.ask(marker(topic, version=2), 2)
    both.ask(marker(topic, epoch_delta=1, version=2), 2)
    both.ask(marker(topic, version=2), 2)
    both.ask_all(write_txn_markers.WriteTxnMarkersRequest())


def test_list_and_describe(both, topic, name):
    init(both, name)
    init(both, f"{name}-open")
    both.ask(add_request(f"{name}-open", (topic, [1, 0])), 3)

    def listed(**filters):
        return list_transactions.ListTransactionsRequest(
            transactional_id_pattern=f"{name}.*", **filters
        )

    both.ask(listed(), 2)
    both.ask(listed(state_filters=["Ongoing"]), 2)
    both.ask(listed(state_filters=["Empty", "Odd", "ongoing"]), 2)
    both.ask(listed(state_filters=["Dead", "PrepareEpochFence"]), 2)
    both.ask(listed(duration_filter=100_000), 2)
    both.ask(listed(duration_filter=0), 2)
    both.ask(listed(producer_id_filters=[-5]), 2)
    both.ask(list_transactions.ListTransactionsRequest(transactional_id_pattern="("), 2)
    both.ask(describe_request(name, "", "nobody"), 0)
    describe(both, f"{name}-open")
