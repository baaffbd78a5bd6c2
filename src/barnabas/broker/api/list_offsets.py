"""ListOffsets: the offset at the start, at the end, at a time, or of the newest timestamp."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from barnabas.broker.pieces import Pieces
from barnabas.model.cluster import ANY_REPLICA
from barnabas.model.errors import ErrorCode
from barnabas.wire.batch import BatchError
from barnabas.wire.compression import CompressionError
from barnabas.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.call import Call
    from barnabas.broker.pieces import Response
    from barnabas.broker.replicas import Replica
    from barnabas.broker.tasks import Task

log = logging.getLogger(__name__)

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6

#: The version from which each special timestamp may be asked for.
_SINCE: Final = {
    LATEST: 0,
    EARLIEST: 0,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
_LEADER_EPOCH_SINCE: Final = 4
#: The first version in which clients know that an offset may not be available yet.
_NOT_AVAILABLE_SINCE: Final = 5
_NOTHING: Final = (-1, -1, -1)


def handle(call: Call) -> Task[Response]:
    """Look up every partition; those that need the disk go to the background."""
    pieces = Pieces(call)
    topics = []
    for topic in call.request.topics:
        pieces.count(1)
        twice = _named_twice(topic.partitions)
        answers = []
        # One that is named twice is refused once.
        for asked in {asked.partition_index: asked for asked in topic.partitions}.values():
            if asked.partition_index in twice:
                answer = _failed(asked.partition_index, ErrorCode.INVALID_REQUEST)
            else:
                answer = yield from _look_up(call, topic.name, asked)
            if call.version < _LEADER_EPOCH_SINCE:
                answer.leader_epoch = -1
            answers.append(answer)
            pieces.count(1)
            if pieces.is_full:
                yield pieces.pause
        topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=answers))
    return (yield from pieces.respond(lambda: ListOffsetsResponse(topics=topics)))


def refuse(
    request: ListOffsetsRequest, code: ErrorCode, _message: str | None
) -> ListOffsetsResponse:
    """Refuse every partition."""
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[_failed(asked.partition_index, code) for asked in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _named_twice(partitions: list[ListOffsetsPartition]) -> set[int]:
    seen: set[int] = set()
    twice: set[int] = set()
    for asked in partitions:
        (twice if asked.partition_index in seen else seen).add(asked.partition_index)
    return twice


def _look_up(
    call: Call, topic: str, asked: ListOffsetsPartition
) -> Task[ListOffsetsPartitionResponse]:
    replica = call.node.hosted(topic, asked.partition_index)
    if isinstance(replica, ErrorCode):
        return _failed(asked.partition_index, replica)
    code = _decide(call, replica, asked)
    if code:
        return _failed(asked.partition_index, code)
    bound = _bound(call, replica)
    if asked.timestamp < 0 and asked.timestamp != MAX_TIMESTAMP:
        timestamp, offset, epoch = _special(replica, asked.timestamp, bound)
        if asked.timestamp == LATEST and call.request.replica_id == ANY_REPLICA:
            epoch = replica.log.epochs.latest
        return _found(asked.partition_index, (timestamp, offset, epoch))
    return (yield from _look_by_time(call, replica, asked, bound))


def _look_by_time(
    call: Call, replica: Replica, asked: ListOffsetsPartition, bound: int
) -> Task[ListOffsetsPartitionResponse]:
    """Look in the background; once more, at what is hosted then, if the files may have gone with the replica."""
    index, tenure = asked.partition_index, replica.tenure
    try:
        job = _search(replica, asked.timestamp, bound)
        found = yield lambda done: call.node.world.background.run(job, done)
    except OSError as problem:
        if tenure.is_over:
            return (yield from _look_up(call, replica.key.topic, asked))
        replica.on_disk_error(problem, "read")
        return _failed(index, ErrorCode.KAFKA_STORAGE_ERROR)
    except (BatchError, CompressionError) as problem:
        return _failed(index, replica.on_damage(problem))
    return _found(index, found)


def _bound(call: Call, replica: Replica) -> int:
    """Return up to where this reader may see; a broker to the end."""
    if _is_broker(call) and not call.node.is_lone:
        return replica.log.log_end_offset
    if call.request.isolation_level:
        return replica.last_stable_offset
    return replica.state.high_watermark


def _is_broker(call: Call) -> bool:
    replica_id: int = call.request.replica_id
    return replica_id >= 0 or replica_id == ANY_REPLICA


def _decide(call: Call, replica: Replica, asked: ListOffsetsPartition) -> ErrorCode:
    if asked.timestamp < 0 and call.version < _SINCE.get(asked.timestamp, 1 << 15):
        return ErrorCode.UNSUPPORTED_VERSION
    state = replica.state
    if call.request.replica_id == ANY_REPLICA:  # also one that was told nothing yet
        code = state.decide_epoch(asked.current_leader_epoch)
    else:
        code = state.decide_read(asked.current_leader_epoch, leader_only=True)
    if code or asked.timestamp != LATEST or _is_broker(call):
        return code
    code = state.decide_latest()
    return ErrorCode.LEADER_NOT_AVAILABLE if code and call.version < _NOT_AVAILABLE_SINCE else code


def _special(replica: Replica, timestamp: int, bound: int) -> tuple[int, int, int]:
    """Answer what needs no look at the disk: (timestamp, offset, leader epoch)."""
    partition_log, state = replica.log, replica.state
    if timestamp == LATEST:
        return -1, bound, state.leader_epoch
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        start_offset = partition_log.log_start_offset
        return -1, start_offset, replica.leader_epochs.epoch_at(start_offset)
    return _NOTHING  # nothing has left this disk


def _search(replica: Replica, timestamp: int, bound: int) -> Callable[[], tuple[int, int, int]]:
    partition_log = replica.log

    def search() -> tuple[int, int, int]:
        if timestamp == MAX_TIMESTAMP:
            found = partition_log.max_timestamp()
        else:
            found = partition_log.offset_for_timestamp(timestamp)
        return _NOTHING if found is None or found[1] >= bound else found

    return search


def _found(index: int, found: tuple[Any, ...]) -> ListOffsetsPartitionResponse:
    timestamp, offset, epoch = found
    return ListOffsetsPartitionResponse(
        partition_index=index, timestamp=timestamp, offset=offset, leader_epoch=epoch
    )


def _failed(index: int, code: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(
        partition_index=index, error_code=code, timestamp=-1, offset=-1, leader_epoch=-1
    )
