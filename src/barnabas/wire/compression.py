"""The four codecs of record batches, with a cap on what comes out.

Kafka's framing: gzip as a gzip file, snappy in xerial's blocks, lz4 and zstd as their own frames.
Decompression stops at the caller's limit before allocating past it, so a small batch that unpacks
to gigabytes costs one error.
"""

from __future__ import annotations

import struct
import zlib
from enum import IntEnum
from typing import TYPE_CHECKING, Final

import cramjam

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Buffer


class Codec(IntEnum):
    """Codec numbers as they stand in a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


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
    """Bytes that do not decompress, or to more than the limit."""


_XERIAL_MAGIC: Final = b"\x82SNAPPY\0"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES: Final = 32 * 1024
#: Magic, version 1 with independent blocks, blocks of 64 KiB, checksum of those two bytes. Java's reader refuses
#: blocks that lean on earlier ones, which is what the library's own frames have.
_LZ4_HEADER: Final = bytes.fromhex("04224d18604082")
_LZ4_BLOCK_BYTES: Final = 64 * 1024
_LZ4_STORED: Final = 1 << 31
_LZ4_END: Final = bytes(4)
#: First guess of the decompressed size, at least; doubled until it fits or meets the limit.
_FIRST_GUESS_BYTES: Final = 64 * 1024


def compress(codec: Codec, data: Buffer, level: int | None = None) -> bytes:
    """Compress with Kafka's framing, at the codec's default level if none is given.

    Snappy has no levels, and lz4 only its quick one here: the library's other modes give the same bytes.
    """
    match codec:
        case Codec.GZIP:
            squeeze = zlib.compressobj(-1 if level is None else level, wbits=31)
            return squeeze.compress(data) + squeeze.flush()
        case Codec.SNAPPY:
            return _compress_snappy(memoryview(data))
        case Codec.LZ4:
            return _compress_lz4(memoryview(data))
        case Codec.ZSTD:
            return bytes(cramjam.zstd.compress(data, level=level))
        case Codec.NONE:
            return bytes(data)


def decompress(codec: Codec, data: Buffer, limit_bytes: int) -> bytes:
    """Decompress at most `limit_bytes`; CompressionError for more, or for bytes of another kind."""
    match codec:
        case Codec.GZIP:
            return _decompress_gzip(data, limit_bytes)
        case Codec.SNAPPY:
            return _decompress_snappy(memoryview(data), limit_bytes)
        case Codec.LZ4:
            return _decompress_into(cramjam.lz4.decompress_into, data, limit_bytes)
        case Codec.ZSTD:
            return _decompress_into(cramjam.zstd.decompress_into, data, limit_bytes)
        case Codec.NONE:
            return bytes(data)


def _decompress_gzip(data: Buffer, limit_bytes: int) -> bytes:
    unpack = zlib.decompressobj(wbits=31)
    try:
        content = unpack.decompress(data, limit_bytes + 1)
    except zlib.error as problem:
        raise CompressionError(str(problem)) from None
    _check_limit(len(content), limit_bytes)
    if not unpack.eof:
        raise CompressionError("the gzip stream is cut short")
    return content


def _decompress_into(
    unpack: Callable[[Buffer, bytearray], int], data: Buffer, limit_bytes: int
) -> bytes:
    """Try with a buffer of a likely size, then larger ones: the library allocates nothing itself."""
    size = max(_FIRST_GUESS_BYTES, 4 * memoryview(data).nbytes)
    while True:
        size = min(size, limit_bytes)
        out = bytearray(size)
        try:
            return bytes(memoryview(out)[: unpack(data, out)])
        except cramjam.DecompressionError as problem:
            if "write whole buffer" not in str(problem):
                raise CompressionError(str(problem)) from None
            if size == limit_bytes:
                _check_limit(limit_bytes + 1, limit_bytes)
        size *= 2


def _compress_lz4(data: memoryview) -> bytes:
    out = bytearray(_LZ4_HEADER)
    for start in range(0, len(data), _LZ4_BLOCK_BYTES):
        plain = data[start : start + _LZ4_BLOCK_BYTES]
        block = bytes(cramjam.lz4.compress_block(plain, store_size=False))
        if len(block) < len(plain):
            out += struct.pack("<I", len(block)) + block
        else:
            out += struct.pack("<I", len(plain) | _LZ4_STORED) + plain
    return bytes(out + _LZ4_END)


def _compress_snappy(data: memoryview) -> bytes:
    out = bytearray(_XERIAL_HEADER)
    for start in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK_BYTES]))
        out += struct.pack(">i", len(block))
        out += block
    return bytes(out)


def _decompress_snappy(data: memoryview, limit_bytes: int) -> bytes:
    """Accept xerial's blocks (Java, librdkafka) and one bare block (some older clients)."""
    if bytes(data[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        return _decompress_block(data, limit_bytes)
    out, position = bytearray(), len(_XERIAL_HEADER)
    while position < len(data):
        if position + 4 > len(data):
            raise CompressionError("a snappy block is cut short")
        (size,) = struct.unpack_from(">i", data, position)
        position += 4
        if not 0 < size <= len(data) - position:
            raise CompressionError(f"a snappy block claims {size} bytes")
        out += _decompress_block(data[position : position + size], limit_bytes - len(out))
        position += size
    return bytes(out)


def _decompress_block(block: memoryview, limit_bytes: int) -> bytes:
    try:
        _check_limit(cramjam.snappy.decompress_raw_len(block), limit_bytes)
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as problem:
        raise CompressionError(str(problem)) from None


def _check_limit(size: int, limit_bytes: int) -> None:
    if size > limit_bytes:
        raise CompressionError(f"decompresses to more than {limit_bytes} bytes")
