"""A simulated member of a consumer group (KIP-848), which is told what to own.

Job: ConsumerGroupHeartbeat as consumers use it: join with epoch 0, say everything after a lost answer and what is owned whenever that
changes, commit and give up what is to go before taking what comes. Must not know what the coordinator should say: `group_checkers` does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from barnabas.model.errors import ErrorCode
from barnabas.sim.group_client import EXPELLED, Ask, GroupClient
from barnabas.sim.world import MS
from barnabas.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)

if TYPE_CHECKING:
    from collections.abc import Generator

    from barnabas.sim.checkers import Key
    from barnabas.sim.group_client import Nap
    from barnabas.wire.messages.consumer_group_heartbeat import Assignment

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
STATIC_LEAVE_EPOCH: Final = -2
OFFSETS_VERSION: Final = 9
_OWN_MEMBER_ID_SINCE: Final = 1


class ConsumerMember(GroupClient):
    """One member of a consumer group."""

    speaks_classic = False
    _version = 1
    _assignor: str | None = None
    _is_leaving = False
    #: The next heartbeat says everything; says what is owned.
    _says_all = True
    _says_owned = True

    def run_process(self) -> Generator[Ask | Nap, Any, Any]:
        """Be a member, again and again, until it leaves."""
        self._is_leaving = False
        self._version = self.chance.choice((0, 1, 1))
        self._assignor = self.chance.choice((None, "uniform", "range"))
        if self._version >= _OWN_MEMBER_ID_SINCE:
            self.member_id = f"{self.chance.getrandbits(128):032x}"
        self._topic_ids: dict[bytes, str] = {}
        self._start_over()
        while not (yield from self.find_coordinator()):
            pass
        while not self._is_leaving:
            yield from self._live()

    def _start_over(self) -> None:
        """Own nothing, and join with the next heartbeat."""
        self.give_up_all()
        self.generation = JOIN_EPOCH
        self._says_all = True
        self.next_heartbeat_us = 0

    def _live(self) -> Generator[Ask | Nap, Any, None]:
        """Do one thing that a member does."""
        if self.scheduler.now_us >= self.next_heartbeat_us or self.generation == JOIN_EPOCH:
            yield from self._heartbeat()
        elif not self.is_calm and self.chance.random() < self.style.leaves:
            yield from self._leave()
        elif None in self.positions.values():
            code = yield from self.ask_offsets(OFFSETS_VERSION, self.generation)
            yield from self._take_code("OffsetFetch", code)
        elif self.uncommitted and (self.is_calm or self.chance.random() < 0.5):
            code = yield from self.commit(OFFSETS_VERSION)
            yield from self._take_code("OffsetCommit", code)
        elif self.positions:
            yield from self.read()
        else:
            yield self.nap()

    # Heartbeats

    def _heartbeat(self) -> Generator[Ask | Nap, Any, None]:
        response = yield Ask(self._heartbeat_request(), self._version)
        if response is None:
            self._says_all = True
            return
        if response.error_code:
            self._says_all = True
            yield from self._take_code("ConsumerGroupHeartbeat", response.error_code)
            return
        self._says_all = self._says_owned = False
        self.member_id = response.member_id or self.member_id
        self.generation = response.member_epoch
        self.next_heartbeat_us = self.scheduler.now_us + response.heartbeat_interval_ms * MS
        if response.assignment is None:
            self.groups.on_standing(self.group_id, self.identity, self.standing)
        else:
            yield from self._reconcile(response.assignment)

    def _heartbeat_request(self) -> ConsumerGroupHeartbeatRequest:
        says_all = self._says_all or self.generation == JOIN_EPOCH
        owned: dict[bytes, list[int]] = {}
        ids = {name: topic_id for topic_id, name in self._topic_ids.items()}
        for name, index in self.positions:
            owned.setdefault(ids[name], []).append(index)
        return ConsumerGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=self.generation,
            instance_id=self.style.instance_id,
            rebalance_timeout_ms=self.style.rebalance_us // MS if says_all else -1,
            subscribed_topic_names=self.topics if says_all else None,
            server_assignor=self._assignor if says_all else None,
            topic_partitions=[
                TopicPartitions(topic_id=topic_id, partitions=found)
                for topic_id, found in owned.items()
            ]
            if says_all or self._says_owned
            else None,
        )

    def _reconcile(self, assignment: Assignment) -> Generator[Ask | Nap, Any, None]:
        """Commit and give up what goes, then take what comes, and say so with the next heartbeat."""
        standing, generation = self.standing, self.generation
        while any(
            bytes(one.topic_id) not in self._topic_ids for one in assignment.topic_partitions
        ):
            topics = yield from self.ask_topics()
            if topics is None:
                yield self.nap()
            else:
                self._topic_ids = {bytes(topic.topic_id): name for name, topic in topics.items()}
        keys = [
            (self._topic_ids[bytes(one.topic_id)], index)
            for one in assignment.topic_partitions
            for index in one.partitions
        ]
        going = [key for key in self.positions if key not in keys]
        # From here on the coordinator may lose its patience with it.
        self.groups.on_released(self.group_id, self.identity, going)
        if any(key in self.uncommitted for key in going):
            yield from self.commit(OFFSETS_VERSION)
        if sorted(keys) != sorted(self.positions):
            self._says_owned = True
            self.next_heartbeat_us = self.scheduler.now_us
        self._own(keys)
        self.groups.on_assigned(self.group_id, self.who, generation, keys, standing)

    def _own(self, keys: list[Key]) -> None:
        self.positions = {key: self.positions.get(key) for key in keys}
        self.committed = {key: at for key, at in self.committed.items() if key in self.positions}

    def _leave(self) -> Generator[Ask | Nap, Any, None]:
        """Go: a static member for good or for a while."""
        self._is_leaving = True
        self.give_up_all()
        static = self.style.instance_id is not None
        self.generation = self.chance.choice(
            (LEAVE_EPOCH, STATIC_LEAVE_EPOCH if static else LEAVE_EPOCH)
        )
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=self.generation,
            instance_id=self.style.instance_id,
        )
        yield Ask(request, self._version)

    def _take_code(self, what: str, code: int | None) -> Generator[Ask | Nap, Any, None]:
        if not code:
            return
        if code == ErrorCode.STALE_MEMBER_EPOCH:
            self.next_heartbeat_us = self.scheduler.now_us  # to learn the present one
        elif code in EXPELLED:
            self._start_over()
            if code == ErrorCode.FENCED_INSTANCE_ID:
                self._is_leaving = True
        elif self.is_passing(code) or code == ErrorCode.UNRELEASED_INSTANCE_ID:
            yield self.nap()
        else:
            raise self.unexpected(what, code)
