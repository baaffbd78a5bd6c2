"""A simulated member of a classic group, which shares partitions by range.

Job: JoinGroup, SyncGroup, Heartbeat and LeaveGroup as eager consumers use them: who is called to a rebalance gives up everything first. The leader
shares the partitions of each topic out in ranges. Must not know what the coordinator should say: `group_checkers` does.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from barnabas.model.errors import ErrorCode
from barnabas.sim.client import REQUEST_TIMEOUT_US
from barnabas.sim.group_client import EXPELLED, Ask, GroupClient
from barnabas.sim.world import MS
from barnabas.wire.messages.consumer_protocol_assignment import (
    ConsumerProtocolAssignment,
    TopicPartition,
)
from barnabas.wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from barnabas.wire.messages.heartbeat import HeartbeatRequest
from barnabas.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from barnabas.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

if TYPE_CHECKING:
    from collections.abc import Generator

    from barnabas.sim.checkers import Key
    from barnabas.sim.group_client import Nap
    from barnabas.wire.messages.join_group import JoinGroupResponse, JoinGroupResponseMember

PROTOCOL_TYPE: Final = "consumer"
PROTOCOL_NAME: Final = "range"
_VERSION: Final = struct.Struct(">h")
_REBALANCE_TIMEOUT_SINCE: Final = 1
_MANY_LEAVE_SINCE: Final = 3


class Versions(NamedTuple):
    """What a client of some age speaks."""

    join: int
    sync: int
    heartbeat: int
    leave: int
    commit: int
    fetch: int


OLD: Final = (Versions(0, 0, 0, 0, 2, 1), Versions(2, 1, 1, 1, 3, 3), Versions(4, 2, 2, 2, 6, 5))
#: These know static members.
NEW: Final = (Versions(5, 3, 3, 3, 7, 7), Versions(7, 5, 4, 4, 8, 8), Versions(9, 5, 4, 5, 9, 9))


class GroupMember(GroupClient):
    """One member of a classic group."""

    versions = NEW[0]
    _is_leaving = False
    _joining_us = 0

    @property
    def timeout_us(self) -> int:
        """The oldest clients know no time-out for rebalances but that of their session."""
        if self.versions.join < _REBALANCE_TIMEOUT_SINCE:
            return self.style.session_us
        return super().timeout_us

    def run_process(self) -> Generator[Ask | Nap, Any, Any]:
        """Be a member, again and again, until it leaves."""
        self._is_leaving = False
        self.versions = self.chance.choice(NEW if self.style.instance_id else OLD + NEW)
        counts = None
        while counts is None:
            topics = yield from self.ask_topics()
            if topics is None:
                yield self.nap()
            else:
                counts = {name: len(topic.partitions) for name, topic in topics.items()}
        while not self._is_leaving:
            if not (yield from self.find_coordinator()):
                continue
            joined = yield from self._join()
            if joined is not None and (yield from self._sync(joined, counts)):
                yield from self._work()
                self.give_up_all()

    # Joining

    def _join(self) -> Generator[Ask | Nap, Any, JoinGroupResponse | None]:
        while True:
            response = yield Ask(
                self._join_request(), self.versions.join, REQUEST_TIMEOUT_US + self.style.rebalance_us * 2
            )  # fmt: skip
            if response is None:
                return None
            code = response.error_code
            if code == ErrorCode.MEMBER_ID_REQUIRED:
                self.member_id = response.member_id
                continue
            if code == 0:
                self._joining_us = self.sent_us
                self.member_id, self.generation = response.member_id, response.generation_id
                return response  # type: ignore[no-any-return]
            yield from self._on_error("JoinGroup", code)
            return None

    def _join_request(self) -> JoinGroupRequest:
        subscription = ConsumerProtocolSubscription(topics=self.topics, user_data=None)
        metadata = b"".join([_VERSION.pack(1), *subscription.encode(1)])
        return JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=self.style.session_us // MS,
            rebalance_timeout_ms=self.style.rebalance_us // MS,
            member_id=self.member_id,
            group_instance_id=self.style.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[JoinGroupRequestProtocol(name=PROTOCOL_NAME, metadata=metadata)],
        )

    def _sync(
        self, joined: JoinGroupResponse, counts: dict[str, int]
    ) -> Generator[Ask | Nap, Any, bool]:
        leads = joined.leader == self.member_id and not joined.skip_assignment
        request = SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.style.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=PROTOCOL_NAME,
            assignments=share_out(joined.members, counts) if leads else [],
        )
        timeout_us = REQUEST_TIMEOUT_US + self.style.rebalance_us * 2
        response = yield Ask(request, self.versions.sync, timeout_us)
        if response is None:
            return False
        if response.error_code:
            yield from self._on_error("SyncGroup", response.error_code)
            return False
        self._own(read_assignment(bytes(response.assignment)))
        return True

    def _own(self, keys: list[Key]) -> None:
        # A late SyncGroup does not renew the session, in Kafka neither: it runs since the join phase ended.
        standing = self.standing._replace(sent_us=self._joining_us)
        self.groups.on_assigned(self.group_id, self.who, self.generation, keys, standing)
        self.positions = dict.fromkeys(keys)
        self.next_heartbeat_us = self.scheduler.now_us + self.style.heartbeat_us

    # Working

    def _work(self) -> Generator[Ask | Nap, Any, None]:
        """Read, commit and heartbeat until there is a reason to join again."""
        goes_on = True
        while goes_on:
            if not self.is_calm and self.chance.random() < self.style.leaves:
                yield from self._leave()
                return
            if self.scheduler.now_us >= self.next_heartbeat_us:
                goes_on = yield from self._heartbeat()
            elif None in self.positions.values():
                code = yield from self.ask_offsets(self.versions.fetch)
                goes_on = yield from self._goes_on("OffsetFetch", code)
            elif self.uncommitted and (self.is_calm or self.chance.random() < 0.5):
                code = yield from self.commit(self.versions.commit)
                goes_on = yield from self._goes_on("OffsetCommit", code)
            elif self.positions:
                yield from self.read()
            else:
                yield self.nap()

    def _heartbeat(self) -> Generator[Ask | Nap, Any, bool]:
        response = yield Ask(
            HeartbeatRequest(
                group_id=self.group_id,
                generation_id=self.generation,
                member_id=self.member_id,
                group_instance_id=self.style.instance_id,
            ),
            self.versions.heartbeat,
        )
        if response is not None and response.error_code == 0:
            self.next_heartbeat_us = self.scheduler.now_us + self.style.heartbeat_us
            self.groups.on_standing(self.group_id, self.identity, self.standing)
        if response is not None and response.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
            if self.uncommitted:
                code = yield from self.commit(self.versions.commit)
                yield from self._goes_on("OffsetCommit", code)
            return False
        code = None if response is None else response.error_code
        return (yield from self._goes_on("Heartbeat", code))

    def _leave(self) -> Generator[Ask | Nap, Any, None]:
        self._is_leaving = True
        self.give_up_all()
        many = self.versions.leave >= _MANY_LEAVE_SINCE
        who = MemberIdentity(member_id=self.member_id, group_instance_id=self.style.instance_id)
        request = LeaveGroupRequest(
            group_id=self.group_id,
            member_id="" if many else self.member_id,
            members=[who] if many else [],
        )
        yield Ask(request, self.versions.leave)

    def _goes_on(self, what: str, code: int | None) -> Generator[Ask | Nap, Any, bool]:
        """Take an answer; False if the member has to join again."""
        if code:
            yield from self._on_error(what, code)
        return not code or self.is_passing(code)

    def _on_error(self, what: str, code: int) -> Generator[Ask | Nap, Any, None]:
        if code in EXPELLED:
            if code != ErrorCode.ILLEGAL_GENERATION or self.chance.random() < 0.5:
                self.member_id = ""
            self.generation = -1
            if code == ErrorCode.FENCED_INSTANCE_ID:
                # An earlier process's request came late: only a new process helps.
                self._is_leaving = True
        elif self.is_passing(code):
            yield self.nap()
        elif code != ErrorCode.REBALANCE_IN_PROGRESS:
            raise self.unexpected(what, code)


def share_out(
    members: list[JoinGroupResponseMember], counts: dict[str, int]
) -> list[SyncGroupRequestAssignment]:
    """Give each member a range of each topic's partitions."""
    ids = sorted(member.member_id for member in members)
    shares: dict[str, list[TopicPartition]] = {member_id: [] for member_id in ids}
    for name, count in counts.items():
        for number, member_id in enumerate(ids):
            share = range(number * count // len(ids), (number + 1) * count // len(ids))
            if share:
                shares[member_id].append(TopicPartition(topic=name, partitions=list(share)))
    return [
        SyncGroupRequestAssignment(
            member_id=member_id,
            assignment=b"".join(
                [
                    _VERSION.pack(1),
                    *ConsumerProtocolAssignment(assigned_partitions=found).encode(1),
                ]
            ),
        )
        for member_id, found in shares.items()
    ]


def read_assignment(assignment: bytes) -> list[Key]:
    """Read what a leader has shared out; nothing is nothing."""
    if not assignment:
        return []
    (version,) = _VERSION.unpack_from(assignment)
    found = ConsumerProtocolAssignment.decode_prefix(assignment, version, _VERSION.size)
    return [(one.topic, index) for one in found.assigned_partitions for index in one.partitions]
