"""One look at the partitions of a fetch: what may be read of each, within the limits of the request.

What may be seen: `core.partition` and, for readers of committed records, the transactions of the log. Where the bytes lie:
`storage.log`. Must not know sessions, waiting, or how an answer is written. Record bytes never pass through here: what is found
are ranges of files.

A look costs by the partition, and most fetches of a reader who waits at the end find nothing in most of them: what is
done for each is kept short.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final

from barnabas.model.errors import ErrorCode
from barnabas.ports import FileSlice, WouldBlock
from barnabas.wire.batch import BatchError
from barnabas.wire.fetch_writer import NO_REPLICA

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from barnabas.broker.node import Node
    from barnabas.broker.replicas import Replica
    from barnabas.core.divergence import EpochEnd
    from barnabas.core.fetch_session import Wanted
    from barnabas.storage.log import Log

#: Loaded in one go; then others who wait for a background thread, say to sync, have their turn.
LOAD_BYTES: Final = 4 * 1024 * 1024


class Reading:
    """What was found for one partition."""

    __slots__ = (
        "aborted", "diverging", "error_code", "high_watermark", "last_stable_offset", "log_start_offset", "preferred", "records", "wanted",
    )  # fmt: skip

    def __init__(
        self,
        wanted: Wanted,
        error_code: int,
        high_watermark: int = -1,
        last_stable_offset: int = -1,
        log_start_offset: int = -1,
    ) -> None:
        """Start without bytes."""
        self.wanted = wanted
        self.error_code = error_code
        self.high_watermark = high_watermark
        self.last_stable_offset = last_stable_offset
        self.log_start_offset = log_start_offset
        self.records: FileSlice | bytes = b""
        #: Producer id and first offset of each transaction that a reader of committed records must leave out.
        self.aborted: Sequence[tuple[int, int]] = ()
        #: Where a follower's log left ours.
        self.diverging: EpochEnd | None = None
        #: The replica that a consumer should ask instead, NO_REPLICA if none.
        self.preferred = NO_REPLICA

    def has_news(self) -> bool:
        """Tell whether an incremental answer must name this partition, and remember what it says."""
        return (
            self.wanted.has_news(
                len(self.records), self.error_code, self.high_watermark, self.log_start_offset
            )
            or self.diverging is not None
            or self.preferred != NO_REPLICA
        )


class Look:
    """What was found: `readings` in the order of `wanted`, their bytes in sum, whether any is an error, who is cold."""

    __slots__ = (
        "_by_id",
        "_cold_room",
        "_committed_only",
        "_node",
        "_nowait",
        "_room",
        "cold",
        "has_failed",
        "is_urgent",
        "leader_only",
        "may_read",
        "readings",
        "size_bytes",
    )  # fmt: skip

    def __init__(
        self, node: Node, max_bytes: int, *, by_id: bool, committed_only: bool, nowait: bool
    ) -> None:
        """Look for at most so many bytes; `nowait` leaves out what is not in memory and names it in `cold`."""
        #: Do not read from a follower: its reader does not know that it might (KIP-392).
        self.leader_only = False
        #: Tells of a topic whether its reader may read it; None where everybody may.
        self.may_read: Callable[[str], bool] | None = None
        #: Something was found that is told without waiting for bytes.
        self.is_urgent = False
        self._node = node
        self._room = min(max_bytes, node.fetch_bytes_max)
        #: What there was room for when the first cold one had its turn: those behind it do not take it away.
        self._cold_room = self._room
        self._by_id = by_id
        self._committed_only = committed_only
        self._nowait = nowait
        self.readings: list[Reading] = []
        self.size_bytes = 0
        self.has_failed = False
        #: With the offset below which there is something for the reader.
        self.cold: list[tuple[Replica, Wanted, int]] = []

    def at(self, partitions: Sequence[Wanted]) -> Look:
        """Look at these, one after the other, and at more with the next call."""
        self.readings += [self._read(wanted) for wanted in partitions]
        return self

    def _read(self, wanted: Wanted) -> Reading:
        replica = self._find(wanted)
        if isinstance(replica, ErrorCode):
            return self._fail(wanted, replica)
        log, state = replica.log, replica.state
        code = state.decide_read(wanted.current_leader_epoch, leader_only=self.leader_only)
        if code:
            return self._fail(wanted, code)
        offset, start_offset = wanted.fetch_offset, log.log_start_offset
        if not start_offset <= offset <= log.log_end_offset:
            return self._fail(wanted, ErrorCode.OFFSET_OUT_OF_RANGE)
        bound = high_watermark = state.high_watermark
        stable_offset = replica.last_stable_offset
        if self._committed_only:
            bound = stable_offset
        reading = Reading(wanted, 0, high_watermark, stable_offset, start_offset)
        if offset < bound:
            problem = self._find_bytes(replica, reading, bound)
            if problem is not None:
                return self._fail(wanted, problem)
        return reading

    def _fail(self, wanted: Wanted, code: ErrorCode) -> Reading:
        self.has_failed = True
        return Reading(wanted, code)

    def _find(self, wanted: Wanted) -> Replica | ErrorCode:
        node = self._node
        if self._by_id:
            topic = node.topics.by_id.get(wanted.topic_id)
            if topic is None:
                return ErrorCode.UNKNOWN_TOPIC_ID
            wanted.topic = topic.name
        if self.may_read is not None and not self.may_read(wanted.topic):
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return node.hosted(wanted.topic, wanted.partition)

    def _find_bytes(self, replica: Replica, reading: Reading, bound: int) -> ErrorCode | None:
        """Put the bytes below `bound` into the reading, or return what is wrong."""
        wanted = reading.wanted
        # The first partition with bytes gets a whole batch even if that is over the limit, so that a
        # consumer always makes progress (KIP-74).
        is_first = not self.size_bytes and not self.cold
        limit = min(wanted.max_bytes, self._room)
        if limit <= 0 and not is_first:
            return None
        try:
            found = replica.log.read(
                wanted.fetch_offset, limit, end_offset=bound, min_one=is_first, nowait=self._nowait
            )
            if found is None:
                return None
            if self._committed_only:
                reading.aborted = self._find_aborted(replica, wanted.fetch_offset, found)
        except WouldBlock:
            if not self.cold:
                self._cold_room = self._room
            self.cold.append((replica, wanted, bound))
            return None
        except OSError as problem:
            replica.on_disk_error(problem, "read")
            return ErrorCode.KAFKA_STORAGE_ERROR
        except BatchError as problem:
            return replica.on_damage(problem)
        reading.records = found
        self._room -= found.size
        self.size_bytes += found.size
        return None

    def _find_aborted(
        self, replica: Replica, offset: int, found: FileSlice
    ) -> list[tuple[int, int]]:
        return [
            (one.producer_id, one.first_offset)
            for one in replica.log.aborted_transactions(offset, found, nowait=self._nowait)
        ]

    def loading(self) -> Loading:
        """Give what is to be done so that the next look finds what this one found cold."""
        wanted = deque(
            (replica, one.fetch_offset, one.max_bytes, bound) for replica, one, bound in self.cold
        )
        return Loading(wanted, self._cold_room, committed_only=self._committed_only)


class Loading:
    """Cold ranges on their way into memory, as far as the answer has room for them."""

    __slots__ = ("_committed_only", "_room", "_wanted")

    def __init__(
        self, wanted: deque[tuple[Replica, int, int, int]], room: int, *, committed_only: bool
    ) -> None:
        """Take replicas with the offset to read from, how many bytes, and the offset to end before."""
        self._wanted = wanted
        self._room = room
        self._committed_only = committed_only

    @property
    def is_done(self) -> bool:
        """Tell whether nothing is left to be loaded."""
        return not self._wanted or self._room <= 0

    def load_some(self) -> list[tuple[Replica, OSError]]:
        """Load a part, on a background thread; return who could not be read, and why."""
        problems = []
        end_room = self._room - LOAD_BYTES
        while not self.is_done and self._room > end_room:
            replica, offset, max_bytes, end_offset = self._wanted.popleft()
            try:
                self._room -= self._load(replica.log, offset, max_bytes, end_offset)
            except OSError as problem:
                problems.append((replica, problem))
            except BatchError:
                continue  # reading again tells
        return problems

    def _load(self, log: Log, offset: int, max_bytes: int, end_offset: int) -> int:
        limit = min(max_bytes, self._room)
        return log.steadily(partial(self._load_once, log, offset, limit, end_offset))

    def _load_once(self, log: Log, offset: int, limit: int, end_offset: int) -> int:
        found = log.read(offset, limit, end_offset=end_offset, min_one=True, nowait=False)
        if found is None:
            return 0
        found.load()
        if self._committed_only:
            log.aborted_transactions(offset, found, nowait=False)
        return found.size
