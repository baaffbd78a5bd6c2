"""Fetch sessions (KIP-227): a client names its partitions once and then only what changed.

| client sends          | meaning                                     | answer                        |
|-----------------------|---------------------------------------------|-------------------------------|
| id 0, epoch -1        | full fetch, no session wanted               | all, session id 0             |
| id 0, epoch 0         | full fetch, wants a session                 | all, a new id, or 0 if none   |
| id n, epoch 0         | full fetch, replaces session n              | all, a new id                 |
| id n, epoch -1        | full fetch, ends session n                  | all, session id 0             |
| id n, epoch e > 0     | incremental                                 | what has news; epoch must fit |

A session names topics by name or by id, whichever its first request did (version 13 of Fetch: by id), and to its end: the other
way is refused, and the session stays as it was.

The cache is bounded by `max.incremental.fetch.session.cache.slots`; a new session takes the place of
one that has been unused for the eviction time. Knows no message versions; partitions are keyed by the
caller's key (topic id or name, and partition).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.model.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

FINAL_EPOCH: Final = -1
INITIAL_EPOCH: Final = 0
NO_SESSION: Final = 0
#: A session unused for this long may be replaced by a new one (Kafka: two minutes).
EVICTION_MS: Final = 120_000


class Wanted:
    """One partition of a session: what the client asked for and what it was told last."""

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "follower_log_start",
        "high_watermark",
        "key",
        "last_fetched_epoch",
        "log_start_offset",
        "max_bytes",
        "partition",
        "topic",
        "topic_id",
    )

    def __init__(self, key: Hashable, topic: str, topic_id: bytes, partition: int) -> None:
        """Name the partition; the rest is set by `update`."""
        self.key = key
        self.topic = topic
        self.topic_id = topic_id
        self.partition = partition
        self.high_watermark = -1
        self.log_start_offset = -1
        #: Where a follower's log starts; consumers have none.
        self.follower_log_start = -1

    def update(
        self, fetch_offset: int, max_bytes: int, current_leader_epoch: int, last_fetched_epoch: int
    ) -> None:
        """Take over what a request says."""
        self.fetch_offset = fetch_offset
        self.max_bytes = max_bytes
        self.current_leader_epoch = current_leader_epoch
        self.last_fetched_epoch = last_fetched_epoch

    def has_news(
        self, size_bytes: int, error_code: int, high_watermark: int, log_start_offset: int
    ) -> bool:
        """Tell whether an incremental answer must name this partition, and remember what it says."""
        news = size_bytes > 0 or error_code != 0
        if high_watermark != self.high_watermark or log_start_offset != self.log_start_offset:
            self.high_watermark = high_watermark
            self.log_start_offset = log_start_offset
            news = True
        if error_code:
            self.high_watermark = -1  # tell everything again once the error is over
        return news


class FetchSession:
    """One client's partitions, in the order in which they are served."""

    __slots__ = ("by_id", "epoch", "id", "last_used_ms", "partitions")

    def __init__(self, session_id: int, now_ms: int, *, by_id: bool = False) -> None:
        """Start empty; the first answer counts as epoch 0, so the next request carries 1. `by_id`: topics are named by their ids."""
        self.id = session_id
        self.by_id = by_id
        self.epoch = 1
        self.last_used_ms = now_ms
        self.partitions: dict[Hashable, Wanted] = {}

    def rotate(self, served: Iterable[Hashable]) -> None:
        """Move partitions that just got bytes to the end, so that others get their turn.

        A partition may be gone: another request of the session can drop it while one waits for bytes.
        """
        for key in served:
            wanted = self.partitions.pop(key, None)
            if wanted is not None:
                self.partitions[key] = wanted


class FetchSessions:
    """The cache of sessions."""

    __slots__ = ("_new_id", "_sessions", "slots")

    def __init__(self, slots: int, new_id: Callable[[], int]) -> None:
        """Bound the cache to `slots`; `new_id` gives random positive ids."""
        self.slots = slots
        self._new_id = new_id
        self._sessions: dict[int, FetchSession] = {}

    def __len__(self) -> int:
        """Sessions held now."""
        return len(self._sessions)

    def open(self, replaced_id: int, now_ms: int, *, by_id: bool = False) -> FetchSession | None:
        """Make a session for a full fetch that wants one; None if the cache is full of live ones."""
        self._sessions.pop(replaced_id, None)
        if len(self._sessions) >= self.slots and not self._evict(now_ms):
            return None
        session_id = self._new_id()
        while session_id in self._sessions:
            session_id = self._new_id()
        session = self._sessions[session_id] = FetchSession(session_id, now_ms, by_id=by_id)
        return session

    def close(self, session_id: int) -> None:
        """Forget a session the client ended."""
        self._sessions.pop(session_id, None)

    def resume(
        self, session_id: int, epoch: int, now_ms: int, *, by_id: bool = False
    ) -> FetchSession | ErrorCode:
        """Find the session of an incremental fetch and step its epoch."""
        session = self._sessions.get(session_id)
        if session is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if epoch != session.epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if session.by_id is not by_id:
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        session.epoch = 1 if epoch == 0x7FFFFFFF else epoch + 1
        session.last_used_ms = now_ms
        # The order of this dict is the order of last use: the first one is the oldest.
        self._sessions[session_id] = self._sessions.pop(session_id)
        return session

    def _evict(self, now_ms: int) -> bool:
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None or now_ms - oldest.last_used_ms < EVICTION_MS:
            return False
        del self._sessions[oldest.id]
        return True
