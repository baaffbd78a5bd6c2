"""A simulated idempotent producer of a cluster: acks=all, to whoever leads, again until it is acknowledged.

Job: send numbered records and note in `history.History` where they are. Must not know what brokers make of them.

Per partition as Java's: a batch keeps its sequence for good; one that was sent before goes out again only as the first of those that
are not acknowledged, and nothing new overtakes it. Several are in flight only once one was acknowledged. OUT_OF_ORDER_SEQUENCE_NUMBER for the first
one would mean that acknowledged records are lost, with one exception: producer snapshots hold only the last batch of each producer, so
after a restart a broker may not know two batches whose answers were lost; then the epoch is raised (KIP-360), and they may be there twice.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from barnabas.model.errors import ErrorCode
from barnabas.sim.cluster_client import ClusterClient
from barnabas.sim.history import Send
from barnabas.sim.violation import Violation
from barnabas.sim.world import MS, START_MS
from barnabas.wire import batch as batches
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

if TYPE_CHECKING:
    from collections.abc import Mapping

    from barnabas.sim.history import History, Key
    from barnabas.sim.network import Network
    from barnabas.wire.messages.produce import PartitionProduceResponse, ProduceResponse

TIMEOUT_MS: Final = 1500
#: Errors after which a real producer tries again.
RETRIED: Final = (
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NETWORK_EXCEPTION,
)


@dataclass(slots=True, eq=False)
class Batch:
    """Records that are sent together, until they are acknowledged."""

    values: list[bytes]
    timestamp: int
    sequence: int = -1
    attempts: int = 0
    in_flight: bool = False
    is_acknowledged: bool = False
    offset: int | None = None


@dataclass(slots=True)
class Lane:
    """What goes to one partition: batches in order, those in flight included."""

    epoch: int = 0
    next_sequence: int = 0
    is_proven: bool = False
    is_raising_epoch: bool = False
    queue: list[Batch] = field(default_factory=list)
    #: Those not noted in the history yet: that goes in the order of sending, whoever answered first, old leader or new.
    untold: deque[Batch] = field(default_factory=deque)

    @property
    def in_flight(self) -> int:
        """Batches that wait for an answer."""
        return sum(batch.in_flight for batch in self.queue)

    def raise_epoch(self) -> None:
        """Begin to count anew."""
        self.is_raising_epoch = self.is_proven = False
        self.epoch += 1
        self.next_sequence = 0
        for batch in self.queue:
            batch.sequence, batch.attempts = -1, 0


class ClusterProducer(ClusterClient):
    """Sends `batch_count` batches to some partitions, then is finished."""

    def __init__(
        self,
        name: str,
        networks: Mapping[int, Network],
        history: History,
        keys: list[Key],
        batch_count: int,
        period_us: int,
    ) -> None:
        """Send nothing yet; `period_us` is how long making the batches takes."""
        super().__init__(name, networks, sorted({key[0] for key in keys}))
        self._history = history
        self._lanes = {key: Lane() for key in keys}
        self._batches_left = batch_count
        self._pace_us = period_us // batch_count
        self._in_flight_max = self.chance.choice((1, 1, 5))
        self._version = self.chance.choice((9, 11, 12, 13))
        self._producer_id = -1
        self._is_asking_id = False
        self._number = 0
        self._next_batch_us = 0
        #: Values that may be there twice.
        self.forgotten: dict[tuple[Key, bytes], None] = {}

    @property
    def unfinished(self) -> str:
        """Say what is left to do."""
        left = {
            f"{key[0]}-{key[1]}": len(lane.queue) for key, lane in self._lanes.items() if lane.queue
        }
        return f"{self.name}: {self._batches_left} batches not made, waiting: {left}, producer id {self._producer_id}"

    def step(self) -> None:
        """Get ready, make records, send what may be sent."""
        if self._producer_id < 0:
            self._ask_producer_id()
            return
        self._make_batches()
        for key in self._lanes:
            self._send_some(key)
        if self._batches_left:
            self.wake(max(0, self._next_batch_us - self.scheduler.now_us))
        elif not any(lane.queue for lane in self._lanes.values()):
            self.is_finished = True
            self.hang_up()

    def _ask_producer_id(self) -> None:
        def answered(response: Any) -> None:  # noqa: ANN401
            self._is_asking_id = False
            if response is not None and response.error_code == 0:
                self._producer_id = response.producer_id
            self.wake_after_backoff()

        if not self._is_asking_id:
            self._is_asking_id = True
            self.any_line().put(InitProducerIdRequest(transactional_id=None), 4, answered)

    def _make_batches(self) -> None:
        now_us = self.scheduler.now_us
        while self._batches_left and self._next_batch_us <= now_us:
            self._batches_left -= 1
            pause_us = (
                0 if self.chance.random() < 0.4 else self.chance.randint(0, 3 * self._pace_us)
            )
            self._next_batch_us = now_us + pause_us
            key = self.chance.choice(list(self._lanes))
            values = [self._new_value() for _ in range(self.chance.choice((1, 1, 2, 5)))]
            batch = Batch(values, START_MS + now_us // MS)
            self._lanes[key].queue.append(batch)
            self._lanes[key].untold.append(batch)

    def _new_value(self) -> bytes:
        self._number += 1
        return f"{self.name}:{self._number}:".encode() + b"x" * self.chance.choice((0, 0, 10, 200))

    # Sending

    def _send_some(self, key: Key) -> None:
        lane = self._lanes[key]
        if not lane.queue:
            return
        leader = self.leaders.get(key)
        if leader is None:
            self.refresh()
            return
        while (batch := self._next_to_send(lane)) is not None:
            self._send(key, lane, batch, leader)

    def _next_to_send(self, lane: Lane) -> Batch | None:
        if lane.is_raising_epoch:
            if lane.in_flight:
                return None
            lane.raise_epoch()
        if lane.in_flight >= (self._in_flight_max if lane.is_proven else 1):
            return None
        for index, batch in enumerate(lane.queue):
            if batch.in_flight:
                if batch.attempts > 1:
                    return None
                continue
            return batch if batch.attempts == 0 or index == 0 else None
        return None

    def _send(self, key: Key, lane: Lane, batch: Batch, leader: int) -> None:
        if batch.sequence < 0:
            batch.sequence = lane.next_sequence
            lane.next_sequence += len(batch.values)
        batch.attempts += 1
        batch.in_flight = True
        records = [
            batches.Record(number, batch.timestamp, None, value)
            for number, value in enumerate(batch.values)
        ]
        producer = batches.Producer(self._producer_id, lane.epoch, batch.sequence)
        data = PartitionProduceData(index=key[1], records=batches.build(records, producer=producer))
        topic = TopicProduceData(
            name=key[0], topic_id=self.topic_ids.get(key[0], bytes(16)), partition_data=[data]
        )
        request = ProduceRequest(
            transactional_id=None, acks=-1, timeout_ms=TIMEOUT_MS, topic_data=[topic]
        )
        self.lines[leader].put(request, self._version, partial(self._on_answer, key, batch))

    # Answers

    def _on_answer(self, key: Key, batch: Batch, response: ProduceResponse | None) -> None:
        batch.in_flight = False
        if response is None:
            self.leaders.pop(key, None)
        else:
            self._on_partition(key, batch, response.responses[0].partition_responses[0])
        self.wake_after_backoff() if key not in self.leaders else self.wake()

    def _on_partition(self, key: Key, batch: Batch, answer: PartitionProduceResponse) -> None:
        lane, code = self._lanes[key], ErrorCode(answer.error_code)
        if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            lane.is_proven = True
            lane.queue.remove(batch)
            batch.is_acknowledged = True
            batch.offset = answer.base_offset if answer.base_offset >= 0 else None
            self._note_acknowledged(key, lane)
        elif code in RETRIED:
            self.leaders.pop(key, None)
        elif code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            if batch is lane.queue[0]:
                self._on_first_refused(key, lane)
        else:
            raise Violation(
                "good records are taken",
                f"{self.name} got {code.name} ({answer.error_message}) on {key[0]}-{key[1]}",
            )

    def _note_acknowledged(self, key: Key, lane: Lane) -> None:
        while lane.untold and lane.untold[0].is_acknowledged:
            batch = lane.untold.popleft()
            for number, value in enumerate(batch.values):
                offset = None if batch.offset is None else batch.offset + number
                self._history.add(self.name, Send(key, value, offset))

    def _on_first_refused(self, key: Key, lane: Lane) -> None:
        tried = [batch for batch in lane.queue if batch.attempts]
        if len(tried) < 2:
            raise Violation(
                "acknowledged is kept",
                f"{key[0]}-{key[1]} does not know the records of {self.name} before {lane.queue[0].values[0]!r}",
            )
        for batch in tried:
            for value in batch.values:
                self.forgotten[key, value] = None
        lane.is_raising_epoch = True
