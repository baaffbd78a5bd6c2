"""Records out of a stream of bytes: lines with keys and headers in them, JSON lines, whole files.

One job: from the input of `produce` to Drafts with their line numbers. Must not know the
producer. Pure but for reading the given stream, which it reads as data arrives (a pipe is not
waited for to fill). A record is bounded by librdkafka's largest message.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from barnabas.cli.record import Draft, Headers, draft_from_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

READ_BYTES = 1 << 18
RECORD_BYTES_MAX = 1_000_000_000


class InputError(ValueError):
    """A line that is no record. The lines before it are good."""

    def __init__(self, line: int, why: str) -> None:
        """`line` counts from 1."""
        super().__init__(f"line {line}: {why}")
        self.line = line


class ByteStream(Protocol):
    """What a binary file or stdin's buffer offers."""

    def read(self, size: int = -1, /) -> bytes:
        """Up to `size` bytes, all if negative."""
        ...

    def read1(self, size: int = -1, /) -> bytes:
        """Up to `size` bytes, as soon as there are some."""
        ...


@dataclass(frozen=True, slots=True)
class LineForm:
    """How one line is cut: [headers SEPARATOR] [key SEPARATOR] value.

    A line without the key separator is all value. Headers are name=value with commas.
    """

    key_separator: bytes | None = None
    headers_separator: bytes | None = None
    null_marker: bytes | None = None
    key: bytes | None = None
    headers: Headers = ()

    def draft(self, line: bytes) -> Draft:
        """The record in `line`; ValueError says what is wrong with it."""
        headers, rest = self._cut_headers(line)
        key, value = self.key, rest
        if self.key_separator is not None and self.key_separator in rest:
            before, _, value = rest.partition(self.key_separator)
            key = self._text(before)
        return Draft(key=key, value=self._text(value), headers=self.headers + headers)

    def _cut_headers(self, line: bytes) -> tuple[Headers, bytes]:
        if self.headers_separator is None:
            return (), line
        listed, found, rest = line.partition(self.headers_separator)
        if not found:
            raise ValueError(f"no headers separator {self.headers_separator!r} in it")
        parsed = [parse_header(item) for item in listed.split(b",") if item]
        return tuple((name, self._text(value)) for name, value in parsed), rest

    def _text(self, data: bytes) -> bytes | None:
        return None if self.null_marker is not None and data == self.null_marker else data


def parse_header(text: bytes) -> tuple[str, bytes]:
    """`name=value`; ValueError when it is not."""
    name, equals, value = text.partition(b"=")
    if not name or not equals:
        raise ValueError(f"header {text.decode('utf-8', 'replace')!r} is not name=value")
    try:
        return name.decode("utf-8"), value
    except UnicodeDecodeError:
        raise ValueError(f"header name {name!r} is not UTF-8") from None


def split_stream(
    stream: ByteStream, delimiter: bytes, on_read: Callable[[int], None] = lambda _: None
) -> Iterator[bytes]:
    """The pieces between delimiters; a last piece without one counts if it has bytes."""
    assert delimiter
    held: list[bytes] = []  # the pieces of a line whose end has not come, joined once
    held_bytes, tail = 0, b""
    while data := stream.read1(READ_BYTES):
        on_read(len(data))
        data = tail + data
        *whole, rest = data.split(delimiter)
        if whole:
            yield b"".join([*held, whole[0]])
            yield from whole[1:]
            held, held_bytes = [], 0
        # A delimiter may be cut in two: what could be its beginning is looked at again.
        cut = max(len(rest) - len(delimiter) + 1, 0)
        held.append(rest[:cut])
        held_bytes += cut
        tail = rest[cut:]
        if held_bytes > RECORD_BYTES_MAX:
            raise ValueError(f"no {delimiter!r} within {RECORD_BYTES_MAX:,} bytes")
    last = b"".join([*held, tail])
    if last:
        yield last


def drafts_from_lines(lines: Iterator[bytes], form: LineForm) -> Iterator[tuple[int, Draft]]:
    """Line numbers and records of plain lines."""
    return _numbered(lines, form.draft)


def drafts_from_json(lines: Iterator[bytes], form: LineForm) -> Iterator[tuple[int, Draft]]:
    """Line numbers and records of JSON lines; blank lines are skipped, `form` adds headers and key."""

    def read(line: bytes) -> Draft | None:
        if not line.strip():
            return None
        draft = draft_from_json(line)
        key = form.key if draft.key is None else draft.key
        return Draft(
            key, draft.value, form.headers + draft.headers, draft.partition, draft.timestamp
        )

    return _numbered(lines, read)


def _numbered(
    lines: Iterator[bytes], read: Callable[[bytes], Draft | None]
) -> Iterator[tuple[int, Draft]]:
    for number, line in enumerate(lines, 1):
        try:
            draft = read(line)
        except ValueError as error:
            raise InputError(number, str(error)) from None
        if draft is not None:
            yield number, draft


def draft_of_whole(stream: ByteStream, form: LineForm) -> Draft:
    """Everything the stream holds, as one record."""
    return Draft(key=form.key, value=stream.read(), headers=form.headers)
