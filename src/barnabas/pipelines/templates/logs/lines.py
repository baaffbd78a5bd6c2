"""One line of a log as an event: nginx, syslog (RFC 3164 and 5424), JSON, Python's logging. Plain Python, no Spark.

A new format is a function from a line to an `Event`, and a line in `FORMATS`. A line that is none of them is `Malformed`, with the reason.
Lines without a zone are taken as UTC.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class Malformed(ValueError):
    """A line that cannot be read; the text says why."""


@dataclass
class Event:
    """What every format becomes."""

    time: datetime
    level: str
    format: str
    message: str
    host: str | None = None
    app: str | None = None
    stack: str | None = None
    details: dict[str, str] = field(default_factory=dict)


LEVELS = {
    "critical": ("emerg", "emergency", "alert", "crit", "critical", "fatal", "panic"),
    "error": ("err", "error", "severe"),
    "warning": ("warn", "warning"),
    "info": ("notice", "info", "information", "informational"),
    "debug": ("debug", "trace", "verbose"),
}
_LEVEL_OF = {word: level for level, words in LEVELS.items() for word in words}
#: Of syslog, by severity.
_SEVERITIES = ("critical", "critical", "critical", "error", "warning", "info", "info", "debug")
_MONTHS = {
    name: number + 1
    for number, name in enumerate(
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
    )
}


def parse(line: str, received: datetime) -> Event:
    """Read a whole line. `received` stands in for what a line does not say: its year, or its time."""
    for is_it, read in FORMATS:
        if is_it(line):
            try:
                return read(line, received)
            except (ValueError, OverflowError, RecursionError) as problem:
                raise Malformed(str(problem) or type(problem).__name__) from None
    raise Malformed("it is of no format that is known")


# -- nginx ------------------------------------------------------------------------------------

_ACCESS = re.compile(
    r'(?P<client>\S+) \S+ (?P<user>\S+) \[(?P<time>[^\]]+)\] "(?P<request>[^"]*)" (?P<status>\d{3}) (?P<bytes>\d+|-)'
    r'(?: "(?P<referer>[^"]*)" "(?P<agent>[^"]*)")?(?: (?P<seconds>\d+\.\d+))?\s*'
)
_ACCESS_TIME = re.compile(r"(\d\d)/(\w{3})/(\d{4}):(\d\d):(\d\d):(\d\d) ([+-])(\d\d)(\d\d)")
_ERROR = re.compile(
    r"(\d{4})/(\d\d)/(\d\d) (\d\d):(\d\d):(\d\d) \[(\w+)\] (\d+)#(\d+): (?:\*(\d+) )?(.*)",
    re.DOTALL,
)
_SERVER_ERROR, _CLIENT_ERROR = 500, 400


def nginx_access(line: str, _received: datetime) -> Event:
    """Read `10.0.0.9 - ann [16/Nov/2026:15:26:12 +0000] "GET /cart HTTP/1.1" 200 612 "-" "curl"`, with or without seconds at the end."""
    match = _ACCESS.fullmatch(line)
    if match is None:
        raise Malformed(
            "a line of nginx's access log that is cut short or has more than its format"
        )
    found = {name: text for name, text in match.groupdict().items() if text not in (None, "-")}
    status, request = int(found["status"]), found.pop("request", "")
    level = "error" if status >= _SERVER_ERROR else "warning" if status >= _CLIENT_ERROR else "info"
    time = _access_time(found.pop("time"))
    return Event(time, level, "nginx", f"{request} {status}", app="nginx", details=found)


def nginx_error(line: str, _received: datetime) -> Event:
    """Read `2026/11/16 15:26:12 [error] 7#7: *91 upstream timed out …`."""
    match = _ERROR.fullmatch(line)
    if match is None:
        raise Malformed("a line of nginx's error log that is cut short")
    *moment, level, process, _thread, connection, message = match.groups()
    details = {"pid": process} | ({"connection": connection} if connection else {})
    time = datetime(*map(int, moment), tzinfo=UTC)  # type: ignore[misc,arg-type]
    return Event(time, level_of(level, details), "nginx", message, app="nginx", details=details)


def _access_time(text: str) -> datetime:
    match = _ACCESS_TIME.fullmatch(text)
    if match is None or match[2] not in _MONTHS:
        raise Malformed(f"'{text}' is no time of nginx")
    day, month, year, hour, minute, second, sign, zone_hours, zone_minutes = match.groups()
    offset = timedelta(hours=int(zone_hours), minutes=int(zone_minutes))
    zone = timezone(offset if sign == "+" else -offset)
    parts = (int(year), _MONTHS[month], int(day), int(hour), int(minute), int(second))
    return datetime(*parts, tzinfo=zone)


# -- syslog -----------------------------------------------------------------------------------

_PRIORITY = re.compile(r"<(\d{1,3})>")
_PRIORITY_MAX = 191
_RFC_5424 = re.compile(
    r"1 (\S+) (\S+) (\S+) (\S+) (\S+) (-|(?:\[(?:[^\]\\]++|\\.)*+\])++)(?: (.*))?", re.DOTALL
)
_RFC_3164 = re.compile(
    r"(\w{3}) ([ \d]\d) (\d\d):(\d\d):(\d\d) (\S+) ([^\s:\[]+)(?:\[(\w+)\])?: ?(.*)", re.DOTALL
)


def syslog(line: str, received: datetime) -> Event:
    """Read either form: `<34>1 2026-11-16T15:26:12.003Z host app …`, `<34>Nov 16 15:26:12 host app[7]: …`."""
    match = _PRIORITY.match(line)
    if match is None or int(match[1]) > _PRIORITY_MAX:
        raise Malformed("a line of syslog begins with <0> to <191>")
    facility, severity = divmod(int(match[1]), 8)
    rest = line[match.end() :]
    event = _rfc_5424(rest) if rest.startswith("1 ") else _rfc_3164(rest, received)
    event.level = _SEVERITIES[severity]
    event.details["facility"] = str(facility)
    return event


def _rfc_5424(rest: str) -> Event:
    match = _RFC_5424.fullmatch(rest)
    if match is None:
        raise Malformed("a line of syslog (RFC 5424) that is cut short")
    moment, host, app, process, message_id, structured, message = match.groups()
    given = {"pid": process, "id": message_id, "structured": structured}
    details = {name: text for name, text in given.items() if text != "-"}
    return Event(
        _iso(moment),
        "info",
        "syslog",
        (message or "").removeprefix("\ufeff"),
        host=None if host == "-" else host,
        app=None if app == "-" else app,
        details=details,
    )


def _rfc_3164(rest: str, received: datetime) -> Event:
    match = _RFC_3164.fullmatch(rest)
    if match is None or match[1] not in _MONTHS:
        raise Malformed("a line of syslog (RFC 3164) that is cut short")
    month, day, hour, minute, second, host, app, process, message = match.groups()
    parts = (_MONTHS[month], int(day), int(hour), int(minute), int(second))
    details = {"pid": process} if process else {}
    time = _nearest_year(parts, received)
    return Event(time, "info", "syslog", message, host=host, app=app, details=details)


def _nearest_year(parts: tuple[int, int, int, int, int], received: datetime) -> datetime:
    """The line has no year: it is the one that brings it next to when it was received."""
    found = []
    for year in (received.year - 1, received.year, received.year + 1):
        try:
            found.append(datetime(year, *parts, tzinfo=UTC))
        except ValueError:  # 29 February
            continue
    if not found:
        raise Malformed("there is no such day")
    return min(found, key=lambda each: abs(each - received))


# -- JSON -------------------------------------------------------------------------------------

_NAMES = {
    "time": ("time", "timestamp", "ts", "@timestamp"),
    "level": ("level", "severity", "lvl", "levelname"),
    "message": ("message", "msg", "event"),
    "host": ("host", "hostname"),
    "app": ("app", "service", "logger", "name"),
    "stack": ("stack", "stack_trace", "exception", "exc_info"),
}
#: Numbers above it are milliseconds: as seconds they would be in the year 5138.
_SECONDS_MAX = 100_000_000_000


def json_line(line: str, received: datetime) -> Event:
    """Read an object with a message; time, level, host, app and stack by the names that libraries give them, the rest as details."""
    try:
        fields = json.loads(line, strict=False)  # many write control characters as they are
    except ValueError as problem:
        raise Malformed(f"no JSON: {problem}") from None
    if not isinstance(fields, dict):
        raise Malformed("JSON, but no object")
    found = {name: _take(fields, names) for name, names in _NAMES.items()}
    if found["message"] is None:
        raise Malformed("an object without a message")
    details = {str(name): _text(value) for name, value in fields.items() if value is not None}
    level = level_of(_text(found["level"]), details) if found["level"] is not None else "info"
    time = received if found["time"] is None else _moment(found["time"])
    texts = {name: _optional(found[name]) for name in ("host", "app", "stack")}
    return Event(time, level, "json", _text(found["message"]), details=details, **texts)


def _take(fields: dict[str, Any], names: tuple[str, ...]) -> Any:
    for name in names:
        if fields.get(name) is not None:
            return fields.pop(name)
    return None


def _moment(value: Any) -> datetime:
    if isinstance(value, int | float) and not isinstance(value, bool):
        seconds = value / 1000 if abs(value) > _SECONDS_MAX else value
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    return _iso(_text(value))


def _optional(value: Any) -> str | None:
    return None if value is None else _text(value)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


# -- Python -----------------------------------------------------------------------------------

_PYTHON = re.compile(
    r"(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[,.]\d{3})?) (\w+) ([^\s:]+): (.*)", re.DOTALL
)


def python_line(line: str, _received: datetime) -> Event:
    """Read `2026-11-16 15:26:12,003 ERROR shop.cart: no such product`. Lines that follow it are seen to in tracebacks.py."""
    match = _PYTHON.fullmatch(line)
    if match is None:
        raise Malformed("a line of Python's logging that is cut short")
    details: dict[str, str] = {}
    level = level_of(match[2], details)
    time = _iso(match[1].replace(",", "."))
    return Event(time, level, "python", match[4], app=match[3], details=details)


# -- of all -----------------------------------------------------------------------------------


def level_of(word: str, details: dict[str, str]) -> str:
    """One of five; a word that is none of ours is kept in the details."""
    level = _LEVEL_OF.get(word.strip().lower())
    if level is None:
        details["level"] = word
        return "info"
    return level


def _iso(text: str) -> datetime:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise Malformed(f"'{text[:40]}' is no time") from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


#: How a line of a format begins, and what reads it. The first that begins so reads it.
FORMATS: list[tuple[Callable[[str], object], Callable[[str, datetime], Event]]] = [
    (re.compile(r"\{").match, json_line),
    (re.compile(r"<\d").match, syslog),
    (re.compile(r"\S+ \S+ \S+ \[\d\d/").match, nginx_access),
    (re.compile(r"\d{4}/\d\d/\d\d ").match, nginx_error),
    (re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:").match, python_line),
]
