"""Lines that belong together: what Python writes after a line of its log, and tracebacks on their own. Plain Python, no Spark.

A source's lines come in order. A line that begins an event ends the one before it; so does silence. Lines in a traceback belong to it whatever
they say (messages of exceptions have several lines, too), and outside of one a line that begins nothing is malformed.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from datetime import datetime

from lines import Event, Malformed, parse

TRACEBACK = "Traceback (most recent call last):"
#: What is kept of an event that goes on and on: whatever follows is malformed, and so in the dead letters.
LINES_MAX = 1000
CHARS_MAX = 1 << 20


@dataclass
class Open:
    """An event that may go on."""

    event: Event
    received: datetime
    offset: int
    """Of its first line."""
    more: list[str] = field(default_factory=list)

    def is_in_traceback(self) -> bool:
        """Does the next line belong to it, whatever it says?"""
        return TRACEBACK in self.more

    def closed(self) -> Event:
        """The event with what followed its first line."""
        text = "\n".join(self.more).strip("\n")
        if text:
            self.event.stack = text
        if not self.event.message:
            self.event.message = _exception(self.more)
        return self.event


class Joiner:
    """The lines of one source, one after another."""

    def __init__(self, current: Open | None = None) -> None:
        """Go on with an event that is open."""
        self.current = current

    def take(self, line: str, received: datetime, offset: int) -> Open | None:
        """Take the next line; return the event that it has ended. Malformed if the line belongs nowhere: then nothing has changed."""
        if self._goes_on(line):
            assert self.current is not None
            self.current.more.append(line)
            return None
        if not line.strip():
            return None
        begun = Open(_begun(line, received), received, offset)
        if line == TRACEBACK:
            begun.more.append(line)
        ended, self.current = self.current, begun
        return ended

    def _goes_on(self, line: str) -> bool:
        current = self.current
        if current is None or _begins(line):
            return False
        if not (line == TRACEBACK or line[:1] in " \t" or current.is_in_traceback()):
            return False
        if line == TRACEBACK and current.is_in_traceback() and not _is_chained(current.more):
            return False
        size = sum(map(len, current.more)) + len(line)
        return len(current.more) < LINES_MAX and size <= CHARS_MAX


def _begins(line: str) -> bool:
    return line[:1].isdigit() and line[4:5] == "-" and line[7:8] == "-"


def _begun(line: str, received: datetime) -> Event:
    if line == TRACEBACK:  # without a line of a log before it: a program that died
        return Event(received, "error", "python", "")
    if not _begins(line):
        raise Malformed("it belongs to no event, and is of no format that is known")
    return parse(line, received)


def _is_chained(more: list[str]) -> bool:
    """Does one more traceback belong to the last? Python says so in a sentence before it, or quotes it."""
    said = [line for line in more if line.strip()]
    return said[-1].startswith(("During handling of", "The above exception was", '"""'))


def _exception(more: list[str]) -> str:
    """What the last traceback ends with; nothing if there is none, for a message may well be empty."""
    if TRACEBACK not in more:
        return ""
    last = len(more) - 1 - more[::-1].index(TRACEBACK)
    return next((line for line in more[last + 1 :] if line.strip() and line[0] not in " \t"), "")


def packed(current: Open) -> str:
    """An open event as text, for the state store."""
    return json.dumps(asdict(current), default=datetime.isoformat)


def unpacked(text: str) -> Open:
    """The same, read."""
    value = json.loads(text)
    event = value["event"]
    event["time"] = datetime.fromisoformat(event["time"])
    received = datetime.fromisoformat(value["received"])
    return Open(Event(**event), received, value["offset"], value["more"])
