"""What can go wrong between a client and its cluster, in kinds that a caller can tell apart.

Job: one class per thing to do next, each with a sentence for a person. Must not know sockets, requests or secrets: whoever
raises takes care that no password is in the words.

`retriable` says whether the same may succeed a little later; conversations retry by it (`retry.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.model.errors import ErrorCode

if TYPE_CHECKING:
    from barnabas.model.ids import TopicPartition


class ClientError(Exception):
    """No usable answer. The base of all others."""

    retriable: bool = False


class Unreachable(ClientError):
    """Nobody there, a link that broke, or no answer in time."""

    def __init__(self, message: str) -> None:
        """Say what was tried."""
        super().__init__(message)
        self.retriable = True


class AuthenticationFailed(ClientError):
    """The broker does not accept who we are, or we do not accept who it is."""


class UnsupportedByBroker(ClientError):
    """The broker lacks a request, or a version of it, that this needs."""


class CorruptBatch(ClientError):
    """Bytes from the log that are no sound record batch."""


class Refused(ClientError):
    """The broker's answer is an error."""

    def __init__(self, code: int, message: str | None = None) -> None:
        """Take an error code as it stands in an answer."""
        self.code = ErrorCode(code)
        self.retriable = self.code.retriable
        super().__init__(message or self.code.message)


class UnknownTopic(Refused):
    """There is no such topic, or it has no such partition."""

    def __init__(self, topic: str, partition: int | None = None) -> None:
        """Name it."""
        self.topic = topic
        what = f"topic '{topic}'" if partition is None else f"partition {partition} of '{topic}'"
        super().__init__(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"there is no {what}; create it first, or check the name",
        )


class Fenced(Refused):
    """A newer producer has taken over the transactional id: this one must stop."""


class TransactionLost(Refused):
    """The transaction cannot be committed any more; what was written in it is or will be aborted."""


class OffsetOutOfRange(ClientError):
    """The log does not reach to what was asked for."""

    def __init__(
        self, partition: TopicPartition, asked: int, log_start_offset: int, log_end_offset: int
    ) -> None:
        """Tell what was asked and what there is."""
        self.partition = partition
        self.asked = asked
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
        why = (
            "older records are gone, by retention or by a topic made anew"
            if self.is_loss
            else "the log ends before"
        )
        super().__init__(
            f"offset {asked} of {partition} is not in its log, which has {log_start_offset} to {log_end_offset}: {why}"
        )

    @property
    def is_loss(self) -> bool:
        """Were records there that are gone now?"""
        return self.asked < self.log_start_offset


_FENCING: Final = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH})


def refusal(code: int, subject: str, message: str | None = None) -> Refused:
    """Make the error for a code in an answer about `subject`."""
    known = ErrorCode(code)
    words = f"{subject}: {message or known.message}"
    if known in _FENCING:
        return Fenced(known, f"{words}; another producer has taken over")
    if known == ErrorCode.TRANSACTION_ABORTABLE:
        return TransactionLost(known, words)
    return Refused(known, words)
