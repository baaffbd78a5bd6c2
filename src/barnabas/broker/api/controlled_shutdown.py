"""ControlledShutdown: a broker that is about to stop asks the controller to move what it leads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.model.errors import ErrorCode
from barnabas.wire.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)

if TYPE_CHECKING:
    from barnabas.broker.call import Call
    from barnabas.broker.tasks import Task

#: Versions before this one carry no broker epoch.
_ANY_EPOCH: Final = -1


def handle(call: Call) -> Task[ControlledShutdownResponse]:
    """Move leaders elsewhere; answer with those that could not be."""
    request: ControlledShutdownRequest = call.request
    office = call.node.members.topics.find_office()
    broker, epoch = request.broker_id, request.broker_epoch
    if epoch == _ANY_EPOCH and broker in office.live:
        epoch = office.live[broker].epoch
    code = yield office.ask(lambda machine: machine.on_shutdown_request(broker, epoch))
    if code is None:
        code = ErrorCode.NOT_CONTROLLER
    if code:
        return ControlledShutdownResponse(error_code=code)
    return ControlledShutdownResponse(
        remaining_partitions=[
            RemainingPartition(topic_name=key.topic, partition_index=key.partition)
            for key in office.machine.view.led_by(broker)
        ]
    )


def refuse(
    _request: ControlledShutdownRequest, code: ErrorCode, _message: str | None
) -> ControlledShutdownResponse:
    """Refuse the request."""
    return ControlledShutdownResponse(error_code=code)
