"""Records where they lie in a batch's content: keys to look at, ranges of bytes to keep.

Job: step through the records without decoding more than is asked for. Must not know batches' headers, offsets in the
log, or what decides over a record. The content is `bytes`: quicker here than any other kind.

The loops are what compaction costs, so the varints of up to two bytes are read in place, and no objects are made but
those that are given back.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from barnabas.wire.batch import BatchError, read_varint, write_varint

if TYPE_CHECKING:
    from collections.abc import Sequence

#: -1 as a varint: the length of a null.
_NULL: Final = 1
#: Length in two bytes, attributes, a byte for the timestamp delta, one or two for the offset delta, one for the key's length.
#: No record is shorter.
_COMMON: Final = struct.Struct(">BBxBBBB")


def read_keys(
    content: bytes, position: int, count: int
) -> tuple[list[bytes | None], list[int], list[int]]:
    """Return the keys and the offset deltas of all records, and the numbers of those without a value.

    Most records have a length of two bytes, one byte each for timestamp and length of the key, and one or two for the
    offset: those are read in one step.
    """
    keys: list[bytes | None] = []
    deltas: list[int] = []
    tombstones: list[int] = []
    unpack = _COMMON.unpack_from
    try:
        for number in range(count):
            low, high, timestamp, delta, length, next_byte = unpack(content, position)
            start = position + 6
            if delta >= 0x80 and length < 0x80:
                delta, length = delta & 0x7F | length << 7, next_byte
                start += 1
            if low >= 0x80 and high | timestamp | length < 0x80 and length != _NULL:
                after = start + (length >> 1)
                end = position + 2 + ((low & 0x7F | high << 7) >> 1)
                key: bytes | None = content[start:after]
            else:
                key, delta, after, end = _read_key(content, position)
            keys.append(key)
            deltas.append(delta >> 1)
            if content[after] == _NULL:
                tombstones.append(number)
            if after >= end:
                raise BatchError("a record's length contradicts its fields")
            position = end
    except (IndexError, struct.error):
        raise BatchError("a record is cut short") from None
    if position > len(content):
        raise BatchError("a record is cut short")
    return keys, deltas, tombstones


def _read_key(content: bytes, position: int) -> tuple[bytes | None, int, int, int]:
    """Return a record's key, its offset delta as it stands, where its value begins, and where it ends."""
    length, position = _long_raw(content, position)
    end = position + (length >> 1)
    _, position = _long_raw(content, position + 1)
    delta, position = _long_raw(content, position)
    length, position = _long_raw(content, position)
    if length == _NULL:
        return None, delta, position, end
    after = position + (length >> 1)
    return content[position:after], delta, after, end


def select(  # noqa: C901  (spread out for speed)
    content: bytes, position: int, kept: Sequence[int]
) -> tuple[list[memoryview], int]:
    """Return the bytes of the kept records, in as few pieces as they lie in, and their largest timestamp delta.

    `kept` says for every record in turn whether it is: at least one.
    """
    view = memoryview(content)
    pieces: list[memoryview] = []
    run_start = -1
    largest: int | None = None
    try:
        for keep in kept:
            start = position
            length = content[position]
            position += 1
            if length >= 0x80:
                high = content[position]
                position += 1
                if high < 0x80:
                    length = length & 0x7F | high << 7
                else:
                    length, position = _long_raw(content, position - 2)
            end = position + (length >> 1)
            if keep:
                if run_start < 0:
                    run_start = start
                raw = content[position + 1]
                if raw >= 0x80:
                    high = content[position + 2]
                    raw = (
                        raw & 0x7F | high << 7
                        if high < 0x80
                        else _long_raw(content, position + 1)[0]
                    )
                delta = (raw >> 1) ^ -(raw & 1)
                if largest is None or delta > largest:
                    largest = delta
            elif run_start >= 0:
                pieces.append(view[run_start:start])
                run_start = -1
            position = end
    except IndexError:
        raise BatchError("a record is cut short") from None
    if run_start >= 0:
        pieces.append(view[run_start:position])
    assert largest is not None
    return pieces, largest


def select_shifted(
    content: bytes, position: int, kept: Sequence[int], shift: int
) -> tuple[list[memoryview], int]:
    """Do as `select`, but count the timestamps from a base that is `shift` earlier."""
    view = memoryview(content)
    out = bytearray()
    largest: int | None = None
    try:
        for keep in kept:
            length, start = read_varint(view, position)
            position = start + length
            if keep:
                delta, rest = read_varint(view, start + 1)
                delta += shift
                largest = delta if largest is None else max(largest, delta)
                body = bytearray(content[start : start + 1])
                write_varint(body, delta)
                body += view[rest:position]
                write_varint(out, len(body))
                out += body
    except IndexError:
        raise BatchError("a record is cut short") from None
    assert largest is not None
    return [memoryview(out)], largest


def _long_raw(content: bytes, position: int) -> tuple[int, int]:
    """Read a varint of any length as it stands, not yet folded back: (value, position after it)."""
    raw = shift = 0
    while True:
        byte = content[position]
        position += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            return raw, position
        shift += 7
        if shift > 63:
            raise BatchError("a varint longer than ten bytes")
