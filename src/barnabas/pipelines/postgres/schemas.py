"""What the columns of a table were and are, and which steps lead from one to the other.

Job: read the columns of a schema record, compare two lists of columns. Must not know SQL or a database.

Invariants: a column is known by its id, which stays when it is renamed and is never given again; so a list of columns says everything, and
versions that come late or never are not missed. A table is known by the ids of its key: with another key it is another table of that name.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: What PostgreSQL keeps of a name: a longer one would be cut, and two could become one.
NAME_BYTES: Final = 63
#: Of the tables and columns that the target itself needs.
OWN_PREFIX: Final = "barnabas_"


class BadSchema(ValueError):
    """A schema record that cannot be followed; the sentence says why."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column. `default` is what rows have that were written before it was added, as JSON."""

    id: int
    name: str
    type: str
    key: bool = False
    default: Any = None


@dataclass(frozen=True, slots=True)
class Steps:
    """What to do to a table, in this order: drop, rename, retype, add."""

    drop: tuple[str, ...] = ()
    rename: tuple[tuple[str, str], ...] = ()
    retype: tuple[tuple[str, str], ...] = ()
    add: tuple[Column, ...] = ()


def check_name(name: object, what: str) -> str:
    """Return a name of a table or column that PostgreSQL keeps whole."""
    if not isinstance(name, str) or not name or "\0" in name:
        raise BadSchema(f"{what} has no name that a table can have: {name!r}")
    if len(name.encode()) > NAME_BYTES:
        raise BadSchema(f"{what} has a name of more than {NAME_BYTES} bytes: {name!r}")
    if name.startswith(OWN_PREFIX):
        raise BadSchema(f"{what} has a name that begins with {OWN_PREFIX}: {name!r}")
    return name


def parse_columns(text: str) -> tuple[Column, ...]:
    """Read the columns of a schema record; none of them means that the table is gone."""
    try:
        columns = tuple(_column(each) for each in json.loads(text)["columns"])
    except (ValueError, TypeError, KeyError, RecursionError) as problem:
        if isinstance(problem, BadSchema):
            raise
        raise BadSchema(f"not the columns of a table: {problem!r}") from None
    if len({each.id for each in columns}) + len({each.name for each in columns}) < 2 * len(columns):
        raise BadSchema("two columns have one id, or one name")
    if columns and not any(each.key for each in columns):
        raise BadSchema("no column is marked as key")
    return columns


def _column(fields: Mapping[str, Any]) -> Column:
    name = check_name(fields["name"], "a column")
    if type(fields["id"]) is not int or not isinstance(fields["type"], str):
        raise BadSchema(f"column {name!r} needs a number as id, and a type")
    return Column(
        fields["id"], name, fields["type"], fields.get("key") is True, fields.get("default")
    )


def is_same_table(one: Sequence[Column], other: Sequence[Column]) -> bool:
    """Are these columns of one table, or of two that had its name one after the other?"""
    return [each.id for each in one if each.key] == [each.id for each in other if each.key]


def plan_steps(old: Sequence[Column], new: Sequence[Column]) -> Steps:
    """Compare two lists of columns of one table."""
    before, after = {each.id: each for each in old}, {each.id: each for each in new}
    both = [(before[each.id], each) for each in new if each.id in before]
    return Steps(
        drop=tuple(each.name for each in old if each.id not in after),
        rename=tuple((was.name, now.name) for was, now in both if was.name != now.name),
        retype=tuple((now.name, now.type) for was, now in both if was.type != now.type),
        add=tuple(each for each in new if each.id not in before),
    )


def names_now(version: Sequence[Column], now: Sequence[Column]) -> dict[str, str]:
    """Say what the columns of a version are called now; those that are gone are left out."""
    current = {each.id: each.name for each in now}
    return {each.name: current[each.id] for each in version if each.id in current}


def defaults_since(version: Sequence[Column], now: Sequence[Column]) -> dict[str, Any]:
    """Say what a row of a version has in columns that were added later."""
    known = {each.id for each in version}
    return {each.name: each.default for each in now if each.id not in known}
