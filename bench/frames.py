"""Prepared requests for the load generator, in the files that it reads.

A frame is encoded once and sent many times: the generator patches only the correlation id and, in Fetch requests, the
offsets. Where these and the error code stand is found by encoding a mark and looking for it.
"""

from __future__ import annotations

import struct
import time
from typing import TYPE_CHECKING, NamedTuple

from barnabas.wire import frame
from barnabas.wire.batch import Record, build
from barnabas.wire.compression import Codec
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.wire.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from barnabas.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from bench.admin import (
    COMMIT_VERSION,
    FETCH_VERSION,
    PRODUCE_VERSION,
    Place,
    commit_request,
    request_frame,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from barnabas.wire.primitives import Message

ERROR_MARK = 0x7A7B
OFFSET_MARK = 0x7A7B_7C7D_0000_0000
PARTITION_MAX_BYTES = 1 << 20
FETCH_MAX_BYTES = 50 << 20
MAX_WAIT_MS = 500
WORDS = b"order customer amount currency street city country status paid shipped returned pending ".split()


class Batch(NamedTuple):
    """What one Produce request carries."""

    records: int = 1
    value_size: int = 100
    codec: Codec = Codec.NONE
    acks: int = -1


def value(size: int, number: int) -> bytes:
    """Text that looks like data: it compresses to about a third, the same in every run."""
    words: list[bytes] = []
    state = number * 2654435761 % 2**32
    while sum(map(len, words)) < size:
        state = (state * 1664525 + 1013904223) % 2**32
        words.append(WORDS[state >> 16 & 7] + b"=%d;" % (state >> 8))
    return b"".join(words)[:size]


def produce_frame(place: Place, batch: Batch) -> tuple[int, bytes]:
    """Give where the answer holds its error code, and the request."""
    now_ms = int(time.time() * 1000)
    records = [Record(i, now_ms, None, value(batch.value_size, i)) for i in range(batch.records)]
    data = PartitionProduceData(
        index=place.partition, records=bytes(build(records, codec=batch.codec))
    )
    topic = TopicProduceData(name=place.topic, partition_data=[data])
    request = ProduceRequest(acks=batch.acks, timeout_ms=30_000, topic_data=[topic])
    return error_position(place), bytes(request_frame(request, PRODUCE_VERSION))


def error_position(place: Place) -> int:
    """Find the error code in an answer to a Produce request for one partition, counted without the length."""
    partition = PartitionProduceResponse(index=place.partition, error_code=ERROR_MARK)
    topic = TopicProduceResponse(name=place.topic, partition_responses=[partition])
    return mark_position(ProduceResponse(responses=[topic]), PRODUCE_VERSION)


def mark_position(answer: Message, version: int) -> int:
    """Find the mark in an answer with its header."""
    head = frame.response_header(0, answer.API_KEY, version)
    body = b"".join(bytes(part) for part in answer.encode(version))
    return len(head) + body.rindex(struct.pack(">h", ERROR_MARK))


def write_produce(path: Path, places: Sequence[Place], batch: Batch) -> Path:
    """Write one frame per partition."""
    return write_frames(path, [produce_frame(place, batch) for place in places], batch.records)


def write_frames(path: Path, frames: Sequence[tuple[int, bytes]], records: int = 0) -> Path:
    """Write requests of any kind: where the answer to each has its error code, and its bytes."""
    with path.open("wb") as file:
        file.write(struct.pack(">I", len(frames)))
        for error_at, data in frames:
            file.write(struct.pack(">III", error_at, records, len(data)) + data)
    return path


def commit_frame(group: str, place: Place) -> tuple[int, bytes]:
    """A commit of one offset, by a consumer that is no member of its group."""
    part = OffsetCommitResponsePartition(partition_index=place.partition, error_code=ERROR_MARK)
    topic = OffsetCommitResponseTopic(name=place.topic, partitions=[part])
    answer = OffsetCommitResponse(topics=[topic])
    data = bytes(request_frame(commit_request(group, place), COMMIT_VERSION))
    return mark_position(answer, COMMIT_VERSION), data


def heartbeat_frame(request: HeartbeatRequest, version: int) -> tuple[int, bytes]:
    """A member's sign of life."""
    at = mark_position(HeartbeatResponse(error_code=ERROR_MARK), version)
    return at, bytes(request_frame(request, version))


def fetch_frame(places: Sequence[Place]) -> tuple[bytes, list[int]]:
    """Give a Fetch request for all partitions, and where it holds the offset of each."""
    topics: dict[str, list[FetchPartition]] = {}
    for number, place in enumerate(places):
        wanted = FetchPartition(
            partition=place.partition,
            fetch_offset=OFFSET_MARK + number,
            partition_max_bytes=PARTITION_MAX_BYTES,
        )
        topics.setdefault(place.topic, []).append(wanted)
    request = FetchRequest(
        max_wait_ms=MAX_WAIT_MS,
        min_bytes=1,
        max_bytes=FETCH_MAX_BYTES,
        session_epoch=-1,
        topics=[FetchTopic(topic=name, partitions=parts) for name, parts in topics.items()],
    )
    data = bytes(request_frame(request, FETCH_VERSION))
    return data, [data.index(struct.pack(">q", OFFSET_MARK + n)) for n in range(len(places))]


def write_fetch(path: Path, places: Sequence[Place]) -> Path:
    """Write the Fetch request and what must be known to follow the partitions."""
    data, positions = fetch_frame(places)
    with path.open("wb") as file:
        file.write(struct.pack(">I", len(data)) + data + struct.pack(">I", len(places)))
        for place, at in zip(places, positions, strict=True):
            name = place.topic.encode()
            file.write(struct.pack(">IiqI", at, place.partition, place.first_offset, len(name)))
            file.write(name)
    return path
