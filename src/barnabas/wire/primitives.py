"""The protocol's primitive types and the small runtime that generated messages stand on.

Job: variable-length integers, length checks, tagged sections, and the two base classes (`Struct`,
`Message`) that give generated classes equality, a representation, and guarded entry points.
It must not know any message, connection or file.

Invariants:
- Malformed input raises `WireError` and nothing else, and before memory is taken for what it announces.
- Decoded `bytes` and `records` are slices of the input: no copy.
- The encoder never looks into a `records` value: it asks only for `len()` and hands on the same object.

How generated decoders stay short and still safe: slicing never raises in Python, so a length that points
past the end moves the position past the end; every later fixed read then fails, and `Message.decode`
refuses a position that is not exactly the end of the input.
"""

import struct
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final, Self, TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview
TaggedFields: TypeAlias = Sequence[tuple[int, bytes]]

MAX_ARRAY_ELEMENTS: Final = 1_000_000
MAX_TAGGED_FIELDS: Final = 10_000
MAX_STRING_BYTES: Final = 0x7FFF
NEVER_FLEXIBLE: Final = 0x8000
"""`FLEXIBLE_FROM` of a message without flexible versions: above every int16 version."""

ZERO_UUID: Final = bytes(16)
UUID_BYTES: Final = 16
SINGLE_BYTES: Final = tuple(bytes((value,)) for value in range(256))

MISSING: Final[Any] = object()
"""Stands for "argument not given" where `None` is a value of its own (nullable fields)."""

MAX_CACHED_FORMATS: Final = 1024
"""Packers kept for one pattern with array lengths in it; real traffic knows a handful of lengths."""

_TWO_BYTES: Final = struct.Struct("BB").pack
_THREE_BYTES: Final = struct.Struct("BBB").pack
_MAX_UINT32: Final = 0xFFFFFFFF
_MAX_UINT64: Final = 0xFFFFFFFFFFFFFFFF
_UVARINT_LAST_BYTE: Final = 4
_UVARLONG_LAST_BYTE: Final = 9


class WireError(ValueError):
    """Bytes that are not a valid message, or a value that a message version cannot carry."""


def read_uvarint(buf: Buffer, pos: int) -> tuple[int, int]:
    """Read an unsigned 32-bit varint; return it and the position after it."""
    # Unrolled for the sizes that occur in every request: this is a third of the time of decoding a Produce.
    try:
        byte = buf[pos]
        if byte < 0x80:
            return byte, pos + 1
        value = byte & 0x7F
        byte = buf[pos + 1]
        if byte < 0x80:
            return value | byte << 7, pos + 2
        value |= (byte & 0x7F) << 7
        byte = buf[pos + 2]
        if byte < 0x80:
            return value | byte << 14, pos + 3
    except IndexError:
        raise _cut_off(pos) from None
    return _read_unsigned(buf, pos, _UVARINT_LAST_BYTE, _MAX_UINT32)


def read_uvarlong(buf: Buffer, pos: int) -> tuple[int, int]:
    """Read an unsigned 64-bit varint; return it and the position after it."""
    return _read_unsigned(buf, pos, _UVARLONG_LAST_BYTE, _MAX_UINT64)


def read_varint(buf: Buffer, pos: int) -> tuple[int, int]:
    """Read a zigzag 32-bit varint; return it and the position after it."""
    value, pos = read_uvarint(buf, pos)
    return (value >> 1) ^ -(value & 1), pos


def read_varlong(buf: Buffer, pos: int) -> tuple[int, int]:
    """Read a zigzag 64-bit varint; return it and the position after it."""
    value, pos = _read_unsigned(buf, pos, _UVARLONG_LAST_BYTE, _MAX_UINT64)
    return (value >> 1) ^ -(value & 1), pos


def _read_unsigned(buf: Buffer, pos: int, last: int, limit: int) -> tuple[int, int]:
    value = 0
    try:
        for index in range(last + 1):
            byte = buf[pos + index]
            value |= (byte & 0x7F) << (7 * index)
            if byte < 0x80:
                if value > limit:
                    break
                return value, pos + index + 1
    except IndexError:
        raise _cut_off(pos) from None
    raise WireError(f"varint at byte {pos} is longer than its type allows")


def _cut_off(pos: int) -> WireError:
    return WireError(f"varint at byte {pos} is cut off by the end of the input")


def uvarint(value: int) -> bytes:
    """Encode an unsigned varint."""
    if value < 0x80:
        return SINGLE_BYTES[value]
    if value < 0x4000:
        return _TWO_BYTES(value & 0x7F | 0x80, value >> 7)
    if value < 0x200000:
        return _THREE_BYTES(value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14)
    out = bytearray()
    while value >= 0x80:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def varint(value: int) -> bytes:
    """Encode a zigzag 32-bit varint."""
    return uvarint((value << 1) ^ (value >> 31))


def varlong(value: int) -> bytes:
    """Encode a zigzag 64-bit varint."""
    return uvarint((value << 1) ^ (value >> 63))


def string_length(encoded: int) -> bytes:
    """Encode a compact string's length (plus one, as the format wants it), refusing what Java refuses."""
    if encoded > MAX_STRING_BYTES + 1:
        raise WireError(f"string of {encoded - 1} bytes is longer than {MAX_STRING_BYTES}")
    return uvarint(encoded)


def long_string_length(buf: memoryview, pos: int) -> tuple[int, int]:
    """Read a compact string length whose first byte, already taken, did not hold all of it."""
    value, pos = read_uvarint(buf, pos - 1)
    if value > MAX_STRING_BYTES + 1:
        raise WireError(f"string of {value - 1} bytes is longer than {MAX_STRING_BYTES}")
    return value, pos


def long_array_count(buf: memoryview, pos: int) -> tuple[int, int]:
    """Read a compact array count whose first byte, already taken, did not hold all of it."""
    value, pos = read_uvarint(buf, pos - 1)
    check_array_count(value - 1, len(buf) - pos)
    return value, pos


def check_array_count(count: int, remaining: int) -> None:
    """Refuse a count that the limit or the remaining bytes (at least one per element) exclude."""
    if count > MAX_ARRAY_ELEMENTS:
        raise WireError(f"array of {count} elements is longer than {MAX_ARRAY_ELEMENTS}")
    if count > remaining:
        raise WireError(f"array of {count} elements announced, {max(remaining, 0)} bytes remain")


def tagged_count(buf: memoryview, pos: int, first: int) -> tuple[int, int]:
    """Finish reading the number of tagged fields, of which `first` is the byte before `pos`."""
    if first < 0x80:
        return first, pos
    count, pos = read_uvarint(buf, pos - 1)
    if count > MAX_TAGGED_FIELDS:
        raise WireError(f"{count} tagged fields are more than {MAX_TAGGED_FIELDS}")
    return count, pos


def tagged_head(buf: memoryview, pos: int) -> tuple[int, int, int]:
    """Read one tagged field's head; return its tag, where its value starts and where it stops."""
    tag, pos = read_uvarint(buf, pos)
    size, pos = read_uvarint(buf, pos)
    if size > len(buf) - pos:
        raise WireError(
            f"tagged field {tag} of {size} bytes announced, {len(buf) - pos} bytes remain"
        )
    return tag, pos, pos + size


def unknown_tagged(buf: memoryview, pos: int, first: int) -> tuple[TaggedFields, int]:
    """Read a tagged section in which no tag is known, keeping every field."""
    count, pos = tagged_count(buf, pos, first)
    fields = []
    for _ in range(count):
        tag, pos, stop = tagged_head(buf, pos)
        fields.append((tag, bytes(buf[pos:stop])))
        pos = stop
    return fields, pos


def tagged_section(known: list[tuple[int, bytes]], unknown: TaggedFields) -> bytes:
    """Encode a tagged section: unknown fields in the order they came, merged with known ones by tag."""
    fields = sorted([*known, *unknown], key=lambda field: field[0]) if known else unknown
    parts = [uvarint(len(fields))]
    for tag, value in fields:
        parts += (uvarint(tag), uvarint(len(value)), value)
    return b"".join(parts)


class Packers(dict[Any, Callable[..., bytes]]):
    """`struct` packers for one pattern, by the lengths of the number arrays in it (one int, or a tuple of them)."""

    __slots__ = ("_pattern",)

    def __init__(self, pattern: str) -> None:
        """Start empty; each `{}` in the pattern stands for a length."""
        self._pattern = pattern

    def __missing__(self, lengths: int | tuple[int, ...]) -> Callable[..., bytes]:
        """Compile the packer for lengths not seen yet."""
        if len(self) >= MAX_CACHED_FORMATS:
            self.clear()
        counts = lengths if isinstance(lengths, tuple) else (lengths,)
        pack = self[lengths] = struct.Struct(self._pattern.format(*counts)).pack
        return pack


class Unpackers(dict[int, Callable[[Buffer, int], tuple[Any, ...]]]):
    """`struct` unpackers for an array of numbers, by its length."""

    __slots__ = ("_letter",)

    def __init__(self, letter: str) -> None:
        """Start empty; the letter is one number's format."""
        self._letter = letter

    def __missing__(self, length: int) -> Callable[[Buffer, int], tuple[Any, ...]]:
        """Compile the unpacker for a length not seen yet."""
        if len(self) >= MAX_CACHED_FORMATS:
            self.clear()
        unpack = self[length] = struct.Struct(f">{length}{self._letter}").unpack_from
        return unpack


def null_field(name: str) -> WireError:
    """Make the error for a null where the version has no null."""
    return WireError(f"{name} is null, which this version does not allow")


def tagged_size(name: str) -> WireError:
    """Make the error for a tagged field whose value does not fill the size it announced."""
    return WireError(f"tagged field {name} does not match its announced size")


def unsupported(name: str, version: int) -> WireError:
    """Make the error for a value that version has no place for (Java: UnsupportedVersionException)."""
    return WireError(f"{name} has a value, but version {version} cannot carry it")


def uuid_size(name: str) -> WireError:
    """Make the error for a uuid that is not 16 raw bytes."""
    return WireError(f"{name} must be {UUID_BYTES} raw bytes")


class Struct:
    """Base of every generated class: equality and representation over its slots."""

    __slots__: tuple[str, ...] = ()

    def __eq__(self, other: object) -> bool:
        """Compare field by field; a buffer equals any buffer with the same bytes."""
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = None  # type: ignore[assignment]  # mutable, so not hashable

    def __repr__(self) -> str:
        """Show every field that is set."""
        shown = ", ".join(
            f"{name}={getattr(self, name)!r}"
            for name in self.__slots__
            if name != "unknown_tagged_fields"
        )
        return f"{type(self).__name__}({shown})"


class Message(Struct):
    """Base of every top-level message: version check, and one kind of error for whatever is wrong."""

    __slots__ = ()

    API_KEY: ClassVar[int] = -1
    MIN_VERSION: ClassVar[int]
    MAX_VERSION: ClassVar[int]
    FLEXIBLE_FROM: ClassVar[int] = NEVER_FLEXIBLE
    DECODERS: ClassVar[dict[int, Callable[[memoryview, int], tuple[Any, int]]]]
    ENCODERS: ClassVar[dict[int, Callable[[Any, list[Buffer], int], None]]]

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> Self:
        """Read one message that fills `buf` from `pos` to its end."""
        message, left = cls._decode(buf, version, pos)
        if left:
            raise WireError(f"{left} bytes left over after {cls.__name__} version {version}")
        return message

    @classmethod
    def decode_prefix(cls, buf: Buffer, version: int, pos: int = 0) -> Self:
        """Read one message from `pos`; what follows it is ignored.

        Kafka reads requests so, and librdkafka 2.16 relies on it: its Metadata request for all topics has
        three bytes too many.
        """
        return cls._decode(buf, version, pos)[0]

    @classmethod
    def _decode(cls, buf: Buffer, version: int, pos: int) -> tuple[Self, int]:
        """Read one message: (it, bytes left after it)."""
        decoder = cls.DECODERS.get(version)
        if decoder is None:
            raise cls._no_such_version(version)
        view = buf if type(buf) is memoryview else memoryview(buf)
        try:
            message, end = decoder(view, pos)
        except (struct.error, IndexError):
            raise WireError(f"{cls.__name__} version {version} is cut off") from None
        except UnicodeDecodeError as error:
            raise WireError(f"{cls.__name__} version {version}: string is not UTF-8") from error
        if end > len(view):
            raise WireError(f"{cls.__name__} version {version} is cut off")
        return message, len(view) - end

    def encode(self, version: int) -> list[Buffer]:
        """Return the message as a list of buffers; `records` values stand in it as they are."""
        out: list[Buffer] = []
        self.encode_into(out, version)
        return out

    def encode_into(self, out: list[Buffer], version: int) -> None:
        """Append the message to `out`; after a failure `out` is as it was."""
        encoder = self.ENCODERS.get(version)
        if encoder is None:
            raise self._no_such_version(version)
        mark = len(out)
        try:
            encoder(self, out, version)
        except WireError:
            del out[mark:]
            raise
        except (
            struct.error,
            AttributeError,
            TypeError,
            UnicodeEncodeError,
            OverflowError,
        ) as error:
            del out[mark:]
            name = type(self).__name__
            raise WireError(f"{name} version {version} cannot carry a value: {error}") from error

    @classmethod
    def _no_such_version(cls, version: int) -> WireError:
        allowed = f"{cls.MIN_VERSION} to {cls.MAX_VERSION}"
        return WireError(f"{cls.__name__} has no version {version}, only {allowed}")
