"""Reading back what partitions hold, for the ledger to judge."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, KafkaError, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chaos.wire_kit import RawClient
    from oracle.ledger import Fault, Ledger

PATIENCE_S = 60
#: What was sent with acks=0 may still be on its way when its client has gone.
ARRIVAL_S = 10
MANY = 10_000


def audit_raw(
    ledger: Ledger, client: RawClient, topic: str, partition: int, *, life: int | None = None
) -> Iterator[Fault]:
    """Read a partition from its start over one plain connection, whatever is in it."""
    records = [(offset, bytes(value or b"")) for offset, value in client.read_all(topic, partition)]
    return ledger.audit(topic, partition, records, life=life)


def audit_all(ledger: Ledger, settings: dict[str, object]) -> Iterator[Fault]:
    """Read every partition that anything was sent to, and once more what is committed of it if that may be less."""
    for isolation in ("read_uncommitted", "read_committed"):
        is_committed = isolation == "read_committed"
        consumer = Consumer(
            {
                "group.id": "oracle", "enable.auto.commit": False, "isolation.level": isolation,
                "enable.partition.eof": True, "fetch.wait.max.ms": 10, "auto.offset.reset": "error", **settings,
            }
        )  # fmt: skip
        with contextlib.closing(consumer):
            for topic, partition in ledger.partitions():
                if is_committed and not ledger.has_transactions(topic, partition):
                    continue
                _wait_for_arrival(consumer, topic, partition, ledger.awaits(topic, partition))
                records = _records(consumer, topic, partition)
                yield from ledger.audit(topic, partition, records, is_committed=is_committed)


def _wait_for_arrival(consumer: Consumer, topic: str, partition: int, count: int) -> None:
    """Give what nobody waits for an answer to some time."""
    if not count:
        return
    deadline = time.monotonic() + ARRIVAL_S
    where = TopicPartition(topic, partition)
    while time.monotonic() < deadline:
        start, end = consumer.get_watermark_offsets(where, timeout=PATIENCE_S)
        if end - start >= count:
            return
        consumer.poll(0.05)


def _records(consumer: Consumer, topic: str, partition: int) -> Iterator[tuple[int, bytes]]:
    consumer.assign([TopicPartition(topic, partition, 0)])
    deadline = time.monotonic() + PATIENCE_S
    while True:
        assert time.monotonic() < deadline, f"nothing more of {topic}-{partition} comes"
        for message in consumer.consume(MANY, timeout=0.2):
            error = message.error()
            if error is None:
                deadline = time.monotonic() + PATIENCE_S
                yield message.offset(), message.value() or b""
            elif error.code() == KafkaError._PARTITION_EOF:
                consumer.unassign()
                return
            else:
                raise AssertionError(f"{topic}-{partition}: {error}")
