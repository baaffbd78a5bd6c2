"""Envelope: a request that a client sent to another broker, and only the controller can serve (KIP-590)."""

from __future__ import annotations

import logging
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final

from barnabas.broker.envelope_link import EnvelopeLink
from barnabas.broker.outcomes import CloseLink
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.principal import Principal
from barnabas.wire.frame import decode_request_header
from barnabas.wire.messages.default_principal_data import DefaultPrincipalData
from barnabas.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse
from barnabas.wire.primitives import WireError

if TYPE_CHECKING:
    from barnabas.broker.call import Call
    from barnabas.broker.tasks import Done, Task
    from barnabas.wire.primitives import Buffer

log = logging.getLogger(__name__)

#: CreateTopics, DeleteTopics, CreatePartitions, ElectLeaders, AlterPartitionReassignments, ListPartitionReassignments.
FORWARDED: Final = frozenset({19, 20, 37, 43, 45, 46})
_LENGTH_BYTES: Final = 4
_PRINCIPAL_VERSION: Final = b"\0\0"


def handle(call: Call) -> Task[EnvelopeResponse]:
    """Serve what is in it for who sent it, and put the answer into an envelope, too."""
    node, request = call.node, call.request
    if not node.members.controller.is_here:
        return EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)
    try:
        principal, host = _sender(request)
        if decode_request_header(memoryview(request.request_data)).api_key not in FORWARDED:
            raise ValueError("it is no request that brokers forward")
    except (WireError, ValueError) as problem:
        raise KafkaError(ErrorCode.INVALID_REQUEST, str(problem)) from None

    def serve(done: Done) -> None:
        link = EnvelopeLink(call.link, principal, host, done)
        try:
            parts = node.on_request(link, memoryview(request.request_data))
        except (WireError, CloseLink) as problem:
            log.warning("a forwarded request cannot be served: %s", problem)
            link.close()
        else:
            if parts is not None:
                link.reply(parts)

    parts = yield serve
    if parts is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    return EnvelopeResponse(response_data=b"".join(parts)[_LENGTH_BYTES:])


def _sender(request: EnvelopeRequest) -> tuple[Principal, str]:
    """Read who sent it, and from where."""
    packed: Any = request.request_principal
    if packed is None or bytes(packed[: len(_PRINCIPAL_VERSION)]) != _PRINCIPAL_VERSION:
        raise ValueError("its principal cannot be read")
    data = DefaultPrincipalData.decode(memoryview(packed), 0, len(_PRINCIPAL_VERSION))
    address: Buffer = request.client_host_address
    return Principal(data.type_, data.name), str(ip_address(bytes(address)))


def refuse(_request: EnvelopeRequest, code: ErrorCode, _message: str | None) -> EnvelopeResponse:
    """Refuse the envelope, whatever is in it."""
    return EnvelopeResponse(error_code=code)
