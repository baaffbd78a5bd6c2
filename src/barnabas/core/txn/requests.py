"""What is asked of the transaction coordinator and what is answered, in the words of the newest version of each API.

Job: plain values. Must not know: message versions and bytes; what an older version does differently, its handler does.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from barnabas.core.txn.records import NO_START
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.model.ids import TopicPartition


@dataclass(slots=True)
class InitRequest:
    """InitProducerId with a transactional id. With a producer id (KIP-360), the producer goes on after an error."""

    transactional_id: str
    timeout_ms: int
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH

    @property
    def names_producer(self) -> bool:
        """Whether it says whom it takes itself for."""
        return self.producer_id != NO_PRODUCER_ID


@dataclass(slots=True)
class PartitionsRequest:
    """AddPartitionsToTxn of one transactional id: to add, or to ask whether they were added."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: tuple[TopicPartition, ...]
    #: 2 where the client's epoch rises with every end, else 0.
    transaction_version: int = 0


@dataclass(slots=True)
class EndRequest:
    """EndTxn."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_commit: bool
    #: 2 where the client's epoch rises with every end, else 0.
    transaction_version: int = 0


@dataclass(slots=True)
class ProducerReply:
    """InitProducerId and EndTxn: with whom the client goes on; nobody in particular where something is wrong."""

    error_code: ErrorCode = ErrorCode.NONE
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


@dataclass(slots=True)
class PartitionsReply:
    """One code per partition, in the order in which they were asked for."""

    codes: list[ErrorCode]


@dataclass(slots=True)
class DescribedTransaction:
    """A line of DescribeTransactions."""

    transactional_id: str
    error_code: ErrorCode = ErrorCode.NONE
    state: str = ""
    producer_id: int = 0
    producer_epoch: int = 0
    timeout_ms: int = 0
    start_ms: int = 0
    partitions: tuple[TopicPartition, ...] = ()


@dataclass(slots=True)
class ListRequest:
    """ListTransactions: those of these ids that match all filters; an empty list matches any."""

    transactional_ids: list[str]
    producer_ids: list[int] = field(default_factory=list)
    states: list[str] = field(default_factory=list)
    #: Only those that began longer ago than this; negative: any.
    longer_than_ms: int = NO_START
    #: Whether a transactional id matches the pattern asked for.
    matches: Callable[[str], bool] | None = None


@dataclass(slots=True)
class ListedTransaction:
    """A line of ListTransactions."""

    transactional_id: str
    producer_id: int
    state: str
