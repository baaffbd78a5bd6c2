"""A client for one request at a time: for tools that ask what no stock client can ask.

Job: find the broker that is to be asked, speak the newest version that both know, wait for the answer. Must not know what the
requests mean. Plain connections only.

Invariants: a link is used for one request at a time; an answer that is not the request's ends its link; no answer is larger
than `ANSWER_BYTES_MAX`.
"""

from __future__ import annotations

import socket
import struct
from typing import TYPE_CHECKING, Any, Final

from barnabas.model.errors import ErrorCode
from barnabas.wire import frame
from barnabas.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from barnabas.wire.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.wire.primitives import WireError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from barnabas.wire.primitives import Message

ANSWER_BYTES_MAX: Final = 100 * 1024 * 1024
#: What FindCoordinator is asked for.
GROUP, TRANSACTION = 0, 1
_LENGTH: Final = struct.Struct(">i")
_BATCHED_SINCE: Final = 4
_Address = tuple[str, int]


class ClientError(Exception):
    """No usable answer: nobody there, nonsense, or an API that the broker does not have."""


class Refused(ClientError):
    """The broker's answer is an error."""

    def __init__(self, code: int, message: str | None = None) -> None:
        """Take an error code as it stands in an answer."""
        try:
            self.code = ErrorCode(code)
        except ValueError:
            self.code = ErrorCode.UNKNOWN_SERVER_ERROR
        super().__init__(message or self.code.message)


class Link:
    """One connection to one broker."""

    def __init__(self, address: _Address, timeout_s: float, client_id: str) -> None:
        """Connect, and ask for the versions that are served."""
        self._client_id = client_id
        self._correlation_id = 0
        self._versions: dict[int, tuple[int, int]] = {}
        try:
            self._socket = socket.create_connection(address, timeout_s)
        except OSError as problem:
            raise ClientError(f"{address[0]}:{address[1]}: {problem}") from None
        answer = self._ask(ApiVersionsRequest(), 0)
        assert isinstance(answer, ApiVersionsResponse)
        self._versions = {
            each.api_key: (each.min_version, each.max_version) for each in answer.api_keys
        }

    def ask(self, request: Message) -> Any:  # noqa: ANN401  # the response class of the request
        """Send a request in the newest version that both know; the decoded answer."""
        return self._ask(request, self.version_of(request))

    def version_of(self, request: Message) -> int:
        """Choose the version for a request."""
        lowest, highest = self._versions.get(request.API_KEY, (0, -1))
        version = min(highest, request.MAX_VERSION)
        if version < max(lowest, request.MIN_VERSION):
            name = type(request).__name__.removesuffix("Request")
            raise ClientError(f"the broker does not serve {name} in a version known here")
        return version

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def _ask(self, request: Message, version: int) -> Message:
        self._correlation_id += 1
        head = frame.request_header(request.API_KEY, version, self._correlation_id, self._client_id)
        try:
            body = b"".join(bytes(part) for part in request.encode(version))
        except WireError as problem:
            raise ClientError(f"the broker is too old for this: {problem}") from None
        try:
            self._socket.sendall(_LENGTH.pack(len(head) + len(body)) + head + body)
            (length,) = _LENGTH.unpack(self._receive(_LENGTH.size))
            if not 0 < length <= ANSWER_BYTES_MAX:
                raise ClientError(f"an answer of {length} bytes: is it a Kafka broker?")
            data = self._receive(length)
        except OSError as problem:
            raise ClientError(f"no answer: {problem}") from None
        header = frame.response_header(self._correlation_id, request.API_KEY, version)
        _, response_type = frame.message_types(request.API_KEY)
        try:
            if data[: len(header)] != header:
                raise ClientError("an answer to another request: is it a Kafka broker?")
            return response_type.decode(memoryview(data), version, len(header))
        except WireError as problem:
            raise ClientError(f"an answer that cannot be read: {problem}") from None

    def _receive(self, size: int) -> bytearray:
        data = bytearray()
        while len(data) < size:
            more = self._socket.recv(min(size - len(data), 1 << 20))
            if not more:
                raise ClientError("the broker closed the connection")
            data += more
        return data


class BlockingClient:
    """Asks a cluster. Use as a context manager."""

    def __init__(
        self, addresses: Sequence[_Address], *, timeout_s: float = 10.0, client_id: str = "barnabas"
    ) -> None:
        """Connect to the first address that answers."""
        self._timeout_s = timeout_s
        self._client_id = client_id
        self._brokers: dict[int, _Address] = {}
        self._links: dict[_Address, Link] = {}
        self._any = self._first(addresses)

    def __enter__(self) -> BlockingClient:
        """Nothing more to do."""
        return self

    def __exit__(self, *_: object) -> None:
        """Hang up everywhere."""
        for link in self._links.values():
            link.close()

    def brokers(self) -> list[int]:
        """Return the ids of all brokers."""
        if not self._brokers:
            self.metadata([])
        return sorted(self._brokers)

    def metadata(self, topics: Iterable[str] | None) -> MetadataResponse:
        """Ask where partitions are; None for all topics."""
        request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
        if topics is not None:
            from barnabas.wire.messages.metadata import MetadataRequestTopic

            request.topics = [MetadataRequestTopic(name=name) for name in topics]
        answer: MetadataResponse = self._any.ask(request)
        self._brokers = {each.node_id: (each.host, each.port) for each in answer.brokers}
        return answer

    def leader_of(self, topic: str, partition: int) -> int:
        """Return the broker that leads a partition."""
        answer = self.metadata([topic]).topics[0]
        if answer.error_code:
            raise Refused(answer.error_code)
        for each in answer.partitions:
            if each.partition_index == partition:
                if each.error_code or each.leader_id < 0:
                    raise Refused(each.error_code or ErrorCode.LEADER_NOT_AVAILABLE)
                return each.leader_id
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def coordinator_of(self, key: str, kind: int) -> int:
        """Return the broker that coordinates a group or a transactional id."""
        request = FindCoordinatorRequest(key=key, key_type=kind, coordinator_keys=[key])
        if self._any.version_of(request) >= _BATCHED_SINCE:
            request.key = ""
        else:
            request.coordinator_keys = []
        answer: FindCoordinatorResponse = self._any.ask(request)
        found = answer.coordinators[0] if answer.coordinators else answer
        if found.error_code:
            raise Refused(found.error_code, found.error_message)
        self._brokers.setdefault(found.node_id, (found.host, found.port))
        return found.node_id

    def ask(self, broker: int, request: Message) -> Any:  # noqa: ANN401  # as Link.ask
        """Ask one broker."""
        if broker not in self._brokers:
            self.metadata([])
        address = self._brokers.get(broker)
        if address is None:
            raise ClientError(f"there is no broker {broker}")
        return self._link(address).ask(request)

    def _link(self, address: _Address) -> Link:
        link = self._links.get(address)
        if link is None:
            link = self._links[address] = Link(address, self._timeout_s, self._client_id)
        return link

    def _first(self, addresses: Sequence[_Address]) -> Link:
        problems = []
        for address in addresses:
            try:
                return self._link(address)
            except ClientError as problem:
                problems.append(str(problem))
        raise ClientError("; ".join(problems))
