"""Times and lengths of time as a person types them: 1h30m, @1731700000000, 2026-11-15T10:00.

One job: from text to milliseconds. Pure: the caller passes `now_ms`.

    1h, 30m, 1h30m     that long ago (ms s m h d w)
    @1731700000000     milliseconds since 1970
    2026-11-15[T10:00[:00[.000]][Z|+01:00]]   date or time; local when it names no zone
"""

from __future__ import annotations

import re
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
_LENGTH = re.compile(rf"(?:{_PART.pattern})+")
_EXAMPLES = "1h, 30m, 2d, @1731700000000 or 2026-11-15T10:00"


def moment_ms(text: str, now_ms: int) -> int:
    """Read a time, in milliseconds since 1970; ValueError, with the times that are allowed, when it is none."""
    word = text.strip()
    if word.startswith("@") and word[1:].isdecimal():
        return int(word[1:])
    if _LENGTH.fullmatch(word):
        return now_ms - _milliseconds(word)
    try:
        if (
            word.isdecimal()
        ):  # ISO 8601 has dates without dashes; a person who types 20261115 means an offset
            raise ValueError
        # astimezone() reads a moment without a zone as local time, which is what a person means.
        moment = datetime.fromisoformat(word).astimezone()
    except (ValueError, OverflowError):  # the latter where another zone's year is 0 or 10000
        raise ValueError(f"'{text}' is no time; allowed: {_EXAMPLES}") from None
    return round(moment.timestamp() * 1000)


def duration_ms(text: str) -> int:
    """Read a length of time such as `90s` or `1h30m`; ValueError, with what is allowed, when it is none."""
    word = text.strip()
    if not _LENGTH.fullmatch(word):
        raise ValueError(f"'{word}' is no duration; allowed: 500ms, 90s, 15m, 1h30m, 2d")
    return _milliseconds(word)


def _milliseconds(text: str) -> int:
    return sum(int(count) * _UNIT_MS[unit] for count, unit in _PART.findall(text))
