"""Records of one form in a row, compared column by column.

Job: from some record on, tell how many are right and of one form: the same lengths, counts and widths of numbers. Their
offset deltas must count up; attributes, times and contents may be any. To slice a column out of the bytes and to
compare it takes a few nanoseconds per record, where a walk takes half a microsecond. Must not know more than one run.

Invariant: what is told to be right is what a walk would take. There may be more than are told of.
"""

from __future__ import annotations

import struct
from typing import Final

#: Records compared at once at most.
RUN_MAX: Final = 1024
#: Of a timestamp delta, and the attributes before it: eleven hours are what these hold.
TIME_BYTES_MAX: Final = 5
#: Times that are told apart by stripping; if there are more, or they go up and down, a set is quicker.
STRIPPED_MAX: Final = 6
#: With more headers than this a walk is no slower.
HEADERS_MAX: Final = 8

# The bytes of offset deltas, zigzag varints of 0, 1, 2 ...: one byte up to 63, two up to 8191, three up to 1,048,575.
_ONE_BYTE: Final = 64
_TWO_BYTES: Final = 64 * 128
_THREE_BYTES: Final = 64 * 128 * 128
_ONLY: Final = bytes(range(0, 128, 2))
_LOW: Final = bytes(range(128, 256, 2)) * (RUN_MAX // _ONE_BYTE + 1)
_HIGH: Final = bytes(index // _ONE_BYTE for index in range(_TWO_BYTES))
_MIDDLE: Final = bytes(0x80 | byte for byte in _HIGH)
#: The bytes of a number but for its last.
_CONTINUED: Final = bytes(range(0x80, 0x100))

#: The largest number of two bytes.
_SHORT_MAX: Final = 0x3FFF


#: How many records are of one form, where the next one starts, all their timestamp deltas as they stand there, and whether they
#: have keys: a plain tuple, because it is made for each run.
Run = tuple[int, int, set[int], bool]


def run_of(data: bytes, start: int, index: int, most: int) -> Run | None:
    """Count records of one form, `most` at most, from the one on that starts there and is number `index`; None if it has no simple form.

    IndexError if it is not there whole.
    """
    offsets = _offset_columns(index, min(most, RUN_MAX))
    form = _form_of(data, start, len(offsets))
    if form is None:
        return None
    time_at, offset_at, stop, same = form
    if data[start : start + 2] != data[stop : stop + 2]:
        return None  # the next one has another length: it is not worth the rest
    size = stop - start
    count = min(len(offsets[0]), (len(data) - start) // size)
    for at in same:
        byte, column = data[at : at + 1], data[at : at + count * size : size]
        if column != byte * count:
            count -= len(column.lstrip(byte))
    end = start + count * size
    for at, column in enumerate(offsets, offset_at):
        if data[at:end:size] != column[:count]:
            return None
    if not count:
        return None
    deltas = _deltas([data[at:end:size] for at in range(time_at, offset_at)])
    has_key = not data[offset_at + len(offsets)] & 1
    return (count, end, deltas, has_key) if deltas else None


def _form_of(data: bytes, start: int, offset_bytes: int) -> tuple[int, int, int, list[int]] | None:
    """Tell where time, offset and next record start and which bytes must be the same in the next one; None if not simple."""
    length, body = data[start], start + 1
    same = [start]
    if length >= 0x80:
        length += data[body] - 1 << 7
        same.append(body)
        body += 1
    offset_at = body + 2
    while data[offset_at - 1] >= 0x80:
        offset_at += 1
    at = offset_at + offset_bytes
    key = data[at]
    same.append(at)
    at += 1 if key & 1 else 1 + (key >> 1)
    size = data[at]
    same.append(at)
    if size < 0x80:
        at += 1 if size & 1 else 1 + (size >> 1)
    else:
        same.append(at + 1)
        at += 2 + (size + (data[at + 1] - 1 << 7) >> 1)
    same.append(at)
    at = _add_headers(data, at, same) if data[at] else at + 1
    is_simple = key < 0x80 and (size < 0x80 or not size & 1) and offset_at - body <= TIME_BYTES_MAX
    if not is_simple or at - body << 1 != length or length > _SHORT_MAX:
        return None
    return body + 1, offset_at, at, same


def _add_headers(data: bytes, at: int, same: list[int]) -> int:
    """Add the lengths of a few short headers to what must be the same; tell where they end, -1 if they are others."""
    count = data[at]
    at += 1
    if count & 1 or count > 2 * HEADERS_MAX:
        return -1
    for _ in range(count >> 1):
        name = data[at]
        same.append(at)
        at += 1 + (name >> 1)
        value = data[at]
        same.append(at)
        at += 1 if value & 1 else 1 + (value >> 1)
        if name & 1 or name >= 0x80 or value >= 0x80:
            return -1
    return at


def _offset_columns(index: int, count: int) -> list[bytes]:
    """Give the bytes of as many offset deltas from `index` on as have the same width, `count` at most."""
    if index < _ONE_BYTE:
        return [_ONLY[index : index + count]]
    in_block = index % _TWO_BYTES
    count = min(count, _TWO_BYTES - in_block)
    low = index % _ONE_BYTE
    if index < _TWO_BYTES:
        return [_LOW[low : low + count], _HIGH[index : index + count]]
    if index < _THREE_BYTES:
        top = bytes((index // _TWO_BYTES,))
        return [_LOW[low : low + count], _MIDDLE[in_block : in_block + count], top * count]
    return [b""]


def _deltas(columns: list[bytes]) -> set[int]:
    """Read numbers from the columns of their bytes, each only once; none if not all have this width."""
    *lower, last = columns
    if not last.isascii() or any(column.translate(None, _CONTINUED) for column in lower):
        return set()
    if not lower:
        return _distinct(last)
    rows = bytearray(4 * len(last))
    for place, column in enumerate(columns):
        rows[place::4] = column
    words = set(struct.unpack(f"<{len(last)}I", rows))
    return {
        word & 0x7F | word >> 1 & 0x3F80 | word >> 2 & 0x1F_C000 | word >> 3 & 0xFE0_0000
        for word in words
    }


def _distinct(column: bytes) -> set[int]:
    """Tell which bytes there are. Times mostly go up: then bytes of one kind stand together, and are stripped at once."""
    found = set()
    for _ in range(STRIPPED_MAX):
        found.add(column[-1])
        column = column.rstrip(column[-1:])
        if not column:
            return found
    return found.union(column)
