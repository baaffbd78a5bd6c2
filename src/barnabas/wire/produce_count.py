"""How much a Produce request is made of, without decoding it.

Job: tell the few large batches that most large requests are from the hundred thousand small ones that one may be. Must not know
what is done about them. It looks at no more than it counts to, so it takes no longer for a longer request.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from barnabas.wire.primitives import WireError, read_uvarint

if TYPE_CHECKING:
    from collections.abc import Callable

_FIRST_FLEXIBLE: Final = 9
_TOPIC_IDS_SINCE: Final = 13
_ACKS_AND_TIMEOUT_SIZE: Final = 6
_ID_SIZE: Final = 16
_INDEX_SIZE: Final = 4
_SHORT: Final = struct.Struct(">h").unpack_from
_INT: Final = struct.Struct(">i").unpack_from


def names_more_than(limit: int, frame: memoryview, version: int, position: int) -> bool:
    """Tell whether the request at `position` names more topics and partitions than this.

    True also for one that has tagged fields, or is none: that is for whoever decodes it.
    """
    try:
        return _count(limit, frame, version, position) > limit
    except (IndexError, struct.error, WireError):
        return True


def _count(limit: int, frame: memoryview, version: int, position: int) -> int:
    """Count until there are more than `limit`."""
    flexible = version >= _FIRST_FLEXIBLE
    name_length, length = (_compact, _compact) if flexible else (_short, _int)
    position = _skip(frame, position, name_length) + _ACKS_AND_TIMEOUT_SIZE
    found = 0
    topics, position = length(frame, position)
    for _ in range(topics):
        if version >= _TOPIC_IDS_SINCE:
            position += _ID_SIZE
        else:
            position = _skip(frame, position, name_length)
        partitions, position = length(frame, position)
        found += 1 + partitions
        if found > limit:
            return found
        for _ in range(partitions):
            position = _skip(frame, position + _INDEX_SIZE, length)
            position = _skip_tags(frame, position) if flexible else position
        position = _skip_tags(frame, position) if flexible else position
    return found


def _skip(
    frame: memoryview, position: int, length: Callable[[memoryview, int], tuple[int, int]]
) -> int:
    size, position = length(frame, position)
    return position + max(size, 0)


def _skip_tags(frame: memoryview, position: int) -> int:
    if frame[position]:
        raise WireError("tagged fields, which nobody sends")
    return position + 1


def _short(frame: memoryview, position: int) -> tuple[int, int]:
    return _SHORT(frame, position)[0], position + 2


def _int(frame: memoryview, position: int) -> tuple[int, int]:
    return _INT(frame, position)[0], position + 4


def _compact(frame: memoryview, position: int) -> tuple[int, int]:
    count, position = read_uvarint(frame, position)
    return count - 1, position
