"""A simulated producer, with the retries of a real one.

Job: send numbered records, again until they are acknowledged, in one of the ways real clients have: acks 0, 1 or all,
idempotent or not, one or several requests in flight. Must not know what the node makes of them: `checkers.History` does.

How an idempotent producer goes about it, per partition (Java's `Sender` and `TransactionManager`):

- A batch gets its sequence when it is first sent and keeps it for good.
- A batch that was sent before goes out again only as the first of those that are not acknowledged; new ones wait behind it.
  An `eager` producer sends all of them again in order after it reconnects, as librdkafka does.
- OUT_OF_ORDER_SEQUENCE_NUMBER for the first one says that the broker lost records. Then the epoch is raised and sequences
  start at 0 again (KIP-360). That is right only after a power loss, with one exception: Kafka's producer snapshots hold only
  the last batch of each producer, so after a restart a broker may not know two batches whose answers were lost.

A broker that knows nothing of a producer takes any sequence, so a first batch that is refused (no topic yet, no room), followed by one
that is taken, would end up behind it. Kafka has that, too. So one batch is in flight until the first is acknowledged; where disks fill
up, and a power loss may have made the broker forget, `careful` producers do that after each reconnection.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.model.errors import ErrorCode
from barnabas.sim.client import Client
from barnabas.sim.violation import Violation
from barnabas.sim.world import MS, SECOND, START_MS
from barnabas.wire import batch as batches
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest
from barnabas.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)

if TYPE_CHECKING:
    from barnabas.sim.checkers import History
    from barnabas.sim.network import Network
    from barnabas.wire.compression import Codec
    from barnabas.wire.messages.produce import PartitionProduceResponse, ProduceResponse

BATCHES_IN_FLIGHT_MAX: Final = 5
TOPIC_IDS_SINCE: Final = 13
#: Errors after which a real producer tries again.
RETRIED: Final = (
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
)

Key = tuple[str, int]


class Style(NamedTuple):
    """The way a producer works."""

    idempotent: bool
    acks: int
    in_flight: int
    eager: bool
    careful: bool
    version: int
    codec: Codec


@dataclass(slots=True, eq=False)
class Batch:
    """Records that are sent together, until they are acknowledged."""

    values: list[bytes]
    timestamp: int
    sequence: int = -1
    attempts: int = 0
    in_flight: bool = False
    #: The life of the node that it was first sent to.
    life: int = -1


@dataclass(slots=True)
class Lane:
    """What goes to one partition: batches in order, those in flight included."""

    epoch: int = 0
    next_sequence: int = 0
    raising_epoch: bool = False
    #: Something was acknowledged in this epoch, and for a careful producer on this connection.
    proven: bool = False
    queue: list[Batch] = field(default_factory=list)

    @property
    def in_flight(self) -> int:
        """Batches that wait for an answer."""
        return sum(batch.in_flight for batch in self.queue)


class Producer(Client):
    """Sends `batch_count` batches to some partitions, then is finished."""

    def __init__(
        self,
        name: str,
        network: Network,
        history: History,
        keys: list[Key],
        style: Style,
        batch_count: int,
    ) -> None:
        """Send nothing yet."""
        super().__init__(name, network)
        self.style = style
        self.history = history
        self._lanes = {key: Lane() for key in keys}
        self._batches_left = batch_count
        self._producer_id = -1
        self._topic_ids: dict[str, bytes] = {}
        self._asking = False
        self._number = 0
        self._next_batch_us = 0
        #: Bursts, with pauses of this length on average: work lasts about as long as the trouble.
        self._pace_us = 6 * SECOND // batch_count

    @property
    def unfinished(self) -> str:
        """Say what is left to do."""
        left = {f"{key[0]}-{key[1]}": len(lane.queue) for key, lane in self._lanes.items()}
        return f"{self._batches_left} batches not made, waiting: {left}"

    def step(self) -> None:
        """Get ready, make records, send what may be sent."""
        if self._asking:
            return
        if self.style.idempotent and self._producer_id < 0:
            self._ask_producer_id()
        elif self.style.version >= TOPIC_IDS_SINCE and not self._topic_ids:
            self._asking = True
            self.ask_metadata(sorted({key[0] for key in self._lanes}), self._on_metadata)
        else:
            self._make_batches()
            while self._send_some():
                pass
            self._rest()

    def on_lost(self) -> None:
        """Send again what was in flight, once there is a connection."""
        self._asking = False
        self._topic_ids = {}
        for lane in self._lanes.values():
            lane.proven = lane.proven and not self.style.careful

    def _rest(self) -> None:
        if self._batches_left == 0 and not any(lane.queue for lane in self._lanes.values()):
            self.is_finished = True
            self.hang_up()
        elif self._batches_left:
            self.wake(max(0, self._next_batch_us - self.scheduler.now_us))
        elif not self.requests_in_flight:
            self.wake_after_backoff()

    def _ask_producer_id(self) -> None:
        def answered(response: object) -> None:
            self._asking = False
            code = getattr(response, "error_code", ErrorCode.REQUEST_TIMED_OUT)
            if code == 0:
                self._producer_id = getattr(response, "producer_id", -1)
                self.history.on_producer_id(self.name, self._producer_id)
            elif self.connection is not None:
                self._asking = True  # hold still for a while
                self.scheduler.after(50 * MS, f"{self.name} asks again", self._ask_again)

        self._asking = True
        self.ask(InitProducerIdRequest(transactional_id=None), 4, answered)

    def _ask_again(self) -> None:
        self._asking = False
        self.wake()

    def _on_metadata(self, response: object) -> None:
        self._asking = False
        if response is None:
            return
        found = {topic.name: topic for topic in response.topics}  # type: ignore[attr-defined]
        if all(topic.error_code == 0 for topic in found.values()):
            self._topic_ids = {name: topic.topic_id for name, topic in found.items()}
        else:
            self._asking = True
            self.scheduler.after(50 * MS, f"{self.name} asks again", self._ask_again)

    # Making

    def _make_batches(self) -> None:
        while self._batches_left and self._next_batch_us <= self.scheduler.now_us:
            self._batches_left -= 1
            pause_us = (
                0 if self.chance.random() < 0.4 else self.chance.randint(0, 2 * self._pace_us)
            )
            self._next_batch_us = self.scheduler.now_us + pause_us
            key = self.chance.choice(list(self._lanes))
            values = [self._new_value() for _ in range(self.chance.choice((1, 1, 2, 3, 8)))]
            timestamp = START_MS + self.scheduler.now_us // MS
            self._lanes[key].queue.append(Batch(values, timestamp))
            self.history.on_made(key, self.name, values)

    def _new_value(self) -> bytes:
        self._number += 1
        padding = self.chance.choice((0, 0, 10, 200, 700))
        return f"{self.name}:{self._number}:".encode() + b"x" * padding

    # Sending

    def _send_some(self) -> bool:
        if self.connection is None or self.requests_in_flight >= self.style.in_flight:
            return False
        chosen = {}
        for key, lane in self._lanes.items():
            batch = self._next_to_send(lane)
            if batch is not None:
                chosen[key] = batch
        if not chosen:
            return False
        request = self._request(chosen)
        if self.style.acks == 0:
            for key, batch in chosen.items():
                self._lanes[key].queue.remove(batch)
            self.tell(request, self.style.version)
        else:
            names = {topic_id: name for name, topic_id in self._topic_ids.items()}
            self.ask(
                request,
                self.style.version,
                lambda response: self._on_answer(chosen, names, response),
            )
        return True

    def _next_to_send(self, lane: Lane) -> Batch | None:
        if lane.raising_epoch:
            if lane.in_flight:
                return None
            self._raise_epoch(lane)
        if lane.in_flight >= (BATCHES_IN_FLIGHT_MAX if lane.proven else 1):
            return None
        for index, batch in enumerate(lane.queue):
            if batch.in_flight:
                if batch.attempts > 1 and not self.style.eager and self.style.idempotent:
                    return None  # nothing overtakes one that is being retried
                continue
            may_retry = index == 0 or self.style.eager or not self.style.idempotent
            return batch if batch.attempts == 0 or may_retry else None
        return None

    def _request(self, chosen: dict[Key, Batch]) -> ProduceRequest:
        topics: dict[str, TopicProduceData] = {}
        for (topic, index), batch in chosen.items():
            data = topics.setdefault(
                topic,
                TopicProduceData(
                    name=topic, topic_id=self._topic_ids.get(topic, bytes(16)), partition_data=[]
                ),
            )
            records = self._encode(self._lanes[topic, index], batch)
            data.partition_data.append(PartitionProduceData(index=index, records=records))
        return ProduceRequest(
            transactional_id=None,
            acks=self.style.acks,
            timeout_ms=1500,
            topic_data=list(topics.values()),
        )

    def _encode(self, lane: Lane, batch: Batch) -> bytearray:
        if self.style.idempotent and batch.sequence < 0:
            batch.sequence = lane.next_sequence
            lane.next_sequence += len(batch.values)
        if batch.attempts == 0:
            assert self.connection is not None
            batch.life = self.connection.life.number
        batch.attempts += 1
        batch.in_flight = self.style.acks != 0
        records = [
            batches.Record(number, batch.timestamp, None, value)
            for number, value in enumerate(batch.values)
        ]
        producer = batches.Producer()
        if self.style.idempotent:
            producer = batches.Producer(self._producer_id, lane.epoch, batch.sequence)
        return batches.build(records, codec=self.style.codec, producer=producer)

    # Answers

    def _on_answer(
        self, sent: dict[Key, Batch], names: dict[bytes, str], response: ProduceResponse | None
    ) -> None:
        for batch in sent.values():
            batch.in_flight = False
        if response is None:
            return
        assert self.connection is not None
        retry = False
        for topic in response.responses:
            name = names[topic.topic_id] if self.style.version >= TOPIC_IDS_SINCE else topic.name
            for partition in topic.partition_responses:
                key = (name, partition.index)
                if key not in sent:
                    raise Violation(
                        "answers are about what was asked",
                        f"{self.name} is told of {name}-{partition.index}, and wrote to {sorted(sent)}",
                    )
                retry |= self._on_partition(key, sent[key], partition)
        if retry:
            self._asking = True
            self.scheduler.after(
                self.chance.randint(5 * MS, 100 * MS), f"{self.name} retries", self._ask_again
            )

    def _on_partition(self, key: Key, batch: Batch, answer: PartitionProduceResponse) -> bool:
        """Take one partition's answer; tell whether to wait before the next attempt."""
        lane = self._lanes[key]
        code = answer.error_code
        if code == 0:
            assert self.connection is not None
            lane.proven = True
            lane.queue.remove(batch)
            self.history.on_acknowledged(
                key, self.name, self.connection.life.number, answer.base_offset, batch.values
            )
            return False
        if code in RETRIED:
            if code == ErrorCode.UNKNOWN_TOPIC_ID:
                self._topic_ids = {}
            return True
        if code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and self.style.idempotent:
            if lane.queue[0] is batch:
                self._on_first_refused(key, lane)
            return True
        raise Violation(
            "good batches are taken",
            f"{self.name} got {ErrorCode(code).name} ({answer.error_message}) for {_told(batch.values)} on {key[0]}-{key[1]}",
        )

    def _on_first_refused(self, key: Key, lane: Lane) -> None:
        assert self.connection is not None
        life = self.connection.life.number
        older = [batch for batch in lane.queue if batch.attempts and batch.life < life]
        if len(older) > 1 and older[0] is lane.queue[0]:
            self.history.on_forgotten(key, [value for batch in older for value in batch.values])
        else:
            self.history.on_sequence_refused(key, self.name, lane.queue[0].values[0])
        lane.raising_epoch = True

    def _raise_epoch(self, lane: Lane) -> None:
        lane.raising_epoch = False
        lane.epoch += 1
        lane.next_sequence = 0
        lane.proven = False
        for batch in lane.queue:
            batch.sequence, batch.attempts = -1, 0


def _told(values: list[bytes]) -> str:
    return values[0].decode().rstrip("x")
