"""UpdateMetadata: the controller says what clients are to be told of the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.wire.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse

if TYPE_CHECKING:
    from barnabas.broker.call import Call
    from barnabas.broker.tasks import Task
    from barnabas.model.errors import ErrorCode


def handle(call: Call) -> Task[UpdateMetadataResponse]:
    """Take it over."""
    code = yield from call.node.members.orders.update_metadata(call.request, call.correlation_id)
    return UpdateMetadataResponse(error_code=code)


def refuse(
    _request: UpdateMetadataRequest, code: ErrorCode, _message: str | None
) -> UpdateMetadataResponse:
    """Refuse the order."""
    return UpdateMetadataResponse(error_code=code)
