"""One request on its way through the node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barnabas.wire import frame
from barnabas.wire.primitives import Message

if TYPE_CHECKING:
    from barnabas.broker.node import Node
    from barnabas.broker.owed_reply import OwedReply
    from barnabas.broker.quotas import Bill
    from barnabas.model.acl import Operation, ResourceType
    from barnabas.ports import Link


class Call:
    """What a handler gets: the decoded request, who sent it, and the node it came to."""

    __slots__ = (
        "api_key", "bill", "client_id", "correlation_id", "denied", "frame", "has_waited", "link", "node", "owed",
        "request", "version",
    )  # fmt: skip

    def __init__(self, node: Node, link: Link, head: frame.RequestHead, body: memoryview) -> None:
        """Take over the header; the request is set once it is decoded."""
        self.node = node
        self.link = link
        #: What the request was decoded from. Where the API is served in place it is lent: it cannot be read once the handler has waited.
        self.frame = body
        #: Its handler has waited: other requests were handled since it was decoded.
        self.has_waited = False
        self.api_key = head.api_key
        self.version = head.api_version
        self.correlation_id = head.correlation_id
        self.client_id = head.client_id
        self.request: Any = None
        #: The answer to what the gate has taken out of the request; None if that is nothing.
        self.denied: Any = None
        #: What it costs its sender; None if there is no quota.
        self.bill: Bill | None = None
        #: Its reply, once the handler has returned without it.
        self.owed: OwedReply | None = None

    @property
    def deadline_ms(self) -> int:
        """When a request that says how long it waits must be answered: all of it, however much it asks for."""
        timeout_ms: int = self.request.timeout_ms
        return self.node.world.clock.monotonic_ms() + max(0, timeout_ms)

    def take_permits(self, count: int, strict_since: int | None = None) -> None:
        """Take permits to change so many partitions, if its sender has a quota of them.

        KafkaError if there are none and its client, from this version on, knows what that means (KIP-599).
        """
        if self.bill is not None:
            is_strict = strict_since is not None and self.version >= strict_since
            self.bill.take_permits(count, is_strict=is_strict)

    def encode(self, response: Any) -> list[Any]:  # noqa: ANN401
        """Encode a response of this call's API and version, framed."""
        header = frame.response_header(self.correlation_id, self.api_key, self.version)
        if self.denied is not None:
            response = self.whole(response)
        return frame.finish(response.encode(self.version), header)

    def own(self, part: memoryview) -> memoryview:
        """Give a part of the request that can be read until the answer, also when the handler waits."""
        return part if self.has_waited else owned(self.link, part)

    def allows(
        self, operation: Operation, kind: ResourceType, name: str, *, quietly: bool = False
    ) -> bool:
        """Tell whether its sender may do this; `quietly` where nobody asked for it by name."""
        gate = self.node.gate
        return gate is None or gate.allows(self, operation, kind, name, quietly=quietly)

    def whole(self, response: Any) -> Any:  # noqa: ANN401
        """Add the answer to what was taken out of the request, once."""
        denied, self.denied = self.denied, None
        return response if denied is None else join(response, denied)


def owned(link: Link, part: memoryview) -> memoryview:
    """Give a part of the request at hand that can be read until the answer: a copy if its memory is lent."""
    return part[:] if link.owns_frame else memoryview(bytearray(part))


def join(response: Any, other: Any) -> Any:  # noqa: ANN401
    """Put two answers to parts of one request together: everything that they list."""
    assert isinstance(response, Message), "not encoded yet"
    for field in other.__slots__:
        more = getattr(other, field)
        if isinstance(more, list):
            setattr(response, field, [*(getattr(response, field) or ()), *more])
    return response
