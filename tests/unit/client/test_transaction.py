"""A transactional producer's talk with its coordinator, in both versions of transactions."""

import pytest
from talk_kit import World

from barnabas.client.errors import Fenced, Refused, TransactionLost, Unreachable
from barnabas.client.producer import Producer
from barnabas.client.transaction import Transaction
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import TopicPartition
from barnabas.wire.batch import TRANSACTIONAL, Record, build, read_header
from barnabas.wire.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from barnabas.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from barnabas.wire.messages.api_versions import ApiVersionsResponse, FinalizedFeatureKey
from barnabas.wire.messages.end_txn import EndTxnResponse
from barnabas.wire.messages.init_producer_id import InitProducerIdResponse
from barnabas.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from barnabas.wire.messages.txn_offset_commit import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

PLACES = [TopicPartition("t", each) for each in range(2)]


class Coordinator:
    """Says yes to everything, unless told otherwise."""

    def __init__(self, version):
        self.world = World({"t": [1, 2]})
        self.version = version
        self.epoch = 0
        #: Codes to answer with, by request, before the usual answers.
        self.codes = {}
        on = self.world.on
        on["ApiVersions"] = self.features
        on["InitProducerId"] = self.init
        on["AddPartitionsToTxn"] = self.add_partitions
        on["AddOffsetsToTxn"] = lambda *_: AddOffsetsToTxnResponse(
            error_code=self.code("AddOffsetsToTxn")
        )
        on["TxnOffsetCommit"] = self.commit_offsets
        on["EndTxn"] = self.end
        on["Produce"] = self.produce
        self.producer = Producer(self.world.cluster, Transaction(self.world.cluster, "x", 60_000))
        self.world.run(self.producer.init())
        self.world.asked.clear()

    def code(self, name):
        codes = self.codes.get(name)
        if not codes:
            return 0
        code = codes.pop(0)
        if isinstance(code, Exception):
            raise code
        return int(code)

    def features(self, *_):
        feature = FinalizedFeatureKey(name="transaction.version", max_version_level=self.version)
        return ApiVersionsResponse(api_keys=[], finalized_features=[feature])

    def init(self, *_):
        code = self.code("InitProducerId")
        self.epoch += not code
        return InitProducerIdResponse(error_code=code, producer_id=9, producer_epoch=self.epoch)

    def add_partitions(self, request, _):
        code = self.code("AddPartitionsToTxn")
        topics = [
            AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=[
                    AddPartitionsToTxnPartitionResult(
                        partition_index=each, partition_error_code=code
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.v3_and_below_topics
        ]
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics)

    def commit_offsets(self, *_):
        part = TxnOffsetCommitResponsePartition(
            partition_index=0, error_code=self.code("TxnOffsetCommit")
        )
        return TxnOffsetCommitResponse(
            topics=[TxnOffsetCommitResponseTopic(name="t", partitions=[part])]
        )

    def end(self, *_):
        code = self.code("EndTxn")
        if code or self.version < 2:
            return EndTxnResponse(error_code=code)
        self.epoch += 1
        return EndTxnResponse(producer_id=9, producer_epoch=self.epoch)

    def produce(self, request, _):
        code = self.code("Produce")
        topics = [
            TopicProduceResponse(
                name=topic.name,
                partition_responses=[
                    PartitionProduceResponse(index=each.index, error_code=code, record_errors=[])
                    for each in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
        return ProduceResponse(responses=topics)

    def write(self, *places):
        for place in places:
            fields = self.producer.claim(place, 1)
            self.producer.add(
                place, build([Record(0, 0, None, b"v")], producer=fields, attributes=TRANSACTIONAL)
            )
        self.run(self.producer.pump(0))

    def run(self, talk):
        return self.world.run(talk)

    def said(self):
        """What was asked since last time, but for where things are."""
        names = [each for each in self.world.names() if each not in ("Metadata", "FindCoordinator")]
        self.world.asked.clear()
        return names


def test_version_2_needs_no_adding_and_gets_a_new_epoch():
    there = Coordinator(2)
    there.producer.begin()
    there.write(*PLACES)
    there.run(there.producer.add_offsets("g", {PLACES[0]: 5}))
    request = there.world.requests("Produce")[0]
    assert request.transactional_id == "x"
    there.run(there.producer.commit())
    assert there.said() == ["Produce", "Produce", "TxnOffsetCommit", "EndTxn"]
    there.producer.begin()
    there.write(PLACES[0])
    header = read_header(
        there.world.requests("Produce")[-1].topic_data[0].partition_data[0].records
    )
    assert (header.producer_epoch, header.base_sequence) == (2, 0)


def test_version_1_adds_first_and_goes_on_counting():
    there = Coordinator(1)
    there.producer.begin()
    there.write(*PLACES)
    there.write(PLACES[0])
    there.run(there.producer.add_offsets("g", {PLACES[0]: 5}))
    there.run(there.producer.commit())
    assert there.said() == [
        "AddPartitionsToTxn", "Produce", "Produce", "Produce", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn",
    ]  # fmt: skip
    there.producer.begin()
    there.write(PLACES[0])
    header = read_header(
        there.world.requests("Produce")[-1].topic_data[0].partition_data[0].records
    )
    assert (header.producer_epoch, header.base_sequence) == (1, 2)
    # After an abort it is not known what has arrived: a new epoch.
    there.run(there.producer.abort())
    assert there.said()[-2:] == ["ApiVersions", "InitProducerId"]
    there.producer.begin()
    there.write(PLACES[0])
    header = read_header(
        there.world.requests("Produce")[-1].topic_data[0].partition_data[0].records
    )
    assert (header.producer_epoch, header.base_sequence) == (2, 0)


@pytest.mark.parametrize("version", [1, 2])
def test_an_empty_transaction_asks_nothing(version):
    there = Coordinator(version)
    for _ in range(2):
        there.producer.begin()
        there.run(there.producer.commit())
    assert there.said() == []


@pytest.mark.parametrize(
    ("name", "version"),
    [("EndTxn", 2), ("AddPartitionsToTxn", 1), ("AddOffsetsToTxn", 1), ("TxnOffsetCommit", 2)],
)
def test_what_passes_is_tried_again(name, version):
    there = Coordinator(version)
    there.codes[name] = [
        ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_COORDINATOR, Unreachable("link"), ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ]  # fmt: skip
    there.producer.begin()
    there.write(PLACES[0])
    there.run(there.producer.add_offsets("g", {PLACES[0]: 5}))
    there.run(there.producer.commit())
    assert there.said().count(name) == 5


@pytest.mark.parametrize("code", [ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH])
@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("Produce", 2),
        ("AddPartitionsToTxn", 1),
        ("AddOffsetsToTxn", 1),
        ("TxnOffsetCommit", 2),
        ("EndTxn", 2),
    ],
)
def test_who_is_fenced_stays_fenced(name, version, code):
    there = Coordinator(version)
    there.codes[name] = [code]
    there.producer.begin()
    with pytest.raises(Fenced, match="another producer has taken over"):  # noqa: PT012
        there.write(PLACES[0])
        there.run(there.producer.add_offsets("g", {PLACES[0]: 5}))
        there.run(there.producer.commit())
    there.said()
    with pytest.raises(Fenced):
        there.run(there.producer.pump(0))
    with pytest.raises(Fenced):
        there.run(there.producer.add_offsets("g", {PLACES[0]: 5}))
    with pytest.raises(Fenced):
        there.run(there.producer.commit())
    assert there.said() == []


def test_a_transaction_that_is_lost_can_be_aborted():
    there = Coordinator(2)
    there.codes["Produce"] = [ErrorCode.TRANSACTION_ABORTABLE]
    there.producer.begin()
    with pytest.raises(TransactionLost):
        there.write(PLACES[0])
    there.run(there.producer.abort())
    there.producer.begin()
    there.write(PLACES[0])
    there.run(there.producer.commit())


def test_an_id_that_is_refused():
    there = Coordinator(2)
    there.codes["InitProducerId"] = [
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.INVALID_TRANSACTION_TIMEOUT,
    ]
    with pytest.raises(Refused) as raised:
        there.run(there.producer.init())
    assert raised.value.code == ErrorCode.INVALID_TRANSACTION_TIMEOUT


def test_one_begins_and_another_ends():
    there = Coordinator(2)
    there.producer.begin()
    there.write(PLACES[0])
    prepared = there.run(there.producer.prepare())
    there.said()
    other = Transaction(there.world.cluster, "x", 0)
    other.take_over(prepared)
    there.run(other.end(committed=True))
    (request,) = there.world.requests("EndTxn")
    assert (request.producer_id, request.producer_epoch, request.committed) == (9, 1, True)


def test_a_partition_that_is_left_out_of_the_answer():
    there = Coordinator(2)
    there.world.on["Produce"] = lambda *_: ProduceResponse(responses=[])
    there.producer.begin()
    with pytest.raises(Refused, match="no answer about it"):
        there.write(PLACES[0])
