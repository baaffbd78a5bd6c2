"""Kafka's variable-length numbers, for a whole column at once.

Job: read zigzag numbers at many places, and write them. Must not know what they count.

Invariants: what is read takes ten bytes at most, BatchError for more; nothing outside the buffer is read or written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from barnabas.wire.batch import BatchError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_BYTES_MAX: Final = 10
_CONTINUED: Final = 0x80


def read_varints(
    buffer: NDArray[np.uint8], at: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Read a number at each place: the numbers, and the places behind them.

    Who reads beyond the end gets numbers that mean nothing, and a place behind the end: where fields end is checked by the caller.
    """
    first = buffer.take(at, mode="clip")
    if not first.size or first.max() < _CONTINUED:
        small = first.astype(np.int64)
        return (small >> 1) ^ -(small & 1), at + 1
    second = buffer.take(at + 1, mode="clip")
    if (first & second).max() >= _CONTINUED:
        return _read_long(buffer, at)
    is_long = first >> 7
    value = (first & 0x7F).astype(np.int64)
    value += (is_long * second).astype(np.int64) << 7
    behind = at + 1
    behind += is_long
    return (value >> 1) ^ -(value & 1), behind


def _read_long(
    buffer: NDArray[np.uint8], at: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    value = np.zeros(at.size, np.uint64)
    behind = at.copy()
    rows = np.arange(at.size)
    for index in range(_BYTES_MAX):
        byte = buffer.take(behind[rows], mode="clip")
        value[rows] |= (byte & 0x7F).astype(np.uint64) << np.uint64(7 * index)
        behind[rows] += 1
        rows = rows[byte >= _CONTINUED]
        if not rows.size:
            half = (value >> np.uint64(1)).view(np.int64)
            return half ^ -((value & np.uint64(1)).view(np.int64)), behind
    raise BatchError("a number of more than ten bytes")


def varint_sizes(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Tell how many bytes each number takes."""
    encoded = _zigzag(values)
    sizes = np.ones(values.size, np.int64)
    limit = 7
    largest = int(encoded.max()) if values.size else 0
    while largest >> limit:
        sizes += (encoded >> np.uint64(limit)) != 0
        limit += 7
    return sizes


def write_varints(
    buffer: NDArray[np.uint8], at: NDArray[np.int64], values: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Write a number at each place; return the places behind them."""
    left = _zigzag(values)
    at = at.copy()
    rest = np.flatnonzero(left >= _CONTINUED)
    while rest.size:
        buffer[at[rest]] = (left[rest] & np.uint64(0x7F)).astype(np.uint8) | _CONTINUED
        at[rest] += 1
        left[rest] >>= np.uint64(7)
        rest = rest[left[rest] >= _CONTINUED]
    buffer[at] = left
    return at + 1


def _zigzag(values: NDArray[np.int64]) -> NDArray[np.uint64]:
    return ((values << 1) ^ (values >> 63)).view(np.uint64)
