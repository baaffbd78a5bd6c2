"""Java's hash of a text: it says which partition of an internal topic keeps a group or a transactional id."""

from __future__ import annotations

from functools import lru_cache
from operator import mul
from typing import Final

#: Keys whose hash is remembered: it costs as much as the rest of a heartbeat.
HASHES_KEPT: Final = 16_384
#: A hash is worked out block by block: the powers of 31 that a block's units are multiplied with.
_BLOCK: Final = 64
_POWERS: Final = [pow(31, _BLOCK - 1 - place, 1 << 32) for place in range(_BLOCK)]


@lru_cache(HASHES_KEPT)
def java_hash(text: str) -> int:
    """Hash as Java's String does: over UTF-16 units, in 32 bits, here without the sign."""
    value = 0
    encoded = memoryview(text.encode("utf-16", "surrogatepass"))
    units = encoded[2:].cast("H")  # behind the byte order
    for first in range(0, len(units), _BLOCK):
        some = units[first : first + _BLOCK]
        powers = _POWERS[_BLOCK - len(some) :]
        value = (value * powers[0] * 31 + sum(map(mul, some, powers))) & 0xFFFFFFFF
    return value
