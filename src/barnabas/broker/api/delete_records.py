"""DeleteRecords: let logs start later. Records below are gone for readers at once, and after a crash too.

Whole segments that are below are dropped; their files go after file.delete.delay.ms.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from barnabas.broker.dropping import drop_before_starts
from barnabas.model.cluster import INTERNAL_TOPICS
from barnabas.model.errors import ErrorCode
from barnabas.wire.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

if TYPE_CHECKING:
    from barnabas.broker.call import Call
    from barnabas.broker.replicas import Replica
    from barnabas.broker.tasks import Task

#: Asks for everything that readers may see to be deleted.
HIGH_WATERMARK: Final = -1
_NO_OFFSET: Final = -1
#: How long to wait before looking again whether followers have followed.
_LOOK_AGAIN_MS: Final = 20


def handle(call: Call) -> Task[DeleteRecordsResponse]:
    """Move the start of each log, and answer when it is written down."""
    node = call.node
    topics = []
    moved: list[Replica] = []
    for topic in call.request.topics:
        results = []
        for asked in topic.partitions:
            replica = node.led(topic.name, asked.partition_index)
            outcome = _move_start(replica, asked.offset)
            if not isinstance(replica, ErrorCode) and not isinstance(outcome, ErrorCode):
                moved.append(replica)
            results.append(_result(asked.partition_index, outcome))
        topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=results))
    response = DeleteRecordsResponse(topics=topics)
    directories = {replica.directory.path: replica.directory for replica in moved}
    try:
        for directory in directories.values():
            here = [replica for replica in moved if replica.directory is directory]
            yield from drop_before_starts(node, directory, here)
    except OSError as problem:
        return refuse(call.request, ErrorCode.KAFKA_STORAGE_ERROR, str(problem))
    for replica in moved:
        if replica.state.followers:
            yield from _wait_for_followers(call, replica, response)
    return response


def _wait_for_followers(
    call: Call, replica: Replica, response: DeleteRecordsResponse
) -> Task[None]:
    """Wait until every live replica has deleted the records, too, or the request's time is over."""
    node, log, state = call.node, replica.log, replica.state
    deadline_ms = node.world.clock.monotonic_ms() + max(0, call.request.timeout_ms)
    while state.low_watermark(log.log_start_offset, node.cluster.brokers) < log.log_start_offset:
        if not state.is_leader:
            _tell(response, replica, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return
        if node.world.clock.monotonic_ms() >= deadline_ms or node.stopping:
            _tell(response, replica, ErrorCode.REQUEST_TIMED_OUT)
            return
        yield partial(node.pause, _LOOK_AGAIN_MS)


def _tell(response: DeleteRecordsResponse, replica: Replica, code: ErrorCode) -> None:
    for topic in response.topics:
        for partition in topic.partitions:
            if (topic.name, partition.partition_index) == replica.key:
                partition.error_code, partition.low_watermark = code, _NO_OFFSET


def refuse(
    request: DeleteRecordsRequest, code: ErrorCode, _message: str | None
) -> DeleteRecordsResponse:
    """Refuse every partition."""
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[_result(asked.partition_index, code) for asked in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _move_start(replica: Replica | ErrorCode, offset: int) -> int | ErrorCode:
    """Let the log start at `offset`; where it starts now, or why not."""
    if isinstance(replica, ErrorCode):
        return replica
    code = _decide(replica, offset)
    if code:
        return code
    try:
        replica.log.move_log_start(
            replica.state.high_watermark if offset == HIGH_WATERMARK else offset
        )
    except OSError as problem:
        replica.on_disk_error(problem, "delete records")
        return ErrorCode.KAFKA_STORAGE_ERROR
    return replica.log.log_start_offset


def _decide(replica: Replica, offset: int) -> ErrorCode:
    if replica.key.topic in INTERNAL_TOPICS:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    if replica.offline:
        return ErrorCode.KAFKA_STORAGE_ERROR
    if replica.config.compact and not replica.config.delete:
        return ErrorCode.POLICY_VIOLATION
    if not HIGH_WATERMARK <= offset <= replica.state.high_watermark:
        return ErrorCode.OFFSET_OUT_OF_RANGE
    return ErrorCode.NONE


def _result(index: int, outcome: int | ErrorCode) -> DeleteRecordsPartitionResult:
    if isinstance(outcome, ErrorCode):
        return DeleteRecordsPartitionResult(
            partition_index=index, low_watermark=_NO_OFFSET, error_code=outcome
        )
    return DeleteRecordsPartitionResult(partition_index=index, low_watermark=outcome)
