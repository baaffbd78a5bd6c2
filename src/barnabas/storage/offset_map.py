"""Which records of a log's dirty part have a later one of the same key: what compaction goes by.

Job: take keys in the order of their offsets; tell the last offset of a key, and the fate of every offset that was
taken. Must not know files, batches or what becomes of a record.

Memory is bounded by `memory_bytes`, whatever the keys: seven eighths of it for slots of 16 + 8 bytes, as Kafka's map
has them, one eighth for the fates, a byte for each offset. It takes no more than the dirty part can need.

A key of at most 15 bytes stands in its slot as it is, with its length behind it; a longer one as a hash of 120 bits
and a byte that is no length. So short keys never meet, and long ones as seldom as in Kafka. Where a slot lies follows
from Python's `hash`, which differs from process to process: nothing that comes out of here depends on it.

Why fates: the second pass need not look at keys again. It drops or copies whole batches by counting bytes.
"""

from __future__ import annotations

from array import array
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

HASH_BYTES: Final = 16
OFFSET_BYTES: Final = 8
ENTRY_BYTES: Final = HASH_BYTES + OFFSET_BYTES
#: The share of the memory that the fates get.
_FATES_SHARE: Final = 8

#: Fates: no later record of its key; the same and it deletes the key; a later one, or none at this offset.
ALIVE: Final = 0
TOMBSTONE: Final = 1
DEAD: Final = 2

_SHORT_KEY_BYTES: Final = HASH_BYTES - 1
#: By the length of a short key: what fills its slot.
_PADDING: Final = [
    bytes(_SHORT_KEY_BYTES - length) + bytes((length,)) for length in range(HASH_BYTES)
]
_LONG_KEY: Final = b"\xff"


class OffsetMap:
    """See the module. Offsets are taken in rising order, from `first_offset` on."""

    __slots__ = (
        "_hashes",
        "_offsets",
        "_slots",
        "fates",
        "first_offset",
        "keys_max",
        "limit_offset",
        "size",
    )

    def __init__(
        self, memory_bytes: int, load_factor: float, first_offset: int, end_offset: int
    ) -> None:
        """Make room for the offsets in [first_offset, end_offset), or for as many as the memory allows."""
        offsets_max = max(1, min(memory_bytes // _FATES_SHARE, end_offset - first_offset))
        slots_max = (memory_bytes - memory_bytes // _FATES_SHARE) // ENTRY_BYTES
        self._slots = max(2, min(slots_max, int(offsets_max / load_factor) + 2))
        #: One slot stays empty whatever the load factor: a search ends there.
        self.keys_max = max(1, min(int(self._slots * load_factor), self._slots - 1))
        self._hashes = bytearray(self._slots * HASH_BYTES)
        # Relative to the first offset, plus one: 0 is an empty slot.
        self._offsets = array("q", bytes(self._slots * OFFSET_BYTES))
        self.first_offset = first_offset
        #: No offset from here on is taken.
        self.limit_offset = first_offset + offsets_max
        self.fates = bytearray()
        #: How many keys were taken.
        self.size = 0

    @property
    def end_offset(self) -> int:
        """The offset after the last one whose fate is known."""
        return self.first_offset + len(self.fates)

    @property
    def utilization(self) -> float:
        """Tell how full it is: 1.0 when no more keys go in."""
        return self.size / self.keys_max

    @property
    def room(self) -> int:
        """How many keys it takes for sure."""
        return self.keys_max - self.size

    def advance(self, end_offset: int) -> None:
        """Let the fates up to here be known, or up to `limit_offset`: dead, unless records are put there."""
        end = min(end_offset, self.limit_offset) - self.first_offset
        self.fates += bytes((DEAD,)) * (end - len(self.fates))

    def put(self, keys: Sequence[bytes], offsets_of_keys: Sequence[int]) -> None:
        """Take keys that there is room for, and let the earlier record of each be dead.

        Their fates must be known: see `advance`.
        """
        hashes, offsets, slots, fates = self._hashes, self._offsets, self._slots, self.fates
        first_offset, padding = self.first_offset, _PADDING
        size = self.size
        # Numbers in place of names (HASH_BYTES, DEAD, ALIVE): globals would make this loop a tenth slower. A digest is cut:
        # to ask for a short one takes twice as long.
        for key, offset in zip(keys, offsets_of_keys, strict=True):
            length = len(key)
            if length <= 15:
                wanted = key + padding[length]
            else:
                wanted = blake2b(key).digest()[:15] + _LONG_KEY
            slot = hash(wanted) % slots
            start = slot * 16
            while found := offsets[slot]:
                if hashes[start : start + 16] == wanted:
                    fates[found - 1] = 2
                    break
                slot = slot + 1 if slot + 1 < slots else 0
                start = slot * 16
            else:
                hashes[start : start + 16] = wanted
                size += 1
            relative = offset - first_offset
            fates[relative] = 0
            offsets[slot] = relative + 1
        self.size = size

    def bury(self, offsets: Iterable[int]) -> None:
        """Note that the records put at these offsets delete their keys."""
        for offset in offsets:
            relative = offset - self.first_offset
            if self.fates[relative] == ALIVE:
                self.fates[relative] = TOMBSTONE

    def latest(self, keys: Sequence[bytes]) -> list[int]:
        """Return the last offset of each key; -1 for one that was not taken."""
        hashes, offsets, slots, padding = self._hashes, self._offsets, self._slots, _PADDING
        first_offset = self.first_offset
        found_offsets = []
        for key in keys:
            length = len(key)
            if length <= _SHORT_KEY_BYTES:
                wanted = key + padding[length]
            else:
                wanted = blake2b(key).digest()[:_SHORT_KEY_BYTES] + _LONG_KEY
            slot = hash(wanted) % slots
            latest = -1
            while found := offsets[slot]:
                start = slot * HASH_BYTES
                if hashes[start : start + HASH_BYTES] == wanted:
                    latest = first_offset + found - 1
                    break
                slot = slot + 1 if slot + 1 < slots else 0
            found_offsets.append(latest)
        return found_offsets

    def fates_of(self, base_offset: int, last_offset: int) -> bytearray:
        """Return the fates of the offsets from one to the other, both included and both known."""
        return self.fates[base_offset - self.first_offset : last_offset - self.first_offset + 1]
