"""Fetch: file slices from each partition asked for, now or when enough bytes have come.

Which partitions: `core.fetch_session`. What is there: `broker.fetch_look`. Record bytes never pass through here: an answer
is a small head and ranges of files.

While bytes are coming in, a fetch is looked at only when the node answers those who wait (`Node.on_turn_end`): what has come
until then leaves in one answer.
"""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

from barnabas.broker import fetch_wanted
from barnabas.broker.fetch_look import Look, Reading
from barnabas.broker.fetch_wanted import TOPIC_IDS_SINCE
from barnabas.broker.follower_look import FollowerLook, note_positions
from barnabas.broker.near_look import NearLook, is_rack_aware
from barnabas.broker.outcomes import CloseLink
from barnabas.broker.pieces import PIECE, Pieces
from barnabas.broker.replicas import commit_key, stable_key
from barnabas.core.fetch_session import FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION, FetchSession, Wanted
from barnabas.core.waiting import Waiter
from barnabas.model.acl import CLUSTER_NAME, Operation, ResourceType
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.fetch_writer import FetchWriter
from barnabas.wire.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)

if TYPE_CHECKING:
    from collections.abc import Hashable

    from barnabas.broker.call import Call
    from barnabas.broker.fetch_wanted import Partitions
    from barnabas.broker.metrics import Metrics
    from barnabas.broker.pieces import Response
    from barnabas.broker.replicas import Replica
    from barnabas.broker.tasks import Task

#: Partitions that are looked at at once: 5 µs each, at worst.
MANY: Final = 10 * PIECE
#: The first version with which a consumer may read from a follower (KIP-392).
_FOLLOWERS_SINCE: Final = 11
#: The client starts a new session then: what it wanted from the old one is not told.
_SESSION_ERRORS: Final = (
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
)


def handle(call: Call, taken: Partitions | None = None) -> Any:  # noqa: ANN401
    """Look at what is there, now or when those who wait are answered. `taken` is what the request names, if that is known."""
    request: FetchRequest = call.request
    broker_id = _replica_id(request)
    if broker_id >= 0:
        if call.node.is_lone:
            raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "this node has no followers")
        # One of them is made, not both: each moves the session on.
        allowed = call.allows(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)
        if allowed:
            call.bill = None  # replication has its own throttle
        fetch: _Fetch = _FollowerFetch(call, broker_id) if allowed else _DeniedFetch(call)
    else:
        if call.bill is not None:
            request.max_bytes = call.bill.limit_fetch(request.max_bytes)
            request.min_bytes = min(request.min_bytes, request.max_bytes)
        fetch = _Fetch(call, taken)
    if call.node.replicas.waiting.is_fed and not call.node.stopping:
        fetch.hold()
        return None
    return fetch.look()


def handle_long(call: Call) -> Task[Any]:
    """Do the same for a request that names very many partitions: take them in pieces."""
    taken = yield from fetch_wanted.take_in_pieces(call, Pieces(call))
    answer = handle(call, taken)
    return (yield from answer) if isinstance(answer, Generator) else answer


def refuse(request: FetchRequest, code: ErrorCode, _message: str | None) -> FetchResponse:
    """Refuse the request as a whole, and every partition for versions without a code of their own."""
    if code in _SESSION_ERRORS:
        return FetchResponse(error_code=code)
    return FetchResponse(
        error_code=code,
        responses=[
            FetchableTopicResponse(
                topic=topic.topic,
                topic_id=topic.topic_id,
                partitions=[
                    PartitionData(
                        partition_index=p.partition, error_code=code, high_watermark=-1, records=b""
                    )
                    for p in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def _replica_id(request: FetchRequest) -> int:
    return (
        request.replica_id
        if request.replica_state is None
        else max(request.replica_id, request.replica_state.replica_id)
    )


class _Answer:
    """The answer to a fetch: it is written straight from what was found, which is most of a small fetch's cost."""

    __slots__ = ("_session_id", "_shows_aborted", "_topics")

    def __init__(self, session_id: int, readings: list[Reading], *, shows_aborted: bool) -> None:
        self._session_id = session_id
        self._shows_aborted = shows_aborted
        self._topics: dict[Hashable, list[Reading]] = {}
        for reading in readings:
            self._topics.setdefault(reading.wanted.key[0], []).append(reading)  # type: ignore[index]

    def count(self, metrics: Metrics, *, is_copied: bool) -> None:
        """Let the topics' counters know; `is_copied`: by a follower."""
        for readings in self._topics.values():
            counters = metrics.by_topic.get(readings[0].wanted.topic)
            if counters is not None:
                counters.fetches += len(readings)
                size_bytes = sum([len(reading.records) for reading in readings])
                if is_copied:
                    counters.replication_bytes_out += size_bytes
                else:
                    counters.bytes_out += size_bytes
                counters.failed_fetches += sum([reading.error_code != 0 for reading in readings])

    def encode(self, version: int) -> list[Any]:
        """Give the answer's bytes and file slices, without its header."""
        if any(one.diverging for readings in self._topics.values() for one in readings):
            return self._encode_whole(version)
        writer = FetchWriter(version, len(self._topics), session_id=self._session_id)
        for readings in self._topics.values():
            wanted = readings[0].wanted
            writer.topic(wanted.topic, wanted.topic_id, len(readings))
            for reading in readings:
                code = reading.error_code
                writer.partition(
                    reading.wanted.partition, code,
                    reading.high_watermark, reading.last_stable_offset, reading.log_start_offset,
                    reading.records, reading.aborted if self._shows_aborted and not code else None,
                    reading.preferred,
                )  # fmt: skip
        return writer.finish()

    def _encode_whole(self, version: int) -> list[Any]:
        """Give an answer that has in it what the writer cannot write."""
        response = FetchResponse(session_id=self._session_id)
        for readings in self._topics.values():
            wanted = readings[0].wanted
            response.responses.append(
                FetchableTopicResponse(
                    topic=wanted.topic,
                    topic_id=wanted.topic_id,
                    partitions=[_whole_partition(reading) for reading in readings],
                )
            )
        return response.encode(version)


def _whole_partition(reading: Reading) -> PartitionData:
    data = PartitionData(
        partition_index=reading.wanted.partition,
        error_code=reading.error_code,
        high_watermark=reading.high_watermark,
        last_stable_offset=reading.last_stable_offset,
        log_start_offset=reading.log_start_offset,
        aborted_transactions=None,
        records=reading.records,
    )
    if reading.diverging is not None:
        data.diverging_epoch = EpochEndOffset(
            epoch=reading.diverging.epoch, end_offset=reading.diverging.end_offset
        )
    return data


class _Watch:
    """Sees bytes come for partitions while others are looked at; nobody is answered for it (`Node.complete` finds no link)."""

    __slots__ = ()

    @property
    def call(self) -> _Watch:
        return self

    @property
    def link(self) -> None:
        return None


class _Fetch:
    """One fetch under way: what is wanted, what has been found."""

    is_of_follower: ClassVar[bool] = False
    __slots__ = (
        "_chosen", "_committed_only", "_deadline_ms", "_found", "_incremental", "_session", "_taken", "_timer", "_waiter", "_wanted", "call",
    )  # fmt: skip

    def __init__(self, call: Call, taken: Partitions | None = None) -> None:
        self.call = call
        self._taken = taken
        self._committed_only = bool(call.request.isolation_level)
        self._deadline_ms: int | None = None
        self._found: Look
        self._timer: Any = None
        self._waiter: Any = None
        self._session: FetchSession | None = None
        self._incremental = False
        self._wanted: list[Wanted] = self._open_session()
        #: What is looked at.
        self._chosen = self._wanted

    def _open_session(self) -> list[Wanted]:
        request: FetchRequest = self.call.request
        sessions, now_ms = (
            self.call.node.fetch_sessions,
            self.call.node.world.clock.monotonic_ms(),
        )
        by_id = self.call.version >= TOPIC_IDS_SINCE
        if request.session_epoch == FINAL_EPOCH:
            sessions.close(request.session_id)
            return list(self._take_wanted({}).values())
        if request.session_epoch == INITIAL_EPOCH:
            wanted = self._take_wanted({})
            if wanted and fetch_wanted.may_be_kept(self.call, wanted, 0):
                self._session = sessions.open(request.session_id, now_ms, by_id=by_id)
            else:
                sessions.close(request.session_id)
            if self._session is not None:
                self._session.partitions = wanted
            return list(wanted.values())
        session = sessions.resume(request.session_id, request.session_epoch, now_ms, by_id=by_id)
        if isinstance(session, ErrorCode):
            raise KafkaError(session, "")
        self._session, self._incremental = session, True
        known = len(session.partitions)
        self._take_wanted(session.partitions)
        self._forget(session)
        # As in Kafka a session without partitions ends by itself; so does one that wants too many.
        if not session.partitions or not fetch_wanted.may_be_kept(
            self.call, session.partitions, known
        ):
            sessions.close(session.id)
            self._session, self._incremental = None, False
        return list(session.partitions.values())

    def _take_wanted(self, partitions: Partitions) -> Partitions:
        """Add what the request names to `partitions`, or change it there."""
        if self._taken is not None:
            return fetch_wanted.add(self._taken, partitions)
        return fetch_wanted.take(self.call, self.call.request.topics, partitions)

    def _forget(self, session: FetchSession) -> None:
        by_id = self.call.version >= TOPIC_IDS_SINCE
        for asked in self.call.request.forgotten_topics_data:
            for index in asked.partitions:
                session.partitions.pop((asked.topic_id if by_id else asked.topic, index), None)

    def look(self) -> Any:  # noqa: ANN401
        """Answer at once if there is enough, an error, or no wish to wait; else wait."""
        if len(self._chosen) > MANY:
            return self._look_in_pieces()
        found = self._look(nowait=True)
        if found.cold:
            return self._after_warming()
        if self._is_enough or self._has_waited_enough:
            return self._response()
        self._wait()
        return None

    def _look(self, *, nowait: bool) -> Look:
        look = self._found = self._new_look(nowait=nowait).at(self._chosen)
        return look

    def _new_look(self, *, nowait: bool) -> Look:
        call = self.call
        rack = call.request.rack_id
        look = (NearLook if rack and is_rack_aware(call.node) else Look)(
            call.node, call.request.max_bytes,
            by_id=call.version >= TOPIC_IDS_SINCE, committed_only=self._committed_only, nowait=nowait,
        )  # fmt: skip
        look.leader_only = call.version < _FOLLOWERS_SINCE
        look.may_read = None if call.node.gate is None else call.node.gate.reader(call)
        if isinstance(look, NearLook):
            look.rack = rack
        return look

    def _look_in_pieces(self) -> Task[Response | None]:
        """Do as `look` does; None if it waits."""
        pieces = Pieces(self.call)
        while (yield from self._look_at_many(pieces, nowait=True)):
            if self._found.cold or self._is_enough or self._has_waited_enough:
                break
            self._set_deadline()
        if self._found.cold:
            yield from self._warm()
            yield from self._look_at_many(pieces, nowait=False)
        elif not (self._is_enough or self._has_waited_enough):
            self._wait()
            return None
        if self._is_throttled():
            return self._nothing()
        session_id, readings = yield from self._tell_many(pieces)
        answer = yield from pieces.work(
            len(readings),
            partial(_Answer, session_id, readings, shows_aborted=self._committed_only),
        )
        answer.count(self.call.node.metrics, is_copied=self.is_of_follower)
        return (yield from pieces.respond(lambda: answer))

    def _look_at_many(self, pieces: Pieces, *, nowait: bool) -> Task[bool]:
        """Look at all, some at a time; tell whether something came meanwhile for those that were looked at first."""
        waiting, found = self.call.node.replicas.waiting, self._new_look(nowait=nowait)
        watches: list[Waiter[Any]] = []
        try:
            for start in range(0, len(self._chosen), PIECE):
                some = self._chosen[start : start + PIECE]
                if not found.has_failed:  # else it is answered at once, whatever comes
                    watches.append(Waiter(_Watch(), self._keys(some), 1))
                    waiting.add(watches[-1])
                found.at(some)
                yield pieces.pause
            self._found = found
            return any(watch.done for watch in watches)
        finally:
            for watch in watches:
                waiting.remove(watch)

    def _tell_many(self, pieces: Pieces) -> Task[tuple[int, list[Reading]]]:
        """Give the session and what its client is told, as `_response` does."""
        session, readings = self._session, self._found.readings
        if session is None:
            return NO_SESSION, readings
        news = []
        for reading in readings:
            if reading.has_news():
                news.append(reading)
            pieces.count(1)
            if pieces.is_full:
                yield pieces.pause
        session.rotate(reading.wanted.key for reading in news if len(reading.records))
        return session.id, news if self._incremental else readings

    @property
    def _is_enough(self) -> bool:
        request, found = self.call.request, self._found
        return (
            found.has_failed
            or found.is_urgent
            or found.size_bytes >= request.min_bytes
            or request.max_wait_ms <= 0
            or not self._wanted
            or self.call.node.stopping
        )

    @property
    def _has_waited_enough(self) -> bool:
        """Tell whether bytes or the time woke it; of bytes, a reader of committed records may see too few yet."""
        if self._deadline_ms is None:
            return False
        now_ms = self.call.node.world.clock.monotonic_ms()
        return not self._committed_only or now_ms >= self._deadline_ms

    def _after_warming(self) -> Task[_Answer | FetchResponse]:
        """Bring cold ranges into memory, then look again; what is still cold is left for the next fetch, if there is anything else."""
        yield from self._warm()
        found = self._look(nowait=True)
        if found.cold and not found.size_bytes:
            self._look(nowait=False)
        return self._response()

    def _warm(self) -> Task[None]:
        """Bring cold ranges into memory in the background."""
        loading = self._found.loading()
        while not loading.is_done:
            problems: list[tuple[Replica, OSError]] = yield partial(
                self.call.node.world.background.run, loading.load_some
            )
            for replica, problem in problems:
                replica.on_disk_error(problem, "read")

    def hold(self) -> None:
        """Wait until the node answers those who wait."""
        node = self.call.node
        self._waiter = Waiter(self, (), 0)
        node.replicas.waiting.add(self._waiter)
        node.waiters[self.call.link] = self._waiter

    def _wait(self) -> None:
        """Wait for bytes on any partition, or for the time the client gave."""
        node, request = self.call.node, self.call.request
        keys = self._keys(self._wanted)
        self._waiter = Waiter(self, keys, request.min_bytes - self._found.size_bytes)
        node.replicas.waiting.add(self._waiter)
        node.waiters[self.call.link] = self._waiter
        self._timer = node.world.timers.call_at(self._set_deadline(), self._on_deadline)

    def _set_deadline(self) -> int:
        """Give the time until which to wait, as it was when the waiting began."""
        if self._deadline_ms is None:
            now_ms = self.call.node.world.clock.monotonic_ms()
            self._deadline_ms = now_ms + self.call.request.max_wait_ms
        return self._deadline_ms

    def _keys(self, partitions: list[Wanted]) -> list[Hashable]:
        """Name what to wait for."""
        return [
            stable_key(wanted.topic, wanted.partition)
            if self._committed_only
            else (wanted.topic, wanted.partition)
            for wanted in partitions
        ]

    def _on_deadline(self) -> None:
        node, waiter = self.call.node, self._waiter
        # A timer that was due already may come after it was cancelled.
        if waiter is not None and node.replicas.waiting.remove(waiter):
            node.complete(waiter)

    def go_on(self, _call: Call) -> Any:  # noqa: ANN401
        """Look again, or for the first time: enough bytes came, the time is over, or it was held."""
        self.abandon()
        return self.look()

    def abandon(self) -> None:
        """It waits no more: it is looked at, or nobody wants the answer."""
        self._waiter = None  # the two know each other: a circle that only the collector would find
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _response(self) -> _Answer | FetchResponse:
        """Build the answer; an incremental one leaves out partitions without news."""
        session, readings = self._session, self._found.readings
        if self._is_throttled():
            return self._nothing()
        if session is None:
            return self._answer(NO_SESSION, readings)
        news = [reading for reading in readings if reading.has_news()]
        session.rotate(reading.wanted.key for reading in news if len(reading.records))
        return self._answer(session.id, news if self._incremental else readings)

    def _is_throttled(self) -> bool:
        """Bill what was found; tell whether the client has to come again for it."""
        bill = self.call.bill
        return bill is not None and bill.settle_fetch(self._found.size_bytes) > 0

    def _nothing(self) -> FetchResponse:
        """Answer a client that is throttled: as in Kafka its session stays as it was, and none is opened."""
        if self._session is None or self._incremental:
            return FetchResponse(
                session_id=NO_SESSION if self._session is None else self._session.id
            )
        self.call.node.fetch_sessions.close(self._session.id)
        return FetchResponse(session_id=NO_SESSION)

    def _answer(self, session_id: int, readings: list[Reading]) -> _Answer:
        answer = _Answer(session_id, readings, shows_aborted=self._committed_only)
        answer.count(self.call.node.metrics, is_copied=self.is_of_follower)
        return answer


class _DeniedFetch(_Fetch):
    """One fetch of somebody who says to be a follower and may not be one: as in Kafka, every topic is denied to it."""

    __slots__ = ()

    def _new_look(self, *, nowait: bool) -> Look:
        look = super()._new_look(nowait=nowait)
        look.may_read = lambda _topic: False
        return look


class _FollowerFetch(_Fetch):
    """One fetch of a follower: it waits for anything that is appended, not for what is committed."""

    __slots__ = ("_broker_id", "_named", "_news")

    is_of_follower = True

    _found: FollowerLook

    def __init__(self, call: Call, broker_id: int) -> None:
        super().__init__(call)
        self._broker_id = broker_id
        self._committed_only = False
        if (
            not call.link.is_open
        ):  # it has gone while its request was decoded: nobody would forget it again
            raise CloseLink("the follower has gone")
        self._news = call.node.members.followers.of(call.link)
        note_positions(call.node, broker_id, self._catch_up_with_news())

    def _catch_up_with_news(self) -> list[Wanted]:
        """Find out what is to be looked at; return those of which the follower says where it is."""
        node, news = self.call.node, self._news
        now_ms = node.world.clock.monotonic_ms()
        session_id = NO_SESSION if self._session is None else self._session.id
        if self.call.request.forgotten_topics_data or not news.is_current(
            session_id, self._named, now_ms
        ):
            next_ms = now_ms + node.config.get_int("replica.fetch.wait.max.ms")
            news.start_over(session_id, self._wanted, next_ms, node.members.followers.changes)
            return self._wanted
        news.put_back(self._named)
        return self._named

    def look(self) -> Any:  # noqa: ANN401
        self._chosen = self._news.take()
        return super().look()

    def _new_look(self, *, nowait: bool) -> Look:
        call = self.call
        return FollowerLook(
            call.node, self._broker_id, call.request.max_bytes,
            by_id=call.version >= TOPIC_IDS_SINCE, nowait=nowait,
        )  # fmt: skip

    def _wait(self) -> None:
        self._news.put_back(self._chosen)
        super()._wait()

    def _keys(self, partitions: list[Wanted]) -> list[Hashable]:
        onlooker = self._news.onlooker
        if is_rack_aware(self.call.node):
            return [onlooker, commit_key(onlooker)]
        return [onlooker]

    def _response(self) -> _Answer | FetchResponse:
        self._news.put_back(self._found.unserved)
        return super()._response()

    def _tell_many(self, pieces: Pieces) -> Task[tuple[int, list[Reading]]]:
        self._news.put_back(self._found.unserved)
        return super()._tell_many(pieces)

    def _take_wanted(self, partitions: Partitions) -> Partitions:
        super()._take_wanted(partitions)
        by_id = self.call.version >= TOPIC_IDS_SINCE
        self._named: list[Wanted] = []
        for asked in self.call.request.topics:
            for p in asked.partitions:
                wanted = partitions[asked.topic_id if by_id else asked.topic, p.partition]
                wanted.follower_log_start = p.log_start_offset
                self._named.append(wanted)
        return partitions
