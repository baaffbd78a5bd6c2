"""OffsetCommit requests that repeat: the same member, topics, partitions and metadata as before, other offsets.

Job: put the offsets into a request and into a batch that were made before, and answer with bytes that were made before, instead
of decoding and encoding the same again and again (see `repeats.py`). Has no rule of its own: the group's machine judges each
request, and one that it would refuse goes the general way (`api/offset_commit.py`).

Invariants: records and answers are those of the general way (a property test holds it to that). A commit is judged when it
is staged, and written before anything else reaches its shard (`shard_host.py` sees to that).
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final

from crc32c import crc32c

from barnabas.broker import group_records
from barnabas.broker.repeats import PREFIX_BYTES_MAX, may_open, open_lane
from barnabas.broker.shard_host import UNUSABLE
from barnabas.core.group.offset_requests import NO_RETENTION_TIME
from barnabas.core.group.records import OffsetCommitted
from barnabas.wire import frame as frames
from barnabas.wire.batch import CRC_AT, CRC_START, TIMESTAMPS_AT, read_header
from barnabas.wire.compression import Codec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from barnabas.broker.call import Call
    from barnabas.broker.coordinators import Coordinators
    from barnabas.broker.repeats import Staging
    from barnabas.broker.replicas import Replica
    from barnabas.broker.shard_host import Hosted
    from barnabas.core.group.offset_requests import CommitRequest
    from barnabas.core.group.records import Record
    from barnabas.core.group.result import Result
    from barnabas.core.group.shard import GroupShard
    from barnabas.model.errors import ErrorCode
    from barnabas.wire.batch import BatchHeader
    from barnabas.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse

    Refuse = Callable[[OffsetCommitRequest, ErrorCode, str | None], OffsetCommitResponse]
    #: What is to be written, and replayed then.
    Staged = tuple[Result, memoryview, BatchHeader]

OFFSET_COMMIT: Final = 8
_UNLIMITED: Final = 0x7FFFFFFFFFFFFFFF
_LONG: Final = Struct(">q")
_PUT: Final = _LONG.pack_into
_PUT_TIMESTAMPS: Final = Struct(">qq").pack_into
_PUT_CRC: Final = Struct(">I").pack_into
#: Encoding marks in place of offsets and times shows where they stand: numbers from this one on.
_MARK: Final = 0x7A7B_7C7D_0000_0000


class BatchForm:
    """A batch of offsets that is written again and again, with other offsets and times."""

    __slots__ = ("_bytes", "_offsets_at", "_times_at")

    def __init__(self, records: Sequence[Record]) -> None:
        """Encode the records of a commit with marks. ValueError if that does not show where offsets and times stand."""
        count = len(records)
        for number, record in enumerate(records):
            assert isinstance(record, OffsetCommitted), "commits write nothing else"
            record.offset, record.commit_timestamp_ms = _MARK + number, _MARK + count + number
        self._bytes = bytes(group_records.encode_batch(records, 0, Codec.NONE)[0])
        places = _find_marks(self._bytes, 2 * count)
        self._offsets_at, self._times_at = places[:count], places[count:]

    def __len__(self) -> int:
        """Bytes of the batch."""
        return len(self._bytes)

    def fill(self, offsets: Sequence[int], now_ms: int) -> tuple[memoryview, BatchHeader]:
        """Make the batch of these offsets, committed now."""
        batch = bytearray(self._bytes)
        for place, offset in zip(self._offsets_at, offsets, strict=True):
            _PUT(batch, place, offset)
        for place in self._times_at:
            _PUT(batch, place, now_ms)
        _PUT_TIMESTAMPS(batch, TIMESTAMPS_AT, now_ms, now_ms)
        view = memoryview(batch)
        _PUT_CRC(batch, CRC_AT, crc32c(view[CRC_START:]))
        return view, read_header(batch)


class CommitLane:
    """What one member commits again and again, and what it is answered."""

    __slots__ = (
        "_answer_rest", "_answer_size", "_batch", "_config", "_coordinators", "_hosted", "_known", "_literals", "_pack", "_partitions",
        "_refuse", "_request", "_size", "_tenure", "_topics", "_unpack", "target",
    )  # fmt: skip

    api_key: Final = OFFSET_COMMIT

    def __init__(
        self,
        hosted: Hosted[GroupShard],
        request: CommitRequest,
        call: Call,
        literals: tuple[bytes, ...],
        answers: Callable[[ErrorCode | None], bytes],
    ) -> None:
        """Take over a request that was kept: `literals` is what stands in it behind each of its offsets."""
        self.target: Replica = hosted.replica
        self._hosted = hosted
        self._tenure = hosted.replica.tenure
        self._config = hosted.replica.config
        self._coordinators: Coordinators = call.node.coordinators
        self._known = call.node.topics.by_name
        self._topics = [(topic.name, self._known[topic.name]) for topic in request.topics]
        self._request = request
        self._partitions = [one for topic in request.topics for one in topic.partitions]
        #: Its records are like those that were written, but for what is marked.
        self._batch = BatchForm(hosted.shard.commit(None, request, 0, 0).records)
        self._literals = literals
        form = Struct(">" + "".join(f"q{len(literal)}s" for literal in literals))
        self._size = form.size
        self._unpack = form.unpack_from
        answer = answers(None)
        self._answer_size, self._answer_rest = answer[:4], answer[8:]
        self._pack: Callable[..., bytes] = Struct(f">4si{len(answer) - 8}s").pack
        self._refuse = answers

    def is_open_to(self, hosted: Hosted[GroupShard], literals: tuple[bytes, ...]) -> bool:
        """Tell whether requests like the first one still mean this shard, and one with these bytes is like it."""
        return self._hosted is hosted and self._literals == literals and self._is_usable()

    def _is_usable(self) -> bool:
        replica, known = self.target, self._known
        return (
            self._hosted.is_loaded
            and replica.config is self._config
            and not self._tenure.is_over
            and all(known.get(name) is topic for name, topic in self._topics)
        )

    def stage(self, view: memoryview, position: int, end: int, staging: Staging) -> Staged | None:
        """Ask the group to keep the offsets that stand here; None if it would not keep them all."""
        if end - position != self._size:
            return None
        fields = self._unpack(view, position)
        if fields[1::2] != self._literals or not self._is_usable():
            return None
        offsets, now_ms = fields[::2], staging.now_ms
        for partition, offset in zip(self._partitions, offsets, strict=True):
            partition.offset = offset
        result = self._hosted.shard.commit(None, self._request, staging.monotonic_ms, now_ms)
        if len(result.records) != len(offsets):
            return None
        self._hosted.has_staged = True
        return result, *self._batch.fill(offsets, now_ms)

    def write(self, run: list[Staged], now_ms: int) -> list[ErrorCode]:
        """Have the batches written and their records replayed."""
        self._hosted.has_staged = False
        return self._coordinators.append_run(self._hosted, run, now_ms)

    def answer(self, correlation_id: int, _item: Staged, outcome: ErrorCode) -> bytes:
        """Say that everything is kept, or why nothing is."""
        if not outcome:
            return self._pack(self._answer_size, correlation_id, self._answer_rest)
        refused = self._refuse(UNUSABLE.get(outcome, outcome))
        return refused[:4] + correlation_id.to_bytes(4, signed=True) + refused[8:]


def open_commit_lane(
    call: Call, request: CommitRequest, response: OffsetCommitResponse, refuse: Refuse
) -> None:
    """Let the next requests that are like this one, which was answered so, but for its offsets go a lane."""
    node, asked, version = call.node, call.request, call.version
    hosted = node.coordinators.find(request.group_id)
    if (
        not may_open(call)
        or len(call.frame) > PREFIX_BYTES_MAX
        or request.retention_time_ms != NO_RETENTION_TIME
        or hosted.replica.config.flush_messages != _UNLIMITED
        or hosted.replica.state.followers
        or node.config.get_int("offsets.topic.compression.codec") != Codec.NONE
        or any(one.error_code for topic in response.topics for one in topic.partitions)
    ):
        return

    def answers(code: ErrorCode | None) -> bytes:
        answer = response if code is None else refuse(asked, code, None)
        header = frames.response_header(0, OFFSET_COMMIT, version)
        return b"".join(frames.finish(answer.encode(version), header))

    try:
        prefix_size, literals = _cut(bytes(call.frame), asked, version)
        open_lane(
            call,
            prefix_size,
            lambda lane: isinstance(lane, CommitLane) and lane.is_open_to(hosted, literals),
            lambda: CommitLane(hosted, request, call, literals, answers),
        )
    except ValueError:
        return  # its bytes are not plain


def _cut(frame: bytes, request: OffsetCommitRequest, version: int) -> tuple[int, tuple[bytes, ...]]:
    """Cut a request at its offsets: the size of what stands before the first, and what stands behind each."""
    partitions = [one for topic in request.topics for one in topic.partitions]
    offsets = [one.committed_offset for one in partitions]
    for number, one in enumerate(partitions):
        one.committed_offset = _MARK + number
    again = bytearray().join(request.encode(version))
    places = _find_marks(again, len(partitions))
    for one, offset, at in zip(partitions, offsets, places, strict=True):
        one.committed_offset = offset
        _LONG.pack_into(again, at, offset)
    if not frame.endswith(again):
        raise ValueError("there are other ways to encode the same request")
    places = [at + len(frame) - len(again) for at in places]
    ends = [*places[1:], len(frame)]
    return places[0], tuple(
        frame[at + _LONG.size : end] for at, end in zip(places, ends, strict=True)
    )


def _find_marks(data: bytes | bytearray, count: int) -> list[int]:
    """Find where the first so many marks stand; ValueError if one of them is not there once."""
    marks = [_LONG.pack(_MARK + number) for number in range(count)]
    if any(data.count(mark) != 1 for mark in marks):
        raise ValueError("a mark is not where it should be")
    return [data.index(mark) for mark in marks]
