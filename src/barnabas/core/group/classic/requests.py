"""What is asked of classic groups and what they answer, in the words of the newest version of each API.

Job: plain values. Must not know: message versions and bytes; what an older version does differently is a named flag
here, and the API handler fills it in.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.model.errors import ErrorCode

#: Protocols by preference: (name, metadata).
Protocols = tuple[tuple[str, bytes], ...]


@dataclass(slots=True)
class JoinRequest:
    """A client wants to be a member, or comes back in a rebalance."""

    group_id: str
    member_id: str  # empty: none yet
    group_instance_id: str | None
    protocol_type: str
    protocols: Protocols
    session_timeout_ms: int
    rebalance_timeout_ms: int
    client_id: str = ""
    client_host: str = ""
    #: From version 4 on: a new member is given its id first and must come again with it (KIP-394).
    requires_known_member_id: bool = True
    #: From version 9 on: a leader can be told to leave the assignment as it is (KIP-814).
    can_skip_assignment: bool = True


@dataclass(slots=True)
class JoinedMember:
    """A member as the leader sees it when it makes the assignment."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


@dataclass(slots=True)
class JoinReply:
    """The generation a member is in, or why it is in none."""

    error_code: ErrorCode = ErrorCode.NONE
    generation_id: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    member_id: str = ""
    members: tuple[JoinedMember, ...] = ()  # for the leader only


@dataclass(slots=True)
class SyncRequest:
    """A member asks for its assignment; the leader brings everybody's."""

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None = None
    protocol_type: str | None = None  # None: the client did not say
    protocol_name: str | None = None
    assignments: tuple[tuple[str, bytes], ...] = ()


@dataclass(slots=True)
class SyncReply:
    """A member's assignment."""

    error_code: ErrorCode = ErrorCode.NONE
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


@dataclass(slots=True)
class HeartbeatRequest:
    """A member lives."""

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None = None


@dataclass(slots=True)
class HeartbeatReply:
    """Whether the member may go on as it is."""

    error_code: ErrorCode = ErrorCode.NONE


@dataclass(slots=True)
class LeavingMember:
    """Who leaves: by member id, or (an administrator) by instance id with an empty member id."""

    member_id: str
    group_instance_id: str | None = None


@dataclass(slots=True)
class LeaveRequest:
    """Members leave, many at once (KIP-345)."""

    group_id: str
    members: tuple[LeavingMember, ...]


@dataclass(slots=True)
class LeftMember:
    """How it went for one of them."""

    member_id: str
    group_instance_id: str | None
    error_code: ErrorCode = ErrorCode.NONE


@dataclass(slots=True)
class LeaveReply:
    """How it went for each, in the order asked."""

    error_code: ErrorCode = ErrorCode.NONE
    members: tuple[LeftMember, ...] = ()


@dataclass(slots=True)
class DescribedMember:
    """A member as DescribeGroups shows it."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@dataclass(slots=True)
class DescribedGroup:
    """A group as DescribeGroups shows it; one that is not there is Dead."""

    group_id: str
    group_state: str = "Dead"
    protocol_type: str = ""
    protocol_data: str = ""
    members: tuple[DescribedMember, ...] = ()
    #: For clients that know it (version 6 and later); older ones see only the state.
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


@dataclass(slots=True)
class ListedGroup:
    """A group as ListGroups shows it."""

    group_id: str
    protocol_type: str
    group_state: str
    group_type: str
