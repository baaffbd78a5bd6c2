"""Where records start and end.

Job: step from length prefix to length prefix, which cannot be done for all records at once, as each place follows from the one before. But batches do
not depend on each other: the first records of many batches are stepped over together, then the second ones, and so on. What is left,
few and long batches, is walked: runs of records of one length at once, others in Python. Must not know what is in a record.

Invariants: all places lie within their batch, in order, and the records fill it exactly; BatchError otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from barnabas.wire.batch import MIN_RECORD_SIZE, BatchError, read_varint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from barnabas.wire.batch import BatchHeader

    #: Start and end of a batch's records, and its header.
    Placed = tuple[int, int, BatchHeader]

#: From so many batches on, a step for all together is cheaper than one for each in Python.
TOGETHER_MIN: Final = 24
#: From so many records of one length on, finding them at once is worth the look.
RUN_WORTH: Final = 16
#: Records walked before such a run is looked for again; more, the longer none is found.
BLOCK_MIN: Final = 64
BLOCK_MAX: Final = 4096
#: Larger records are walked where they lie; smaller ones in a copy, where a step costs half.
COPY_RECORD_BYTES: Final = 512
_CONTINUED: Final = 0x80

#: By the first two bytes of a record, low one first: bytes to the next record, for lengths of one and two bytes; 0 for longer ones.
_PAIR: Final = np.arange(1 << 16, dtype=np.int64)
_LOW: Final = (_PAIR & 0x7F) >> 1
_STEP: Final = np.where(
    _PAIR & 0x80 == 0,
    _LOW + 1,
    np.where(_PAIR & 0x8000 == 0, _LOW + (_PAIR >> 8 << 6) + 2, 0),
)
#: The same for the first byte alone: what it adds, with the prefix.
_FIRST: Final = [
    1 + (byte >> 1) if byte < _CONTINUED else 2 + (byte - 128 >> 1) for byte in range(256)
]


def record_places(
    buffer: NDArray[np.uint8], contents: Sequence[Placed]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return start and end of every record of these batches."""
    for start, end, header in contents:
        if header.record_count <= 0 or end - start < header.record_count * MIN_RECORD_SIZE:
            raise BatchError(f"{header.record_count} records do not fit into {end - start} bytes")
    counts = np.array([header.record_count for _, _, header in contents], np.int64)
    behind = np.cumsum(counts)
    starts = np.empty(int(behind[-1]), np.int64)
    left: Sequence[int] = range(len(contents))
    if len(contents) >= TOGETHER_MIN:
        left = _step_together(buffer, contents, counts, starts)
    for index in left:
        start, end, header = contents[index]
        last = int(behind[index])
        starts[last - header.record_count : last] = _walk(buffer, start, end, header.record_count)
    ends = np.empty_like(starts)
    ends[:-1] = starts[1:]
    ends[behind - 1] = [end for _, end, _ in contents]
    if (buffer[starts] & 1).any():
        raise BatchError("a record of negative length")
    return starts, ends


def _step_together(
    buffer: NDArray[np.uint8],
    contents: Sequence[Placed],
    counts: NDArray[np.int64],
    starts: NDArray[np.int64],
) -> Sequence[int]:
    """Fill in the starts of batches with the usual records; return the batches that are left."""
    order = np.argsort(-counts, kind="stable")
    sorted_counts = counts[order]
    # Where fewer have more records than this, those are walked.
    steps = int(sorted_counts[TOGETHER_MIN - 1])
    position = np.array([contents[each][0] for each in order], np.int64)
    slot = (np.cumsum(counts) - counts)[order]
    pairs: NDArray[np.uint16] = np.ndarray((buffer.size - 1,), "<u2", buffer, 0, (1,))
    limit = buffer.size - 2
    active = np.searchsorted(-sorted_counts, -np.arange(steps), side="left")
    for step in range(steps):
        here = position[: active[step]]
        starts[slot[: active[step]] + step] = here
        here += _STEP[pairs[np.minimum(here, limit)]]
    # Who has not arrived where its batch ends has more records, longer ones, or is none at all.
    arrived = position == np.array([contents[each][1] for each in order], np.int64)
    return [int(each) for each in order[~(arrived & (sorted_counts <= steps))]]


def _walk(buffer: NDArray[np.uint8], start: int, end: int, count: int) -> NDArray[np.int64]:
    """Step over the records of one batch: those of one length that follow each other at once, others one by one."""
    view = buffer.data[start:end]
    content = view.tobytes() if end - start < COPY_RECORD_BYTES * count else view
    pieces: list[NDArray[np.int64]] = []
    position, left, block = 0, count, BLOCK_MIN
    while left:
        size, run = _run(view, position, left)
        if run >= RUN_WORTH:
            pieces.append(np.arange(run, dtype=np.int64) * size + position)
            position += run * size
            block = BLOCK_MIN
        else:
            run = min(block, left)
            places, position = _steps(content, position, run)
            pieces.append(np.array(places, np.int64))
            block = min(2 * block, BLOCK_MAX)
        left -= run
    if position != end - start:
        raise BatchError(f"{end - start - position} bytes after the last record")
    return np.concatenate(pieces) + start


def _run(view: memoryview, position: int, left: int) -> tuple[int, int]:
    """Tell the size of the record at `position`, and how many of that size follow each other from there on."""
    try:
        length, body = read_varint(view, position)
    except IndexError:
        raise BatchError("a record is cut short") from None
    prefix = body - position
    size = prefix + length
    most = min(left, (len(view) - position) // size) if length > 0 else 0
    run = most
    for column in range(position, body if most >= RUN_WORTH else position):
        found = np.frombuffer(view, np.uint8)[column : column + most * size : size]
        differs = found != found[0]
        if differs.any():
            run = min(run, int(differs.argmax()))
    return size, run


def _steps(content: bytes | memoryview, position: int, count: int) -> tuple[list[int], int]:
    """Step over so many records: their places, and the place behind them."""
    places: list[int] = []
    note, ahead = places.append, _FIRST
    try:
        for _ in range(count):
            note(position)
            first = content[position]
            if first < _CONTINUED:
                position += ahead[first]
            elif (second := content[position + 1]) < _CONTINUED:
                position += ahead[first] + (second << 6)
            else:
                position = _behind_long(content, position)
    except IndexError:
        raise BatchError("a record is cut short") from None
    return places, position


def _behind_long(content: bytes | memoryview, position: int) -> int:
    length, body = read_varint(memoryview(content), position)
    if length < 0:
        raise BatchError("a record of negative length")
    return body + length
