"""The four codecs of record batches, with a cap on what comes out.

Kafka's framing: gzip as a gzip file, snappy in xerial's blocks, lz4 and zstd as their own frames. What Apache Kafka's
readers take is taken and what they refuse is refused: several gzip members, snappy streams or zstd frames in a row are one
content; bytes behind an lz4 frame or a gzip member are ignored, behind a zstd frame they are an error.

No more is allocated than the caller's limit allows, so a small batch that unpacks to gigabytes costs one error.
"""

from __future__ import annotations

import struct
import zlib
from enum import IntEnum
from typing import TYPE_CHECKING, Final

import cramjam
import lz4.frame  # type: ignore[import-untyped]
import zstandard

if TYPE_CHECKING:
    from collections.abc import Iterator

    #: What every library here takes.
    Bytes = bytes | bytearray | memoryview


class Codec(IntEnum):
    """Codec numbers as they stand in a batch's attributes. `Codec(number)` raises CompressionError for those that nobody has defined."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @classmethod
    def _missing_(cls, number: object) -> None:
        raise CompressionError(f"there is no codec {number}")


#: What `compression.type` calls them.
BY_NAME: Final = {
    "none": Codec.NONE,
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}


class CompressionError(ValueError):
    """Bytes that do not decompress."""


class TooLargeError(CompressionError):
    """Bytes that decompress to more than the limit."""


#: Members of a gzip stream or blocks of snappy's with nothing in them: nobody writes them, and each costs time.
EMPTY_PIECES_MAX: Final = 100
#: What comes out at once at most, but for a snappy block, which is one piece.
PIECE_BYTES: Final = 1024 * 1024

_GZIP_MAGIC: Final = b"\x1f\x8b"
_XERIAL_MAGIC: Final = b"\x82SNAPPY\0"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES: Final = 32 * 1024
#: Three bytes of snappy copy 64 at most: a block that claims more than this lies.
_SNAPPY_RATIO_MAX: Final = 22
#: Where an lz4 frame says that its blocks stand alone. Java's reader takes no others.
_LZ4_FLAGS_AT: Final = 4
_LZ4_INDEPENDENT: Final = 0x20
_ZSTD_MAGIC: Final = 0xFD2FB528
#: Behind the magic number.
_ZSTD_DESCRIPTOR_AT: Final = 4
#: The first of 16 magic numbers of frames that hold something else.
_ZSTD_SKIPPABLE: Final = 0x184D2A50
_ZSTD_LEVEL: Final = 3
#: Tried in one call first, for which the memory is taken before.
_AT_ONCE_BYTES: Final = 256 * 1024


def compress(codec: Codec, data: Bytes, level: int | None = None) -> bytes:
    """Compress with Kafka's framing, at the codec's default level if none is given.

    Snappy has no levels, and lz4 only its quick one here.
    """
    match codec:
        case Codec.GZIP:
            squeeze = zlib.compressobj(-1 if level is None else level, wbits=31)
            return squeeze.compress(data) + squeeze.flush()
        case Codec.SNAPPY:
            return _compress_snappy(memoryview(data))
        case Codec.LZ4:
            return bytes(lz4.frame.compress(data, block_linked=False, store_size=False))
        case Codec.ZSTD:
            return zstandard.ZstdCompressor(_ZSTD_LEVEL if level is None else level).compress(data)
        case Codec.NONE:
            return bytes(data)


def decompress(codec: Codec, data: Bytes, limit_bytes: int) -> bytes:
    """Decompress at most `limit_bytes`; TooLargeError for more, CompressionError for bytes of another kind."""
    return Unpacker().unpack(codec, data, limit_bytes)


def unpack_in_pieces(codec: Codec, data: Bytes, limit_bytes: int) -> Iterator[Bytes]:
    """Decompress step by step, so that no more than a piece is in memory; the errors of `decompress`."""
    total = 0
    for piece in _pieces(codec, data, limit_bytes):
        total += len(piece)
        if total > limit_bytes:
            raise TooLargeError(f"decompresses to more than {limit_bytes} bytes")
        yield piece


class Unpacker:
    """Decompresses for one thread at a time, and keeps what is costly to make anew for every batch."""

    __slots__ = ("_zstd",)

    def __init__(self) -> None:
        """Make zstd's context, which takes as long as 4 KB to unpack."""
        self._zstd = zstandard.ZstdDecompressor()

    def unpack(self, codec: Codec, data: Bytes, limit_bytes: int) -> bytes:
        """Decompress at most `limit_bytes`; TooLargeError for more, CompressionError for bytes of another kind."""
        content = None
        if codec == Codec.ZSTD:
            content = self._unpack_zstd(data, min(limit_bytes, _AT_ONCE_BYTES))
        elif codec == Codec.LZ4:
            content = _unpack_lz4(data, min(limit_bytes, _AT_ONCE_BYTES))
        if content is None:
            content = b"".join(unpack_in_pieces(codec, data, limit_bytes))
        return content

    def _unpack_zstd(self, data: Bytes, limit_bytes: int) -> bytes | None:
        """Unpack the usual, one frame of no great size; None for everything else."""
        try:
            size = zstandard.frame_content_size(data)
            if size < 0 and _zstd_frame_end(data, _ZSTD_DESCRIPTOR_AT) != len(data):
                return None  # the library says nothing of bytes behind a frame whose size is not announced
            if 0 != size <= limit_bytes:  # nor of what follows an empty one
                room = limit_bytes if size < 0 else 0
                return self._zstd.decompress(data, max_output_size=room, allow_extra_data=False)
        except (zstandard.ZstdError, IndexError):
            pass
        return None


def _unpack_lz4(data: Bytes, limit_bytes: int) -> bytes | None:
    """Unpack the usual, one frame of no great size; None for everything else."""
    if len(data) <= _LZ4_FLAGS_AT or not data[_LZ4_FLAGS_AT] & _LZ4_INDEPENDENT:
        return None
    frame = lz4.frame.LZ4FrameDecompressor()
    try:
        content: bytes = frame.decompress(data, limit_bytes)
    except RuntimeError:
        return None
    return content if frame.eof else None


def _pieces(codec: Codec, data: Bytes, limit_bytes: int) -> Iterator[bytes | memoryview]:
    empty = 0
    for piece in _raw_pieces(codec, data, limit_bytes):
        if not piece:
            empty += 1
            if empty > EMPTY_PIECES_MAX:
                raise CompressionError("too many parts with nothing in them")
        yield piece


def _raw_pieces(codec: Codec, data: Bytes, limit_bytes: int) -> Iterator[bytes | memoryview]:
    piece_bytes = min(PIECE_BYTES, limit_bytes + 1)
    match codec:
        case Codec.GZIP:
            return _gzip_pieces(data, piece_bytes)
        case Codec.SNAPPY:
            return _snappy_pieces(memoryview(data), limit_bytes)
        case Codec.LZ4:
            return _lz4_pieces(memoryview(data), piece_bytes)
        case Codec.ZSTD:
            return _zstd_pieces(memoryview(data), piece_bytes)
        case Codec.NONE:
            return iter((memoryview(data),))


def _gzip_pieces(data: Bytes, piece_bytes: int) -> Iterator[bytes]:
    member = zlib.decompressobj(wbits=31)
    try:
        yield member.decompress(data, piece_bytes)
        while True:
            while not member.eof:
                piece = member.decompress(member.unconsumed_tail, piece_bytes)
                if not piece and not member.eof:
                    raise CompressionError("the gzip stream is cut short")
                yield piece
            rest = member.unused_data
            if not rest.startswith(_GZIP_MAGIC):
                return
            member = zlib.decompressobj(wbits=31)
            yield member.decompress(rest, piece_bytes)
    except zlib.error as problem:
        raise CompressionError(str(problem)) from None


def _lz4_pieces(data: memoryview, piece_bytes: int) -> Iterator[bytes]:
    if len(data) <= _LZ4_FLAGS_AT or not data[_LZ4_FLAGS_AT] & _LZ4_INDEPENDENT:
        raise CompressionError("no lz4 frame of blocks that stand alone")
    frame = lz4.frame.LZ4FrameDecompressor()
    try:
        piece = frame.decompress(data, piece_bytes)
        while piece:
            yield piece
            if frame.eof:
                return
            piece = frame.decompress(b"", piece_bytes)
    except RuntimeError as problem:
        raise CompressionError(str(problem)) from None
    if not frame.eof:
        raise CompressionError("the lz4 frame is cut short")


def _zstd_pieces(data: memoryview, piece_bytes: int) -> Iterator[bytes]:
    _check_zstd_frames(data)
    reader = zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True)
    try:
        while piece := reader.read(piece_bytes):
            yield piece
    except zstandard.ZstdError as problem:
        raise CompressionError(str(problem)) from None


def _check_zstd_frames(data: memoryview) -> None:
    """Step from frame to frame and block to block: the reader takes frames that are cut short for whole ones."""
    position, end = 0, len(data)
    try:
        while position < end:
            (magic,) = struct.unpack_from("<I", data, position)
            if magic == _ZSTD_MAGIC:
                position = _zstd_frame_end(data, position + _ZSTD_DESCRIPTOR_AT)
            elif magic & ~0xF == _ZSTD_SKIPPABLE:
                position += 8 + int.from_bytes(data[position + 4 : position + 8], "little")
            else:
                raise CompressionError("no zstd frame")
    except (struct.error, IndexError):
        position = end + 1
    if position > end:
        raise CompressionError("the zstd frame is cut short")


def _zstd_frame_end(data: Bytes, position: int) -> int:
    """Tell where the frame ends whose descriptor is at `position` (RFC 8878, 3.1.1)."""
    descriptor = data[position]
    single_segment = descriptor >> 5 & 1
    content_size_bytes = (single_segment, 2, 4, 8)[descriptor >> 6]
    position += 2 - single_segment + (0, 1, 2, 4)[descriptor & 3] + content_size_bytes
    is_last = 0
    while not is_last:
        block = data[position] | data[position + 1] << 8 | data[position + 2] << 16
        is_last, kind, size = block & 1, block >> 1 & 3, block >> 3
        position += 3 + (1 if kind == 1 else size)
    return position + (4 if descriptor & 4 else 0)


def _compress_snappy(data: memoryview) -> bytes:
    out = bytearray(_XERIAL_HEADER)
    for start in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK_BYTES]))
        out += struct.pack(">i", len(block))
        out += block
    return bytes(out)


def _snappy_pieces(data: memoryview, limit_bytes: int) -> Iterator[bytes | memoryview]:
    """Accept xerial's blocks (Java, librdkafka) and one bare block (some older clients)."""
    if bytes(data[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        yield _unpack_snappy_block(data, limit_bytes)
        return
    position, end = len(_XERIAL_HEADER), len(data)
    while position + 4 <= end:
        (size,) = struct.unpack_from(">i", data, position)
        if 0 < size <= end - position - 4:
            position += 4
            yield _unpack_snappy_block(data[position : position + size], limit_bytes)
            position += size
        elif bytes(data[position : position + len(_XERIAL_MAGIC)]) == _XERIAL_MAGIC:
            position += len(_XERIAL_HEADER)  # one stream behind another
        else:
            raise CompressionError(f"a snappy block claims {size} bytes")


def _unpack_snappy_block(block: memoryview, limit_bytes: int) -> memoryview:
    try:
        size = cramjam.snappy.decompress_raw_len(block)
        if size > _SNAPPY_RATIO_MAX * len(block):
            raise CompressionError(f"a snappy block of {len(block)} bytes claims to hold {size}")
        if size > limit_bytes:
            raise TooLargeError(f"decompresses to more than {limit_bytes} bytes")
        return memoryview(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as problem:
        raise CompressionError(str(problem)) from None
