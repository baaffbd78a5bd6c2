"""Hosts the transaction machines on the partitions of `__transaction_state`, as `shard_host` does with any.

What is particular to transactions: markers. They are sent when the decision is as durable as the topic's settings ask for, and
what the partitions answer goes back to the machine. Knows no rule of a transaction, nor where partitions are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from barnabas.broker import shard_loading, transaction_records
from barnabas.broker.admission import Admission
from barnabas.broker.edge import report
from barnabas.broker.marker_sending import MarkerSending
from barnabas.broker.markers import End
from barnabas.broker.shard_host import ShardHost
from barnabas.broker.tasks import drive
from barnabas.core.txn.records import TransactionSaved
from barnabas.core.txn.settings import TransactionSettings
from barnabas.core.txn.shard import TransactionShard
from barnabas.core.txn.states import TransactionState
from barnabas.model.errors import ErrorCode
from barnabas.wire.batch import Producer, build_pairs
from barnabas.wire.control_batch import EndMarker

if TYPE_CHECKING:
    from collections.abc import Container

    from barnabas.broker.markers import Answers
    from barnabas.broker.node import Node
    from barnabas.broker.replicas import Replica
    from barnabas.broker.shard_host import Hosted
    from barnabas.broker.tasks import Task
    from barnabas.core.txn.result import Markers, Result
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
        self._sending = MarkerSending(node)
        #: For who writes to partitions in a transaction.
        self.admission = Admission(node)

    def on_brokers(self, live: Container[int]) -> None:
        """Hear who is there: nobody else is asked or sent anything."""
        self._sending.on_brokers(live)
        self.admission.on_brokers(live)

    def stop(self) -> None:
        """Stop serving and sending: whoever loads what is left goes on with it."""
        super().stop()
        self._sending.close()
        self.admission.close()

    # What `ShardHost` asks

    def _new_shard(self) -> TransactionShard:
        return TransactionShard(self._settings, self._node.producer_ids.take_now)

    def _topic_settings(self, replication_factor: int) -> list[tuple[str, str]]:
        number = self._node.config.get_int
        # More than there are cannot be in sync.
        in_sync = min(number("transaction.state.log.min.isr"), replication_factor)
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
            if hosted.is_loaded:
                self._write_markers(hosted, some)

    def _write_markers(self, hosted: Hosted[TransactionShard], some: Markers) -> None:
        def written(answers: Answers | None, problem: BaseException | None) -> None:
            if isinstance(problem, Exception):
                report(self._node.world, f"the markers of producer {some.producer_id}", problem)
                answers = [(one, ErrorCode.UNKNOWN_SERVER_ERROR) for one in some.partitions]
            if not hosted.is_loaded or answers is None:
                return  # whoever loads it next writes them again
            clock = self._node.world.clock
            now_ms, wall_ms = clock.monotonic_ms(), clock.now_ms()
            self._carry_out(hosted, hosted.shard.on_markers(some, answers, now_ms, wall_ms))
            self._book(hosted)

        end = End(
            # A coordinator that has lost its place to another is refused by this epoch.
            EndMarker(some.is_commit, hosted.replica.state.leader_epoch),
            Producer(some.producer_id, some.producer_epoch),
            some.transaction_version,
            some.partitions,
        )
        drive(self._sending.send(end, lambda: hosted.is_loaded), written)


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
