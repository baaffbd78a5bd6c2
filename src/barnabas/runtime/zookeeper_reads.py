"""Reads from ZooKeeper, many in one request.

Job: gather what is asked within one turn of the loop, send it as ZooKeeper's multi-read (since 3.6), hand out the answers.
Must not know what the paths mean. A request costs kazoo and its threads a quarter of a millisecond of processor time, a path
in a multi-read a small part of that: a controller that takes over reads every partition.
"""

from __future__ import annotations

import struct
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kazoo.exceptions import EXCEPTIONS, NoNodeError

from barnabas.broker.edge import call_all
from barnabas.ports import CoordinationError, ZNode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kazoo.client import KazooClient

    from barnabas.runtime.loop import Loop
    from barnabas.runtime.zookeeper_session import ZooKeeperSession

    Answer = Callable[[Any, BaseException | None], None]

#: Paths in one request.
BATCH_MAX: Final = 128
_GET_DATA: Final = 4
_GET_CHILDREN: Final = 8
_MULTI_READ: Final = 22
_ERROR: Final = -1
_HEADER: Final = struct.Struct("!iBi")
_INT: Final = struct.Struct("!i")
#: czxid, mzxid, ctime, mtime, version, cversion, aversion, owner, size of the data, children, pzxid.
_STAT: Final = struct.Struct("!qqqqiiiqiiq")


class Found(NamedTuple):
    """What stands at a path, and how many children it has."""

    node: ZNode
    children_count: int


class _Read(NamedTuple):
    kind: int
    path: str
    answer: Answer


class MultiRead:
    """The request, in the form in which kazoo sends requests."""

    type = _MULTI_READ

    def __init__(self, reads: Sequence[tuple[int, str]]) -> None:
        """Take kinds and paths."""
        self._reads = reads

    def serialize(self) -> bytes:
        """Write it."""
        parts = []
        for kind, path in self._reads:
            name = path.encode()
            parts += [_HEADER.pack(kind, 0, -1), _INT.pack(len(name)), name, b"\0"]
        return b"".join([*parts, _HEADER.pack(-1, 1, -1)])

    def deserialize(self, buffer: bytes, position: int) -> list[Any]:
        """Read the answers: one for each path, which is an exception where ZooKeeper has an error to tell."""
        answers: list[Any] = []
        while True:
            kind, is_last, _error = _HEADER.unpack_from(buffer, position)
            position += _HEADER.size
            if is_last:
                return answers
            answer, position = _PARSERS[kind](buffer, position)
            answers.append(answer)


class Reads:
    """What is asked in this turn."""

    def __init__(self, loop: Loop, session: ZooKeeperSession) -> None:
        """Begin with nothing."""
        self._loop = loop
        self._session = session
        self._asked: list[_Read] = []

    def get(self, path: str, answer: Answer) -> None:
        """Answer with a Found, or None if nothing is there."""
        self._ask(_Read(_GET_DATA, path, answer))

    def get_children(self, path: str, answer: Answer) -> None:
        """Answer with the names below, or None if the path is not there."""
        self._ask(_Read(_GET_CHILDREN, path, answer))

    def _ask(self, read: _Read) -> None:
        if not self._asked:
            self._loop.post(self._send)
        self._asked.append(read)

    def _send(self) -> None:
        asked, self._asked = self._asked, []
        for start in range(0, len(asked), BATCH_MAX):
            batch = asked[start : start + BATCH_MAX]
            request = MultiRead([(read.kind, read.path) for read in batch])
            self._session.query(partial(_call, request), partial(_hand_out, batch))


def _call(request: MultiRead, client: KazooClient) -> Any:  # noqa: ANN401
    result = client.handler.async_result()
    client._call(
        request, result
    )  # as kazoo's own requests are sent; it has no other way for one of ours
    return result


def _hand_out(
    batch: Sequence[_Read], answers: Sequence[Any], problem: BaseException | None
) -> None:
    call_all(
        partial(read.answer, *_answer_of(read, None if problem else answers[number], problem))
        for number, read in enumerate(batch)
    )


def _answer_of(
    read: _Read,
    answer: Any,  # noqa: ANN401
    problem: BaseException | None,
) -> tuple[Any, BaseException | None]:
    if problem is not None:
        return None, problem
    if isinstance(answer, NoNodeError):
        return None, None
    if isinstance(answer, Exception):
        return None, CoordinationError(type(answer).__name__, read.path)
    return answer, None


def _parse_node(buffer: bytes, position: int) -> tuple[Found, int]:
    data, position = _parse_bytes(buffer, position)
    stat = _STAT.unpack_from(buffer, position)
    node = ZNode(data, version=stat[4], created=stat[0], owner=stat[7], written=stat[1])
    return Found(node, children_count=stat[9]), position + _STAT.size


def _parse_children(buffer: bytes, position: int) -> tuple[list[str], int]:
    count = _INT.unpack_from(buffer, position)[0]
    position += _INT.size
    names = []
    for _ in range(count):
        name, position = _parse_bytes(buffer, position)
        names.append(name.decode())
    return names, position


def _parse_bytes(buffer: bytes, position: int) -> tuple[bytes, int]:
    size = _INT.unpack_from(buffer, position)[0]
    position += _INT.size
    return (b"", position) if size < 0 else (buffer[position : position + size], position + size)


def _parse_error(buffer: bytes, position: int) -> tuple[Exception, int]:
    return EXCEPTIONS[_INT.unpack_from(buffer, position)[0]](), position + _INT.size


_PARSERS: Final[dict[int, Callable[[bytes, int], tuple[Any, int]]]] = {
    _GET_DATA: _parse_node,
    _GET_CHILDREN: _parse_children,
    _ERROR: _parse_error,
}
