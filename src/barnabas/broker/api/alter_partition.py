"""AlterPartition: the leader of a partition asks the controller to change who is in sync, as Apache Kafka's brokers do (KIP-497)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.broker import cluster_znodes
from barnabas.broker.controller_events import states_changed
from barnabas.broker.tasks import side_by_side
from barnabas.core.controller.alteration import Alteration, is_so, judge_alteration
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import TopicPartition
from barnabas.ports import CoordinationError, SetData
from barnabas.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    RequestPartitionData,
    ResponsePartitionData,
    ResponseTopicData,
)

if TYPE_CHECKING:
    from barnabas.broker.call import Call
    from barnabas.broker.controller import Office
    from barnabas.broker.tasks import Task
    from barnabas.wire.messages.alter_partition import RequestTopicData

_EPOCHS_SINCE: Final = 3


def handle(call: Call) -> Task[AlterPartitionResponse]:
    """Write what each leader wishes, as far as it still leads."""
    request: AlterPartitionRequest = call.request
    office = call.node.members.topics.find_office()
    broker = office.live.get(request.broker_id)
    if broker is None or broker.epoch != request.broker_epoch:
        return AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
    names = {known.id: name for name, known in office.machine.view.topics.items()}
    topics = []
    for topic in request.topics:
        name = names.get(topic.topic_id)
        known = None if name is None else office.machine.view.topics.get(name)
        if known is None or known.id != topic.topic_id:
            name = None  # gone, and perhaps made again, while others were being written
        answered = yield from _alter_topic(call, office, name, topic)
        topics.append(ResponseTopicData(topic_id=topic.topic_id, partitions=answered))
    return AlterPartitionResponse(topics=topics)


def refuse(
    _request: AlterPartitionRequest, code: ErrorCode, _message: str | None
) -> AlterPartitionResponse:
    """Refuse the request."""
    return AlterPartitionResponse(error_code=code)


def _alter_topic(
    call: Call, office: Office, name: str | None, topic: RequestTopicData
) -> Task[list[ResponsePartitionData]]:
    if name is None:
        return [_failed(one, ErrorCode.UNKNOWN_TOPIC_ID) for one in topic.partitions]
    found: list[ResponsePartitionData] = yield side_by_side(
        [_alter(call, office, name, one) for one in topic.partitions]
    )
    changed = [TopicPartition(name, one.partition_index) for one in found if not one.error_code]
    if changed:
        office.submit(states_changed(changed))
    return found


def _alter(
    call: Call, office: Office, topic: str, asked: RequestPartitionData
) -> Task[ResponsePartitionData]:
    view, key = office.machine.view, TopicPartition(topic, asked.partition_index)
    wish = _wish(call, asked)
    code = judge_alteration(view, key, wish)
    if code:
        return _failed(asked, code)
    if is_so(view, key, wish):
        partition = view.partition(key)
        assert partition is not None
        return _answer(asked, wish, partition.version)
    data = cluster_znodes.state_data(wish.leader, wish.leader_epoch, wish.in_sync, office.epoch)
    write = SetData(cluster_znodes.state_path(*key), data, wish.version)
    try:
        yield lambda done: call.node.world.coordination.commit([office.fence, write], done)
    except CoordinationError as refusal:
        is_deposed = refusal.path == cluster_znodes.CONTROLLER_EPOCH
        code = ErrorCode.NOT_CONTROLLER if is_deposed else ErrorCode.INVALID_UPDATE_VERSION
        return _failed(asked, code)
    except OSError:
        return _failed(asked, ErrorCode.REQUEST_TIMED_OUT)  # it asks again, and hears what is so
    return _answer(asked, wish, wish.version + 1)


def _wish(call: Call, asked: RequestPartitionData) -> Alteration:
    in_sync = tuple(asked.new_isr)
    if call.version >= _EPOCHS_SINCE:
        in_sync = tuple(one.broker_id for one in asked.new_isr_with_epochs)
    return Alteration(
        call.request.broker_id, asked.leader_epoch, in_sync, asked.partition_epoch,
        asked.leader_recovery_state,
    )  # fmt: skip


def _answer(asked: RequestPartitionData, wish: Alteration, version: int) -> ResponsePartitionData:
    return ResponsePartitionData(
        partition_index=asked.partition_index,
        leader_id=wish.leader,
        leader_epoch=wish.leader_epoch,
        isr=list(wish.in_sync),
        partition_epoch=version,
    )


def _failed(asked: RequestPartitionData, code: ErrorCode) -> ResponsePartitionData:
    return ResponsePartitionData(partition_index=asked.partition_index, error_code=code)
