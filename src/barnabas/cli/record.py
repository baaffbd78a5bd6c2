"""Records as text: kcat's format strings and one JSON object per record, in both directions.

One job: bytes of a record <-> what a person or a program reads. Pure. Both directions share one
JSON form, so the output of `consume -o json` is input for `produce --format json`:

    {"topic", "partition", "offset", "timestamp", "timestamp_type", "key", "value", "headers"}

Text is a string; bytes that are not UTF-8 are {"base64": "..."}; null is null; headers are a list
of {"key", "value"} because names may repeat.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class Record:
    """A record that was read. `timestamp` in ms, None where the record has none."""

    topic: str
    partition: int
    offset: int
    timestamp: int | None
    timestamp_type: str | None
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


@dataclass(frozen=True, slots=True)
class Draft:
    """A record to send. None for partition and timestamp leaves the choice to the producer."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    partition: int | None = None
    timestamp: int | None = None


# -- JSON ------------------------------------------------------------------------------------


def bytes_to_json(data: bytes | None) -> Any:  # noqa: ANN401 - a JSON value
    """Text where it is UTF-8, else marked base64."""
    if data is None:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode("ascii")}


def json_to_bytes(value: Any) -> bytes | None:  # noqa: ANN401 - a JSON value
    """The reverse; any other JSON value becomes its own compact text."""
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    if isinstance(value, dict) and list(value) == ["base64"] and isinstance(value["base64"], str):
        try:
            return base64.b64decode(value["base64"], validate=True)
        except binascii.Error as error:
            raise ValueError(f"bad base64 {value['base64']!r}: {error}") from None
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode("utf-8")


def record_to_json(record: Record) -> dict[str, Any]:
    """The stable keys of `consume -o json`."""
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "timestamp_type": record.timestamp_type,
        "key": bytes_to_json(record.key),
        "value": bytes_to_json(record.value),
        "headers": [{"key": name, "value": bytes_to_json(value)} for name, value in record.headers],
    }


def draft_from_json(line: bytes) -> Draft:
    """One line of `produce --format json`; ValueError says what is wrong with it."""
    try:
        data = json.loads(line)
    except ValueError as error:
        raise ValueError(f"not JSON: {error}") from None
    if not isinstance(data, dict):
        raise ValueError(f"not a JSON object but {type(data).__name__}")
    if "value" not in data:
        raise ValueError('no "value"; write "value": null for a tombstone')
    return Draft(
        key=json_to_bytes(data.get("key")),
        value=json_to_bytes(data["value"]),
        headers=_json_headers(data.get("headers")),
        partition=_json_count(data, "partition"),
        timestamp=_json_count(data, "timestamp"),
    )


def _json_count(data: dict[str, Any], name: str) -> int | None:
    number = data.get(name)
    if number is None:
        return None
    if type(number) is not int or number < 0:
        raise ValueError(f'"{name}" must be a whole number from 0, not {number!r}')
    return number


def _json_headers(value: Any) -> Headers:  # noqa: ANN401 - a JSON value
    if value is None:
        return ()
    if isinstance(value, dict):
        return tuple((name, json_to_bytes(item)) for name, item in value.items())
    if isinstance(value, list) and all(
        isinstance(h, dict) and isinstance(h.get("key"), str) for h in value
    ):
        return tuple((header["key"], json_to_bytes(header.get("value"))) for header in value)
    raise ValueError('"headers" must be {"name": "value"} or [{"key": "name", "value": "value"}]')


# -- format strings --------------------------------------------------------------------------

Piece = Callable[[Record, bytes], bytes]


def _length(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def _number(value: int | None) -> bytes:
    return b"%d" % (-1 if value is None else value)


def _text(data: bytes | None, null: bytes) -> bytes:
    return null if data is None else data


def _headers(record: Record, null: bytes) -> bytes:
    return b",".join(
        name.encode("utf-8") + b"=" + _text(value, null) for name, value in record.headers
    )


# kcat's letters.
DIRECTIVES: dict[str, Piece] = {
    "t": lambda record, _: record.topic.encode("utf-8"),
    "p": lambda record, _: _number(record.partition),
    "o": lambda record, _: _number(record.offset),
    "T": lambda record, _: _number(record.timestamp),
    "k": lambda record, null: _text(record.key, null),
    "s": lambda record, null: _text(record.value, null),
    "K": lambda record, _: _number(_length(record.key)),
    "S": lambda record, _: _number(_length(record.value)),
    "R": lambda record, _: _length(record.value).to_bytes(4, "big", signed=True),
    "h": _headers,
    "%": lambda _record, _: b"%",
}
_ESCAPES = {"n": b"\n", "r": b"\r", "t": b"\t", "0": b"\0", "\\": b"\\", "e": b"\x1b"}
_TOKEN = re.compile(r"%(?P<directive>.?)|\\(?:x(?P<hex>[0-9a-fA-F]{2})|(?P<escape>.?))", re.DOTALL)


def unescape(text: str) -> bytes:
    r"""`\t`, `\n`, `\0`, `\x1f` and the like as bytes; ValueError for others."""
    done = bytearray()
    at = 0
    for token in re.finditer(r"\\(?:x([0-9a-fA-F]{2})|(.?))", text, re.DOTALL):
        done += text[at : token.start()].encode("utf-8")
        done += bytes.fromhex(token[1]) if token[1] else _escape(token[2])
        at = token.end()
    return bytes(done + text[at:].encode("utf-8"))


def _escape(letter: str) -> bytes:
    if letter not in _ESCAPES:
        allowed = " ".join(f"\\{known}" for known in _ESCAPES)
        raise ValueError(f"unknown escape '\\{letter}'; there are {allowed} \\xNN")
    return _ESCAPES[letter]


def compile_format(text: str, null: bytes = b"") -> Callable[[Record], bytes]:
    """A function from a record to bytes, for a format string such as `%p/%o %k: %s\\n`."""
    pieces: list[bytes | Piece] = []
    at = 0
    for token in _TOKEN.finditer(text):
        pieces.append(text[at : token.start()].encode("utf-8"))
        pieces.append(_piece(token))
        at = token.end()
    pieces.append(text[at:].encode("utf-8"))

    def render(record: Record) -> bytes:
        return b"".join(p if isinstance(p, bytes) else p(record, null) for p in pieces)

    return render


def _piece(token: re.Match[str]) -> bytes | Piece:
    if token["hex"]:
        return bytes.fromhex(token["hex"])
    if token["escape"] is not None:
        return _escape(token["escape"])
    letter = token["directive"]
    if letter not in DIRECTIVES:
        allowed = " ".join(f"%{known}" for known in DIRECTIVES)
        raise ValueError(f"unknown directive '%{letter}'; there are {allowed}")
    return DIRECTIVES[letter]
