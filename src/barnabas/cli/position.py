"""Where to begin and where to stop reading: `beginning`, `end`, 42, -10, 1h, 2026-11-15T10:00.

One job: from what a person types to an offset in each partition. Pure: the caller asks the broker
and passes `now_ms`. Ranges are half-open: `--to 42` does not read offset 42.

    beginning, end     the log start offset, the end as of now
    42                 offset
    -10                10 before the end, in each partition
    1h, 2026-11-15     a time (moment.py): the first record of then or later
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.cli.moment import moment_ms

EXAMPLES = "beginning, end, 42, -10, 1h, @1731700000000 or 2026-11-15T10:00"


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
    try:
        return Since(moment_ms(word, now_ms))
    except ValueError:
        raise ValueError(f"'{word}' is no offset or time; allowed: {EXAMPLES}") from None


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
