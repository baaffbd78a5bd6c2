"""Produce: append one batch to each partition named, answer by acks.

One bad partition never fails its neighbours. acks=1 is answered at once, acks=all when every in-sync replica
has the records (`broker/commitment.py`), which on a lone broker is at once as well; a flush that a topic's settings ask for
comes before the answer. Batches that take long to open are opened in the background, one after another; a
connection has one request under way, so its order is kept.
"""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from barnabas.broker import batch_check, produce_lane, produce_parts, transactional_produce
from barnabas.broker.batch_check import Refusal
from barnabas.broker.outcomes import NO_REPLY, CloseLink
from barnabas.broker.pieces import Pieces
from barnabas.model.acl import Operation, ResourceType
from barnabas.model.errors import ErrorCode, shortened
from barnabas.model.ids import TopicPartition
from barnabas.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from barnabas.wire.produce_count import names_more_than

if TYPE_CHECKING:
    from collections.abc import Iterator

    from barnabas.broker.batch_check import Opened
    from barnabas.broker.call import Call
    from barnabas.broker.replicas import Replica
    from barnabas.broker.tasks import Task
    from barnabas.broker.transactional_produce import Verdict, Verdicts
    from barnabas.core.producer_state import Verification
    from barnabas.core.txn.requests import PartitionsRequest
    from barnabas.wire.batch import BatchHeader

#: From this version on topics are named by id.
TOPIC_IDS_SINCE = 13
#: Topics and partitions of a request that are handled at once: 50 µs each, at worst.
MANY: Final = 1000
_ACKS_ALL: Final = -1
_ACKS = (_ACKS_ALL, 0, 1)
#: What the state of its producer can have against a batch.
_WHY_REFUSED: Final = {
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: "the sequence number does not follow the last one",
    ErrorCode.INVALID_PRODUCER_EPOCH: "the producer has been replaced by one with a higher epoch",
    ErrorCode.INVALID_TXN_STATE: "the record is not part of the producer's transaction",
}
#: The one client that Kafka lets write to internal topics.
_ADMIN_CLIENT = "__admin_client"


class _Closed(Exception):
    """A batch is to be opened in the background first."""

    def __init__(self, replica: Replica, header: BatchHeader) -> None:
        """Remember whose it is."""
        super().__init__()
        self.replica = replica
        self.header = header


class _Postponed:
    """A batch that is being opened: it is for the replica that was there when the request came, and for no other."""

    __slots__ = ("answers", "batch", "config", "header", "place", "replica", "verdict")

    def __init__(
        self,
        closed: _Closed,
        batch: memoryview,
        answers: list[PartitionProduceResponse],
        verdict: Verdict | None,
    ) -> None:
        """Take over a batch that is the request's own, and keep a place among the answers."""
        self.replica = closed.replica
        self.header = closed.header
        self.config = closed.replica.config
        self.batch = batch
        self.answers = answers
        self.verdict = verdict
        self.place = len(answers)
        answers.append(PartitionProduceResponse(index=closed.replica.key.partition))


class _Uncommitted(NamedTuple):
    """Records that were appended; the leader epoch in which they were tells whether they are still there."""

    replica: Replica
    answer: PartitionProduceResponse
    end_offset: int
    leader_epoch: int


class _Owed:
    """What an answer waits for: logs that are due to be synced, and records that every in-sync replica must have."""

    __slots__ = ("commits", "flushes")

    def __init__(self) -> None:
        """Wait for nothing."""
        self.flushes: list[tuple[Replica, PartitionProduceResponse]] = []
        self.commits: list[_Uncommitted] = []

    def __bool__(self) -> bool:
        """Tell whether there is anything to wait for."""
        return bool(self.flushes or self.commits)


def handle(call: Call) -> Any:  # noqa: ANN401
    """Append everything, then answer."""
    request: ProduceRequest = call.request
    call.node.staging.write()  # sequences are judged by what came before
    if request.acks not in _ACKS:
        return refuse(
            request, ErrorCode.INVALID_REQUIRED_ACKS, f"acks={request.acks}; allowed: all, 0, 1"
        )
    if transactional_produce.has_transactional(request):
        return _handle_transactional(call)
    return _append_all(call, {})


def is_long(frame: memoryview, version: int, position: int) -> bool:
    """Tell whether a request is about very many partitions: most large ones are not."""
    return names_more_than(MANY, frame, version, position)


def handle_long(call: Call) -> Task[Any]:
    """Append some at a time, each piece as if it had come by itself, then answer as for one request."""
    whole: ProduceRequest = call.request
    pieces = Pieces(call, finishes=True)
    answers: list[ProduceResponse] = []
    failure: CloseLink | None = None
    try:
        yield from transactional_produce.check_producer(call, pieces)
        for part in produce_parts.cut(whole):
            call.request = part
            try:
                answer = handle(call)
                answers.append((yield from answer) if isinstance(answer, Generator) else answer)
            except CloseLink as problem:
                # acks=0: the link goes, but not before the rest is written. With its traceback it would keep this task, and the task it: a circle, and
                # the request's memory in it.
                failure = failure or type(problem)(*problem.args)
            yield pieces.pause
    except Refusal as refusal:
        return refuse(whole, refusal.code, refusal.message)
    finally:
        call.request = whole
    if failure is not None:
        raise type(failure)(*failure.args)
    if whole.acks == 0:
        return NO_REPLY
    return (yield from pieces.respond(lambda: produce_parts.join(whole, answers)))


def _handle_transactional(call: Call) -> Any:  # noqa: ANN401
    """Ask the coordinator where a transaction would begin, then append."""
    request: ProduceRequest = call.request
    if request.transactional_id is None:
        return refuse(request, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, None)
    try:
        asked, guards = transactional_produce.begin(call)
    except Refusal as refusal:
        return refuse(request, refusal.code, refusal.message)
    if asked is None:
        return _append_all(call, guards)
    for topic in request.topic_data:
        for data in topic.partition_data:
            if data.records is not None:
                data.records = call.own(data.records)
    return _after_asking(call, asked, guards)


def _after_asking(call: Call, asked: PartitionsRequest, guards: Verdicts) -> Task[Any]:
    verdicts = yield from transactional_produce.ask(call, asked, guards)
    call.node.staging.write()  # as above: others have written in the meantime
    answer = _append_all(call, verdicts)
    return (yield from answer) if isinstance(answer, Generator) else answer


def _append_all(call: Call, verdicts: Verdicts) -> Any:  # noqa: ANN401
    """Append to every partition; `verdicts` is what came of asking about transactions."""
    request: ProduceRequest = call.request
    by_id = call.version >= TOPIC_IDS_SINCE
    owed = _Owed()
    postponed: list[_Postponed] = []
    responses = []
    for topic in request.topic_data:
        name = _topic_name(call, topic.topic_id) if by_id else topic.name
        partitions: list[PartitionProduceResponse] = []
        for data in topic.partition_data:
            try:
                verdict = verdicts.get(TopicPartition(name or "", data.index)) if verdicts else None
                partitions.append(
                    _produce(call, name, data.index, data.records, owed, verdict=verdict)
                )
            except _Closed as closed:
                assert data.records is not None
                postponed.append(_Postponed(closed, call.own(data.records), partitions, verdict))
        responses.append(
            TopicProduceResponse(
                name=topic.name, topic_id=topic.topic_id, partition_responses=partitions
            )
        )
    response = ProduceResponse(responses=responses)
    if not (postponed or owed):
        return _answer(call, response)
    _give_back_records(request)
    if postponed:
        return _after_opening(call, response, postponed, owed)
    return _after_waiting(call, response, owed)


def _give_back_records(request: ProduceRequest) -> None:
    """Drop the views of lent memory: every batch has been written, or copied into memory of the request."""
    for topic in request.topic_data:
        for data in topic.partition_data:
            data.records = None


def refuse(request: ProduceRequest, code: ErrorCode, message: str | None) -> Any:  # noqa: ANN401
    """Refuse every partition."""
    if request.acks == 0:
        return NO_REPLY
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    _failed(data.index, code, message) for data in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )


def _answer(call: Call, response: ProduceResponse) -> Any:  # noqa: ANN401
    if call.request.acks != 0:
        return response
    for topic in response.responses:
        for partition in topic.partition_responses:
            if partition.error_code:
                # A producer that asked for no answer learns of a failure by losing its link, as in Kafka.
                name = ErrorCode(partition.error_code).name
                raise CloseLink(f"acks=0 and {name}: {partition.error_message}")
    return NO_REPLY


def _topic_name(call: Call, topic_id: bytes) -> str | None:
    topic = call.node.topics.by_id.get(topic_id)
    return None if topic is None else topic.name


def _produce(
    call: Call,
    name: str | None,
    index: int,
    records: memoryview | None,
    owed: _Owed,
    verdict: Verdict | None = None,
) -> PartitionProduceResponse:
    """Append to the partition that has this name now."""
    if name is None:
        return _failed(index, ErrorCode.UNKNOWN_TOPIC_ID, "no topic has this id")
    replica = call.node.led(name, index)
    if isinstance(replica, ErrorCode):
        return _failed(index, replica, f"{name}-{index}: {replica.message}")
    replica.metrics.produces += 1
    if replica.topic.is_internal and call.client_id != _ADMIN_CLIENT:
        return _failed(index, ErrorCode.INVALID_TOPIC_EXCEPTION, f"{name} is the brokers' own")
    return _produce_to(call, replica, records, owed, verdict)


def _produce_opened(
    call: Call, each: _Postponed, opened: Opened | Refusal, owed: _Owed
) -> PartitionProduceResponse:
    """Append a batch that was opened in the background, if it may still be written to where it was meant to be."""
    replica = each.replica
    name, index = replica.key
    if call.node.replicas.get(name, index) is not replica:
        by_id = call.version >= TOPIC_IDS_SINCE
        code = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return _failed(index, code, f"{replica.key} has gone since the request came")
    if replica.offline:
        code = ErrorCode.KAFKA_STORAGE_ERROR
        return _failed(index, code, f"{replica.key}: {code.message}")
    return _produce_to(call, replica, each.batch, owed, each.verdict, opened)


def _produce_to(
    call: Call,
    replica: Replica,
    records: memoryview | None,
    owed: _Owed,
    verdict: Verdict | None,
    opened: Opened | Refusal | None = None,
) -> PartitionProduceResponse:
    """Append to one replica; `opened` is what came of the batch in the background, if it was there."""
    name, index = replica.key
    if call.has_waited and not call.allows(Operation.WRITE, ResourceType.TOPIC, name):
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return _failed(index, code, "the right to write was revoked since the request came")
    if isinstance(verdict, Refusal):
        return _refused(replica, verdict, is_of_log=False)
    try:
        response = _append(call, replica, records, opened, verdict)
    except Refusal as refusal:
        # An old epoch of a transaction is the coordinator's to refuse, in Kafka: the log is not looked at.
        is_coordinators = (
            refusal.code == ErrorCode.INVALID_PRODUCER_EPOCH
            and call.request.transactional_id is not None
        )
        return _refused(replica, refusal, is_of_log=refusal.is_of_log and not is_coordinators)
    if replica.log.unflushed_records >= replica.config.flush_messages:
        owed.flushes.append((replica, response))
    if call.request.acks == _ACKS_ALL and replica.state.followers:
        owed.commits.append(
            _Uncommitted(replica, response, replica.log.log_end_offset, replica.state.leader_epoch)
        )
    return response


def _refused(replica: Replica, refusal: Refusal, *, is_of_log: bool) -> PartitionProduceResponse:
    replica.metrics.failed_produces += 1
    failed = _failed(replica.key.partition, refusal.code, refusal.message)
    if is_of_log:
        failed.log_start_offset = replica.log.log_start_offset
    return failed


def _append(
    call: Call,
    replica: Replica,
    records: memoryview | None,
    opened: Opened | Refusal | None,
    guard: Verification | None,
) -> PartitionProduceResponse:
    node, log = call.node, replica.log
    config = replica.config
    code = replica.state.decide_append(call.request.acks, config.min_insync_replicas)
    if code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
        raise Refusal(code, f"{replica.key}: broker {node.broker_id} does not lead it")
    if code:
        raise Refusal(code, f"fewer than min.insync.replicas={config.min_insync_replicas} in sync")
    if opened is None:
        header = batch_check.check(records, call.version, config)
        assert records is not None
        opened = batch_check.open_now(records, header, config, node.unpacker)
        if opened is None:
            raise _Closed(replica, header)
    elif isinstance(opened, Refusal):
        raise opened
    header = opened.header
    now_ms = node.world.clock.now_ms()
    if header.producer_id >= 0:
        seen = log.check_producer(header, guard)
        if seen is not None:
            return _seen_before(replica, seen)
    batch, header, append_time = batch_check.conform(opened, config, now_ms)
    base_offset = replica.append(batch, header, now_ms)
    if base_offset is None:
        raise _not_written(replica)
    metrics = replica.metrics
    metrics.messages_in += header.record_count
    metrics.bytes_in += len(batch)
    if produce_lane.may_repeat(call, replica, header):
        produce_lane.open_produce_lane(
            call, replica, len(batch), lambda: _lane_answers(call, replica)
        )
    return PartitionProduceResponse(
        index=replica.key.partition,
        base_offset=base_offset,
        log_append_time_ms=append_time,
        log_start_offset=log.log_start_offset,
    )


def _lane_answers(call: Call, replica: Replica) -> Iterator[ProduceResponse]:
    """Show a lane how requests like this one are answered: with marks for the offsets, and when its disk failed."""
    topic, index = call.request.topic_data[0], replica.key.partition
    base_offset, append_time, log_start_offset = produce_lane.MARKS
    marked = PartitionProduceResponse(
        index=index,
        base_offset=base_offset,
        log_append_time_ms=append_time,
        log_start_offset=log_start_offset,
    )
    failed = _not_written(replica)
    for partition in (marked, _failed(index, failed.code, failed.message)):
        answer = TopicProduceResponse(
            name=topic.name, topic_id=topic.topic_id, partition_responses=[partition]
        )
        yield ProduceResponse(responses=[answer])


def _not_written(replica: Replica) -> Refusal:
    code = ErrorCode.KAFKA_STORAGE_ERROR
    return Refusal(code, f"{replica.key} could not be written; see the broker's log")


def _seen_before(replica: Replica, seen: Any) -> PartitionProduceResponse:  # noqa: ANN401
    """Acknowledge a repeated batch with its first offset; refuse one out of sequence."""
    if isinstance(seen, ErrorCode):
        raise Refusal(seen, f"{replica.key}: {_WHY_REFUSED[seen]}")
    append_time = seen.timestamp if replica.config.log_append_time else -1
    return PartitionProduceResponse(
        index=replica.key.partition,
        base_offset=seen.base_offset,
        log_append_time_ms=append_time,
        log_start_offset=replica.log.log_start_offset,
    )


def _failed(index: int, code: ErrorCode, message: str | None) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=index,
        error_code=code,
        base_offset=-1,
        error_message=None if message is None else shortened(message),
    )


def _after_opening(
    call: Call, response: ProduceResponse, postponed: list[_Postponed], owed: _Owed
) -> Task[Any]:
    """Open what takes long in the background, append it, then answer."""
    for each in postponed:
        opened = yield from _open_later(call, each)
        call.node.staging.write()  # sequences are judged by what came before: others have written meanwhile
        each.answers[each.place] = _produce_opened(call, each, opened, owed)
    if owed:
        return (yield from _after_waiting(call, response, owed))
    return _answer(call, response)


def _open_later(call: Call, postponed: _Postponed) -> Task[Opened | Refusal]:
    """Open a batch in the background, as the settings ask for that count when it is open."""
    opened = yield from _open_once(call, postponed)
    while postponed.config is not postponed.replica.config:
        postponed.config = postponed.replica.config
        try:
            batch_check.check(postponed.batch, call.version, postponed.config)
        except Refusal as refusal:
            return refusal
        opened = yield from _open_once(call, postponed)
    return opened


def _open_once(call: Call, postponed: _Postponed) -> Task[Opened | Refusal]:
    """Open a batch. Few at a time: what it unpacks to may be in memory, and other threads wait for disks."""
    node, link = call.node, call.link
    yield partial(node.unpacking.take, link)
    started_ms = node.world.clock.monotonic_ms()
    try:
        job = partial(batch_check.open_later, postponed.batch, postponed.header, postponed.config)
        opened: Opened = yield partial(node.world.background.compute, job)
    except Refusal as refusal:
        return refusal
    finally:
        node.unpacking.give(link, node.world.clock.monotonic_ms() - started_ms)
    return opened


def _after_waiting(call: Call, response: ProduceResponse, owed: _Owed) -> Task[Any]:
    """Hold the answer until the logs that are due have been synced, and every in-sync replica has the records."""
    for replica, answer in owed.flushes:
        try:
            yield replica.flush
        except OSError:
            _fail(replica, answer, ErrorCode.KAFKA_STORAGE_ERROR, "could not be synced")
    yield from _wait_for_commits(call, owed)
    return _answer(call, response)


def _wait_for_commits(call: Call, owed: _Owed) -> Task[None]:
    """Wait for all of them until the request's time is over; what did not get there in time may still do so."""
    world = call.node.world
    deadline_ms = world.clock.monotonic_ms() + max(0, call.request.timeout_ms)
    for replica, answer, end_offset, epoch in owed.commits:
        if answer.error_code:
            continue  # it was not synced
        code = replica.state.decide_acknowledged(
            end_offset, epoch, replica.config.min_insync_replicas
        )
        if code is None:
            code = yield replica.commitment.until(end_offset, epoch, deadline_ms, world)
        if code:
            _fail(replica, answer, code, code.message)


def _fail(replica: Replica, answer: PartitionProduceResponse, code: ErrorCode, why: str) -> None:
    """Tell that records which were appended are not as safe as they were asked to be."""
    replica.metrics.failed_produces += 1
    answer.error_code, answer.base_offset = code, -1
    answer.error_message = f"{replica.key}: {why}"
