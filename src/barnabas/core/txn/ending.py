"""Transactions whose end is decided: which partitions still lack its marker, and when to try again.

Job: what is to be written, and what an answer to it means. Must not know: records, requests.

| answer of a partition                                 | then                                                          |
|-------------------------------------------------------|---------------------------------------------------------------|
| NONE; its topic is gone; it cannot hold markers       | it is done                                                    |
| a newer epoch of the producer or coordinator is there | nothing more is tried here: somebody else ends the transaction |
| anything else                                         | it is tried again after a while, each time a longer one        |
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.core.txn.result import Markers
from barnabas.core.txn.states import TransactionState
from barnabas.model.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from barnabas.core.txn.records import TransactionSaved
    from barnabas.core.txn.settings import TransactionSettings
    from barnabas.model.ids import TopicPartition

_DONE: Final = (
    ErrorCode.NONE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
)
_FENCED: Final = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED)


class Ending:
    """The end of one transaction. It must not outlive the state that decided it."""

    __slots__ = ("_missing", "_waited_ms", "is_fenced", "retry_at_ms", "saved")

    def __init__(self, saved: TransactionSaved) -> None:
        """Start with every partition; the caller writes the first markers."""
        self.saved = saved
        self._missing: dict[TopicPartition, None] = dict.fromkeys(saved.partitions)
        self.is_fenced = False
        self.retry_at_ms: int | None = None
        self._waited_ms = 0

    @property
    def is_written(self) -> bool:
        """Whether every partition has its marker."""
        return not self._missing

    def markers(self) -> list[Markers]:
        """Give what is still to be written: one entry, or none."""
        if not self._missing:
            return []
        saved = self.saved
        return [
            Markers(
                saved.transactional_id,
                saved.producer_id,
                saved.producer_epoch,
                saved.state is TransactionState.PREPARE_COMMIT,
                tuple(self._missing),
                saved.transaction_version,
            )
        ]

    def is_of(self, markers: Markers) -> bool:
        """Tell whether these markers are for this end, and not for one before."""
        saved = self.saved
        return (saved.producer_id, saved.producer_epoch) == (
            markers.producer_id,
            markers.producer_epoch,
        )

    def on_answers(self, answers: Iterable[tuple[TopicPartition, ErrorCode]]) -> None:
        """Take what partitions answered; where something is missing, the caller sees to a retry."""
        for partition, code in answers:
            if code in _DONE:
                self._missing.pop(partition, None)
            elif code in _FENCED:
                self.is_fenced = True

    def retry_later(self, now_ms: int, settings: TransactionSettings) -> None:
        """Wait before the next attempt, longer than before the last one; a partition may be offline for days."""
        waits_ms = max(settings.retry_ms, 2 * self._waited_ms)
        self._waited_ms = min(waits_ms, settings.retry_max_ms)
        self.retry_at_ms = None if self.is_fenced else now_ms + self._waited_ms
