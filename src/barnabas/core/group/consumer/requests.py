"""What is asked of consumer groups (KIP-848) and what they answer, in the words of the newest version of each API.

Job: plain values, and the refusal that ends a request early. Must not know: message versions and bytes; what an older
version does differently is a named flag here, and the API handler fills it in.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from barnabas.model.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

#: Member epochs with a meaning of their own.
JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
STATIC_LEAVE_EPOCH: Final = -2


class RefusedError(Exception):
    """A request is refused: nothing changes, and the sender is told why."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        """Say the error code of the reply and a sentence for people."""
        super().__init__(message)
        self.code = code
        self.message = message


@dataclass(slots=True)
class ConsumerHeartbeatRequest:
    """A member joins (epoch 0), lives, says what it wants or has, or leaves (-1, a static member for a while: -2).

    What is None did not change since the member said it last.
    """

    group_id: str
    member_id: str
    member_epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1  # -1: as before
    subscribed_topic_names: Sequence[str] | None = None
    subscribed_topic_regex: str | None = None
    server_assignor: str | None = None
    #: The partitions it owns: topic id -> partitions.
    topic_partitions: Mapping[bytes, Sequence[int]] | None = None
    client_id: str = ""
    client_host: str = ""
    #: From version 1 on: a member brings its own id (KIP-1082).
    requires_member_id: bool = True
    #: Whether the sender may see a topic that its regular expression matches; None: every topic.
    may_describe: Callable[[str], bool] | None = None


@dataclass(slots=True)
class ConsumerHeartbeatReply:
    """Where the member stands. `assignment` is the whole of what it may own, or None when it is as before."""

    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: dict[bytes, tuple[int, ...]] | None = None


@dataclass(slots=True)
class DescribedTopicPartitions:
    """Partitions of one topic in a description."""

    topic_id: bytes
    topic_name: str
    partitions: tuple[int, ...]


@dataclass(slots=True)
class DescribedConsumer:
    """A member as ConsumerGroupDescribe shows it."""

    member_id: str
    instance_id: str | None
    rack_id: str | None
    member_epoch: int
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...]
    subscribed_topic_regex: str | None
    assignment: tuple[DescribedTopicPartitions, ...]
    target_assignment: tuple[DescribedTopicPartitions, ...]
    member_type: int  # 0 classic, 1 consumer


@dataclass(slots=True)
class DescribedConsumerGroup:
    """A group as ConsumerGroupDescribe shows it."""

    group_id: str
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    group_state: str = ""
    group_epoch: int = 0
    assignment_epoch: int = 0
    assignor_name: str = ""
    members: tuple[DescribedConsumer, ...] = field(default_factory=tuple)


def check_heartbeat(request: ConsumerHeartbeatRequest, assignors: Sequence[str]) -> None:
    """Refuse what no group could make sense of."""
    epoch = request.member_epoch
    if request.requires_member_id or epoch > 0 or epoch == LEAVE_EPOCH:
        _refuse_blank(request.member_id, "MemberId")
    _refuse_blank(request.group_id, "GroupId")
    _refuse_blank(request.instance_id, "InstanceId")
    _refuse_blank(request.rack_id, "RackId")
    if epoch == JOIN_EPOCH:
        _check_join(request)
    elif epoch == STATIC_LEAVE_EPOCH and request.instance_id is None:
        raise _invalid("InstanceId can't be null.")
    elif epoch < STATIC_LEAVE_EPOCH:
        raise _invalid("MemberEpoch is invalid.")
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise RefusedError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.server_assignor} is not supported. "
            f"Supported assignors: {', '.join(assignors)}.",
        )


def _check_join(request: ConsumerHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == -1:
        raise _invalid("RebalanceTimeoutMs must be provided in first request.")
    if request.topic_partitions is None or request.topic_partitions:
        raise _invalid("TopicPartitions must be empty when (re-)joining.")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise _invalid(
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
        )


def _refuse_blank(value: str | None, name: str) -> None:
    if value is not None and not value.strip():
        raise _invalid(f"{name} can't be empty.")


def _invalid(message: str) -> RefusedError:
    return RefusedError(ErrorCode.INVALID_REQUEST, message)
