"""Writing record batches: once each and in order, whatever links and leaders do.

Job: keep batches per partition, send them to the leaders in requests of many partitions, several under way per broker, and send again what was not
acknowledged, under the sequence it had. Must not know records, or how batches are made.

Invariants:
- Batches of a partition are sent in the order of their sequences, the first one alone. After a failure nothing more of that partition is sent until everything
  that was under way has been answered; then the failed ones go first.
- A batch is acknowledged once by all in-sync replicas; a repeated one is recognised by the broker and counts as acknowledged.
- After an error that cannot be retried nothing more is sent: `abort` of the transaction is the only way on.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from barnabas.client.errors import ClientError, Refused, UnknownTopic, refusal
from barnabas.client.retry import Attempts
from barnabas.client.talk import Collect, Post, Reply
from barnabas.client.transaction import PRODUCE_V1_MAX, Transaction, init_idempotent
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import TopicPartition
from barnabas.wire.batch import Producer as ProducerFields
from barnabas.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from barnabas.client.cluster import Cluster
    from barnabas.client.talk import Address, Talk
    from barnabas.client.transaction import PreparedTransaction

_ALL_REPLICAS: Final = -1
_SEQUENCES: Final = 2**31
#: Around a batch in a request, topic name aside.
_ROOM_BYTES: Final = 64
#: What may be waiting for an acknowledgement; Kafka's `buffer.memory`.
BUFFER_BYTES: Final = 32 * 1024 * 1024


@dataclass(slots=True)
class _Batch:
    partition: TopicPartition
    data: bytearray
    #: Place in its partition's order.
    number: int


@dataclass(slots=True)
class _Lane:
    """The batches of one partition."""

    next_sequence: int = 0
    next_number: int = 0
    waiting: deque[_Batch] = field(default_factory=deque)
    #: Numbers of those that were sent and not answered, oldest first.
    under_way: deque[int] = field(default_factory=deque)
    failed: list[_Batch] = field(default_factory=list)
    #: Has the partition taken a batch? A broker that knows nothing of a producer takes any sequence for its first:
    #: were the second batch to arrive after the first was refused, the first could never follow.
    is_known: bool = False

    @property
    def is_ready(self) -> bool:
        if self.failed or not self.waiting:
            return False
        return self.is_known or not self.under_way

    def follows_an_open_one(self, batch: _Batch) -> bool:
        """Tell whether one before it has failed or is still under way, on another link perhaps."""
        return bool(self.failed) or self.under_way[0] < batch.number

    def on_answered(self, batch: _Batch) -> None:
        """It is not under way any more; what failed goes first again when all are back."""
        self.under_way.remove(batch.number)
        if self.failed and not self.under_way:
            self.failed.sort(key=lambda each: each.number)
            self.waiting.extendleft(reversed(self.failed))
            self.failed.clear()


class Producer:
    """Writes with sequences, and in transactions where there is one."""

    def __init__(self, cluster: Cluster, transaction: Transaction | None = None) -> None:
        """Write nothing yet; `init` first."""
        self.transaction = transaction
        self._cluster = cluster
        self._id, self._epoch = -1, -1
        self._lanes: dict[TopicPartition, _Lane] = {}
        self._under_way: dict[int, tuple[Address, list[_Batch]]] = {}
        self._requests: dict[Address, int] = {}
        self._attempts: Attempts | None = None
        self._failure: ClientError | None = None
        self.unacknowledged_bytes = 0
        self.acknowledged_count = 0

    def init(self) -> Talk[None]:
        """Get a producer id; a transactional one fences those before it."""
        if self.transaction is None:
            identity = yield from init_idempotent(self._cluster)
        else:
            yield from self.transaction.init()
            identity = (self.transaction.producer_id, self.transaction.producer_epoch)
        self._become(*identity)

    def _become(self, producer_id: int, epoch: int) -> None:
        if (producer_id, epoch) != (self._id, self._epoch):
            self._id, self._epoch = producer_id, epoch
            self._lanes.clear()

    # -- taking batches -----------------------------------------------------------------------

    def claim(self, partition: TopicPartition, record_count: int) -> ProducerFields:
        """Reserve sequences for the next batch of a partition: the fields that it must carry. `add` must follow."""
        lane = self._lanes.setdefault(partition, _Lane())
        first = lane.next_sequence
        lane.next_sequence = (first + record_count) % _SEQUENCES
        return ProducerFields(self._id, self._epoch, first)

    def add(self, partition: TopicPartition, data: bytearray) -> None:
        """Take a batch that carries the fields just claimed."""
        if self.transaction is not None:
            self.transaction.note_written()
        lane = self._lanes[partition]
        lane.waiting.append(_Batch(partition, data, lane.next_number))
        lane.next_number += 1
        self.unacknowledged_bytes += len(data)

    # -- sending ------------------------------------------------------------------------------

    def pump(self, unacknowledged_bytes_max: int = BUFFER_BYTES) -> Talk[None]:
        """Send what can be sent, and wait until no more than so much is unacknowledged; 0 waits for everything."""
        while True:
            self._raise_failure()
            yield from self._send_ready()
            is_full = self.unacknowledged_bytes > unacknowledged_bytes_max
            answered = bool(self._under_way) and (yield from self._collect(wait=is_full))
            if not answered and not is_full:
                return

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _send_ready(self) -> Talk[None]:
        ready = [each for each, lane in self._lanes.items() if lane.is_ready]
        if not ready:
            return
        try:
            yield from self._cluster.locate(ready)
        except ClientError as problem:
            yield from self._pause(problem)
            return
        if self.transaction is not None:
            yield from self._guarded(self.transaction.add_partitions(ready))
        leaders: dict[Address, list[TopicPartition]] = {}
        for each in ready:
            leaders.setdefault(self._cluster.leader_address(each), []).append(each)
        for address, partitions in leaders.items():
            while self._requests.get(address, 0) < self._cluster.settings.max_in_flight:
                batches = self._take(partitions)
                if not batches:
                    break
                yield from self._send(address, batches)
                # A busy lane must not keep the others from the next request.
                partitions = [*partitions[len(batches) :], *partitions[: len(batches)]]

    def _take(self, partitions: list[TopicPartition]) -> list[_Batch]:
        """Take one batch of each partition, as many as fit into a request."""
        room = self._cluster.settings.max_request_size
        batches: list[_Batch] = []
        for each in partitions:
            lane = self._lanes[each]
            if not lane.is_ready:
                continue
            room -= len(lane.waiting[0].data) + _ROOM_BYTES + len(each.topic)
            if room < 0 and batches:
                break
            batches.append(lane.waiting.popleft())
            lane.under_way.append(batches[-1].number)
        return batches

    def _send(self, address: Address, batches: list[_Batch]) -> Talk[None]:
        topics: dict[str, TopicProduceData] = {}
        for each in batches:
            name, index = each.partition
            entry = topics.setdefault(name, TopicProduceData(name=name, partition_data=[]))
            entry.partition_data.append(PartitionProduceData(index=index, records=each.data))
        transaction = self.transaction
        request = ProduceRequest(
            transactional_id=transaction.transactional_id if transaction else None,
            acks=_ALL_REPLICAS,
            timeout_ms=self._cluster.settings.request_timeout_ms,
            topic_data=[*topics.values()],
        )
        version_max = PRODUCE_V1_MAX if transaction and not transaction.is_v2 else None
        ticket: int = yield Post(address, request, version_max)
        self._under_way[ticket] = address, batches
        self._requests[address] = self._requests.get(address, 0) + 1

    # -- answers ------------------------------------------------------------------------------

    def _collect(self, *, wait: bool) -> Talk[bool]:
        """Take one answer, and pause if it asks for another try; tell whether there was one."""
        reply: Reply | None = yield Collect(self._under_way, wait)
        if reply is None:
            return False
        address, batches = self._under_way.pop(reply.ticket)
        self._requests[address] -= 1
        problem = self._on_answer(reply, batches)
        if problem is None:
            self._attempts = None
        elif self._failure is None:
            yield from self._pause(problem)
        return True

    def _on_answer(self, reply: Reply, batches: list[_Batch]) -> ClientError | None:
        """Settle every batch; return a problem that a new try may solve."""
        lost = reply.answer if isinstance(reply.answer, ClientError) else None
        results = {} if lost else _results(reply.answer)
        retriable = None
        for each in batches:
            problem = lost or self._judge(each, results.get(each.partition))
            lane = self._lanes[each.partition]
            if problem is None:
                lane.is_known = True
                self.unacknowledged_bytes -= len(each.data)
                self.acknowledged_count += 1
            else:
                lane.failed.append(each)
                self._cluster.forget_leader(each.partition)
                if problem.retriable:
                    retriable = problem
                else:
                    self._failure = self._failure or problem
            lane.on_answered(each)
        return retriable

    def _judge(self, batch: _Batch, result: PartitionProduceResponse | None) -> ClientError | None:
        subject = f"writing to {batch.partition}"
        if result is None:
            return Refused(ErrorCode.UNKNOWN_SERVER_ERROR, f"{subject}: no answer about it")
        code = result.error_code
        if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            return None
        lane = self._lanes[batch.partition]
        if code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and lane.follows_an_open_one(batch):
            # One before it has not arrived: both will be sent again.
            return refusal(ErrorCode.NETWORK_EXCEPTION, subject)
        if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return UnknownTopic(*batch.partition)
        details = [each.batch_index_error_message for each in result.record_errors]
        words = "; ".join(dict.fromkeys(filter(None, (result.error_message, *details[:3]))))
        return refusal(code, subject, words or None)

    def _pause(self, problem: ClientError) -> Talk[None]:
        if self._attempts is None:
            settings = self._cluster.settings
            self._attempts = Attempts(self._cluster.clock, settings, settings.delivery_timeout_ms)
        yield from self._guarded(self._attempts.pause(problem))

    def _guarded(self, talk: Talk[None]) -> Talk[None]:
        """Remember an error that a conversation ends with."""
        try:
            yield from talk
        except ClientError as problem:
            self._failure = self._failure or problem
            raise

    # -- transactions -------------------------------------------------------------------------

    def begin(self) -> None:
        """Start a transaction."""
        self._raise_failure()
        self._transaction().begin()

    def add_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> Talk[None]:
        """Commit a group's offsets with the transaction."""
        self._raise_failure()
        yield from self._guarded(self._transaction().add_offsets(group, offsets))

    def prepare(self) -> Talk[PreparedTransaction]:
        """Wait for everything, and hand the open transaction over: somebody else ends it."""
        yield from self.pump(0)
        return self._transaction().prepared()

    def commit(self) -> Talk[None]:
        """Wait for everything, then commit."""
        yield from self.pump(0)
        yield from self._guarded(self._transaction().end(committed=True))
        self._take_identity()

    def abort(self) -> Talk[None]:
        """Give up what was written, and start afresh; after an error, too, unless another producer has taken over."""
        transaction = self._transaction()
        for lane in self._lanes.values():
            lane.waiting.clear()
        while self._under_way:
            reply: Reply = yield Collect(self._under_way)
            address, _ = self._under_way.pop(reply.ticket)
            self._requests[address] -= 1
        yield from transaction.end(committed=False)
        if not transaction.is_v2:
            # Which sequences have arrived is not known: a new epoch starts at 0.
            yield from transaction.init()
        self._failure = self._attempts = None
        self.unacknowledged_bytes = 0
        self._lanes.clear()
        self._take_identity()

    def _take_identity(self) -> None:
        transaction = self._transaction()
        self._become(transaction.producer_id, transaction.producer_epoch)

    def _transaction(self) -> Transaction:
        assert self.transaction is not None, "this producer has no transactional id"
        return self.transaction


def _results(answer: ProduceResponse) -> dict[TopicPartition, PartitionProduceResponse]:
    return {
        TopicPartition(topic.name, each.index): each
        for topic in answer.responses
        for each in topic.partition_responses
    }
