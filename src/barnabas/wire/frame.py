"""One frame: where its header ends, how headers look, and which classes its key stands for.

Job: heads in and out. Cutting frames out of a byte stream is the server's; what a message means is
the handlers'. Message modules are loaded when a key is first asked for.

Invariants:
- The client id is a legacy nullable string even in flexible headers: a broker must be able to read the header of an
  ApiVersions request whose version it does not know.
- ApiVersions replies always carry header version 0, for the same reason on the client's side.
"""

from functools import cache
from importlib import import_module
from struct import Struct as _Compiled
from struct import error as _StructError

from barnabas.wire.messages.index import APIS
from barnabas.wire.primitives import Buffer, Message, WireError, unknown_tagged

API_VERSIONS = 18
CONTROLLED_SHUTDOWN = 7
MAX_MERGED_BYTES = 4096
"""The reply's first buffer is joined with the header up to this size: a copy that is cheaper than one more buffer."""

_HEAD = _Compiled(">hhi").unpack_from
_HEAD_AND_CLIENT_ID = _Compiled(">hhih").unpack_from
_REQUEST_HEAD = _Compiled(">hhih").pack
_LENGTH = _Compiled(">i").pack
_CORRELATION = _Compiled(">i").pack
_CORRELATION_AND_NO_TAGS = _Compiled(">ix").pack
_FLEXIBLE_FROM = {key: api.flexible_from for key, api in APIS.items()}


class RequestHead:
    """A request's header, and where its body starts."""

    __slots__ = ("api_key", "api_version", "body_pos", "client_id", "correlation_id")

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_pos: int

    def __repr__(self) -> str:
        """Show every field."""
        return (
            f"RequestHead(api_key={self.api_key}, api_version={self.api_version}, "
            f"correlation_id={self.correlation_id}, client_id={self.client_id!r}, body_pos={self.body_pos})"
        )


def decode_request_header(frame: memoryview) -> RequestHead:
    """Read the header at the start of a frame (without its length); WireError if it is not one.

    An unknown key or version is no error here: the head is read as far as it can be trusted, so that the
    caller can name what was asked for. A key that is not known is taken to have a header without tags.
    """
    head = RequestHead()
    try:
        key, version, head.correlation_id = _HEAD(frame, 0)
        head.api_key = key
        head.api_version = version
        if key == CONTROLLED_SHUTDOWN and version == 0:
            head.client_id = None
            head.body_pos = 8
            return head
        length = _HEAD_AND_CLIENT_ID(frame, 0)[3]
        pos = _read_client_id(head, frame, length)
        if version >= _FLEXIBLE_FROM.get(key, 0x8000):
            tags = frame[pos]
            pos += 1
            if tags:
                _, pos = unknown_tagged(frame, pos, tags)
    except (_StructError, IndexError):
        raise WireError(f"request header is cut off: the frame has {len(frame)} bytes") from None
    except UnicodeDecodeError as error:
        raise WireError("request header: client id is not UTF-8") from error
    head.body_pos = pos
    return head


def _read_client_id(head: RequestHead, frame: memoryview, length: int) -> int:
    if length < 0:
        if length != -1:
            raise WireError(f"request header: client id has length {length}")
        head.client_id = None
        return 10
    stop = 10 + length
    if stop > len(frame):
        raise WireError(
            f"request header: client id of {length} bytes announced, {len(frame) - 10} bytes remain"
        )
    head.client_id = str(frame[10:stop], "utf-8")
    return stop


def request_header(api_key: int, api_version: int, correlation_id: int, client_id: str) -> bytes:
    """Encode the header of a request."""
    name = client_id.encode()
    header = _REQUEST_HEAD(api_key, api_version, correlation_id, len(name)) + name
    return header + b"\0" if api_version >= _FLEXIBLE_FROM.get(api_key, 0x8000) else header


def response_header(correlation_id: int, api_key: int, api_version: int) -> bytes:
    """Encode the header of a reply to the given request."""
    if api_key != API_VERSIONS and api_version >= _FLEXIBLE_FROM.get(api_key, 0x8000):
        return _CORRELATION_AND_NO_TAGS(correlation_id)
    return _CORRELATION(correlation_id)


def finish(buffers: list[Buffer], header: bytes) -> list[Buffer]:
    """Put the frame's length and header in front of a message's buffers, which are only asked for their `len()`."""
    size = len(header)
    for each in buffers:
        size += len(each)
    first = buffers[0] if buffers else b""
    # Only what the encoders make is joined: anything else may be a slice of a file, which must stay as it is.
    if type(first) in (bytes, bytearray) and len(first) <= MAX_MERGED_BYTES:
        return [b"".join((_LENGTH(size), header, first)), *buffers[1:]]
    return [_LENGTH(size) + header, *buffers]


@cache
def message_types(api_key: int) -> tuple[type[Message], type[Message]]:
    """Load an API's request and response classes; KeyError if there is no such key."""
    api = APIS[api_key]
    module = import_module(f"barnabas.wire.messages.{api.module}")
    return getattr(module, f"{api.name}Request"), getattr(module, f"{api.name}Response")
