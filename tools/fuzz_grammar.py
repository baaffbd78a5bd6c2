"""Requests for the fuzzer: random ones that a version can carry, and damaged ones.

Job: from a seeded `Random` and the generated message classes to frames (without their length). Values are chosen so that many
requests get past the first check: names of topics that exist, offsets near the ends, batches with a right checksum.
Must not know: brokers, sockets, what an answer should be.
Invariant: the same seed and the same `Scene` give the same frames.
"""
# ruff: noqa: ANN401, PLR0911  (a fuzzer handles values of any type)

import re
import struct
import types
import typing
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from crc32c import crc32c

from barnabas.wire import batch as batches
from barnabas.wire import frame
from barnabas.wire.batch import Producer, Record
from barnabas.wire.compression import Codec, compress, decompress
from barnabas.wire.primitives import Buffer, Struct, WireError

INT8 = (0, 1, 2, -1, 7, 127, -128)
INT16 = (0, 1, -1, 32767, -32768)
INT32 = (0, 1, -1, 100, 65536, 2**31 - 1, -(2**31))
INT64 = (*INT32, 2**63 - 1, -(2**63), 1_700_000_000_000, -2, -3, -4, -5, -6)
#: More than any batch that is made here holds.
CONTENT_BYTES_MAX = 1 << 26
LENGTHS = (0, 1, 0x7F, 0x80, 0x7FFF, 1_000_001, 2**31 - 1, -1, -2, -(2**31))
OVERLONG = (b"\xff" * 5, b"\x80\x80\x80\x80\x80\x01", b"\xff\xff\xff\xff\x0f", b"\x80" * 12)
STRINGS = (
    "",
    ".",
    "..",
    "../x",
    "a.b",
    "a_b",
    "é漢🙂",
    "x" * 249,
    "x" * 250,
    "y" * 32767,
    "\0",
    "%s",
    "-",
    "null",
)
CONFIGS = (
    "cleanup.policy", "compression.type", "retention.ms", "segment.bytes", "min.insync.replicas",
    "max.message.bytes", "message.timestamp.type", "flush.messages", "no.such.setting",
)  # fmt: skip
CONFIG_VALUES = (
    "delete",
    "compact",
    "zstd",
    "gzip",
    "-1",
    "0",
    "1",
    "100000",
    "LogAppendTime",
    "ß",
)
WIDE = re.compile(r"offset|timestamp|producer_id|_bytes$")
PARTITION = re.compile(r"partition|index")


@dataclass
class Scene:
    """What the broker under test has, so that requests can name it."""

    topics: Sequence[str] = ("one", "two", "three")
    topic_ids: dict[str, bytes] = field(default_factory=dict)
    session_ids: list[int] = field(default_factory=list)
    producer_ids: list[int] = field(default_factory=list)
    max_wait_ms: int = 2**31 - 1
    #: Numbers that fields of these names may have in good requests.
    numbers: dict[str, tuple[int, ...]] = field(default_factory=dict)


class Grammar:
    """Makes requests that decode."""

    def __init__(self, rng: Random, scene: Scene) -> None:
        """Draw everything from `rng`."""
        self.rng = rng
        self.scene = scene
        self._hints: dict[type[Struct], dict[str, Any]] = {}

    def request(self, key: int, version: int, correlation_id: int) -> bytes:
        """Return one request's frame, without its length."""
        kind, _ = frame.message_types(key)
        leave: frozenset[str] = frozenset()
        narrow = False
        while True:
            message: Any = self._struct(kind, leave, narrow=narrow)
            try:
                body = b"".join(bytes(part) for part in message.encode(version))
            except WireError as problem:
                refused = re.match(r"(\w+) has a value, but version", str(problem))
                if refused is not None:
                    leave |= {refused[1]}
                narrow = narrow or refused is None
                continue
            return self._head(kind, version, correlation_id) + body

    def _head(self, kind: Any, version: int, correlation_id: int) -> bytes:
        client_id = self.rng.choice((b"fuzz", b"", None, "é".encode()))
        length = -1 if client_id is None else len(client_id)
        head = struct.pack(">hhih", kind.API_KEY, version, correlation_id, length)
        head += client_id or b""
        return head + b"\0" if version >= kind.FLEXIBLE_FROM else head

    def _struct(self, kind: type[Struct], leave: frozenset[str], *, narrow: bool) -> Struct:
        hints = self._hints.get(kind)
        if hints is None:
            all_hints = typing.get_type_hints(kind)
            names = [name for name in kind.__slots__ if name != "unknown_tagged_fields"]
            hints = self._hints[kind] = {name: all_hints[name] for name in names}
        chosen = {
            name: self._value(name, hint, leave, narrow=narrow)
            for name, hint in hints.items()
            if name not in leave and self.rng.random() > 0.05
        }
        return kind(**chosen)

    def _value(self, name: str, hint: Any, leave: frozenset[str], *, narrow: bool) -> Any:
        if name == "records":
            return self.records()
        if hint is Any or hint == Buffer:
            return self.rng.randbytes(self.rng.choice((0, 1, 130)))
        if isinstance(hint, types.UnionType):
            options = [each for each in typing.get_args(hint) if each is not type(None)]
            if len(options) < len(typing.get_args(hint)) and self.rng.random() < 0.2:
                return None
            chosen = Buffer if len(options) > 1 else options[0]
            return self._value(name, chosen, leave, narrow=narrow)
        if typing.get_origin(hint) is list:
            (element,) = typing.get_args(hint)
            count = self.rng.choice((0, 1, 1, 1, 2, 5))
            return [self._value(name, element, leave, narrow=narrow) for _ in range(count)]
        if isinstance(hint, type) and issubclass(hint, Struct):
            return self._struct(hint, leave, narrow=narrow)
        return self._primitive(name, hint, narrow=narrow)

    def _primitive(self, name: str, hint: type, *, narrow: bool) -> Any:
        if hint is int:
            return self._int(name, narrow=narrow)
        if hint is bool:
            return self.rng.random() < 0.5
        if hint is float:
            return self.rng.choice((0.0, -1.0, 1e308, float("inf"), float("nan")))
        if hint is bytes:
            known = list(self.scene.topic_ids.values())
            return self.rng.choice(known) if known and self.rng.random() < 0.8 else self._uuid()
        return self._string(name)

    def _uuid(self) -> bytes:
        return self.rng.choice((bytes(16), b"\xff" * 16, self.rng.randbytes(16)))

    def _int(self, name: str, *, narrow: bool) -> int:
        rng = self.rng
        if name == "acks":
            return rng.choice((-1, -1, 1, 1, 0, 2))
        if name == "max_wait_ms":
            return rng.choice((0, 0, 5, -1, self.scene.max_wait_ms))
        if name == "session_id" and self.scene.session_ids and rng.random() < 0.7:
            return rng.choice(self.scene.session_ids)
        if name in self.scene.numbers and rng.random() < 0.9:
            return rng.choice(self.scene.numbers[name])
        if name == "session_epoch":
            return rng.choice((-1, 0, 0, 1, 2, 3))
        if PARTITION.search(name) and rng.random() < 0.85:
            return rng.choice((0, 0, 0, 1, 2))
        if name.endswith("max_bytes") and rng.random() < 0.7:
            return rng.choice((0, 1, 100, 2**20))
        if narrow:
            return rng.choice(INT8)
        return rng.choice(INT64 if WIDE.search(name) else rng.choice((INT8, INT8, INT16, INT32)))

    def _string(self, name: str) -> str:
        rng = self.rng
        if "config" in name or name in ("key", "value"):
            return rng.choice(CONFIGS + CONFIG_VALUES)
        if rng.random() < 0.75:
            return rng.choice(self.scene.topics)
        return rng.choice((*STRINGS, *CONFIGS, *CONFIG_VALUES))

    def records(self) -> bytes | None:
        """Return a batch: most of them good, others wrong in one field but with a right checksum."""
        rng = self.rng
        if rng.random() < 0.05:
            return rng.choice((None, b"", rng.randbytes(7), rng.randbytes(61), rng.randbytes(80)))
        batch = self._good_batch()
        if rng.random() < 0.6:
            self._lie(batch)
            if rng.random() < 0.9:
                struct.pack_into(">I", batch, 17, crc32c(bytes(batch[batches.CRC_START :])))
        if rng.random() < 0.05:
            batch += self._good_batch()
        if rng.random() < 0.05:
            del batch[rng.randrange(len(batch)) :]
        return bytes(batch)

    def _good_batch(self) -> bytearray:
        rng = self.rng
        codec = rng.choice((Codec.NONE, Codec.NONE, *Codec))
        records = [
            Record(offset, rng.choice((-1, 0, 1_700_000_000_000 + offset)), self._blob(), self._blob(codec))
            for offset in range(rng.choice((1, 1, 2, 10)))
        ]  # fmt: skip
        producer = Producer()
        if rng.random() < 0.3:
            known = self.scene.producer_ids or [0]
            producer = Producer(rng.choice(known), rng.choice((0, 0, 1)), rng.choice((0, 0, 1, 2)))
        return batches.build(records, codec=codec, producer=producer)

    def _blob(self, codec: Codec = Codec.NONE) -> bytes | None:
        if codec and self.rng.random() < 0.02:
            return bytes(self.rng.choice((300_000, 3_000_000)))  # takes long to open
        return self.rng.choice((None, b"", b"k", self.rng.randbytes(300)))

    def _lie(self, batch: bytearray) -> None:
        """Lie inside of what is compressed, or in the header."""
        codec = batches.read_header(batch).codec
        if codec and self.rng.random() < 0.6:
            self._lie_inside(batch, Codec(codec))
        else:
            self._lie_outside(batch)

    def _lie_inside(self, batch: bytearray, codec: Codec) -> None:
        """Compress other content than the header tells of, or spoil what is compressed."""
        rng = self.rng
        packed = bytes(batch[batches.HEADER_SIZE :])
        content = decompress(codec, packed, CONTENT_BYTES_MAX)
        at = rng.randrange(len(content))
        packed = rng.choice(
            (
                lambda: compress(codec, content[:at]),
                lambda: compress(codec, content + rng.randbytes(rng.choice((1, 8, 40)))),
                lambda: compress(codec, content + content),
                lambda: compress(codec, content[:at] + rng.randbytes(1) + content[at + 1 :]),
                lambda: compress(codec, rng.randbytes(1) + content[1:]),
                lambda: compress(codec, b""),
                lambda: compress(codec, content[:at]) + compress(codec, content[at:]),
                lambda: compress(rng.choice(list(Codec)), content),
                lambda: packed[: rng.randrange(len(packed))],
                lambda: packed + rng.randbytes(rng.choice((1, 4, 20))),
                lambda: rng.randbytes(rng.choice((1, 8, 100))),
            )
        )()
        batch[batches.HEADER_SIZE :] = packed
        struct.pack_into(">i", batch, 8, len(batch) - batches.LOG_OVERHEAD)

    def _lie_outside(self, batch: bytearray) -> None:
        """Overwrite one field of the header (offset, format, values to take) or one byte of the records."""
        fields = (
            (0, ">q", INT64), (8, ">i", INT32), (12, ">i", INT32), (16, ">b", INT8), (21, ">h", INT16),
            (21, ">h", (5, 6, 7, 8, 16, 32, 48, 64, 128)), (23, ">i", INT32), (27, ">q", INT64),
            (35, ">q", INT64), (43, ">q", INT64), (51, ">h", INT16), (53, ">i", INT32), (57, ">i", INT32),
        )  # fmt: skip
        if self.rng.random() < 0.2:
            batch[self.rng.randrange(61, len(batch))] = self.rng.randrange(256)
            return
        position, layout, values = self.rng.choice(fields)
        struct.pack_into(layout, batch, position, self.rng.choice(values))


class Mutator:
    """Damages frames."""

    def __init__(self, rng: Random) -> None:
        """Draw everything from `rng`."""
        self.rng = rng
        self._previous = b"\0"
        self._ways = (
            self._flip, self._flip, self._cut, self._insert, self._delete, self._overwrite,
            self._overwrite, self._overlong, self._splice, self._repeat, self._append, self._byte,
        )  # fmt: skip

    def mutate(self, good: bytes) -> bytes:
        """Return the frame with one to four damages."""
        data = bytearray(good)
        for _ in range(self.rng.choice((1, 1, 1, 2, 4))):
            self.rng.choice(self._ways)(data)
        self._previous = good
        return bytes(data)

    def _at(self, data: bytearray) -> int:
        return self.rng.randrange(len(data)) if data else 0

    def _flip(self, data: bytearray) -> None:
        if data:
            data[self._at(data)] ^= 1 << self.rng.randrange(8)

    def _byte(self, data: bytearray) -> None:
        if data:
            data[self._at(data)] = self.rng.choice((0, 1, 0x7F, 0x80, 0xFF))

    def _cut(self, data: bytearray) -> None:
        del data[self._at(data) :]

    def _insert(self, data: bytearray) -> None:
        at = self._at(data)
        data[at:at] = self.rng.randbytes(self.rng.choice((1, 2, 4, 8)))

    def _delete(self, data: bytearray) -> None:
        at = self._at(data)
        del data[at : at + self.rng.choice((1, 2, 4, 8))]

    def _overwrite(self, data: bytearray) -> None:
        """Put a length or count that lies."""
        layout = self.rng.choice((">h", ">i", ">i", ">q"))
        raw = struct.pack(">q", self.rng.choice(LENGTHS))[-struct.calcsize(layout) :]
        at = self._at(data)
        data[at : at + len(raw)] = raw

    def _overlong(self, data: bytearray) -> None:
        at = self._at(data)
        data[at : at + 1] = self.rng.choice(OVERLONG)

    def _splice(self, data: bytearray) -> None:
        """Go on with the second half of the frame before this one."""
        data[self._at(data) :] = self._previous[self.rng.randrange(len(self._previous) + 1) :]

    def _repeat(self, data: bytearray) -> None:
        at = self._at(data)
        data[at:at] = data[at : at + self.rng.choice((1, 4, 16, 64))]

    def _append(self, data: bytearray) -> None:
        data += self.rng.randbytes(self.rng.choice((1, 3, 9)))
