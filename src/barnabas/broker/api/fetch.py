"""Fetch: file slices from each partition asked for, now or when enough bytes have come.

Which partitions: `core.fetch_session`. What may be seen: `core.partition`. Where the bytes lie: `storage.log`.
Record bytes never pass through here: an answer is a small head and ranges of files.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from barnabas.broker.replicas import stable_key
from barnabas.core.fetch_session import FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION, FetchSession, Wanted
from barnabas.core.waiting import Waiter
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.ports import FileSlice, WouldBlock
from barnabas.wire.batch import BatchError
from barnabas.wire.fetch_writer import FetchWriter
from barnabas.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from barnabas.broker.call import Call
    from barnabas.broker.replicas import Replica
    from barnabas.broker.tasks import Task

logger = logging.getLogger(__name__)

TOPIC_IDS_SINCE = 13
#: The client starts a new session then: what it wanted from the old one is not told.
_SESSION_ERRORS: Final = (
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
)


def handle(call: Call) -> Any:  # noqa: ANN401
    """Answer at once if there is enough, an error, or no wish to wait; else wait."""
    request: FetchRequest = call.request
    if _replica_id(request) >= 0:
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "this node has no followers")
    fetch = _Fetch(call)
    fetch.read(nowait=True)
    if fetch.cold:
        return fetch.after_warming()
    if fetch.is_enough or call.node.stopping:
        return fetch.response()
    fetch.wait()
    return None


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


class _Reading:
    """What was found for one partition."""

    __slots__ = (
        "aborted", "error_code", "high_watermark", "last_stable_offset", "log_start_offset", "records", "wanted",
    )  # fmt: skip

    def __init__(
        self,
        wanted: Wanted,
        error_code: int,
        high_watermark: int = -1,
        last_stable_offset: int = -1,
        log_start_offset: int = -1,
    ) -> None:
        self.wanted = wanted
        self.error_code = error_code
        self.high_watermark = high_watermark
        self.last_stable_offset = last_stable_offset
        self.log_start_offset = log_start_offset
        self.records: FileSlice | bytes = b""
        #: Producer id and first offset of each transaction that a reader of committed records must leave out.
        self.aborted: Sequence[tuple[int, int]] = ()

    def has_news(self) -> bool:
        """Tell whether an incremental answer must name this partition, and remember what it says."""
        return self.wanted.has_news(
            len(self.records), self.error_code, self.high_watermark, self.log_start_offset
        )


class _Answer:
    """The answer to a fetch: it is written straight from what was found, which is most of a small fetch's cost."""

    __slots__ = ("_session_id", "_shows_aborted", "_topics")

    def __init__(self, session_id: int, readings: list[_Reading], *, shows_aborted: bool) -> None:
        self._session_id = session_id
        self._shows_aborted = shows_aborted
        self._topics: dict[Hashable, list[_Reading]] = {}
        for reading in readings:
            self._topics.setdefault(reading.wanted.key[0], []).append(reading)  # type: ignore[index]

    def encode(self, version: int) -> list[Any]:
        """Give the answer's bytes and file slices, without its header."""
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
                )  # fmt: skip
        return writer.finish()


class _Fetch:
    """One fetch under way: what is wanted, what has been found."""

    __slots__ = (
        "_bytes", "_committed_only", "_deadline_ms", "_failed", "_readings", "_session", "_timer", "_waiter", "_wanted",
        "call", "cold", "incremental",
    )  # fmt: skip

    def __init__(self, call: Call) -> None:
        self.call = call
        self._committed_only = bool(call.request.isolation_level)
        self._deadline_ms: int | None = None
        self.cold: list[tuple[Replica, Wanted]] = []
        self._readings: list[_Reading] = []
        self._bytes = 0
        self._failed = False
        self._timer: Any = None
        self._waiter: Any = None
        self._session: FetchSession | None = None
        self.incremental = False
        self._wanted: list[Wanted] = self._open_session()

    def _open_session(self) -> list[Wanted]:
        request: FetchRequest = self.call.request
        sessions, now_ms = (
            self.call.node.fetch_sessions,
            self.call.node.world.clock.monotonic_ms(),
        )
        if request.session_epoch == FINAL_EPOCH:
            sessions.close(request.session_id)
            return list(self._take_wanted({}).values())
        if request.session_epoch == INITIAL_EPOCH:
            wanted = self._take_wanted({})
            self._session = sessions.open(request.session_id, now_ms) if wanted else None
            if self._session is not None:
                self._session.partitions = wanted
            return list(wanted.values())
        session = sessions.resume(request.session_id, request.session_epoch, now_ms)
        if isinstance(session, ErrorCode):
            raise KafkaError(session, "")
        self._session, self.incremental = session, True
        self._take_wanted(session.partitions)
        self._forget(session)
        if not session.partitions:  # as in Kafka, a session without partitions ends by itself
            sessions.close(session.id)
            self._session, self.incremental = None, False
        return list(session.partitions.values())

    def _take_wanted(self, partitions: dict[Hashable, Wanted]) -> dict[Hashable, Wanted]:
        """Add what the request names to `partitions`, or change it there."""
        by_id = self.call.version >= TOPIC_IDS_SINCE
        topics = self.call.node.topics
        for asked in self.call.request.topics:
            name, topic_id = asked.topic, asked.topic_id
            if by_id:
                topic = topics.by_id.get(topic_id)
                name = "" if topic is None else topic.name
            for p in asked.partitions:
                key = (topic_id if by_id else name, p.partition)
                wanted = partitions.get(key)
                if wanted is None:
                    wanted = partitions[key] = Wanted(key, name, topic_id, p.partition)
                wanted.update(
                    p.fetch_offset,
                    p.partition_max_bytes,
                    max(p.current_leader_epoch, -1),  # as in Kafka, any below 0 is none: here only
                    p.last_fetched_epoch,
                )
        return partitions

    def _forget(self, session: FetchSession) -> None:
        by_id = self.call.version >= TOPIC_IDS_SINCE
        for asked in self.call.request.forgotten_topics_data:
            for index in asked.partitions:
                session.partitions.pop((asked.topic_id if by_id else asked.topic, index), None)

    @property
    def is_enough(self) -> bool:
        """Tell whether to answer now."""
        request = self.call.request
        return (
            self._failed
            or self._bytes >= request.min_bytes
            or request.max_wait_ms <= 0
            or not self._wanted
        )

    def read(self, *, nowait: bool) -> None:
        """Find the bytes of every partition, within the request's limits."""
        self._readings, self._bytes, self._failed, self.cold = [], 0, False, []
        room = min(self.call.request.max_bytes, self.call.node.fetch_bytes_max)
        for wanted in self._wanted:
            reading = self._read_one(wanted, room, nowait)
            size = len(reading.records)
            room -= size
            self._bytes += size
            if reading.error_code:
                self._failed = True
            self._readings.append(reading)

    def _read_one(self, wanted: Wanted, room: int, nowait: bool) -> _Reading:
        replica = self._find(wanted)
        if isinstance(replica, ErrorCode):
            return _Reading(wanted, replica)
        log, state = replica.log, replica.state
        code = state.decide_epoch(wanted.current_leader_epoch)
        if code:
            return _Reading(wanted, code)
        offset, stable_offset = wanted.fetch_offset, replica.last_stable_offset
        if not log.log_start_offset <= offset <= log.log_end_offset:
            return _Reading(wanted, ErrorCode.OFFSET_OUT_OF_RANGE)
        reading = _Reading(
            wanted, ErrorCode.NONE, state.high_watermark, stable_offset, log.log_start_offset
        )
        if offset < (stable_offset if self._committed_only else state.high_watermark):
            code = self._find_bytes(replica, reading, room, nowait)
            if code:
                return _Reading(wanted, code)
        return reading

    def _find_bytes(
        self, replica: Replica, reading: _Reading, room: int, nowait: bool
    ) -> ErrorCode:
        wanted = reading.wanted
        try:
            found = self._slice(replica, reading, room, nowait)
            if found is not None:
                reading.records = found
                if self._committed_only:
                    reading.aborted = [
                        (one.producer_id, one.first_offset)
                        for one in replica.log.aborted_transactions(
                            wanted.fetch_offset, found, nowait=nowait
                        )
                    ]
        except WouldBlock:
            reading.records = b""
            self.cold.append((replica, wanted))
        except OSError as problem:
            replica.on_disk_error(problem, "read")
            return ErrorCode.KAFKA_STORAGE_ERROR
        except BatchError as problem:
            logger.error("%s is damaged at %d: %s", replica.key, wanted.fetch_offset, problem)
            return ErrorCode.CORRUPT_MESSAGE
        return ErrorCode.NONE

    def _slice(
        self, replica: Replica, reading: _Reading, room: int, nowait: bool
    ) -> FileSlice | None:
        wanted = reading.wanted
        # The first partition with bytes gets a whole batch even if that is over the limit, so that a
        # consumer always makes progress (KIP-74).
        first = self._bytes == 0 and not self.cold
        limit = min(wanted.max_bytes, room)
        if limit <= 0 and not first:
            return None
        return replica.log.read(
            wanted.fetch_offset,
            limit,
            end_offset=reading.last_stable_offset
            if self._committed_only
            else reading.high_watermark,
            min_one=first,
            nowait=nowait,
        )

    def _find(self, wanted: Wanted) -> Replica | ErrorCode:
        node = self.call.node
        if self.call.version >= TOPIC_IDS_SINCE:
            topic = node.topics.by_id.get(wanted.topic_id)
            if topic is None:
                return ErrorCode.UNKNOWN_TOPIC_ID
            wanted.topic = topic.name
        return node.hosted(wanted.topic, wanted.partition)

    def after_warming(self) -> Task[_Answer]:
        """Bring cold ranges into memory in the background, then read as usual."""
        request = self.call.request
        for replica, wanted in self.cold:
            room = min(wanted.max_bytes, request.max_bytes)
            end = (
                replica.last_stable_offset if self._committed_only else replica.state.high_watermark
            )
            job = _warming_job(
                replica, wanted.fetch_offset, room, end, committed_only=self._committed_only
            )
            try:
                yield partial(self.call.node.world.background.run, job)
            except OSError as problem:
                replica.on_disk_error(problem, "read")
            except BatchError:
                continue  # reading again tells
        self.read(nowait=False)
        return self.response()

    def wait(self) -> None:
        """Wait for bytes on any partition, or for the time the client gave."""
        node, request = self.call.node, self.call.request
        keys: list[Hashable] = [
            stable_key(wanted.topic, wanted.partition)
            if self._committed_only
            else (wanted.topic, wanted.partition)
            for wanted in self._wanted
        ]
        self._waiter = Waiter(self, keys, request.min_bytes - self._bytes)
        node.replicas.waiting.add(self._waiter)
        node.waiters[self.call.link] = self._waiter
        if self._deadline_ms is None:
            self._deadline_ms = node.world.clock.monotonic_ms() + request.max_wait_ms
        self._timer = node.world.timers.call_at(self._deadline_ms, self._on_deadline)

    def _on_deadline(self) -> None:
        node = self.call.node
        if node.replicas.waiting.remove(self._waiter):
            node.complete(self._waiter)

    def answer(self) -> list[Any] | None:
        """Read again and encode the reply: enough bytes came, or the time is over.

        None to wait on: of what came, too little may be seen yet by a reader of committed records.
        """
        self._timer.cancel()
        self.read(nowait=False)  # what just came is in memory
        node = self.call.node
        assert self._deadline_ms is not None
        if (
            self._committed_only
            and not self.is_enough
            and not node.stopping
            and node.world.clock.monotonic_ms() < self._deadline_ms
        ):
            self.wait()
            return None
        return self.call.encode(self.response())

    def abandon(self) -> None:
        """Nobody waits for the answer any more."""
        self._timer.cancel()

    def response(self) -> _Answer:
        """Build the answer; an incremental one leaves out partitions without news."""
        news = [reading for reading in self._readings if reading.has_news()]
        answered = news if self.incremental else self._readings
        by_topic = self.call.node.metrics.by_topic
        for reading in answered:
            counters = by_topic.get(reading.wanted.topic)
            if counters is not None:
                counters.fetches += 1
                counters.bytes_out += len(reading.records)
                counters.failed_fetches += reading.error_code != 0
        session = self._session
        if session is not None:
            session.rotate(r.wanted.key for r in self._readings if len(r.records))
        return _Answer(
            NO_SESSION if session is None else session.id,
            answered,
            shows_aborted=self._committed_only,
        )


def _warming_job(
    replica: Replica, offset: int, room: int, end_offset: int, *, committed_only: bool
) -> Any:  # noqa: ANN401
    def warm() -> None:
        found = replica.log.read(offset, room, end_offset=end_offset, min_one=True, nowait=False)
        if found is not None:
            found.read()
            if committed_only:
                replica.log.aborted_transactions(offset, found, nowait=False)

    return warm
