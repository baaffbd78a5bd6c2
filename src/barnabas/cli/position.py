"""Where to begin and where to stop reading: `beginning`, `end`, 42, -10, 1h, 2026-11-15T10:00.

One job: from what a person types to an offset in each partition. Pure: the caller asks the broker
and passes `now_ms`. Ranges are half-open: `--to 42` does not read offset 42.

    beginning, end     the log start offset, the end as of now
    42                 offset
    -10                10 before the end, in each partition
    1h, 30m, 1h30m     that long ago (ms s m h d w)
    @1731700000000     milliseconds since 1970
    2026-11-15[T10:00[:00[.000]][Z|+01:00]]   date or time; local when it names no zone
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

_UNIT_MS = {
    "ms": 1,
    "s": 1_000,
    "m": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "w": 604_800_000,
}
_PART = re.compile(r"(\d+)(ms|[smhdw])")
_RELATIVE = re.compile(rf"(?:{_PART.pattern})+")
EXAMPLES = "beginning, end, 42, -10, 1h, @1731700000000 or 2026-11-15T10:00"
_TIMES = "1h, 30m, 2d, @1731700000000 or 2026-11-15T10:00"


@dataclass(frozen=True, slots=True)
class Beginning:
    """The log start offset."""


@dataclass(frozen=True, slots=True)
class End:
    """The end as of the moment of asking."""


@dataclass(frozen=True, slots=True)
class At:
    """A given offset."""

    offset: int


@dataclass(frozen=True, slots=True)
class Back:
    """`count` offsets before the end of each partition."""

    count: int


@dataclass(frozen=True, slots=True)
class Since:
    """The first record whose timestamp is this or later."""

    timestamp_ms: int


Position = Beginning | End | At | Back | Since
_WORDS: dict[str, Position] = {
    "beginning": Beginning(),
    "start": Beginning(),
    "earliest": Beginning(),
    "end": End(),
    "latest": End(),
}


def parse_position(text: str, now_ms: int) -> Position:
    """Read a position; ValueError, with what is allowed, when it is none."""
    word = text.strip()
    if word in _WORDS:
        return _WORDS[word]
    if word.isdecimal():
        return At(int(word))
    if word.startswith("-") and word[1:].isdecimal():
        return Back(int(word[1:]))
    if word.startswith("@") and word[1:].isdecimal():
        return Since(int(word[1:]))
    if _RELATIVE.fullmatch(word):
        return Since(now_ms - relative_ms(word))
    return Since(_calendar_ms(word))


def moment_ms(text: str, now_ms: int) -> int:
    """Read a time, in milliseconds since 1970; ValueError, with the times that are allowed, when it is none."""
    try:
        position = parse_position(text, now_ms)
    except ValueError:
        position = None
    if not isinstance(position, Since):
        raise ValueError(f"'{text}' is no time; allowed: {_TIMES}")
    return position.timestamp_ms


def duration_ms(text: str) -> int:
    """Read a length of time such as `90s` or `1h30m`; ValueError, with what is allowed, when it is none."""
    word = text.strip()
    if not _RELATIVE.fullmatch(word):
        raise ValueError(f"'{word}' is no duration; allowed: 500ms, 90s, 15m, 1h30m, 2d")
    return relative_ms(word)


def relative_ms(text: str) -> int:
    """`1h30m` in milliseconds."""
    return sum(int(count) * _UNIT_MS[unit] for count, unit in _PART.findall(text))


def _calendar_ms(word: str) -> int:
    try:
        # astimezone() reads a moment without a zone as local time, which is what a person means.
        moment = datetime.fromisoformat(word).astimezone()
    except (ValueError, OverflowError):  # the latter where another zone's year is 0 or 10000
        raise ValueError(f"'{word}' is no offset or time; allowed: {EXAMPLES}") from None
    return round(moment.timestamp() * 1000)


def resolve(position: Position, start_offset: int, end_offset: int, since: int | None) -> int:
    """The offset of `position` in one partition, within its bounds.

    `since` is the broker's answer for a Since position; None or negative when no record is that
    late, which is the end.
    """
    assert start_offset <= end_offset
    match position:
        case Beginning():
            wanted = start_offset
        case End():
            wanted = end_offset
        case At(offset):
            wanted = offset
        case Back(count):
            wanted = end_offset - count
        case Since():
            wanted = end_offset if since is None or since < 0 else since
    return min(max(wanted, start_offset), end_offset)
