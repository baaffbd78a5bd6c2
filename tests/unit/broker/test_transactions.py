"""Transactions through the node: coordinator, markers, offsets, restarts."""

import pytest
from node_kit import NodeKit

from barnabas.broker import markers
from barnabas.broker.config_changes import ResourceType
from barnabas.broker.transactions import TOPIC
from barnabas.model.errors import ErrorCode
from barnabas.sim.world import START_MS
from barnabas.wire import batch
from barnabas.wire.batch import Producer, Record
from barnabas.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from barnabas.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from barnabas.wire.messages.api_versions import ApiVersionsRequest
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.wire.messages.describe_transactions import DescribeTransactionsRequest
from barnabas.wire.messages.end_txn import EndTxnRequest
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest
from barnabas.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest
from barnabas.wire.messages.list_transactions import ListTransactionsRequest
from barnabas.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from barnabas.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from barnabas.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from barnabas.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

ID = "payments"
GROUP = "readers"


class Kit(NodeKit):
    """A node with what a transactional producer asks of it."""

    def find(self, key=ID, key_type=1):
        request = FindCoordinatorRequest(coordinator_keys=[key], key_type=key_type)
        return self.ask(request, 4).coordinators[0]

    def init(self, transactional_id=ID, timeout_ms=60_000, version=5, **more):
        request = InitProducerIdRequest(
            transactional_id=transactional_id, transaction_timeout_ms=timeout_ms, **more
        )
        return self.ask(request, version)

    def begin(self, transactional_id=ID):
        """Find the coordinator and become a producer: (id, epoch)."""
        assert self.find(transactional_id).error_code == 0
        self.run(lambda: all(one.is_loaded for one in self.node.transactions._hosted.values()))
        answer = self.init(transactional_id)
        assert answer.error_code == 0
        return answer.producer_id, answer.producer_epoch

    def add(self, producer, *partitions, version=3, transactional_id=ID):
        topics = [
            AddPartitionsToTxnTopic(name=name, partitions=[index]) for name, index in partitions
        ]
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=transactional_id,
            v3_and_below_producer_id=producer[0],
            v3_and_below_producer_epoch=producer[1],
            v3_and_below_topics=topics,
        )
        return partition_codes(self.ask(request, version).results_by_topic_v3_and_below)

    def verify(self, producer, *partitions, only=True):
        topics = [
            AddPartitionsToTxnTopic(name=name, partitions=[index]) for name, index in partitions
        ]
        one = AddPartitionsToTxnTransaction(
            transactional_id=ID,
            producer_id=producer[0],
            producer_epoch=producer[1],
            verify_only=only,
            topics=topics,
        )
        answer = self.ask(AddPartitionsToTxnRequest(transactions=[one]), 5)
        return partition_codes(answer.results_by_transaction[0].topic_results)

    def end(self, producer, committed=True, version=5, transactional_id=ID):
        request = EndTxnRequest(
            transactional_id=transactional_id,
            producer_id=producer[0],
            producer_epoch=producer[1],
            committed=committed,
        )
        return self.ask(request, version)

    def produce_in(
        self, producer, name, sequence=0, count=1, version=11, index=0, transactional_id=ID
    ):
        """Append records of a transaction; the code."""
        records = [Record(i, START_MS, b"k", b"v", ()) for i in range(count)]
        data = batch.build(
            records, attributes=batch.TRANSACTIONAL, producer=Producer(*producer, sequence)
        )
        partition = PartitionProduceData(index=index, records=data)
        request = ProduceRequest(
            transactional_id=transactional_id,
            acks=-1,
            timeout_ms=1000,
            topic_data=[TopicProduceData(name=name, partition_data=[partition])],
        )
        return self.ask(request, version).responses[0].partition_responses[0].error_code

    def commit_offset(self, producer, topic, offset, version=3, transactional_id=ID, **more):
        partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        request = TxnOffsetCommitRequest(
            transactional_id=transactional_id,
            group_id=GROUP,
            producer_id=producer[0],
            producer_epoch=producer[1],
            topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=[partition])],
            **more,
        )
        return self.ask(request, version).topics[0].partitions[0].error_code

    def fetch_offset(self, topic, require_stable=False):
        """The offset a group has committed, or the error code, negated."""
        topics = [OffsetFetchRequestTopics(name=topic, partition_indexes=[0])]
        group = OffsetFetchRequestGroup(group_id=GROUP, topics=topics)
        answer = self.ask(OffsetFetchRequest(groups=[group], require_stable=require_stable), 8)
        found = answer.groups[0].topics[0].partitions[0]
        return -found.error_code if found.error_code else found.committed_offset

    def describe(self, transactional_id=ID):
        request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
        return self.ask(request, 0).transaction_states[0]

    def state(self):
        return self.describe().transaction_state

    def markers(self, topic):
        """Whether each marker in a partition commits."""
        log = self.node.replicas.get(topic, 0).log
        found = log.read(0, 1 << 20, end_offset=log.log_end_offset, min_one=True, nowait=False)
        data = memoryview(found.read())
        kinds = []
        for position, header in batch.headers(data):
            if header.is_control:
                (record,) = batch.read_records(data[position : position + header.size], 1000)
                kinds.append(record.key[3] == 1)
        return kinds


def partition_codes(topics):
    return [one.partition_error_code for topic in topics for one in topic.results_by_partition]


@pytest.fixture
def kit():
    kit = Kit()
    kit.create("a")
    kit.create("b", partitions=2)
    return kit


# Where the coordinator is


def test_the_topic_is_made_when_somebody_first_asks(kit):
    assert kit.init().error_code == ErrorCode.NOT_COORDINATOR
    found = kit.find()
    assert (found.error_code, found.node_id) == (0, 1)
    topic = kit.node.topics.by_name[TOPIC]
    assert len(topic.partitions) == 50
    assert topic.overrides == {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "min.insync.replicas": "1",
        "segment.bytes": "104857600",
        "unclean.leader.election.enable": "false",
    }


def test_unknown_kinds_of_coordinators_are_refused(kit):
    assert kit.find(key_type=3).error_code == ErrorCode.INVALID_REQUEST


def test_features_tell_transaction_version_2(kit):
    request = ApiVersionsRequest(client_software_name="x", client_software_version="1")
    answer = kit.ask(request, 4)
    (supported,) = answer.supported_features
    assert (supported.name, supported.min_version, supported.max_version) == (
        "transaction.version", 0, 2,
    )  # fmt: skip
    (level,) = answer.finalized_features
    assert (level.min_version_level, level.max_version_level) == (2, 2)
    assert answer.finalized_features_epoch == 0
    older = kit.ask(request, 3)
    assert (len(older.supported_features), len(older.finalized_features)) == (0, 1)


# InitProducerId


def test_bad_requests_for_a_producer_id(kit):
    kit.find()
    assert kit.init("").error_code == ErrorCode.INVALID_REQUEST
    assert kit.init(timeout_ms=0).error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert kit.init(producer_id=5).error_code == ErrorCode.INVALID_REQUEST
    assert kit.init(None, producer_epoch=5).error_code == ErrorCode.INVALID_REQUEST


def test_older_clients_hear_of_fencing_in_their_own_word(kit):
    producer = kit.begin()
    kit.init()
    fenced = {"producer_id": producer[0], "producer_epoch": 7}
    assert kit.init(version=3, **fenced).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert kit.init(version=4, **fenced).error_code == ErrorCode.PRODUCER_FENCED
    assert kit.add(producer, ("a", 0), version=1) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert kit.add(producer, ("a", 0), version=2) == [ErrorCode.PRODUCER_FENCED]
    assert kit.end(producer, version=1).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert kit.end(producer, version=2).error_code == ErrorCode.PRODUCER_FENCED


# AddPartitionsToTxn


def test_one_wrong_partition_keeps_all_out(kit):
    producer = kit.begin()
    codes = kit.add(producer, ("a", 0), ("nowhere", 0), (TOPIC, 0), ("b", 2))
    assert codes == [
        ErrorCode.OPERATION_NOT_ATTEMPTED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert kit.state() == "Empty"


def test_add_and_verify(kit):
    producer = kit.begin()
    assert kit.add(producer, ("a", 0), ("b", 1)) == [0, 0]
    assert kit.verify(producer, ("b", 1), ("b", 0)) == [0, ErrorCode.TRANSACTION_ABORTABLE]
    assert kit.verify(producer, ("b", 0), only=False) == [0]
    found = kit.describe()
    topics = {topic.topic: sorted(topic.partitions) for topic in found.topics}
    assert (found.transaction_state, topics) == ("Ongoing", {"a": [0], "b": [0, 1]})
    assert (found.producer_id, found.producer_epoch, found.transaction_timeout_ms) == (
        *producer, 60_000,
    )  # fmt: skip


def test_add_without_a_transactional_id(kit):
    producer = kit.begin()
    assert kit.add(producer, ("a", 0), transactional_id="") == [ErrorCode.INVALID_REQUEST]
    assert kit.end(producer, transactional_id="").error_code == ErrorCode.INVALID_REQUEST


# EndTxn


@pytest.mark.parametrize("committed", [True, False])
def test_end_writes_a_marker_to_every_partition(kit, committed):
    producer = kit.begin()
    kit.add(producer, ("a", 0), ("b", 0))
    assert kit.produce_in(producer, "a", count=3) == 0
    answer = kit.end(producer, committed)
    assert (answer.error_code, answer.producer_id) == (0, producer[0])
    assert answer.producer_epoch == producer[1] + 1
    assert kit.markers("a") == [committed]
    assert kit.markers("b") == [committed]
    assert kit.state() == ("CompleteCommit" if committed else "CompleteAbort")


def test_newer_clients_need_not_add_partitions(kit):
    producer = kit.begin()
    assert kit.produce_in(producer, "a", version=12) == 0
    assert kit.state() == "Ongoing"
    answer = kit.end(producer)
    producer = (answer.producer_id, answer.producer_epoch)
    assert kit.produce_in(producer, "a", version=12) == 0
    assert kit.markers("a") == [True]


def test_older_clients_must_add_partitions(kit):
    producer = kit.begin()
    assert kit.produce_in(producer, "a", version=11) == ErrorCode.TRANSACTION_ABORTABLE
    assert kit.produce_in(producer, "a", version=10) == ErrorCode.INVALID_TXN_STATE
    assert kit.offset("a", -1) == 0


def test_a_transaction_of_a_deleted_topic_ends(kit):
    producer = kit.begin()
    kit.add(producer, ("a", 0), ("b", 0))
    kit.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="b")], timeout_ms=1000), 6)
    assert kit.end(producer).error_code == 0
    assert kit.state() == "CompleteCommit"


def test_a_transaction_that_runs_out_of_time_is_aborted(kit):
    kit.begin()
    answer = kit.init(timeout_ms=5000)
    producer = (answer.producer_id, answer.producer_epoch)
    kit.add(producer, ("a", 0))
    kit.produce_in(producer, "a")
    kit.advance(16_000)
    assert kit.markers("a") == [False]
    assert kit.end(producer, version=4).error_code == ErrorCode.PRODUCER_FENCED
    assert kit.produce_in(producer, "a", sequence=1) == ErrorCode.INVALID_PRODUCER_EPOCH


# Restarts


def test_everything_is_there_after_a_restart(kit):
    producer = kit.begin()
    kit.add(producer, ("a", 0))
    kit.produce_in(producer, "a")
    kit.restart()
    kit.begin("another")
    assert kit.describe().transaction_state == "Ongoing"
    assert kit.end(producer).error_code == 0
    assert kit.markers("a") == [True]


def test_an_end_that_was_decided_is_brought_to_its_end_after_a_crash(kit, monkeypatch):
    producer = kit.begin()
    kit.add(producer, ("a", 0))
    kit.produce_in(producer, "a")

    def never(*_arguments):
        yield lambda _done: None

    with monkeypatch.context() as patch:
        patch.setattr(markers, "write", never)
        assert kit.end(producer).error_code == 0
        assert kit.state() == "PrepareCommit"
        kit.restart()
    kit.begin("another")
    kit.run(lambda: kit.state() == "CompleteCommit")
    assert kit.markers("a") == [True]


# Offsets


def test_offsets_count_when_the_transaction_does(kit):
    assert kit.find(GROUP, 0).error_code == 0
    producer = kit.begin()
    for committed, expected in ((True, 5), (False, 5)):
        answer = add_offsets(kit, producer)
        assert answer == 0
        before = kit.fetch_offset("a")
        assert kit.commit_offset(producer, "a", 5 if committed else 9) == 0
        assert kit.fetch_offset("a") == before
        assert kit.fetch_offset("a", require_stable=True) == -ErrorCode.UNSTABLE_OFFSET_COMMIT
        answer = kit.end(producer, committed)
        producer = (answer.producer_id, answer.producer_epoch)
        assert kit.fetch_offset("a", require_stable=True) == expected


def add_offsets(kit, producer):
    request = AddOffsetsToTxnRequest(
        transactional_id=ID, producer_id=producer[0], producer_epoch=producer[1], group_id=GROUP
    )
    return kit.ask(request, 3).error_code


def test_offsets_of_newer_clients_begin_the_transaction(kit):
    kit.find(GROUP, 0)
    producer = kit.begin()
    assert kit.commit_offset(producer, "a", 7, version=5) == 0
    assert kit.state() == "Ongoing"
    kit.end(producer)
    assert kit.fetch_offset("a") == 7


def test_offsets_outside_a_transaction_are_refused(kit):
    kit.find(GROUP, 0)
    producer = kit.begin()
    assert kit.commit_offset(producer, "a", 7, version=3) == ErrorCode.INVALID_TXN_STATE
    assert kit.commit_offset(producer, "a", 7, version=4) == ErrorCode.TRANSACTION_ABORTABLE
    stranger = (producer[0], producer[1] + 1)
    assert kit.commit_offset(stranger, "a", 7, version=5) == ErrorCode.INVALID_PRODUCER_EPOCH
    unknown = kit.commit_offset(producer, "nowhere", 7, version=5)
    assert unknown == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_offsets_by_topic_id(kit):
    kit.find(GROUP, 0)
    producer = kit.begin()
    partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=7)
    unknown = TxnOffsetCommitRequestPartition(partition_index=9, committed_offset=7)
    known_id, other_id = kit.node.topics.by_name["a"].id, bytes(range(16))
    request = TxnOffsetCommitRequest(
        transactional_id=ID,
        group_id=GROUP,
        producer_id=producer[0],
        producer_epoch=producer[1],
        topics=[
            TxnOffsetCommitRequestTopic(topic_id=known_id, partitions=[partition, unknown]),
            TxnOffsetCommitRequestTopic(topic_id=other_id, partitions=[partition]),
        ],
    )
    first, second = kit.ask(request, 6).topics
    assert (first.topic_id, second.topic_id) == (known_id, other_id)
    assert {one.partition_index: one.error_code for one in first.partitions} == {
        0: 0,
        9: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert second.partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    kit.end(producer)
    assert kit.fetch_offset("a") == 7


def test_a_consumer_that_is_no_member_any_more_is_fenced(kit):
    kit.find(GROUP, 0)
    producer = kit.begin()
    code = kit.commit_offset(
        producer, "a", 7, version=5, member_id="gone", generation_id_or_member_epoch=3
    )
    assert code == ErrorCode.ILLEGAL_GENERATION


def test_pending_offsets_survive_a_restart(kit):
    kit.find(GROUP, 0)
    producer = kit.begin()
    kit.commit_offset(producer, "a", 7, version=5)
    kit.restart()
    kit.begin("another")
    kit.run(lambda: all(one.is_loaded for one in kit.node.coordinators._hosted.values()))
    assert kit.fetch_offset("a", require_stable=True) == -ErrorCode.UNSTABLE_OFFSET_COMMIT
    kit.end(producer)
    assert kit.fetch_offset("a", require_stable=True) == 7


# WriteTxnMarkers, ListTransactions


def write_marker(kit, producer, topic, coordinator_epoch=0, committed=False, version=1):
    marker = WritableTxnMarker(
        producer_id=producer[0],
        producer_epoch=producer[1],
        transaction_result=committed,
        topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[0])],
        coordinator_epoch=coordinator_epoch,
    )
    answer = kit.ask(WriteTxnMarkersRequest(markers=[marker]), version)
    return answer.markers[0].topics[0].partitions[0].error_code


def test_a_name_that_is_none_is_in_no_transaction(kit):
    producer = kit.begin()
    kit.find(GROUP, key_type=0)
    kit.run(lambda: all(one.is_loaded for one in kit.node.coordinators._hosted.values()))
    assert (
        kit.commit_offset(producer, "a", 1, version=5, transactional_id="")
        == ErrorCode.INVALID_REQUEST
    )
    code = kit.produce_in(producer, "a", version=12, transactional_id="")
    assert code == ErrorCode.INVALID_REQUEST


def test_an_administrator_ends_a_hanging_transaction(kit):
    producer = kit.begin()
    kit.add(producer, ("a", 0))
    kit.produce_in(producer, "a")
    assert write_marker(kit, producer, "nowhere") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert write_marker(kit, producer, "a") == 0
    assert kit.markers("a") == [False]
    assert write_marker(kit, (producer[0], producer[1] + 1), "a") == 0
    assert write_marker(kit, producer, "a") == ErrorCode.INVALID_PRODUCER_EPOCH


@pytest.mark.parametrize(("flush_messages", "unsynced"), [("1", 0), ("2", 0), ("3", 2)])
def test_a_marker_is_reported_when_it_is_as_durable_as_its_topic_asks_for(
    kit, flush_messages, unsynced
):
    """With the marker there are two records: the sync is due when there are as many as the setting says, not one more."""
    kit.create("synced", flush_messages=flush_messages)
    producer = kit.begin()
    kit.add(producer, ("synced", 0))
    assert kit.produce_in(producer, "synced") == 0
    kit.machine.slow_down(10_000_000)
    assert write_marker(kit, producer, "synced") == 0
    assert kit.node.replicas.get("synced", 0).log.unflushed_records == unsynced


@pytest.mark.parametrize("producer", [(-1, 0), (-5, -5), (4444, -1)])
def test_markers_of_nobody_are_refused(kit, producer):
    assert write_marker(kit, producer, "a") == ErrorCode.INVALID_REQUEST
    assert kit.node.replicas.get("a", 0).log.log_end_offset == 0


def test_list_by_state_and_name(kit):
    kit.begin("first")
    producer = kit.begin()
    kit.add(producer, ("a", 0))

    def listed(version=2, **filters):
        answer = kit.ask(ListTransactionsRequest(**filters), version)
        return [one.transactional_id for one in answer.transaction_states]

    assert sorted(listed()) == ["first", ID]
    assert listed(state_filters=["Ongoing"]) == [ID]
    assert listed(producer_id_filters=[producer[0]]) == [ID]
    assert listed(transactional_id_pattern="fi.*") == ["first"]
    answer = kit.ask(ListTransactionsRequest(state_filters=["Odd"]), 0)
    assert answer.unknown_state_filters == ["Odd"]
    bad = kit.ask(ListTransactionsRequest(transactional_id_pattern="("), 2)
    assert bad.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


def test_many_are_listed_and_described_in_pieces(kit):
    names = [f"id-{number}" for number in range(1200)]
    kit.begin()
    for name in names:
        kit.init(name)
    answer = kit.ask(ListTransactionsRequest(transactional_id_pattern="id-.*"), 2)
    assert sorted(one.transactional_id for one in answer.transaction_states) == sorted(names)
    described = kit.ask(DescribeTransactionsRequest(transactional_ids=names), 0)
    assert [one.transactional_id for one in described.transaction_states] == names
    assert {one.transaction_state for one in described.transaction_states} == {"Empty"}


def test_a_transaction_on_many_partitions_ends_in_pieces(kit):
    kit.create("wide", partitions=700)
    producer = kit.begin()
    topic = AddPartitionsToTxnTopic(name="wide", partitions=list(range(700)))
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=ID,
        v3_and_below_producer_id=producer[0],
        v3_and_below_producer_epoch=producer[1],
        v3_and_below_topics=[topic],
    )
    codes = partition_codes(kit.ask(request, 3).results_by_topic_v3_and_below)
    assert codes == [0] * 700
    assert kit.end(producer).error_code == 0
    kit.run(lambda: kit.state() == "CompleteCommit")
    assert kit.markers("wide") == [True]


def limit_state(kit, size):
    """Let the batches of `__transaction_state` have this size."""
    change = AlterableConfig(name="max.message.bytes", config_operation=0, value=str(size))
    resource = AlterConfigsResource(
        resource_type=ResourceType.TOPIC, resource_name=TOPIC, configs=[change]
    )
    answer = kit.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    assert answer.responses[0].error_code == 0


def largest_batch(kit):
    replica = kit.node.transactions.find(ID).replica
    data = replica.log.read(
        0, 1 << 20, end_offset=replica.log.log_end_offset, min_one=True, nowait=False
    ).read()
    return max(header.size for _, header in batch.headers(memoryview(data)))


@pytest.mark.parametrize("is_commit", [True, False])
@pytest.mark.parametrize("version", [3, 5])
def test_a_transaction_that_is_just_small_enough_ends(kit, is_commit, version):
    """Its end has fields that its beginning had not."""
    kit.create("c", partitions=100)
    producer = kit.begin()
    partitions = [("c", index) for index in range(100)]
    assert set(kit.add(producer, *partitions)) == {0}
    limit_state(kit, largest_batch(kit) - 10)
    assert kit.end(producer, committed=is_commit, version=version).error_code == 0
    kit.run(lambda: kit.state() == ("CompleteCommit" if is_commit else "CompleteAbort"))


def test_partitions_that_make_a_transaction_too_large_are_refused_and_it_can_end(kit):
    kit.create("c", partitions=100)
    producer = kit.begin()
    limit_state(kit, 250)
    assert kit.add(producer, ("a", 0)) == [0]
    many = kit.add(producer, *[("c", index) for index in range(100)])
    assert set(many) == {ErrorCode.UNKNOWN_SERVER_ERROR}
    assert kit.describe().topics[0].topic == "a"
    assert len(kit.describe().topics) == 1
    assert kit.end(producer).error_code == 0
    kit.run(lambda: kit.state() == "CompleteCommit")


def test_many_unknown_partitions_are_refused_in_pieces(kit):
    producer = kit.begin()
    topics = [AddPartitionsToTxnTopic(name=f"none-{number}", partitions=[0]) for number in range(3)]
    topics += [AddPartitionsToTxnTopic(name="a", partitions=list(range(1200)))]
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=ID,
        v3_and_below_producer_id=producer[0],
        v3_and_below_producer_epoch=producer[1],
        v3_and_below_topics=topics,
    )
    codes = partition_codes(pieces_of(kit, request, 3).results_by_topic_v3_and_below)
    unknown = [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert codes == unknown * 3 + [ErrorCode.OPERATION_NOT_ATTEMPTED] + unknown * 1199
    assert kit.state() == "Empty"


def pieces_of(kit, request, version):
    """Ask, and see that somebody else is answered before."""
    order = []
    asker, other = kit.new_client(), kit.new_client()
    asker.send(request, version)
    other.send(ApiVersionsRequest(), 0)

    def both_answered():
        for name, client in (("asker", asker), ("other", other)):
            if client.answers and name not in order:
                order.append(name)
        return len(order) == 2

    kit.run(both_answered)
    assert order == ["other", "asker"]
    return asker.answers[0]


def test_many_markers_are_written_in_pieces(kit):
    markers_asked = [
        WritableTxnMarker(
            producer_id=1000 + number,
            producer_epoch=0,
            transaction_result=True,
            topics=[WritableTxnMarkerTopic(name="a", partition_indexes=[0])],
            coordinator_epoch=0,
        )
        for number in range(700)
    ]
    answer = pieces_of(kit, WriteTxnMarkersRequest(markers=markers_asked), 1)
    assert [one.producer_id for one in answer.markers] == list(range(1000, 1700))
    assert {one.topics[0].partitions[0].error_code for one in answer.markers} == {0}
    assert kit.markers("a") == [True] * 700


def test_partitions_are_answered_as_they_were_named(kit):
    producer = kit.begin()
    for wanted in ([("b", 0), ("b", 1)], [("b", 0), ("b", 0)]):
        assert kit.add(producer, *wanted) == [0, 0]
    assert kit.verify(producer, ("b", 0), ("b", 1), ("b", 0)) == [0, 0]
    empty = kit.ask(AddPartitionsToTxnRequest(transactions=[]), 5)
    assert (empty.error_code, empty.results_by_transaction) == (0, [])


def test_offsets_of_many_unknown_topics_are_refused_in_pieces(kit):
    producer = kit.begin()
    unknown = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    topics = [
        TxnOffsetCommitRequestTopic(name=f"none-{number}", partitions=[unknown])
        for number in range(700)
    ]
    request = TxnOffsetCommitRequest(
        transactional_id=ID,
        group_id=GROUP,
        producer_id=producer[0],
        producer_epoch=producer[1],
        topics=topics,
    )
    answer = pieces_of(kit, request, 3)
    assert [one.name for one in answer.topics] == [topic.name for topic in topics]
    codes = {one.partitions[0].error_code for one in answer.topics}
    assert codes == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_describe_what_is_not_there(kit):
    kit.begin()
    assert kit.describe("nobody").error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert kit.describe("").error_code == ErrorCode.INVALID_REQUEST


def test_deleting_the_topic_forgets_everything(kit):
    kit.begin()
    kit.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name=TOPIC)], timeout_ms=1000), 6)
    assert kit.init().error_code == ErrorCode.NOT_COORDINATOR
    assert kit.begin()[1] == 0


def test_replies_and_markers_wait_for_the_sync():
    kit = Kit(log_flush_interval_messages="1")
    kit.create("a")
    kit.find(GROUP, 0)
    producer = kit.begin()
    assert kit.commit_offset(producer, "a", 7, version=5) == 0
    assert kit.produce_in(producer, "a", version=12) == 0
    assert kit.end(producer).error_code == 0
    kit.run(lambda: kit.state() == "CompleteCommit")
    kit.crash()
    kit.begin("another")
    kit.run(lambda: all(one.is_loaded for one in kit.node.coordinators._hosted.values()))
    assert kit.markers("a") == [True]
    assert kit.fetch_offset("a", require_stable=True) == 7
