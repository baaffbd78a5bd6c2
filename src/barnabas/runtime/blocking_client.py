"""A client for one thread: every call returns when it is done.

Job: the conversations of `client/` as plain calls. Must not know what their answers mean, or sockets.

Use it as a context manager. Nothing is opened before the first call; what can be retried is, until `default.api.timeout.ms` is over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barnabas.client import offsets as offset_talks
from barnabas.client import topics as topic_talks
from barnabas.client.cluster import Cluster
from barnabas.client.producer import BUFFER_BYTES, Producer
from barnabas.client.reader import Chunk, RangeReader, read_all
from barnabas.client.settings import READ_UNCOMMITTED
from barnabas.client.talk import ask
from barnabas.client.transaction import Transaction
from barnabas.model.ids import TopicPartition
from barnabas.runtime.client_io import Wires
from barnabas.runtime.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from barnabas.client.errors import Refused
    from barnabas.client.offsets import ListedOffset
    from barnabas.client.settings import ClientSettings
    from barnabas.client.topics import TopicLimits
    from barnabas.client.transaction import PreparedTransaction
    from barnabas.wire.batch import Producer as ProducerFields
    from barnabas.wire.messages.metadata import MetadataResponse
    from barnabas.wire.primitives import Message


class BlockingClient:
    """Talks to one cluster."""

    def __init__(self, settings: ClientSettings) -> None:
        """Open nothing yet."""
        self.settings = settings
        self._cluster = Cluster(settings, SystemClock())
        self._wires = Wires(settings)
        self._run = self._wires.run

    def __enter__(self) -> BlockingClient:
        """Nothing more to do."""
        return self

    def __exit__(self, *_: object) -> None:
        """Hang up everywhere."""
        self.close()

    def close(self) -> None:
        """Hang up everywhere."""
        self._wires.close()

    def connect(self) -> BlockingClient:
        """Try every address once, and fail at once if nobody answers: for who wants to know early."""
        self._run(self._cluster.metadata([]))
        return self

    # -- the cluster --------------------------------------------------------------------------

    def brokers(self) -> list[int]:
        """Return the ids of all brokers."""
        if not self._cluster.brokers:
            self.metadata([])
        return sorted(self._cluster.brokers)

    def metadata(self, topics: Iterable[str] | None) -> MetadataResponse:
        """Ask once where partitions are; None for all topics."""
        return self._run(self._cluster.metadata(topics))

    def leader_of(self, topic: str, partition: int) -> int:
        """Return the broker that leads a partition, as of now."""
        place = TopicPartition(topic, partition)
        self._cluster.forget_leader(place)
        self._run(self._cluster.locate((place,)))
        return self._cluster.leader_of(place).broker_id

    def coordinator_of(self, key: str, kind: int) -> int:
        """Return the broker that coordinates a group or a transactional id, as of now."""
        self._cluster.forget_coordinator(kind, key)
        return self._run(self._cluster.coordinator(kind, key))

    def ask(self, broker_id: int, request: Message) -> Any:  # noqa: ANN401  # its response class
        """Ask one broker, once."""
        if broker_id not in self._cluster.brokers:
            self.metadata([])
        return self._run(ask(self._cluster.address_of(broker_id), request))

    # -- topics and offsets -------------------------------------------------------------------

    def topics(self) -> list[str]:
        """Return the names of all topics but internal ones."""
        return self._run(topic_talks.topics(self._cluster))

    def partitions(self, names: Iterable[str]) -> dict[str, list[int]]:
        """Return the partitions of topics; UnknownTopic if one is not there."""
        return self._run(topic_talks.partitions(self._cluster, names))

    def closed_topics(self, names: Iterable[str]) -> dict[str, Refused]:
        """Name the topics that cannot be written to, and why, as far as that can be known without writing."""
        return self._run(topic_talks.closed(self._cluster, names))

    def topic_limits(self, topic: str) -> TopicLimits:
        """Ask what a topic takes."""
        return self._run(topic_talks.limits(self._cluster, topic))

    def list_offsets(
        self, wanted: Mapping[TopicPartition, int], isolation: str = READ_UNCOMMITTED
    ) -> dict[TopicPartition, ListedOffset]:
        """Find offsets by EARLIEST, LATEST or a time in ms."""
        return self._run(offset_talks.list_offsets(self._cluster, wanted, isolation))

    def commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets for a group without members."""
        self._run(offset_talks.commit(self._cluster, group, offsets))

    def committed(
        self, group: str, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, int]:
        """Return what a group has committed, of these partitions or of all."""
        return self._run(offset_talks.committed(self._cluster, group, partitions))

    # -- records ------------------------------------------------------------------------------

    def read_range(
        self, partition: TopicPartition, start: int, end: int, isolation: str = READ_UNCOMMITTED
    ) -> Iterator[Chunk]:
        """Yield the record batches of [start, end)."""
        return read_all(RangeReader(self._cluster, partition, start, end, isolation), self._run)

    def idempotent_producer(self) -> ProducerSession:
        """Return a producer that writes everything once and in order, as long as it lives."""
        return self._session(None)

    def transactional_producer(
        self, transactional_id: str, timeout_ms: int | None = None
    ) -> ProducerSession:
        """Take over a transactional id: earlier producers are fenced, their open transaction is aborted."""
        chosen_ms = self.settings.transaction_timeout_ms if timeout_ms is None else timeout_ms
        return self._session(Transaction(self._cluster, transactional_id, chosen_ms))

    def end_transaction(self, prepared: PreparedTransaction, *, commit: bool) -> None:
        """End a transaction that a session has handed over, here or elsewhere."""
        transaction = Transaction(self._cluster, prepared.transactional_id, 0)
        transaction.take_over(prepared)
        self._run(transaction.end(committed=commit))

    def _session(self, transaction: Transaction | None) -> ProducerSession:
        producer = Producer(self._cluster, transaction)
        self._run(producer.init())
        return ProducerSession(producer, self._wires)


class ProducerSession:
    """A producer that has its id."""

    def __init__(self, producer: Producer, wires: Wires) -> None:
        """Take over both."""
        self._producer = producer
        self._run = wires.run

    @property
    def is_transactional(self) -> bool:
        """Does it write in transactions?"""
        return self._producer.transaction is not None

    @property
    def unacknowledged_bytes(self) -> int:
        """What was taken and is not acknowledged yet."""
        return self._producer.unacknowledged_bytes

    def claim(self, partition: TopicPartition, record_count: int) -> ProducerFields:
        """Reserve sequences for a batch: the fields that it must carry. `add` must follow."""
        return self._producer.claim(partition, record_count)

    def add(self, partition: TopicPartition, batch: bytearray) -> None:
        """Take a batch; waits while too much is unacknowledged."""
        self._producer.add(partition, batch)
        self._run(self._producer.pump(BUFFER_BYTES))

    def flush(self) -> None:
        """Wait until everything is acknowledged; raise the first failure."""
        self._run(self._producer.pump(0))

    def begin(self) -> None:
        """Start a transaction."""
        self._producer.begin()

    def send_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit a group's offsets with the transaction."""
        self._run(self._producer.add_offsets(group, offsets))

    def detach(self) -> PreparedTransaction:
        """Wait for everything, and leave the transaction open: `BlockingClient.end_transaction` ends it."""
        return self._run(self._producer.prepare())

    def commit(self) -> None:
        """Wait for everything, then commit."""
        self._run(self._producer.commit())

    def abort(self) -> None:
        """Give up what was written in the transaction, and be ready for the next."""
        self._run(self._producer.abort())
