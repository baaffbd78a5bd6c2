"""Write a Fetch response without building its objects.

Job: the bytes of ordinary Fetch responses, versions 4 to 18, straight from numbers and record slices: well under the time
that the generated encoder and its classes take, on the request that consumers send most. It must not know logs,
sessions or sockets. What it cannot say (diverging epoch, current leader, snapshot id, node endpoints: all rare and all
tagged) is said with `barnabas.wire.messages.fetch` instead, for the whole response.

Invariants:
- Byte for byte what `FetchResponse.encode` gives for the same content (a property test holds it to that).
- Record slices stand in the result as they came, those without bytes left out; only `len()` is asked of them.
- The caller announces counts first and then writes exactly so many topics and partitions.
"""

from collections.abc import Sequence
from struct import Struct as _Compiled
from typing import Any

from barnabas.wire.primitives import (
    MAX_STRING_BYTES,
    UUID_BYTES,
    Buffer,
    WireError,
    string_length,
    uvarint,
)

FIRST_VERSION = 4
LAST_VERSION = 18
NO_REPLICA = -1

_FIRST_WITH_LOG_START = 5
_FIRST_WITH_SESSION = 7
_FIRST_WITH_REPLICA = 11
_FIRST_COMPACT = 12
_FIRST_WITH_TOPIC_ID = 13

_THROTTLE_ERROR_SESSION = _Compiled(">ihi").pack
_SHORT = _Compiled(">h").pack
_INT32 = _Compiled(">i").pack
_OFFSETS_3 = _Compiled(">ihqq").pack
_OFFSETS_4 = _Compiled(">ihqqq").pack
_PLAIN = _Compiled(">ihqqqBi").pack
_ABORTED = _Compiled(">qq").pack
_ABORTED_COMPACT = _Compiled(">qqx").pack
_NO_TAGS = b"\x00"

Aborted = Sequence[tuple[int, int]]
"""Aborted transactions: producer id and first offset of each."""


class FetchWriter:
    """One response being written: its head, then each topic's head followed by its partitions, then `finish`."""

    __slots__ = ("_buffers", "_end", "_is_topic_open", "_small", "_version")

    def __init__(
        self,
        version: int,
        topic_count: int,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        session_id: int = 0,
    ) -> None:
        """Write the head."""
        if not FIRST_VERSION <= version <= LAST_VERSION:
            raise WireError(
                f"Fetch version {version} is not between {FIRST_VERSION} and {LAST_VERSION}"
            )
        if session_id and version < _FIRST_WITH_SESSION:
            raise WireError(f"session_id has a value, but version {version} cannot carry it")
        self._version = version
        self._buffers: list[Buffer] = []
        self._is_topic_open = False
        self._end = _NO_TAGS if version >= _FIRST_COMPACT else b""
        if version < _FIRST_WITH_SESSION:
            head = _INT32(throttle_time_ms)
        else:
            head = _THROTTLE_ERROR_SESSION(throttle_time_ms, error_code, session_id)
        self._small = [head, self._length(topic_count)]

    def topic(self, name: str, topic_id: bytes, partition_count: int) -> None:
        """Begin a topic; versions from 13 on carry its id, older ones its name."""
        self._close_topic()
        self._is_topic_open = True
        self._small += (self._topic_key(name, topic_id), self._length(partition_count))

    def partition(  # noqa: PLR0913  # an object to hold these is what this module avoids
        self,
        index: int,
        error_code: int,
        high_watermark: int,
        last_stable_offset: int,
        log_start_offset: int,
        records: Any,  # noqa: ANN401  # bytes, or anything else that has a length and that the server can send
        aborted: Aborted | None = None,
        preferred_read_replica: int = NO_REPLICA,
    ) -> None:
        """Write one partition of the topic begun last."""
        size = -1 if records is None else len(records)
        small = self._small
        if aborted or self._version < _FIRST_COMPACT:
            head = self._offsets(
                index, error_code, high_watermark, last_stable_offset, log_start_offset
            )
            middle = self._aborted(aborted) + self._replica(preferred_read_replica)
            small += (head, middle, self._length(size))
        else:
            head = _PLAIN(
                index,
                error_code,
                high_watermark,
                last_stable_offset,
                log_start_offset,
                0 if aborted is None else 1,
                preferred_read_replica,
            )
            small += (head, uvarint(size + 1))
        if size > 0:
            self._buffers += (b"".join(small), records)
            self._small = [self._end]
        else:
            small.append(self._end)

    def finish(self) -> list[Buffer]:
        """End the response and return its buffers."""
        self._close_topic()
        self._small.append(self._end)
        self._buffers.append(b"".join(self._small))
        return self._buffers

    def _close_topic(self) -> None:
        if self._is_topic_open:
            self._small.append(self._end)
        self._is_topic_open = False

    def _topic_key(self, name: str, topic_id: bytes) -> bytes:
        if self._version >= _FIRST_WITH_TOPIC_ID:
            if len(topic_id) != UUID_BYTES:
                raise WireError(f"topic_id must be {UUID_BYTES} raw bytes")
            return topic_id
        encoded = name.encode()
        if self._version >= _FIRST_COMPACT:
            return string_length(len(encoded) + 1) + encoded
        if len(encoded) > MAX_STRING_BYTES:
            raise WireError(f"topic name of {len(encoded)} bytes is longer than {MAX_STRING_BYTES}")
        return _SHORT(len(encoded)) + encoded

    def _offsets(
        self,
        index: int,
        error_code: int,
        high_watermark: int,
        last_stable_offset: int,
        log_start_offset: int,
    ) -> bytes:
        if self._version < _FIRST_WITH_LOG_START:
            return _OFFSETS_3(index, error_code, high_watermark, last_stable_offset)
        return _OFFSETS_4(index, error_code, high_watermark, last_stable_offset, log_start_offset)

    def _aborted(self, aborted: Aborted | None) -> bytes:
        length = self._length(-1 if aborted is None else len(aborted))
        pack = _ABORTED_COMPACT if self._version >= _FIRST_COMPACT else _ABORTED
        return b"".join(
            (length, *[pack(producer_id, first) for producer_id, first in aborted or ()])
        )

    def _replica(self, preferred_read_replica: int) -> bytes:
        if self._version >= _FIRST_WITH_REPLICA:
            return _INT32(preferred_read_replica)
        if preferred_read_replica != NO_REPLICA:
            raise WireError(
                f"preferred_read_replica has a value, but version {self._version} cannot carry it"
            )
        return b""

    def _length(self, length: int) -> bytes:
        """Encode a count, or a length in bytes; -1 is null."""
        return uvarint(length + 1) if self._version >= _FIRST_COMPACT else _INT32(length)
