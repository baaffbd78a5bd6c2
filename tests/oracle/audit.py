"""Reading back what partitions hold, for the ledger to judge."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chaos.wire_kit import RawClient
    from oracle.ledger import Fault, Ledger


def audit_raw(
    ledger: Ledger, client: RawClient, topic: str, partition: int, *, life: int | None = None
) -> Iterator[Fault]:
    """Read a partition from its start over one plain connection, whatever is in it."""
    records = [(offset, bytes(value or b"")) for offset, value in client.read_all(topic, partition)]
    return ledger.audit(topic, partition, records, life=life)
