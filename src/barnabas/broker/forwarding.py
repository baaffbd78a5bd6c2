"""Requests that only the controller can serve, from clients that came to another broker (KIP-590).

Job: send such a request, as it came, in an Envelope with who sent it to the controller, and give its answer on. The controller judges
and counts it as if it had come from the client itself. Must not know what is asked for.

A client that was told of a controller which is none any more is served all the same; librdkafka's admin client asks the same broker for ever.

Invariants: what comes in an envelope is served here or refused with NOT_CONTROLLER, never sent on: no request goes in circles. A
connection that breaks says nothing about what the controller did: the client hears NOT_CONTROLLER, and may ask again.
"""

from __future__ import annotations

from functools import partial, wraps
from ipaddress import ip_address
from types import GeneratorType
from typing import TYPE_CHECKING, Any, Final

from barnabas.broker.channel import Channel, Unreachable
from barnabas.broker.envelope_link import EnvelopeLink
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire import frame
from barnabas.wire.messages.default_principal_data import DefaultPrincipalData
from barnabas.wire.messages.envelope import EnvelopeRequest
from barnabas.wire.primitives import WireError

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.call import Call
    from barnabas.broker.node import Node
    from barnabas.broker.tasks import Done, Task
    from barnabas.ports import Link
    from barnabas.wire.messages.envelope import EnvelopeResponse

ENVELOPE_VERSION: Final = 0
#: How long a request waits for somebody to be controller.
_PATIENCE_MS: Final = 5_000
_RETRY_MS: Final = 50
#: How much longer than its request allows the controller may take.
_GRACE_MS: Final = 1_000
_NO_CONTROLLER: Final = -1


def served_by_controller(handle: Callable[[Call], Any]) -> Callable[[Call], Any]:
    """Let a handler see only what comes to the controller; another broker sends it there."""

    @wraps(handle)
    def handle_or_forward(call: Call) -> Any:  # noqa: ANN401
        if call.node.members.controller.is_here or isinstance(call.link, EnvelopeLink):
            return handle(call)
        return call.node.members.forwarding.forward(call, handle)

    return handle_or_forward


class Forwarding:
    """See the module."""

    def __init__(self, node: Node) -> None:
        """Forward nothing yet."""
        self._node = node
        #: One for each request under way: one that takes long holds up nobody else's.
        self._channels: set[Channel] = set()

    def close(self) -> None:
        """Give up what is under way: this broker stops."""
        for channel in list(self._channels):
            channel.close()

    def forward(self, call: Call, handle: Callable[[Call], Any]) -> Task[Any]:
        """Have the controller answer, who may have become this broker meanwhile."""
        node = self._node
        give_up_ms = node.world.clock.monotonic_ms() + _PATIENCE_MS
        while not node.members.controller.is_here:
            broker_id = node.cluster.controller_id
            if broker_id not in (_NO_CONTROLLER, node.broker_id):
                answer = yield from self._ask(call, broker_id)
                if answer is not None:
                    call.denied = None  # the controller has judged the whole request
                    if answer.throttle_time_ms > 0:
                        call.link.mute(answer.throttle_time_ms)
                    return answer
            if node.stopping or node.world.clock.monotonic_ms() >= give_up_ms:
                raise KafkaError(ErrorCode.NOT_CONTROLLER, "Nobody is controller now: try again.")
            yield partial(node.pause, _RETRY_MS)
        response = handle(call)
        return (yield from response) if type(response) is GeneratorType else response

    def _ask(self, call: Call, broker_id: int) -> Task[Any]:
        """Ask one broker; None if it is not the controller."""
        node = self._node
        channel = Channel(
            node.world, broker_id, partial(node.members.endpoint_of, broker_id),
            f"broker-{node.broker_id}",
            max(0, call.request.timeout_ms) + _GRACE_MS,
        )  # fmt: skip
        try:
            response = yield partial(self._ask_over, channel, _envelope(call))
        except Unreachable as problem:
            raise KafkaError(
                ErrorCode.NOT_CONTROLLER, f"The controller does not answer: {problem}"
            ) from None
        return _answer(call, response)

    def _ask_over(self, channel: Channel, envelope: EnvelopeRequest, done: Done) -> None:
        """Ask over a channel that is closed with the answer: not by the task, which may be thrown away while it waits."""

        def answered(response: Any, error: BaseException | None) -> None:  # noqa: ANN401
            self._channels.discard(channel)
            channel.close()
            done(response, error)

        channel.ask(envelope, ENVELOPE_VERSION, answered)
        self._channels.add(channel)


def _envelope(call: Call) -> EnvelopeRequest:
    link = call.link
    return EnvelopeRequest(
        request_data=bytes(call.frame),
        request_principal=encode_principal(link),
        client_host_address=ip_address(link.peer_host.partition("%")[0]).packed,
    )


def encode_principal(link: Link) -> bytes:
    """Write down who is at the other end, as Kafka's DefaultKafkaPrincipalBuilder does."""
    data = DefaultPrincipalData(type_=link.principal.kind, name=link.principal.name)
    return b"\0\0" + b"".join(data.encode(0))


def _answer(call: Call, response: EnvelopeResponse) -> Any:  # noqa: ANN401
    """Unpack the controller's answer; None if there is none because it is not the controller."""
    code = ErrorCode(response.error_code)
    if code is ErrorCode.NOT_CONTROLLER:
        return None
    if code or response.response_data is None:
        raise KafkaError(
            code or ErrorCode.UNKNOWN_SERVER_ERROR, "The controller refuses to answer."
        )
    header = frame.response_header(call.correlation_id, call.api_key, call.version)
    _request, response_type = frame.message_types(call.api_key)
    # Its own bytes: the answer is given on after the reply's memory is used again.
    answer = memoryview(bytes(response.response_data))
    try:
        return response_type.decode(answer, call.version, len(header))
    except WireError as problem:
        raise KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR, f"The controller's answer cannot be read: {problem}"
        ) from None
