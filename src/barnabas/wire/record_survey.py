"""What the records of a batch are like, told without decoding them: that each is right, their times, their keys.

Job: every record of a produced batch is held against Kafka's format, field by field, as Apache Kafka's reader does it
(DefaultRecord.readFrom), and against its place in the batch: offset deltas count up from 0. Whoever reads the batch later
can rely on that. Must not know topics, their settings or codecs.

There are three ways past a record. The judge is `_walk_one`, which reads number by number, across pieces. Most records are of
the usual form: short numbers, few headers. That is seen at a glance (`_walk_usual`), in a fifth of the time. Where records of
one length follow each other, whole columns of their bytes are compared (`run_of`), and that costs next to nothing.

Invariants: nothing is taken that the judge would not take. The caller bounds the effort, in steps of about half a
microsecond; between two looks at what is left of it lie a few thousand steps at most.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.wire.batch import NO_TIMESTAMP, BatchError
from barnabas.wire.record_columns import HEADERS_MAX, Run, run_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from barnabas.wire.batch import BatchHeader
    from barnabas.wire.compression import Bytes

#: A run of this length is quicker than so many steps: then the next one is looked for at once.
RUN_WORTH: Final = 16
#: Records smaller than this are copied to be looked into: a view is slower, and has no columns.
COPY_WORTH_BYTES: Final = 4096
#: A large content is copied piece by piece. Smaller pieces were tried: each costs a restart, and the broker used no less time.
PIECE_BYTES: Final = 1024 * 1024
#: Timestamp deltas that are remembered at once; of more, those at the ends.
DELTAS_MAX: Final = 1024
#: Steps that the judge takes for a record, and for one of its headers.
STEPS_JUDGED: Final = 8
STEPS_HEADER: Final = 4
#: Bytes of a 32-bit number at most, and of a 64-bit one.
INT_BYTES_MAX: Final = 5
LONG_BYTES_MAX: Final = 10

_HEAD: Final = struct.Struct("<6B").unpack_from
_ONE_BYTE_AND_KEY: Final = struct.Struct("<BB").unpack_from
_TWO_BYTES_AND_KEY: Final = struct.Struct("<HB").unpack_from
_FOUR_BYTES: Final = struct.Struct("<I").unpack_from
#: Records whose offset deltas differ in the first byte only.
_BLOCK: Final = 64
_TWO_BYTES: Final = _BLOCK * 128
_THREE_BYTES: Final = _TWO_BYTES * 128
#: The largest numbers of one byte and of two.
_BYTE_MAX: Final = 0x7F
_SHORT_MAX: Final = 0x3FFF
_LONG_MASK: Final = 0xFFFF_FFFF_FFFF_FFFF
_LONG_SIGN: Final = 0x8000_0000_0000_0000
#: What is left of a number: bits that run over are dropped, as Kafka does.
_MASKS: Final = {INT_BYTES_MAX: 0xFFFF_FFFF, LONG_BYTES_MAX: _LONG_MASK}


class EffortError(Exception):
    """It takes more steps than the caller allows."""


class Survey(NamedTuple):
    """What the records of a batch have shown."""

    #: Of those that have a time; None if none has.
    earliest_ms: int | None
    #: -1 if none has a time, and if all are before 1970, as Kafka has it.
    latest_ms: int
    has_keyless: bool


def survey(content: Bytes, header: BatchHeader, effort: int) -> Survey:
    """Look at the records of a batch, unpacked.

    BatchError if they are not what the header says, EffortError if it takes long to tell.
    """
    if header.record_count == 1 and (found := _survey_one(content, header.base_timestamp)):
        return found
    size = len(content)
    if size <= PIECE_BYTES:
        return survey_pieces((content,), header, effort)
    view = memoryview(content)
    pieces = (view[at : at + PIECE_BYTES] for at in range(0, size, PIECE_BYTES))
    return survey_pieces(pieces, header, effort)


def survey_pieces(pieces: Iterable[Bytes], header: BatchHeader, effort: int) -> Survey:
    """Do the same for content in pieces, cut anywhere, and hold no more than one of them."""
    return _Surveyor(pieces, header, effort).survey()


class _Surveyor:
    """Goes over the records of one batch and remembers what it saw."""

    __slots__ = (
        "_base_ms", "_count", "_data", "_deltas", "_effort", "_index", "_keys", "_passed", "_pieces", "_position",
    )  # fmt: skip

    def __init__(self, pieces: Iterable[Bytes], header: BatchHeader, effort: int) -> None:
        self._pieces = iter(pieces)
        self._data: Bytes = b""
        #: Of the next record.
        self._position = 0
        #: Bytes before `_data`.
        self._passed = 0
        self._count = header.record_count
        self._index = 0
        self._effort = effort
        self._base_ms = header.base_timestamp
        #: Timestamp deltas as they stand there.
        self._deltas: set[int] = set()
        #: Lengths of keys, one over the other: an odd one is negative, which means that there is no key.
        self._keys = 0

    def survey(self) -> Survey:
        """Go over all records, and see that nothing follows."""
        while self._index < self._count and self._has_more():
            if self._effort < 0:
                raise EffortError
            if not self._walk():
                self._walk_one()
        if self._index < self._count or self._has_more() or self._position > len(self._data):
            raise BatchError(f"{self._index} records of {self._count}, or not all bytes are theirs")
        return Survey(*_bounds(self._base_ms, self._deltas), bool(self._keys & 1))

    def _walk(self) -> bool:
        """Go over usual records of this piece; False if one needs the judge."""
        data, count, deltas = self._data, self._count, self._deltas
        position, index, effort, keys = self._position, self._index, self._effort, 0
        last, is_usual = index, True
        while is_usual and index < count and effort >= 0:
            # Where records are not alike, the next run is looked for behind a block of them.
            if index == last and (run := self._find_run(data, position, index)):
                run_count, position, times, has_key = run
                deltas |= times
                keys |= not has_key
                effort -= RUN_WORTH
                index += run_count
                last = index if run_count >= RUN_WORTH else -1
            else:
                first, last = index, min((index | _BLOCK - 1) + 1, count)
                position, index, more = _walk_usual(data, position, first, last, deltas)
                keys |= more
                effort -= index - first
                is_usual = index == last
        self._position, self._index, self._effort = position, index, effort
        self._keys |= keys
        if len(deltas) > DELTAS_MAX:
            self._deltas = _outermost(self._base_ms, deltas)
        return is_usual

    def _find_run(self, data: Bytes, position: int, index: int) -> Run | None:
        left = self._count - index
        if left < RUN_WORTH or not isinstance(data, bytes):
            return None
        try:
            return run_of(data, position, index, left)
        except IndexError:
            return None

    def _walk_one(self) -> None:
        """Judge one record."""
        self._effort -= STEPS_JUDGED
        length = self._read_int()
        stop = self._at() + length
        self._skip(1)
        delta = self._read(LONG_BYTES_MAX)
        number = self._read_int()
        if number != self._index:
            raise BatchError(f"record {self._index} has offset delta {number}")
        key = self._read_int()
        self._skip(key)
        self._skip(self._read_int())
        self._skip_headers(stop)
        if self._at() != stop:
            raise BatchError(f"the length of record {number} contradicts its fields")
        self._deltas.add(delta)
        self._keys |= key < 0
        self._index += 1

    def _skip_headers(self, stop: int) -> None:
        headers = self._read_int()
        if not 0 <= 2 * headers <= stop - self._at():
            raise BatchError(f"record {self._index} claims {headers} headers")
        self._effort -= STEPS_HEADER * headers
        if self._effort < 0:
            raise EffortError
        for _ in range(headers):
            name = self._read_int()
            if name < 0:
                raise BatchError(f"record {self._index} has a header without a name")
            self._skip(name)
            self._skip(self._read_int())

    # The stream of pieces

    def _has_more(self) -> bool:
        """Tell whether a byte is left, in this piece or in one that comes."""
        while self._position >= len(self._data):
            piece = next(self._pieces, None)
            if piece is None:
                return False
            self._passed += len(self._data)
            self._position -= len(self._data)
            is_copied = len(piece) < COPY_WORTH_BYTES * self._count
            self._data = b""  # first: the next copy takes its memory. Two at once the C library gives back to the kernel, and gets anew
            self._data = bytes(piece) if is_copied else piece
        return True

    def _at(self) -> int:
        """Count the bytes before the next one."""
        return self._passed + self._position

    def _skip(self, size: int) -> None:
        """Pass by a field, which is not there if its size is negative."""
        if size > 0:
            self._position += size

    def _read_int(self) -> int:
        raw = self._read(INT_BYTES_MAX)
        return (raw >> 1) ^ -(raw & 1)

    def _read(self, bytes_max: int) -> int:
        """Read a number byte by byte."""
        raw = shift = 0
        while shift < 7 * bytes_max and (self._position < len(self._data) or self._has_more()):
            byte = self._data[self._position]
            self._position += 1
            if byte < 0x80:
                return (raw | byte << shift) & _MASKS[bytes_max]
            raw |= (byte & 0x7F) << shift
            shift += 7
        raise BatchError(f"record {self._index} is cut short, or has a number of too many bytes")


def _walk_usual(  # noqa: C901, PLR0912, PLR0915
    data: Bytes, position: int, index: int, last: int, deltas: set[int]
) -> tuple[int, int, int]:
    """Go over records as long as they are usual, to the one before `last`, which is of the same block.

    Returns where the next one starts, its index, and all lengths of keys, one over the other; adds timestamp deltas, as
    they stand there. It is one long loop because calls would double its time: the usual widths of numbers are read in place.
    """
    first, read_head, head_size = _block(index)
    expected, seen, keys = first, -1, 0
    try:
        for expected in range(first, first + 2 * (last - index), 2):
            at, length = position, data[position]
            if length < 0x80:
                at += 1
            elif data[at + 1] < 0x80:
                length, at = length + (data[at + 1] - 1 << 7), at + 2
            else:
                length, at = _read_number(data, at, INT_BYTES_MAX)
            body, delta = at, data[at + 1]
            at += 2
            if delta >= 0x80:
                delta, at = _read_number(data, at - 1, LONG_BYTES_MAX)
            offset, key = read_head(data, at)
            at += head_size
            if key >= 0x80:
                key, at = _read_number(data, at - 1, INT_BYTES_MAX)
            if not key & 1:
                at += key >> 1
            size = data[at]
            if size < 0x80:
                at += 1
            elif data[at + 1] < 0x80:
                size, at = size + (data[at + 1] - 1 << 7), at + 2
            else:
                size, at = _read_number(data, at, INT_BYTES_MAX)
            if not size & 1:
                at += size >> 1
            at = _after_headers(data, at) if data[at] else at + 1
            if at - body << 1 != length or offset != expected:
                break
            if delta != seen:
                seen = delta
                deltas.add(delta)
            keys |= key
            position = at
        else:
            expected += 2
    except (IndexError, struct.error):
        pass  # it goes on in the next piece, or is a very short one at the end, or is none
    return position, index + (expected - first >> 1), keys


def _block(index: int) -> tuple[int, Callable[[Bytes, int], tuple[int, int]], int]:
    """Tell what stands for an offset delta, how to read it and the key's length behind it, and how many bytes these take.

    To the end of the block, what stands for the next one is two more.
    """
    if index < _BLOCK:
        return 2 * index, _ONE_BYTE_AND_KEY, 2
    low, rest = 0x80 | 2 * index & 0x7F, index // _BLOCK
    if index < _TWO_BYTES:
        return low | rest << 8, _TWO_BYTES_AND_KEY, 3
    if index < _THREE_BYTES:
        return low | (0x80 | rest & 0x7F) << 8 | rest >> 7 << 16, _three_bytes_and_key, 4
    return -1, _ONE_BYTE_AND_KEY, 2  # none is read so


def _three_bytes_and_key(data: Bytes, position: int) -> tuple[int, int]:
    (word,) = _FOUR_BYTES(data, position)
    return word & 0xFF_FFFF, word >> 24


def _read_number(data: Bytes, position: int, bytes_max: int) -> tuple[int, int]:
    """Read a number and tell where it ends; IndexError if it is too long, or not there whole."""
    raw = shift = 0
    while shift < 7 * bytes_max:
        byte = data[position]
        position += 1
        if byte < 0x80:
            return (raw | byte << shift) & _MASKS[bytes_max], position
        raw |= (byte & 0x7F) << shift
        shift += 7
    raise IndexError


def _after_headers(data: Bytes, position: int) -> int:
    """Tell where the headers of a record end, if they are few, with short names and values; -1 if not."""
    count = data[position]
    position += 1
    if count & 1 or count > 2 * HEADERS_MAX:
        return -1
    for _ in range(count >> 1):
        name = data[position]
        position += 1 + (name >> 1)
        value = data[position]
        position += 1 if value & 1 else 1 + (value >> 1)
        if name & 1 or name > _BYTE_MAX or value > _BYTE_MAX:
            return -1
    return position


def is_plain(data: Bytes, start: int, end: int) -> bool:
    """Tell whether this is one record, usual, without headers and of its batch's time: producers without linger send these."""
    return _key_of_plain(data, start, end) >= 0


def _survey_one(data: Bytes, base_ms: int) -> Survey | None:
    """Look at the only record of a batch if it is plain."""
    key = _key_of_plain(data, 0, len(data))
    return None if key < 0 or base_ms < 0 else Survey(base_ms, base_ms, bool(key & 1))


def _key_of_plain(data: Bytes, at: int, end: int) -> int:
    """Return what stands for the length of the key in a plain record, data[at:end]; -1 if it is none.

    What lies behind its end may be looked at, but nothing comes of it.
    """
    try:
        # Length, attributes, timestamp delta, offset delta, length of the key: one byte each, or two for the first.
        length, second, third, fourth, fifth, sixth = _HEAD(data, at)
        if length < 0x80:
            at, delta, offset, key = at + 1, third, fourth, fifth
        else:
            length += second - 1 << 7
            at, delta, offset, key = at + 2, fourth, fifth, sixth
        if end - at << 1 != length or length > _SHORT_MAX or delta or offset or key > _BYTE_MAX:
            return -1
        at += 4 if key & 1 else 4 + (key >> 1)
        size = data[at]
        if size < 0x80:
            at += 1 if size & 1 else 1 + (size >> 1)
        elif size & 1:
            return -1
        else:
            at += 2 + (size + (data[at + 1] - 1 << 7) >> 1)
        return key if at + 1 == end and not data[at] else -1
    except (IndexError, struct.error):
        return -1


def _bounds(base_ms: int, deltas: set[int]) -> tuple[int | None, int]:
    """Tell the earliest time and the latest, as `Survey` has them, by timestamp deltas as they stand there."""
    times = [base_ms + ((delta >> 1) ^ -(delta & 1)) for delta in deltas]
    earliest_ms, latest_ms = min(times), max(times)
    if earliest_ms > NO_TIMESTAMP and latest_ms < _LONG_SIGN:
        return earliest_ms, latest_ms
    # Kafka's sums of 64 bits run over, and so do these.
    times = [(time_ms + _LONG_SIGN & _LONG_MASK) - _LONG_SIGN for time_ms in times]
    timed = [time_ms for time_ms in times if time_ms != NO_TIMESTAMP]
    return (min(timed), max(NO_TIMESTAMP, *timed)) if timed else (None, NO_TIMESTAMP)


def _outermost(base_ms: int, deltas: set[int]) -> set[int]:
    """Leave those at the ends, of positive ones (even, as they stand there) and of negative ones, and the one that means no time."""
    no_time = NO_TIMESTAMP - base_ms
    no_time = (no_time << 1 ^ no_time >> 63) & _LONG_MASK
    positive = [delta for delta in deltas if not delta & 1 and delta != no_time]
    negative = [delta for delta in deltas if delta & 1 and delta != no_time]
    ends = {end(sign) for sign in (positive, negative) if sign for end in (min, max)}
    return ends | deltas & {no_time}
