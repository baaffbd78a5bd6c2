"""What a request or an event leads to: records to append, then replies to send and markers to write."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from barnabas.core.txn.records import Record
    from barnabas.model.ids import TopicPartition

#: Whose request it is: the caller's own object, handed back with the reply.
Ticket = Any


@dataclass(slots=True)
class Markers:
    """The end of one producer's transaction, to be written to each of the partitions."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_commit: bool
    partitions: tuple[TopicPartition, ...]
    transaction_version: int


@dataclass(slots=True)
class Result:
    """Records in order, written as one batch (all or none); replies and markers wait until they are durable."""

    records: list[Record] = field(default_factory=list)
    replies: list[tuple[Ticket, Any]] = field(default_factory=list)
    markers: list[Markers] = field(default_factory=list)
