"""The error codes of the protocol, and the exception that carries one.

Job: name every code a reply may hold, say in words what it means and whether trying again may
help. Must not know: which request answers with which code; that is the business of the handlers.
Invariants: names and numbers are Kafka's (level 4.4); every code has a message; a code that
Kafka's clients retry is in the retriable set and no other is.

Expected outcomes for one partition, topic or group are plain `ErrorCode` values. `KafkaError` is
for the refusal of a whole request.
"""

from __future__ import annotations

from enum import IntEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping


class ErrorCode(IntEnum):
    """One of the protocol's error codes, under the name Kafka gives it.

    `ErrorCode(number)` takes any number: as in Kafka, one that is not known here means UNKNOWN_SERVER_ERROR.
    """

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    INVALID_FETCH_SIZE = 4
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    BROKER_NOT_AVAILABLE = 8
    REPLICA_NOT_AVAILABLE = 9
    MESSAGE_TOO_LARGE = 10
    STALE_CONTROLLER_EPOCH = 11
    OFFSET_METADATA_TOO_LARGE = 12
    NETWORK_EXCEPTION = 13
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    INVALID_TOPIC_EXCEPTION = 17
    RECORD_LIST_TOO_LARGE = 18
    NOT_ENOUGH_REPLICAS = 19
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
    INVALID_REQUIRED_ACKS = 21
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    INVALID_COMMIT_OFFSET_SIZE = 28
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    INVALID_TIMESTAMP = 32
    UNSUPPORTED_SASL_MECHANISM = 33
    ILLEGAL_SASL_STATE = 34
    UNSUPPORTED_VERSION = 35
    TOPIC_ALREADY_EXISTS = 36
    INVALID_PARTITIONS = 37
    INVALID_REPLICATION_FACTOR = 38
    INVALID_REPLICA_ASSIGNMENT = 39
    INVALID_CONFIG = 40
    NOT_CONTROLLER = 41
    INVALID_REQUEST = 42
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
    POLICY_VIOLATION = 44
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    DUPLICATE_SEQUENCE_NUMBER = 46
    INVALID_PRODUCER_EPOCH = 47
    INVALID_TXN_STATE = 48
    INVALID_PRODUCER_ID_MAPPING = 49
    INVALID_TRANSACTION_TIMEOUT = 50
    CONCURRENT_TRANSACTIONS = 51
    TRANSACTION_COORDINATOR_FENCED = 52
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    SECURITY_DISABLED = 54
    OPERATION_NOT_ATTEMPTED = 55
    KAFKA_STORAGE_ERROR = 56
    LOG_DIR_NOT_FOUND = 57
    SASL_AUTHENTICATION_FAILED = 58
    UNKNOWN_PRODUCER_ID = 59
    REASSIGNMENT_IN_PROGRESS = 60
    DELEGATION_TOKEN_AUTH_DISABLED = 61
    DELEGATION_TOKEN_NOT_FOUND = 62
    DELEGATION_TOKEN_OWNER_MISMATCH = 63
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65
    DELEGATION_TOKEN_EXPIRED = 66
    INVALID_PRINCIPAL_TYPE = 67
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    FETCH_SESSION_ID_NOT_FOUND = 70
    INVALID_FETCH_SESSION_EPOCH = 71
    LISTENER_NOT_FOUND = 72
    TOPIC_DELETION_DISABLED = 73
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    UNSUPPORTED_COMPRESSION_TYPE = 76
    STALE_BROKER_EPOCH = 77
    OFFSET_NOT_AVAILABLE = 78
    MEMBER_ID_REQUIRED = 79
    PREFERRED_LEADER_NOT_AVAILABLE = 80
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83
    ELECTION_NOT_NEEDED = 84
    NO_REASSIGNMENT_IN_PROGRESS = 85
    GROUP_SUBSCRIBED_TO_TOPIC = 86
    INVALID_RECORD = 87
    UNSTABLE_OFFSET_COMMIT = 88
    THROTTLING_QUOTA_EXCEEDED = 89
    PRODUCER_FENCED = 90
    RESOURCE_NOT_FOUND = 91
    DUPLICATE_RESOURCE = 92
    UNACCEPTABLE_CREDENTIAL = 93
    INCONSISTENT_VOTER_SET = 94
    INVALID_UPDATE_VERSION = 95
    FEATURE_UPDATE_FAILED = 96
    PRINCIPAL_DESERIALIZATION_FAILURE = 97
    SNAPSHOT_NOT_FOUND = 98
    POSITION_OUT_OF_RANGE = 99
    UNKNOWN_TOPIC_ID = 100
    DUPLICATE_BROKER_REGISTRATION = 101
    BROKER_ID_NOT_REGISTERED = 102
    INCONSISTENT_TOPIC_ID = 103
    INCONSISTENT_CLUSTER_ID = 104
    TRANSACTIONAL_ID_NOT_FOUND = 105
    FETCH_SESSION_TOPIC_ID_ERROR = 106
    INELIGIBLE_REPLICA = 107
    NEW_LEADER_ELECTED = 108
    OFFSET_MOVED_TO_TIERED_STORAGE = 109
    FENCED_MEMBER_EPOCH = 110
    UNRELEASED_INSTANCE_ID = 111
    UNSUPPORTED_ASSIGNOR = 112
    STALE_MEMBER_EPOCH = 113
    MISMATCHED_ENDPOINT_TYPE = 114
    UNSUPPORTED_ENDPOINT_TYPE = 115
    UNKNOWN_CONTROLLER_ID = 116
    UNKNOWN_SUBSCRIPTION_ID = 117
    TELEMETRY_TOO_LARGE = 118
    INVALID_REGISTRATION = 119
    TRANSACTION_ABORTABLE = 120
    INVALID_RECORD_STATE = 121
    SHARE_SESSION_NOT_FOUND = 122
    INVALID_SHARE_SESSION_EPOCH = 123
    FENCED_STATE_EPOCH = 124
    INVALID_VOTER_KEY = 125
    DUPLICATE_VOTER = 126
    VOTER_NOT_FOUND = 127
    INVALID_REGULAR_EXPRESSION = 128
    REBOOTSTRAP_REQUIRED = 129
    STREAMS_INVALID_TOPOLOGY = 130
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131
    STREAMS_TOPOLOGY_FENCED = 132
    SHARE_SESSION_LIMIT_REACHED = 133
    GROUP_DELETION_FAILED = 134
    STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED = 135
    CONTROLLER_ID_NOT_REGISTERED = 136

    @classmethod
    def _missing_(cls, _number: object) -> ErrorCode:
        return cls.UNKNOWN_SERVER_ERROR

    @property
    def message(self) -> str:
        """What the code means, for a person."""
        return _MESSAGES[self]

    @property
    def retriable(self) -> bool:
        """Whether the same request may succeed later, as Kafka's clients judge it."""
        return self in _RETRIABLE


_MESSAGES: Mapping[ErrorCode, str] = MappingProxyType(
    {
        ErrorCode.UNKNOWN_SERVER_ERROR: "The broker failed in a way it did not expect; its log has the details",
        ErrorCode.NONE: "No error",
        ErrorCode.OFFSET_OUT_OF_RANGE: "The offset lies outside what this partition holds",
        ErrorCode.CORRUPT_MESSAGE: "The batch is damaged: wrong checksum, impossible size, or a null key in a compacted topic",
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "This broker does not host that topic partition",
        ErrorCode.INVALID_FETCH_SIZE: "The fetch size is not valid",
        ErrorCode.LEADER_NOT_AVAILABLE: "The partition has no leader at the moment",
        ErrorCode.NOT_LEADER_OR_FOLLOWER: "This broker is neither leader nor, where a follower would do, replica of the partition",
        ErrorCode.REQUEST_TIMED_OUT: "The request did not finish within its time limit",
        ErrorCode.BROKER_NOT_AVAILABLE: "The broker is not available",
        ErrorCode.REPLICA_NOT_AVAILABLE: "The replica is not available on this broker",
        ErrorCode.MESSAGE_TOO_LARGE: "A batch is larger than the topic's max.message.bytes",
        ErrorCode.STALE_CONTROLLER_EPOCH: "A newer controller has been elected",
        ErrorCode.OFFSET_METADATA_TOO_LARGE: "The metadata of the committed offset is larger than offset.metadata.max.bytes",
        ErrorCode.NETWORK_EXCEPTION: "The connection was lost before the reply arrived",
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: "The coordinator is still loading its state",
        ErrorCode.COORDINATOR_NOT_AVAILABLE: "No coordinator is available",
        ErrorCode.NOT_COORDINATOR: "This broker is not the coordinator asked for",
        ErrorCode.INVALID_TOPIC_EXCEPTION: "The topic name is not valid, or the topic may not be used like this",
        ErrorCode.RECORD_LIST_TOO_LARGE: "The batch is larger than a segment of this topic",
        ErrorCode.NOT_ENOUGH_REPLICAS: "Fewer replicas are in sync than min.insync.replicas asks for; nothing was written",
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: "Written, but fewer replicas are in sync than min.insync.replicas asks for",
        ErrorCode.INVALID_REQUIRED_ACKS: "acks must be 0, 1 or -1 (all)",
        ErrorCode.ILLEGAL_GENERATION: "The group's generation has moved on",
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL: "The member shares no protocol with the rest of the group, or offers none",
        ErrorCode.INVALID_GROUP_ID: "The group id is not valid",
        ErrorCode.UNKNOWN_MEMBER_ID: "The coordinator does not know this member",
        ErrorCode.INVALID_SESSION_TIMEOUT: "The session timeout lies outside group.min.session.timeout.ms and group.max.session.timeout.ms",
        ErrorCode.REBALANCE_IN_PROGRESS: "The group is rebalancing; the member must join again",
        ErrorCode.INVALID_COMMIT_OFFSET_SIZE: "The commit is larger than a batch may be",
        ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Not authorized for this topic",
        ErrorCode.GROUP_AUTHORIZATION_FAILED: "Not authorized for this group",
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Not authorized for this operation on the cluster",
        ErrorCode.INVALID_TIMESTAMP: "The record's timestamp lies outside the bounds of the topic",
        ErrorCode.UNSUPPORTED_SASL_MECHANISM: "The broker does not offer this SASL mechanism",
        ErrorCode.ILLEGAL_SASL_STATE: "The request does not fit the present step of authentication",
        ErrorCode.UNSUPPORTED_VERSION: "The broker does not speak this version of the request",
        ErrorCode.TOPIC_ALREADY_EXISTS: "A topic of this name exists already",
        ErrorCode.INVALID_PARTITIONS: "The number of partitions is not valid",
        ErrorCode.INVALID_REPLICATION_FACTOR: "The replication factor is below 1 or above the number of brokers",
        ErrorCode.INVALID_REPLICA_ASSIGNMENT: "The replica assignment is not valid",
        ErrorCode.INVALID_CONFIG: "The configuration is not valid",
        ErrorCode.NOT_CONTROLLER: "This broker is not the controller",
        ErrorCode.INVALID_REQUEST: "The request is not valid",
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT: "The stored message format does not allow this request",
        ErrorCode.POLICY_VIOLATION: "A policy of this cluster refused the request",
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: "A sequence number is missing before this batch",
        ErrorCode.DUPLICATE_SEQUENCE_NUMBER: "This sequence number was written before",
        ErrorCode.INVALID_PRODUCER_EPOCH: "The producer's epoch is older than the one the broker knows",
        ErrorCode.INVALID_TXN_STATE: "The transaction is not in a state that allows this",
        ErrorCode.INVALID_PRODUCER_ID_MAPPING: "The producer id does not belong to this transactional id",
        ErrorCode.INVALID_TRANSACTION_TIMEOUT: "The transaction timeout is larger than transaction.max.timeout.ms",
        ErrorCode.CONCURRENT_TRANSACTIONS: "Another operation on this transaction is still running",
        ErrorCode.TRANSACTION_COORDINATOR_FENCED: "The transaction coordinator that sent this has been replaced",
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Not authorized for this transactional id",
        ErrorCode.SECURITY_DISABLED: "Security is switched off on this broker",
        ErrorCode.OPERATION_NOT_ATTEMPTED: "Not tried, because another part of the request failed",
        ErrorCode.KAFKA_STORAGE_ERROR: "The log directory of this partition failed",
        ErrorCode.LOG_DIR_NOT_FOUND: "No such log directory on this broker",
        ErrorCode.SASL_AUTHENTICATION_FAILED: "Authentication failed",
        ErrorCode.UNKNOWN_PRODUCER_ID: "The broker has no state for this producer id",
        ErrorCode.REASSIGNMENT_IN_PROGRESS: "The partition is being reassigned",
        ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED: "Delegation tokens are switched off",
        ErrorCode.DELEGATION_TOKEN_NOT_FOUND: "No such delegation token",
        ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH: "The principal neither owns this token nor may renew it",
        ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: "Delegation tokens cannot be asked for over this kind of connection",
        ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: "Not authorized for this delegation token",
        ErrorCode.DELEGATION_TOKEN_EXPIRED: "The delegation token has expired",
        ErrorCode.INVALID_PRINCIPAL_TYPE: "Principals of this type are not supported",
        ErrorCode.NON_EMPTY_GROUP: "The group still has members",
        ErrorCode.GROUP_ID_NOT_FOUND: "No such group",
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND: "No such fetch session",
        ErrorCode.INVALID_FETCH_SESSION_EPOCH: "The fetch session is at another epoch",
        ErrorCode.LISTENER_NOT_FOUND: "The partition's leader has no listener of the name this request came in on",
        ErrorCode.TOPIC_DELETION_DISABLED: "Deleting topics is switched off (delete.topic.enable)",
        ErrorCode.FENCED_LEADER_EPOCH: "The leader epoch of the request is older than the broker's",
        ErrorCode.UNKNOWN_LEADER_EPOCH: "The leader epoch of the request is newer than the broker's",
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE: "The client's version cannot read this compression type",
        ErrorCode.STALE_BROKER_EPOCH: "The broker has registered again since",
        ErrorCode.OFFSET_NOT_AVAILABLE: "The new leader's high watermark has not caught up yet",
        ErrorCode.MEMBER_ID_REQUIRED: "The member must join again with the member id it was given",
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE: "The preferred leader is not available",
        ErrorCode.GROUP_MAX_SIZE_REACHED: "The group has reached its largest size",
        ErrorCode.FENCED_INSTANCE_ID: "Another member has taken over this group.instance.id",
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE: "No replica that could lead is available",
        ErrorCode.ELECTION_NOT_NEEDED: "The partition needs no election",
        ErrorCode.NO_REASSIGNMENT_IN_PROGRESS: "The partition is not being reassigned",
        ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "Offsets cannot be deleted while the group is subscribed to the topic",
        ErrorCode.INVALID_RECORD: "A record failed the broker's checks",
        ErrorCode.UNSTABLE_OFFSET_COMMIT: "A transaction that commits these offsets is still open",
        ErrorCode.THROTTLING_QUOTA_EXCEEDED: "The quota is used up; try again later",
        ErrorCode.PRODUCER_FENCED: "A newer producer uses this transactional id",
        ErrorCode.RESOURCE_NOT_FOUND: "No such resource",
        ErrorCode.DUPLICATE_RESOURCE: "The request names the same resource twice",
        ErrorCode.UNACCEPTABLE_CREDENTIAL: "The credential does not meet the requirements",
        ErrorCode.INCONSISTENT_VOTER_SET: "Sender or receiver is not among the expected voters",
        ErrorCode.INVALID_UPDATE_VERSION: "The update version is not valid",
        ErrorCode.FEATURE_UPDATE_FAILED: "The feature could not be updated",
        ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE: "The forwarded principal could not be read",
        ErrorCode.SNAPSHOT_NOT_FOUND: "No such snapshot",
        ErrorCode.POSITION_OUT_OF_RANGE: "The position lies outside the snapshot",
        ErrorCode.UNKNOWN_TOPIC_ID: "This broker does not host a topic of that id",
        ErrorCode.DUPLICATE_BROKER_REGISTRATION: "The broker id is in use",
        ErrorCode.BROKER_ID_NOT_REGISTERED: "The broker id is not registered",
        ErrorCode.INCONSISTENT_TOPIC_ID: "The topic id is not the one of the log",
        ErrorCode.INCONSISTENT_CLUSTER_ID: "The cluster id is not the one of this cluster",
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: "No such transactional id",
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR: "The fetch session mixes topic ids and names",
        ErrorCode.INELIGIBLE_REPLICA: "A replica in the new in-sync set may not be there",
        ErrorCode.NEW_LEADER_ELECTED: "The change was made, and the partition has a new leader",
        ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE: "The offset has moved to tiered storage",
        ErrorCode.FENCED_MEMBER_EPOCH: "The member's epoch has been fenced; it must give up its partitions and join again",
        ErrorCode.UNRELEASED_INSTANCE_ID: "Another member still holds this instance id",
        ErrorCode.UNSUPPORTED_ASSIGNOR: "The group cannot use this assignor",
        ErrorCode.STALE_MEMBER_EPOCH: "The member's epoch is old; the next heartbeat brings the new one",
        ErrorCode.MISMATCHED_ENDPOINT_TYPE: "The request went to the wrong kind of endpoint",
        ErrorCode.UNSUPPORTED_ENDPOINT_TYPE: "This kind of endpoint is not supported",
        ErrorCode.UNKNOWN_CONTROLLER_ID: "No such controller",
        ErrorCode.UNKNOWN_SUBSCRIPTION_ID: "The telemetry subscription is unknown or out of date",
        ErrorCode.TELEMETRY_TOO_LARGE: "The telemetry is larger than telemetry.max.bytes",
        ErrorCode.INVALID_REGISTRATION: "The controller refused the broker's registration",
        ErrorCode.TRANSACTION_ABORTABLE: "The transaction failed and must be aborted before going on",
        ErrorCode.INVALID_RECORD_STATE: "The record is not in a state that can be acknowledged",
        ErrorCode.SHARE_SESSION_NOT_FOUND: "No such share session",
        ErrorCode.INVALID_SHARE_SESSION_EPOCH: "The share session is at another epoch",
        ErrorCode.FENCED_STATE_EPOCH: "The state epoch of the share group does not match",
        ErrorCode.INVALID_VOTER_KEY: "The voter's key is not the one of this replica",
        ErrorCode.DUPLICATE_VOTER: "The voter is in the set already",
        ErrorCode.VOTER_NOT_FOUND: "The voter is not in the set",
        ErrorCode.INVALID_REGULAR_EXPRESSION: "The regular expression is not valid",
        ErrorCode.REBOOTSTRAP_REQUIRED: "The client's metadata is too old; it must bootstrap again",
        ErrorCode.STREAMS_INVALID_TOPOLOGY: "The topology is not valid",
        ErrorCode.STREAMS_INVALID_TOPOLOGY_EPOCH: "The topology epoch is not valid",
        ErrorCode.STREAMS_TOPOLOGY_FENCED: "The topology epoch is out of date",
        ErrorCode.SHARE_SESSION_LIMIT_REACHED: "No more share sessions are allowed",
        ErrorCode.GROUP_DELETION_FAILED: "The group could not be deleted",
        ErrorCode.STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED: "The description of the topology could not be updated",
        ErrorCode.CONTROLLER_ID_NOT_REGISTERED: "The controller id is not registered",
    }
)

_RETRIABLE = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.LISTENER_NOT_FOUND,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        ErrorCode.ELECTION_NOT_NEEDED,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
        ErrorCode.SHARE_SESSION_NOT_FOUND,
        ErrorCode.INVALID_SHARE_SESSION_EPOCH,
        ErrorCode.SHARE_SESSION_LIMIT_REACHED,
    }
)


#: Messages may quote what a client sent. A string of the protocol ends at 32,767 bytes; a person stops reading long before.
MESSAGE_LENGTH_MAX: Final = 1000


def shortened(message: str) -> str:
    """Cut a message to what an answer can carry, whatever was quoted in it."""
    if len(message) <= MESSAGE_LENGTH_MAX:
        return message
    return message[: MESSAGE_LENGTH_MAX - 3] + "..."


class KafkaError(Exception):
    """Refuses a whole request with a code and a message for a person."""

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        """Take the code's own message when none is given."""
        self.code = code
        self.message = code.message if message is None else shortened(message)
        super().__init__(self.message)

    def __repr__(self) -> str:
        """Show the code's name, which the message alone does not."""
        return f"KafkaError({self.code.name}, {self.message!r})"
