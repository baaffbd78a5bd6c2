"""A transactional producer (version 2) that can stop, repeat and be late at any step, and what a reader of committed records is told."""

import time
from typing import NamedTuple

from chaos.wire_kit import eventually

from barnabas.model.errors import ErrorCode
from barnabas.wire import batch as batches
from barnabas.wire.control_batch import read_marker
from barnabas.wire.messages.end_txn import EndTxnRequest
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest
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

PRODUCE, END, COMMIT, INIT, FETCH = 12, 5, 5, 5, 12
#: They pass: while a coordinator loads, or an end is being written.
PASSING = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.NOT_ENOUGH_REPLICAS,  # so a Produce is told that the coordinator loads
)


def ask_until_settled(client, request, version, code_of):
    """The first answer that is not about something passing."""

    def settled():
        answer = client.ask(request, version)
        return None if code_of(answer) in PASSING else answer

    return eventually(settled, "an answer")


def find_coordinators(client, name):
    """Have the internal topics made."""
    for key_type in (0, 1):
        request = FindCoordinatorRequest(coordinator_keys=[name], key_type=key_type)
        answer = ask_until_settled(client, request, 4, lambda a: a.coordinators[0].error_code)
        assert answer.coordinators[0].error_code == 0


class Refused(AssertionError):
    """A step was answered with an error that does not pass."""

    def __init__(self, code):
        super().__init__(ErrorCode(code).name)
        self.code = code


def _accept(code):
    if code:
        raise Refused(code)


class RawProducer:
    """One transactional id; requests can be made now and sent when they are stale."""

    def __init__(self, client, transactional_id):
        self.client = client
        self.transactional_id = transactional_id
        self.sequences = {}

    def init(self):
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id, transaction_timeout_ms=60_000
        )
        answer = ask_until_settled(self.client, request, INIT, lambda a: a.error_code)
        _accept(answer.error_code)
        self._adopt(answer)

    def _adopt(self, answer):
        self.id, self.epoch = answer.producer_id, answer.producer_epoch
        self.sequences.clear()

    # Requests, as of now

    def produce_request(self, topic, partition, *values):
        sequence = self.sequences.get((topic, partition), 0)
        # Of now, as the markers are: a jump in time would begin a new segment.
        now_ms = time.time_ns() // 1_000_000
        records = [batches.Record(at, now_ms, None, value) for at, value in enumerate(values)]
        data = batches.build(
            records,
            attributes=batches.TRANSACTIONAL,
            producer=batches.Producer(self.id, self.epoch, sequence),
        )
        place = PartitionProduceData(index=partition, records=bytes(data))
        return ProduceRequest(
            transactional_id=self.transactional_id,
            acks=-1,
            timeout_ms=10_000,
            topic_data=[TopicProduceData(name=topic, partition_data=[place])],
        )

    def end_request(self, *, committed):
        return EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.id,
            producer_epoch=self.epoch,
            committed=committed,
        )

    def offset_request(self, group, topic, offset):
        place = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        return TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group,
            producer_id=self.id,
            producer_epoch=self.epoch,
            topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=[place])],
        )

    # Steps

    def produce(self, topic, partition, *values):
        _accept(send_produce(self.client, self.produce_request(topic, partition, *values)))
        place = (topic, partition)
        self.sequences[place] = self.sequences.get(place, 0) + len(values)

    def commit_offset(self, group, topic, offset):
        _accept(send_offset(self.client, self.offset_request(group, topic, offset)))

    def end(self, *, committed):
        request = self.end_request(committed=committed)
        answer = ask_until_settled(self.client, request, END, lambda a: a.error_code)
        _accept(answer.error_code)
        self._adopt(answer)


def send_produce(client, request):
    def code_of(answer):
        return answer.responses[0].partition_responses[0].error_code

    return code_of(ask_until_settled(client, request, PRODUCE, code_of))


def send_offset(client, request):
    def code_of(answer):
        return answer.topics[0].partitions[0].error_code

    return code_of(ask_until_settled(client, request, COMMIT, code_of))


# Reading


def fetch(client, topic, partition, offset, *, committed=True, max_bytes=1 << 20):
    """The partition's part of the answer."""
    asked = FetchPartition(
        partition=partition, fetch_offset=offset, partition_max_bytes=max_bytes, log_start_offset=-1
    )
    request = FetchRequest(
        max_bytes=max_bytes,
        session_epoch=-1,
        isolation_level=int(committed),
        topics=[FetchTopic(topic=topic, partitions=[asked])],
    )
    found = client.ask(request, FETCH).responses[0].partitions[0]
    assert found.error_code == 0, found
    return found


def split_batches(records):
    data = memoryview(bytes(records))
    return [(data[at : at + header.size], header) for at, header in batches.headers(data)]


class Aborted(NamedTuple):
    """An aborted transaction on a partition; `last_offset` is that of its marker."""

    producer_id: int
    first_offset: int
    last_offset: int


class Told(NamedTuple):
    """What the log itself says."""

    committed: list[bytes]
    aborted: list[Aborted]
    undecided: int
    end_offset: int


def read_log(client, topic, partition):
    """Everything in the log, and how its markers decide on it; needs no index of the broker's."""
    offset, open_ones, committed, aborted = 0, {}, [], []
    while batch_list := split_batches(
        fetch(client, topic, partition, offset, committed=False).records
    ):
        for data, header in batch_list:
            offset = header.next_offset
            if not header.is_control:
                first, values = open_ones.setdefault(header.producer_id, (header.base_offset, []))
                values += [record.value for record in batches.read_records(data, 1 << 24)]
            elif header.producer_id in open_ones:
                first, values = open_ones.pop(header.producer_id)
                if read_marker(data).commit:
                    committed += values
                else:
                    aborted.append(Aborted(header.producer_id, first, header.base_offset))
    return Told(committed, aborted, len(open_ones), offset)
