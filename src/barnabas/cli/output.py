"""Results on stdout: aligned tables for people, JSON and YAML for programs.

One job: rendering. Must not know what the results mean. JSON and YAML carry the same keys; they
are documented in docs/cli.md and stay as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from barnabas.cli.failure import Failure
from barnabas.cli.printable import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

FORMATS = ("table", "json", "yaml")
_MILLIS = (("day", 86_400_000), ("hour", 3_600_000), ("minute", 60_000), ("second", 1_000))
_BYTES = (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))
#: A topic's name has at most 249 characters; an id of a client may have thirty thousand.
_WIDTH_MAX = 249


def to_yaml(data: Any) -> str:  # noqa: ANN401 - any JSON-like value
    """`data` as a YAML document."""
    try:
        import yaml
    except ImportError:
        raise Failure("-o yaml needs PyYAML", "pip install 'barnabas[cli]'") from None
    return yaml.safe_dump(data, sort_keys=False, allow_unicode=True)


def emit(data: Any, output: str) -> None:  # noqa: ANN401 - any JSON-like value
    """Print `data` as JSON or YAML."""
    if output == "yaml":
        click.echo(to_yaml(data), nl=False)
    else:
        import json

        click.echo(json.dumps(data, indent=2, ensure_ascii=False))


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return printable(",".join(str(item) for item in value)) or "-"
    return printable(str(value))


def table(headings: Sequence[str], rows: Sequence[Sequence[object]], indent: str = "") -> str:
    """Columns aligned under their headings; a column of whole numbers is aligned right.

    What is longer than any name stands out of its column, and does not widen it for all others.
    """
    cells = [[_cell(value) for value in row] for row in rows]
    columns = range(len(headings))
    longest = [max([len(headings[c]), *(len(row[c]) for row in cells)]) for c in columns]
    widths = [min(one, _WIDTH_MAX) for one in longest]
    numeric = [bool(rows) and all(type(row[c]) is int for row in rows) for c in columns]

    def line(row: Sequence[str]) -> str:
        fitted = [
            row[c].rjust(widths[c]) if numeric[c] else row[c].ljust(widths[c]) for c in columns
        ]
        return indent + "  ".join(fitted).rstrip()

    return "\n".join([click.style(line(headings), bold=True), *map(line, cells)])


def meaning(name: str, value: str | None) -> str | None:
    """A setting's milliseconds or bytes in words, or None where there is nothing to add."""
    if value is None or not value.lstrip("-").isdigit():
        return None
    number = int(value)
    if name.endswith((".ms", ".bytes")) and number == -1:
        return "no limit" if name.startswith(("retention.", "local.retention.")) else None
    if name.endswith(".ms"):
        return _in_units(number, _MILLIS, plural=True)
    if name.endswith(".bytes"):
        return _in_units(number, _BYTES, plural=False)
    return None


def _in_units(number: int, units: Sequence[tuple[str, int]], *, plural: bool) -> str | None:
    for unit, size in units:
        if number >= size and number < 1 << 62:
            count = number / size
            if count != round(count, 1):
                return f"about {count:,.1f} {unit}{'s' if plural else ''}"
            return f"{count:,.10g} {unit}{'s' if plural and count != 1 else ''}"
    return None


def size(count: int) -> str:
    """Bytes for people: `17 bytes`, `1.5 MiB`."""
    for unit, unit_bytes in _BYTES:
        if count >= unit_bytes - unit_bytes // 2048:  # 1.0 GiB, not 1,024.0 MiB
            return f"{count / unit_bytes:,.1f} {unit}"
    return counted(count, "byte")


def duration(seconds: float) -> str:
    """Seconds for a message: `10 s`, `0.5 s`."""
    return f"{seconds:g} s"


def counted(count: int, noun: str) -> str:
    """`1 record`, `2,000 records`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
