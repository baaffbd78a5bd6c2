"""What the cluster knows of transactions, asked for from the brokers that know it.

One job: the requests and answers behind `barnabas txn`. librdkafka has none of them, so they go over a client of our own, which
speaks plain connections only. Must not know how results are shown.

A transaction hangs (KIP-664) when it is open on a partition and its coordinator does not know it as open there: nobody will
ever end it, and readers of committed records stand still before it.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from barnabas.cli.own_client import open_client
from barnabas.client.cluster import TRANSACTION
from barnabas.client.errors import Refused
from barnabas.model.errors import ErrorCode
from barnabas.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from barnabas.wire.messages.describe_transactions import DescribeTransactionsRequest
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest
from barnabas.wire.messages.list_transactions import ListTransactionsRequest
from barnabas.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from barnabas.cli.connection import Connection

STATES: Final = (
    "Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "PrepareEpochFence",
)  # fmt: skip
ONGOING: Final = "Ongoing"
#: What passes: the coordinator is loading or moving, or ends a transaction before it begins another.
_PASSING: Final = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
)
RETRY_S: Final = 0.1
Answer = TypeVar("Answer")
_UNDER_WAY: Final = (ONGOING, "PrepareCommit", "PrepareAbort")


@dataclass(frozen=True, slots=True)
class Listed:
    """A transactional id, as its coordinator lists it."""

    transactional_id: str
    coordinator: int
    producer_id: int
    state: str


@dataclass(frozen=True, slots=True)
class Described:
    """All that a coordinator says of a transactional id."""

    transactional_id: str
    coordinator: int
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    #: None if no transaction is under way.
    started_ms: int | None
    #: (topic, partition) of each that is part of the transaction.
    partitions: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class ActiveProducer:
    """A producer as the leader of a partition knows it."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    #: Where its open transaction starts; None if it has none here.
    transaction_start: int | None


@dataclass(frozen=True, slots=True)
class Hanging:
    """An open transaction that nobody will end."""

    producer: ActiveProducer
    transactional_id: str | None
    why: str

    def as_dict(self) -> dict[str, Any]:
        """For JSON and YAML."""
        return {
            **asdict(self.producer),
            "transactional_id": self.transactional_id,
            "reason": self.why,
        }


class TransactionView:
    """One command's look at the cluster. Use as a context manager."""

    def __init__(self, connection: Connection) -> None:
        """Connect; Failure if nobody answers, or does not let us in."""
        self._timeout_s = connection.timeout_s
        self._client = open_client(connection)

    def __enter__(self) -> TransactionView:
        """Nothing more to do."""
        return self

    def __exit__(self, *arguments: object) -> None:
        """Hang up."""
        self._client.__exit__(*arguments)

    def list_transactions(
        self,
        *,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        longer_than_ms: int | None = None,
    ) -> list[Listed]:
        """Ask every broker for the transactional ids it coordinates."""
        request = ListTransactionsRequest(
            state_filters=list(states), producer_id_filters=list(producer_ids)
        )
        if longer_than_ms is not None:
            request.duration_filter = longer_than_ms
        found = []
        for broker in self._client.brokers():
            answer = self._client.ask(broker, request)
            if answer.error_code:
                raise Refused(answer.error_code)
            found += [
                Listed(one.transactional_id, broker, one.producer_id, one.transaction_state)
                for one in answer.transaction_states
            ]
        return sorted(found, key=lambda one: one.transactional_id)

    def describe(self, transactional_id: str) -> Described:
        """Ask the coordinator of one id."""
        return self._patiently(lambda: self._describe(transactional_id))

    def _describe(self, transactional_id: str) -> Described:
        broker = self._client.coordinator_of(transactional_id, TRANSACTION)
        request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
        one = self._client.ask(broker, request).transaction_states[0]
        if one.error_code:
            raise Refused(one.error_code)
        return Described(
            transactional_id,
            broker,
            one.transaction_state,
            one.producer_id,
            one.producer_epoch,
            one.transaction_timeout_ms,
            # A coordinator goes on telling when the last one began.
            one.transaction_start_time_ms if one.transaction_state in _UNDER_WAY else None,
            tuple((topic.topic, index) for topic in one.topics for index in topic.partitions),
        )

    def partitions_of(self, topic: str | None) -> list[tuple[str, int, int]]:
        """Return (topic, partition, leader) of a topic, or of all."""
        answer = self._client.metadata(None if topic is None else [topic])
        found = []
        for one in answer.topics:
            if one.error_code:
                raise Refused(one.error_code)
            found += [
                (one.name or "", each.partition_index, each.leader_id)
                for each in one.partitions
                if each.leader_id >= 0
            ]
        return sorted(found)

    def producers(self, partitions: Iterable[tuple[str, int, int]]) -> Iterator[ActiveProducer]:
        """Ask the leaders of partitions for the producers they know, one partition after another."""
        for topic, index, leader in partitions:
            request = DescribeProducersRequest(
                topics=[TopicRequest(name=topic, partition_indexes=[index])]
            )
            answer = self._client.ask(leader, request).topics[0].partitions[0]
            if answer.error_code:
                raise Refused(answer.error_code, answer.error_message)
            for one in answer.active_producers:
                start = one.current_txn_start_offset
                yield ActiveProducer(
                    topic, index,
                    one.producer_id, one.producer_epoch, one.last_sequence, one.last_timestamp,
                    one.coordinator_epoch, start if start >= 0 else None,
                )  # fmt: skip

    def find_hanging(
        self, partitions: Iterable[tuple[str, int, int]], older_than_ms: int
    ) -> list[Hanging]:
        """Find open transactions whose last record is this old and that no coordinator knows as open there."""
        bound_ms = time.time_ns() // 1_000_000 - older_than_ms
        suspects = [
            one
            for one in self.producers(partitions)
            if one.transaction_start is not None and one.last_timestamp_ms <= bound_ms
        ]
        if not suspects:
            return []
        ids = {one.producer_id: one.transactional_id for one in self.list_transactions()}
        hanging = []
        for suspect in suspects:
            transactional_id = ids.get(suspect.producer_id)
            why = self._why_hanging(suspect, transactional_id)
            if why is not None:
                hanging.append(Hanging(suspect, transactional_id, why))
        return hanging

    def _why_hanging(self, suspect: ActiveProducer, transactional_id: str | None) -> str | None:
        if transactional_id is None:
            return "no coordinator knows the producer"
        known = self.describe(transactional_id)
        if known.producer_id != suspect.producer_id:
            return f"{transactional_id} goes on with producer {known.producer_id}"
        if (suspect.topic, suspect.partition) not in known.partitions:
            return f"the transaction of {transactional_id} ({known.state}) is not on this partition"
        return None

    def write_abort(self, producer: ActiveProducer) -> None:
        """Have the leader of a partition end a producer's transaction there."""
        leader = self._client.leader_of(producer.topic, producer.partition)
        topic = WritableTxnMarkerTopic(name=producer.topic, partition_indexes=[producer.partition])
        marker = WritableTxnMarker(
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            transaction_result=False,
            topics=[topic],
            # As Kafka's own tool: a producer that never saw a marker has none, and the partition takes 0 or more.
            coordinator_epoch=max(producer.coordinator_epoch, 0),
        )
        answer = self._client.ask(leader, WriteTxnMarkersRequest(markers=[marker]))
        code = answer.markers[0].topics[0].partitions[0].error_code
        if code:
            raise Refused(code)

    def fence(self, transactional_id: str, timeout_ms: int) -> tuple[int, int]:
        """Take a transactional id over: its producer is fenced, and what it has open is aborted; the new id and epoch."""
        request = InitProducerIdRequest(
            transactional_id=transactional_id, transaction_timeout_ms=timeout_ms
        )

        def take() -> tuple[int, int]:
            broker = self._client.coordinator_of(transactional_id, TRANSACTION)
            answer = self._client.ask(broker, request)
            if answer.error_code:
                raise Refused(answer.error_code)
            return answer.producer_id, answer.producer_epoch

        return self._patiently(take)

    def _patiently(self, ask: Callable[[], Answer]) -> Answer:
        """Ask again while a coordinator is not ready, or is busy ending the transaction that was open."""
        give_up = time.monotonic() + self._timeout_s
        while True:
            try:
                return ask()
            except Refused as refused:
                if refused.code not in _PASSING or time.monotonic() + RETRY_S > give_up:
                    raise
            time.sleep(RETRY_S)
