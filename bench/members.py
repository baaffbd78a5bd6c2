"""Members of consumer groups, many in one process: the classic protocol on a connection each, without a client library.

A library's threads would cost more than the broker that is measured. A member joins, takes or (as leader) gives the
assignment, sends heartbeats and joins again when it is told to; it never fetches.
"""

from __future__ import annotations

import selectors
import socket
import struct
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from barnabas.wire import frame
from barnabas.wire.messages.consumer_protocol_assignment import (
    ConsumerProtocolAssignment,
    TopicPartition,
)
from barnabas.wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from barnabas.wire.messages.heartbeat import HeartbeatRequest
from barnabas.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from barnabas.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from bench.admin import Admin, BrokerFailed, request_frame

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barnabas.wire.primitives import Message

JOIN_VERSION = 7
SYNC_VERSION = 5
HEARTBEAT_VERSION = 4
LEAVE_VERSION = 4
SESSION_MS = 45_000
REBALANCE_MS = 60_000
ASSIGNOR = "range"
RETRY_S = 0.05
AT_ONCE = 32
COORDINATOR_AWAY = {14, 15, 16}
UNKNOWN_MEMBER, ILLEGAL_GENERATION, REBALANCING, MEMBER_ID_REQUIRED = 25, 22, 27, 79


@dataclass(eq=False)
class Member:
    """One member: what it knows, and the one request that it waits for."""

    group: str
    socket: socket.socket
    member_id: str = ""
    generation: int = -1
    leading: int = 0
    """How many members it saw as the leader of this generation; 0 for the others."""
    stable: bool = False
    asked: Message | None = None
    version: int = 0
    correlation_id: int = 0
    received: bytearray = field(default_factory=bytearray)
    due: float = 0.0
    """When to send a heartbeat, or to join again."""


class Crowd:
    """All members; a context manager that closes their connections."""

    def __init__(self, port: int, topic: str, partitions: int, heartbeat_s: float) -> None:
        """Subscribe everyone to one topic."""
        self._port, self._topic, self._partitions = port, topic, partitions
        self._heartbeat_s = heartbeat_s
        self._selector = selectors.DefaultSelector()
        self._metadata = versioned(ConsumerProtocolSubscription(topics=[topic]))
        self.members: list[Member] = []

    def __enter__(self) -> Self:
        """Nobody is there yet."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close all connections; groups stay until the session time is over."""
        for member in self.members:
            member.socket.close()
        self._selector.close()

    def add(self, groups: Sequence[str]) -> None:
        """Connect a member for each name; they join as soon as `settle` runs."""
        for number, group in enumerate(groups):
            if number % AT_ONCE == 0:
                self._await_accepted()
            member = Member(group, socket.create_connection(("127.0.0.1", self._port), 30))
            self._selector.register(member.socket, selectors.EVENT_READ, member)
            self.members.append(member)

    def _await_accepted(self) -> None:
        """Wait until the broker has taken the connections before: its queue for new ones is short, and being full costs a second."""
        with Admin(self._port) as admin:
            admin.brokers()

    def remove(self, count: int) -> None:
        """Let the first ones, all of one group, leave in the proper way."""
        leaving, self.members = self.members[:count], self.members[count:]
        for member in leaving:
            self._selector.unregister(member.socket)
            member.socket.close()
        ids = [MemberIdentity(member_id=member.member_id) for member in leaving]
        request = LeaveGroupRequest(group_id=leaving[0].group, members=ids)
        with Admin(self._port) as admin:
            answer = admin.ask(request, LEAVE_VERSION)
        codes = {answer.error_code, *(member.error_code for member in answer.members)}
        if codes != {0}:
            raise BrokerFailed(f"LeaveGroup: errors {codes}")

    def settle(self, limit_s: float) -> float:
        """Run until every member has an assignment in a generation of all; give the seconds."""
        started = time.monotonic()
        for member in self.members:
            if member.generation < 0 and not member.asked:
                self._join(member)
        while not self.settled():
            if time.monotonic() - started > limit_s:
                stable = sum(member.stable for member in self.members)
                raise BrokerFailed(
                    f"{stable} of {len(self.members)} members settled in {limit_s} s"
                )
            self._turn()
        return time.monotonic() - started

    def settled(self) -> bool:
        """Whether each group has one generation, in which its leader saw every member."""
        if not all(member.stable for member in self.members):
            return False
        sizes = Counter(member.group for member in self.members)
        generations = {(member.group, member.generation) for member in self.members}
        led = {member.group: member.leading for member in self.members if member.leading}
        return len(generations) == len(sizes) and led == sizes

    def _turn(self) -> None:
        for key, _events in self._selector.select(RETRY_S):
            self._on_readable(key.data)
        now = time.monotonic()
        for member in self.members:
            if member.asked is None and now >= member.due:
                self._heartbeat(member) if member.stable else self._join(member)

    def _on_readable(self, member: Member) -> None:
        more = member.socket.recv(1 << 16)
        if not more:
            raise BrokerFailed("the broker closed a member's connection")
        member.received += more
        asked, answer = member.asked, self._answer(member)
        if answer is None:
            return
        if isinstance(asked, JoinGroupRequest):
            self._on_joined(member, answer)
        elif isinstance(asked, SyncGroupRequest):
            self._on_synced(member, answer)
        else:
            self._on_heartbeat(member, answer)

    def _ask(self, member: Member, request: Message, version: int) -> None:
        member.correlation_id += 1
        member.asked, member.version = request, version
        member.socket.sendall(request_frame(request, version, member.correlation_id))

    def _answer(self, member: Member) -> Any:  # noqa: ANN401
        """Decode the answer if it is there whole."""
        data, asked = member.received, member.asked
        if len(data) < 4 or len(data) < 4 + struct.unpack_from(">i", data)[0] or asked is None:
            return None
        head = frame.response_header(member.correlation_id, asked.API_KEY, member.version)
        _, response_type = frame.message_types(asked.API_KEY)
        answer = response_type.decode(bytes(data[4:]), member.version, len(head))
        member.asked = None
        member.received.clear()
        return answer

    def _join(self, member: Member) -> None:
        member.stable, member.leading = False, 0
        request = JoinGroupRequest(
            group_id=member.group,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=member.member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name=ASSIGNOR, metadata=self._metadata)],
        )
        self._ask(member, request, JOIN_VERSION)

    def _on_joined(self, member: Member, answer: Any) -> None:  # noqa: ANN401
        if answer.error_code == MEMBER_ID_REQUIRED:
            member.member_id = answer.member_id
            self._join(member)
        elif answer.error_code:
            self._again(member, answer.error_code)
        else:
            member.member_id, member.generation = answer.member_id, answer.generation_id
            leads = answer.leader == answer.member_id
            member.leading = len(answer.members) if leads else 0
            ids = [each.member_id for each in answer.members] if leads else []
            self._sync(member, ids)

    def _sync(self, member: Member, ids: list[str]) -> None:
        request = SyncGroupRequest(
            group_id=member.group,
            generation_id=member.generation,
            member_id=member.member_id,
            protocol_type="consumer",
            protocol_name=ASSIGNOR,
            assignments=[
                SyncGroupRequestAssignment(member_id=each, assignment=assignment)
                for each, assignment in zip(ids, self._assignments(len(ids)), strict=True)
            ],
        )
        self._ask(member, request, SYNC_VERSION)

    def _assignments(self, count: int) -> list[bytes]:
        """Share the partitions out, one after the other."""
        found = []
        for number in range(count):
            mine = list(range(number, self._partitions, count))
            part = TopicPartition(topic=self._topic, partitions=mine)
            found.append(versioned(ConsumerProtocolAssignment(assigned_partitions=[part])))
        return found

    def _on_synced(self, member: Member, answer: Any) -> None:  # noqa: ANN401
        if answer.error_code:
            self._again(member, answer.error_code)
            return
        member.stable = True
        member.due = time.monotonic() + self._heartbeat_s

    def _heartbeat(self, member: Member) -> None:
        self._ask(member, heartbeat(member), HEARTBEAT_VERSION)

    def _on_heartbeat(self, member: Member, answer: Any) -> None:  # noqa: ANN401
        if answer.error_code:
            self._again(member, answer.error_code)
        else:
            member.due = time.monotonic() + self._heartbeat_s

    def _again(self, member: Member, code: int) -> None:
        """Do what a client does at an error: join again, at once or, if the coordinator is away, a little later."""
        member.stable, member.leading = False, 0
        if code in COORDINATOR_AWAY:
            member.due = time.monotonic() + RETRY_S
            return
        if code not in (UNKNOWN_MEMBER, ILLEGAL_GENERATION, REBALANCING):
            raise BrokerFailed(f"a member of {member.group} got error {code}")
        if code == UNKNOWN_MEMBER:
            member.member_id = ""
        self._join(member)


def heartbeat(member: Member) -> HeartbeatRequest:
    """What a member says while all is well."""
    return HeartbeatRequest(
        group_id=member.group, generation_id=member.generation, member_id=member.member_id
    )


def versioned(message: Message, version: int = 0) -> bytes:
    """Encode what clients tell each other through the broker: the version, then the fields."""
    return struct.pack(">h", version) + b"".join(bytes(part) for part in message.encode(version))
