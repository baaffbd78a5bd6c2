"""Kafka's hash of keys, for a whole column at once: which partition a keyed record belongs to.

Job: murmur2 as Java's clients compute it, so that equal keys meet on one partition whoever wrote them. Must not know topics.

Keys are hashed four bytes at a time, all keys together, longest first, so that those which are done are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_SEED: Final = 0x9747B28C
_M: Final = np.uint32(0x5BD1E995)
_R: Final = np.uint32(24)
_WORD: Final = 4


def murmur2(
    buffer: NDArray[np.uint8], start: NDArray[np.int64], length: NDArray[np.int64]
) -> NDArray[np.uint32]:
    """Hash the keys that lie at these places."""
    order = np.argsort(-length, kind="stable")
    place, size = start[order], length[order]
    hashes = np.uint32(_SEED) ^ size.astype(np.uint32)
    words = size // _WORD
    steps = int(words[0]) if words.size else 0
    active = np.searchsorted(-words, -np.arange(steps), side="left")
    for step in range(steps):
        here = slice(0, int(active[step]))
        mixed = _words(buffer, place[here] + _WORD * step) * _M
        mixed = (mixed ^ (mixed >> _R)) * _M
        hashes[here] = (hashes[here] * _M) ^ mixed
    _mix_tails(buffer, place + _WORD * words, size % _WORD, hashes)
    hashes = (hashes ^ (hashes >> np.uint32(13))) * _M
    hashes ^= hashes >> np.uint32(15)
    found = np.empty_like(hashes)
    found[order] = hashes
    return found


def partitions_of(hashes: NDArray[np.uint32], count: int) -> NDArray[np.int64]:
    """Choose a partition for each hash, as Java's default partitioner does."""
    return (hashes & np.uint32(0x7FFFFFFF)).astype(np.int64) % count


def _words(buffer: NDArray[np.uint8], at: NDArray[np.int64]) -> NDArray[np.uint32]:
    """Read four bytes at each place, low ones first."""
    value = buffer[at].astype(np.uint32)
    for index in range(1, _WORD):
        value |= buffer[at + index].astype(np.uint32) << np.uint32(8 * index)
    return value


def _mix_tails(
    buffer: NDArray[np.uint8],
    at: NDArray[np.int64],
    left: NDArray[np.int64],
    hashes: NDArray[np.uint32],
) -> None:
    """Mix in the one to three bytes behind the last four."""
    for index in (2, 1, 0):
        rows = np.flatnonzero(left > index)
        hashes[rows] ^= buffer[at[rows] + index].astype(np.uint32) << np.uint32(8 * index)
    rows = np.flatnonzero(left)
    hashes[rows] *= _M
