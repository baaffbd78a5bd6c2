"""Pulling from leaders: what this broker follows is fetched from the brokers that lead it, as consumers fetch.

Job: one fetch under way per leader and fetcher (`num.replica.fetchers`), over all partitions of it; append what comes, take over the
high watermark, cut the log where it has left the leader's (`core/divergence.py`), pause what fails alone. Must not know who is
in sync or why somebody leads: the controller says whom to follow, in which epoch.

| the leader says, of a partition   | what happens                                                                 |
|-----------------------------------|------------------------------------------------------------------------------|
| records                           | appended as they are, synced if due; the next fetch, from there, says so     |
| diverging epoch                   | the log is cut where both part, then fetched again (KIP-595)                 |
| offset out of range               | asked for its first and last offset: cut there, or begun anew there          |
| another epoch, or not the leader  | a pause: an order of the controller is on its way                            |
| anything else, or nothing         | a pause                                                                      |
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from barnabas.broker import truncation
from barnabas.broker.channel import Channel, Unreachable
from barnabas.broker.dropping import drop_before_starts
from barnabas.broker.edge import report
from barnabas.broker.tasks import drive, together
from barnabas.broker.tenure import TenureOver
from barnabas.core.divergence import EpochEnd, plan_out_of_range, plan_truncation
from barnabas.model.errors import ErrorCode
from barnabas.wire.batch import BatchError
from barnabas.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
)
from barnabas.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from barnabas.broker.node import Node
    from barnabas.broker.replicas import Replica
    from barnabas.broker.tasks import Task
    from barnabas.model.ids import TopicPartition
    from barnabas.ports import Timer
    from barnabas.wire.messages.fetch import FetchResponse, PartitionData

log = logging.getLogger(__name__)

#: What a Kafka 3.9 broker asks with.
FETCH_VERSION: Final = 17
#: How long a partition is left out that catches up faster than its throttle allows.
THROTTLED_MS: Final = 100
LIST_OFFSETS_VERSION: Final = 9
_EARLIEST: Final = -2
_LATEST: Final = -1
_NO_EPOCH: Final = -1


class _Followed:
    """One partition that is pulled, in one leader epoch."""

    __slots__ = ("in_tenure", "is_busy", "paused_until_ms", "replica", "sent")

    def __init__(self, replica: Replica) -> None:
        self.replica = replica
        #: In which it is followed. What the leader says of it counts no longer than this.
        self.in_tenure = replica.tenure
        #: What the leader's session holds of it; None if it is not in the session.
        self.sent: tuple[int, int, int, int] | None = None
        self.paused_until_ms = 0
        #: Its log is being cut.
        self.is_busy = False

    @property
    def position(self) -> tuple[int, int, int, int]:
        """What to ask for: epoch, offset, epoch of the last record, where the log starts."""
        log_ = self.replica.log
        return (
            self.in_tenure.leader_epoch,
            log_.log_end_offset,
            log_.epochs.latest,
            log_.log_start_offset,
        )


class Fetchers:
    """All that this broker follows, by leader and number of the fetcher."""

    def __init__(self, node: Node) -> None:
        """Follow nothing yet."""
        self._node = node
        self._by_leader: dict[tuple[int, int], Fetcher] = {}
        self._of: dict[TopicPartition, Fetcher] = {}

    def follow(self, replica: Replica) -> None:
        """Pull a partition from the leader that its state names, from now on."""
        self.leave(replica.key)
        if replica.offline:
            return
        leader = replica.state.leader
        number = replica.key.partition % self._node.config.get_int("num.replica.fetchers")
        fetcher = self._by_leader.get((leader, number))
        if fetcher is None:
            fetcher = self._by_leader[leader, number] = Fetcher(self._node, leader, number)
        self._of[replica.key] = fetcher
        fetcher.add(replica)

    def leave(self, key: TopicPartition) -> None:
        """Stop pulling a partition. What is on its way counts no more."""
        fetcher = self._of.pop(key, None)
        if fetcher is None:
            return
        fetcher.remove(key)
        if fetcher.is_idle:
            del self._by_leader[fetcher.leader, fetcher.number]
            fetcher.close()

    def close(self) -> None:
        """Stop pulling."""
        for fetcher in self._by_leader.values():
            fetcher.close()
        self._by_leader.clear()
        self._of.clear()

    @property
    def lag_max(self) -> int:
        """Return how many records the partition furthest behind lacks, as far as leaders have told."""
        return max((fetcher.lag_max for fetcher in self._by_leader.values()), default=0)


class Fetcher:
    """One connection to one leader, and the partitions pulled over it."""

    def __init__(self, node: Node, leader: int, number: int) -> None:
        """Pull nothing yet."""
        self.leader = leader
        self.number = number
        self._node = node
        config = node.config
        self._backoff_ms = config.get_int("replica.fetch.backoff.ms")
        self._channel = Channel(
            node.world, leader, lambda: node.members.endpoint_of(leader),
            f"broker-{node.broker_id}-fetcher-{number}", config.get_int("replica.socket.timeout.ms"),
        )  # fmt: skip
        self._followed: dict[TopicPartition, _Followed] = {}
        #: Not as the leader's session has it: to be named in the next fetch.
        self._changed: dict[TopicPartition, None] = {}
        #: In the leader's session, and not wanted any more.
        self._forgotten: dict[tuple[bytes, int], None] = {}
        self._session_id = 0
        self._session_epoch = 0
        self._is_asking = False
        self._is_closed = False
        self._timer: Timer | None = None
        self._lags: dict[TopicPartition, int] = {}

    @property
    def is_idle(self) -> bool:
        """Tell whether it pulls nothing."""
        return not self._followed

    @property
    def lag_max(self) -> int:
        """Return how far the last one is behind."""
        return max(self._lags.values(), default=0)

    def add(self, replica: Replica) -> None:
        """Pull one more."""
        self._followed[replica.key] = _Followed(replica)
        self._changed[replica.key] = None
        self._forgotten.pop((replica.topic.id, replica.key.partition), None)
        self._ask_soon(0)

    def remove(self, key: TopicPartition) -> None:
        """Stop pulling one."""
        followed = self._followed.pop(key)
        self._changed.pop(key, None)
        self._lags.pop(key, None)
        self._drop_from_session(followed)

    def close(self) -> None:
        """Hang up."""
        self._is_closed = True
        self._followed.clear()
        if self._timer is not None:
            self._timer.cancel()
        self._channel.close()

    def _drop_from_session(self, followed: _Followed) -> None:
        if followed.sent is not None:
            followed.sent = None
            replica = followed.replica
            self._forgotten[replica.topic.id, replica.key.partition] = None

    # Asking

    def _ask_soon(self, delay_ms: int) -> None:
        """Ask after a while, or at the end of what is being done now: more partitions may be added until then."""
        if self._is_asking or self._is_closed:
            return
        if self._timer is not None:
            self._timer.cancel()
        due_ms = self._node.world.clock.monotonic_ms() + delay_ms
        self._timer = self._node.world.timers.call_at(due_ms, self._ask)

    def _ask(self) -> None:
        self._timer = None
        if self._is_asking or self._is_closed or self._node.stopping:
            return
        now_ms = self._node.world.clock.monotonic_ms()
        self._hold_throttled(now_ms)
        if not any(self._is_wanted(one, now_ms) for one in self._followed.values()):
            self._wait_for_paused(now_ms)
            return
        self._is_asking = True
        try:
            if unsynced := self._unsynced(now_ms):
                self._sync(unsynced)
            else:
                self._channel.ask(self._request(), FETCH_VERSION, self._on_answer)
        except Exception:
            self._is_asking = False
            self._start_session_anew()
            self._ask_soon(self._backoff_ms)
            raise

    def _unsynced(self, now_ms: int) -> list[_Followed]:
        """Return those to be named next that `flush.messages` wants synced first.

        Who fetches from an offset says that it has all below, and may have to lead with that after a power loss.
        """
        names: Iterable[TopicPartition] = self._followed if self._session_id == 0 else self._changed
        named = [self._followed[key] for key in names]
        return [
            one
            for one in named
            if self._is_wanted(one, now_ms)
            and one.replica.log.unflushed_records >= one.replica.config.flush_messages
        ]

    def _sync(self, unsynced: list[_Followed]) -> None:
        """Bring some to the medium, then ask; as in Kafka all others of this leader wait for it."""

        def synced(errors: list[BaseException | None], _problem: BaseException | None) -> None:
            self._is_asking = False
            for followed, error in zip(unsynced, errors, strict=True):
                if error is not None:
                    self._pause(followed)
            self._ask_soon(0)

        together([one.replica.flush for one in unsynced])(synced)

    def _hold_throttled(self, now_ms: int) -> None:
        """Leave out for a moment what catches up faster than it may."""
        throttle, own = self._node.members.follower_throttle, self._node.broker_id
        if not throttle.is_exceeded:
            return
        for followed in self._followed.values():
            if throttle.concerns(followed.replica, own):
                followed.paused_until_ms = max(followed.paused_until_ms, now_ms + THROTTLED_MS)
                self._drop_from_session(followed)
                self._changed[followed.replica.key] = None

    def _is_wanted(self, followed: _Followed, now_ms: int) -> bool:
        return not followed.is_busy and followed.paused_until_ms <= now_ms

    def _wait_for_paused(self, now_ms: int) -> None:
        paused = [one.paused_until_ms for one in self._followed.values() if not one.is_busy]
        if paused:
            self._ask_soon(min(paused) - now_ms)

    def _request(self) -> FetchRequest:
        """Name what the leader's session lacks: everything, where there is no session yet."""
        config, node = self._node.config, self._node
        now_ms = node.world.clock.monotonic_ms()
        is_full = self._session_id == 0
        names: Iterable[TopicPartition] = self._followed if is_full else list(self._changed)
        topics: dict[bytes, list[FetchPartition]] = {}
        for key in names:
            followed = self._followed[key]
            if not self._is_wanted(followed, now_ms):
                continue
            self._changed.pop(key, None)
            position = followed.position
            if position == followed.sent and not is_full:
                continue
            followed.sent = position
            # Both in one request would end with the leader leaving it out.
            self._forgotten.pop((followed.replica.topic.id, key.partition), None)
            partitions = topics.setdefault(followed.replica.topic.id, [])
            partitions.append(self._wanted_partition(key.partition, position))
        forgotten: dict[bytes, list[int]] = {}
        if not is_full:
            for topic_id, index in self._forgotten:
                forgotten.setdefault(topic_id, []).append(index)
        self._forgotten.clear()
        return FetchRequest(
            replica_state=ReplicaState(replica_id=node.broker_id, replica_epoch=_NO_EPOCH),
            max_wait_ms=config.get_int("replica.fetch.wait.max.ms"),
            min_bytes=config.get_int("replica.fetch.min.bytes"),
            max_bytes=config.get_int("replica.fetch.response.max.bytes"),
            session_id=self._session_id,
            session_epoch=self._session_epoch,
            topics=[FetchTopic(topic_id=id_, partitions=some) for id_, some in topics.items()],
            forgotten_topics_data=[
                ForgottenTopic(topic_id=id_, partitions=some) for id_, some in forgotten.items()
            ],
        )

    def _wanted_partition(self, index: int, position: tuple[int, int, int, int]) -> FetchPartition:
        leader_epoch, fetch_offset, last_fetched_epoch, log_start_offset = position
        return FetchPartition(
            partition=index,
            current_leader_epoch=leader_epoch,
            fetch_offset=fetch_offset,
            last_fetched_epoch=last_fetched_epoch,
            log_start_offset=log_start_offset,
            partition_max_bytes=self._node.config.get_int("replica.fetch.max.bytes"),
        )

    # Answers

    def _on_answer(self, response: FetchResponse | None, problem: BaseException | None) -> None:
        self._is_asking = False
        if self._is_closed:
            return
        if response is None:
            log.warning("cannot pull from broker %d: %s", self.leader, problem)
            self._start_session_anew()
            self._ask_soon(self._backoff_ms)
            return
        code = ErrorCode(response.error_code)
        if code:
            is_session_lost = code in _SESSION_ERRORS
            if not is_session_lost:
                log.warning("broker %d answers %s", self.leader, code.name)
            self._start_session_anew()
            self._ask_soon(0 if is_session_lost else self._backoff_ms)
            return
        self._session_id = response.session_id
        self._session_epoch = 1 if self._session_epoch == 0x7FFFFFFF else self._session_epoch + 1
        if not self._session_id:
            self._start_session_anew()
        for topic in response.responses:
            name = self._node.topics.by_id.get(topic.topic_id)
            for data in topic.partitions:
                if name is not None:
                    self._take_partition(name.name, data)
        self._ask_soon(0)

    def _start_session_anew(self) -> None:
        self._session_id = self._session_epoch = 0
        self._forgotten.clear()
        for followed in self._followed.values():
            followed.sent = None

    def _take_partition(self, topic: str, data: PartitionData) -> None:
        """Take what the leader says of one partition. Whatever is wrong with that pauses this one alone."""
        followed = self._followed.get((topic, data.partition_index))  # type: ignore[call-overload]
        try:
            self._on_partition(followed, data)
        except Exception as fault:  # noqa: BLE001  (an edge: the partition's)
            if followed is not None:
                self._pause(followed)
            what = f"{topic}-{data.partition_index}: what broker {self.leader} sent cannot be taken"
            report(self._node.world, what, fault)

    def _on_partition(self, followed: _Followed | None, data: PartitionData) -> None:
        if followed is None or followed.is_busy or followed.in_tenure.is_over:
            return
        if followed.sent is None:
            return  # about what was asked before it was followed anew, in an earlier epoch perhaps
        replica = followed.replica
        if replica.is_cutting:
            self._pause(followed)  # for a leader before this one: fetched again from the new end
            return
        self._changed[replica.key] = None
        if data.error_code:
            self._on_error(followed, ErrorCode(data.error_code))
        elif data.diverging_epoch is not None and data.diverging_epoch.epoch != _NO_EPOCH:
            end = EpochEnd(data.diverging_epoch.epoch, data.diverging_epoch.end_offset)
            log_ = replica.log
            cut = plan_truncation(log_.epochs, log_.log_end_offset, end)
            self._start(followed, self._cut(followed, cut))
        else:
            self._append(followed, data)

    def _append(self, followed: _Followed, data: PartitionData) -> None:
        replica = followed.replica
        position = followed.sent
        if position is not None and position[1] != replica.log.log_end_offset:
            return  # an answer to a fetch from before the log was cut
        start_offset = replica.log.log_start_offset
        if data.records:
            throttle = self._node.members.follower_throttle
            throttle.count(replica, self._node.broker_id, len(data.records))
        try:
            code = replica.append_as_follower(
                data.records, data.high_watermark, data.log_start_offset
            )
        except BatchError as problem:
            log.error("%s: broker %d sent bad records: %s", replica.key, self.leader, problem)
            self._pause(followed)
            return
        if code:
            self._pause(followed)
            return
        self._lags[replica.key] = max(0, data.high_watermark - replica.log.log_end_offset)
        if replica.log.log_start_offset != start_offset:
            self._drop_segments(replica)

    def _drop_segments(self, replica: Replica) -> None:
        """Let go what the leader has deleted."""

        def dropped(_result: Any, problem: BaseException | None) -> None:  # noqa: ANN401
            if problem is not None:
                log.error("%s: cannot drop old segments: %s", replica.key, problem)

        drive(drop_before_starts(self._node, replica.directory, [replica]), dropped)

    def _on_error(self, followed: _Followed, code: ErrorCode) -> None:
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._start(followed, self._come_back(followed))
            return
        if code not in _PASSING:
            log.warning("%s: broker %d answers %s", followed.replica.key, self.leader, code.name)
        self._pause(followed)

    def _pause(self, followed: _Followed) -> None:
        """Leave a partition out for a while, if it is still pulled: its disk may have failed."""
        if self._followed.get(followed.replica.key) is not followed:
            return
        followed.paused_until_ms = self._node.world.clock.monotonic_ms() + self._backoff_ms
        self._drop_from_session(followed)
        self._changed[followed.replica.key] = None

    # Cutting

    def _start(self, followed: _Followed, task: Task[None]) -> None:
        """Let something happen to a partition's log, which is not pulled meanwhile."""
        followed.is_busy = True
        self._drop_from_session(followed)

        def ended(_result: Any, problem: BaseException | None) -> None:  # noqa: ANN401
            followed.is_busy = False
            if isinstance(problem, (Unreachable, TenureOver)):
                self._pause(followed)
            elif isinstance(problem, OSError):
                followed.replica.on_disk_error(problem, "truncate")
                self._pause(followed)
            elif problem is not None:
                log.error("%s: cannot be cut", followed.replica.key, exc_info=problem)
                self._pause(followed)
            if self._followed.get(followed.replica.key) is followed:
                self._changed[followed.replica.key] = None
                self._ask_soon(0)

        drive(task, ended)

    def _cut(self, followed: _Followed, offset: int) -> Task[None]:
        replica = followed.replica
        log.info(
            "%s: leaves the way of broker %d at %d of %d: cut",
            replica.key, self.leader, offset, replica.log.log_end_offset,
        )  # fmt: skip
        yield from truncation.truncate(self._node, replica, offset, followed.in_tenure)

    def _come_back(self, followed: _Followed) -> Task[None]:
        """Find the way back into the leader's log: records before its start were deleted, those beyond its end lost."""
        replica = followed.replica
        first = yield from self._ask_offset(followed, _EARLIEST)
        last = yield from self._ask_offset(followed, _LATEST)
        if first is None or last is None:
            self._pause(followed)
            return
        followed.in_tenure.check()
        start = plan_out_of_range(replica.log.log_end_offset, first, last)
        log.warning(
            "%s: %d is out of range of broker %d, which has %d to %d: %s %d",
            replica.key, replica.log.log_end_offset, self.leader, first, last,
            "begun anew at" if start.starts_over else "cut at", start.offset,
        )  # fmt: skip
        if start.starts_over:
            yield from truncation.start_over(self._node, replica, start.offset, followed.in_tenure)
        else:
            yield from truncation.truncate(self._node, replica, start.offset, followed.in_tenure)

    def _ask_offset(self, followed: _Followed, which: int) -> Task[int | None]:
        replica = followed.replica
        request = ListOffsetsRequest(
            replica_id=self._node.broker_id,
            topics=[
                ListOffsetsTopic(
                    name=replica.key.topic,
                    partitions=[
                        ListOffsetsPartition(
                            partition_index=replica.key.partition,
                            current_leader_epoch=followed.in_tenure.leader_epoch,
                            timestamp=which,
                        )
                    ],
                )
            ],
        )
        response = yield self._channel.asking(request, LIST_OFFSETS_VERSION)
        answer = response.topics[0].partitions[0]
        return None if answer.error_code else int(answer.offset)


_SESSION_ERRORS: Final = (
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
)
#: What passes with the controller's next order: nothing to tell a person.
_PASSING: Final = (
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
)
