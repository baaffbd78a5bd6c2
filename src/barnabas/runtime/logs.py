"""The broker's own log: one line per event on stderr, for people or as JSON."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def configure(form: str, level: str) -> None:
    """Send the log of all parts to stderr in the form "text" or "json"."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    root = logging.getLogger("barnabas")
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    root.propagate = False


def _extras(record: logging.LogRecord) -> dict[str, object]:
    return {name: value for name, value in vars(record).items() if name not in _STANDARD}


class TextLines(logging.Formatter):
    """`2026-11-15 22:05:00.123 INFO  broker.startup  message  key=value`."""

    def format(self, record: logging.LogRecord) -> str:
        """Make one line; a traceback follows on lines of its own."""
        when = datetime.fromtimestamp(record.created, UTC).isoformat(" ", "milliseconds")[:23]
        name = record.name.removeprefix("barnabas.")
        extras = "".join(f"  {key}={value}" for key, value in _extras(record).items())
        line = f"{when} {record.levelname:<7} {name}  {_one_line(record.getMessage())}{extras}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class JsonLines(logging.Formatter):
    """One JSON object per event."""

    def format(self, record: logging.LogRecord) -> str:
        """Make one line, traceback included."""
        event: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_extras(record),
        }
        if record.exc_info:
            event["exception"] = self.formatException(record.exc_info)
        return json.dumps(event, default=str)


def _one_line(text: str) -> str:
    """Keep what a client sent from starting a line of its own in the log."""
    return text.encode("unicode_escape").decode() if not text.isprintable() else text
