"""Hosts the transaction machines on the partitions of `__transaction_state`, as `shard_host` does with any.

What is particular to transactions: markers. They are written when the decision is as durable as the topic's settings ask for, and
what the partitions answer goes back to the machine. Knows no rule of a transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from barnabas.broker import markers, shard_loading, transaction_records
from barnabas.broker.shard_host import ShardHost
from barnabas.broker.tasks import drive
from barnabas.core.txn.records import TransactionSaved
from barnabas.core.txn.settings import TransactionSettings
from barnabas.core.txn.shard import TransactionShard
from barnabas.core.txn.states import TransactionState
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.batch import Producer, build_pairs
from barnabas.wire.control_batch import EndMarker

if TYPE_CHECKING:
    from barnabas.broker.node import Node
    from barnabas.broker.replicas import Replica
    from barnabas.broker.shard_host import Hosted
    from barnabas.broker.tasks import Done, Task
    from barnabas.core.txn.requests import PartitionsReply, PartitionsRequest
    from barnabas.core.txn.result import Markers, Result, Ticket
    from barnabas.model.config.broker_config import BrokerConfig
    from barnabas.wire.batch import BatchHeader

TOPIC: Final = "__transaction_state"
#: What a client makes larger: a name, partitions.
_GROWING: Final = (TransactionState.EMPTY, TransactionState.ONGOING)


class Transactions(ShardHost[TransactionShard]):
    """The transaction shards of one node."""

    def __init__(self, node: Node) -> None:
        """Host nothing yet."""
        super().__init__(
            node,
            TOPIC,
            "transaction.state.log.num.partitions",
            "transaction.state.log.replication.factor",
        )
        self._settings = settings_from(node.config)

    def admit(self, request: PartitionsRequest, *, adds: bool) -> Task[list[ErrorCode]]:
        """Ask, for who writes to partitions, whether they are part of the transaction, or make them so.

        One code per partition. A transaction before this one that is about to end is waited for, a little while.
        """
        config, clock = self._node.config, self._node.world.clock
        backoff_ms = config.get_int("add.partitions.to.txn.retry.backoff.ms")
        give_up_ms = clock.monotonic_ms() + config.get_int(
            "add.partitions.to.txn.retry.backoff.max.ms"
        )
        while True:
            codes = yield from self._admit_once(request, adds=adds)
            if ErrorCode.CONCURRENT_TRANSACTIONS not in codes or not adds:
                return codes
            next_ms = clock.monotonic_ms() + backoff_ms
            if next_ms > give_up_ms:
                return codes
            yield lambda done, at_ms=next_ms: self._wait_until(at_ms, done)  # type: ignore[misc]

    def _admit_once(self, request: PartitionsRequest, *, adds: bool) -> Task[list[ErrorCode]]:
        def entry(shard: TransactionShard, ticket: Ticket, _now_ms: int, wall_ms: int) -> Result:
            if adds:
                return shard.add_partitions(ticket, request, wall_ms)
            return shard.verify_partitions(ticket, request)

        if not request.transactional_id:
            return [ErrorCode.INVALID_REQUEST] * len(request.partitions)
        try:
            reply: PartitionsReply = yield self.asking(self.find(request.transactional_id), entry)
        except KafkaError as problem:
            return [problem.code] * len(request.partitions)
        return reply.codes

    def _wait_until(self, at_ms: int, done: Done) -> None:
        self._node.world.timers.call_at(at_ms, lambda: done(None, None))

    # What `ShardHost` asks

    def _new_shard(self) -> TransactionShard:
        return TransactionShard(self._settings, self._node.producer_ids.take_now)

    def _topic_settings(self) -> list[tuple[str, str]]:
        number = self._node.config.get_int
        # More than one replica cannot be in sync where there is one.
        in_sync = min(number("transaction.state.log.min.isr"), 1)
        return [
            ("cleanup.policy", "compact"),
            ("compression.type", "uncompressed"),
            ("min.insync.replicas", str(in_sync)),
            ("segment.bytes", str(number("transaction.state.log.segment.bytes"))),
            ("unclean.leader.election.enable", "false"),
        ]

    def _encode(self, result: Result, now_ms: int) -> tuple[memoryview, BatchHeader]:
        return build_pairs(map(transaction_records.encode, result.records), now_ms)

    def _must_be_written(self, result: Result) -> bool:
        """Let every transaction end, and ids expire: who begins or adds keeps to the limit, an end names the same partitions.

        In Kafka one that is just small enough cannot end, if its end is larger by the few bytes of another field.
        """
        return not any(
            isinstance(record, TransactionSaved) and record.state in _GROWING
            for record in result.records
        )

    def _replay(self, shard: TransactionShard, result: Result, _offset: int) -> None:
        for record in result.records:
            shard.replay(record)

    def _load(self, replica: Replica, shard: TransactionShard) -> Task[None]:
        size = self._node.config.get_int("transaction.state.log.load.buffer.size")

        def replay(_offset: int, _producer_id: int, record: Any) -> None:  # noqa: ANN401
            if not isinstance(record, bool):  # markers have no business here
                shard.replay(record)

        background = self._node.world.background
        return shard_loading.load(background, replica, size, transaction_records.decode, replay)

    # Markers

    def _has_effects(self, result: Result) -> bool:
        return bool(result.markers)

    def _deliver(self, hosted: Hosted[TransactionShard], result: Result) -> None:
        super()._deliver(hosted, result)
        for some in result.markers:
            self._write_markers(hosted, some)

    def _write_markers(self, hosted: Hosted[TransactionShard], some: Markers) -> None:
        def written(answers: markers.Answers | None, problem: BaseException | None) -> None:
            if problem is not None:
                raise problem
            if not hosted.is_loaded or answers is None:
                return  # whoever loads it next writes them again
            clock = self._node.world.clock
            now_ms, wall_ms = clock.monotonic_ms(), clock.now_ms()
            self._carry_out(hosted, hosted.shard.on_markers(some, answers, now_ms, wall_ms))
            self._book(hosted)

        marker = EndMarker(some.is_commit, hosted.replica.state.leader_epoch)
        producer = Producer(some.producer_id, some.producer_epoch)
        version = some.transaction_version
        drive(markers.write(self._node, marker, producer, version, some.partitions), written)


def settings_from(config: BrokerConfig) -> TransactionSettings:
    """Pick the settings that the machine reads."""
    number = config.get_int
    return TransactionSettings(
        max_timeout_ms=number("transaction.max.timeout.ms"),
        abort_check_interval_ms=number(
            "transaction.abort.timed.out.transaction.cleanup.interval.ms"
        ),
        id_expiration_ms=number("transactional.id.expiration.ms"),
        expiration_check_interval_ms=number(
            "transaction.remove.expired.transaction.cleanup.interval.ms"
        ),
    )


def fenced_code(code: ErrorCode, version: int, known_since: int) -> ErrorCode:
    """Tell a client that it is fenced in a word that it knows (KIP-588)."""
    if code is ErrorCode.PRODUCER_FENCED and version < known_since:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code
