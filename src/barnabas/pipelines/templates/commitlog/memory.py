"""A service's memory: the rows of every table in dictionaries, restored from the compacted topic, with nothing stored beside it.

    memory = Memory("127.0.0.1:9092")
    memory.catch_up()                      # all there is; call it again for what came since
    memory.table("customers")[(7,)]        # {"id": 7, "full_name": "Ann", "stars": 5}

It reads with Barnabas' own client. An older change never overwrites a newer one, whatever the order of records.
"""

import json
from typing import Any, NamedTuple

from barnabas.pipelines.postgres.schemas import (
    Column,
    defaults_since,
    is_same_table,
    names_now,
    parse_columns,
)
from barnabas.pipelines.whole_topic import TopicRecord, read_topic


class Remembered(NamedTuple):
    """A row as it was written; None in place of it is the mark of a delete."""

    position: int
    version: int
    row: dict[str, Any] | None


class Memory:
    """Tables by name; rows by the values of their keys."""

    def __init__(self, bootstrap: str, topic: str = "changes") -> None:
        self._bootstrap, self._topic = bootstrap, topic
        self._positions: dict[int, int] = {}
        self._rows: dict[str, dict[tuple[Any, ...], Remembered]] = {}
        self._versions: dict[str, dict[int, tuple[Column, ...]]] = {}

    def catch_up(self) -> int:
        """Read what came since the last time, up to what there is now; return how many records that were."""
        count = 0
        for record in read_topic(self._bootstrap, self._topic, self._positions):
            self.take(record)
            count += 1
        return count

    def take(self, record: TopicRecord) -> None:
        """Take one record; what is no change is left out."""
        key, value = record.key or b"", record.value
        try:
            table, *of_row = json.loads(key)
            if value is None:
                position = int(dict(record.headers)["position"] or b"")
                self._remember(table, tuple(of_row), Remembered(position, 0, None))
            elif isinstance(of_row[0], dict):
                versions = self._versions.setdefault(table, {})
                versions[of_row[0]["schema"]] = parse_columns(value.decode())
            else:
                said = json.loads(value)
                self._remember(
                    table, tuple(of_row), Remembered(said["position"], said["schema"], said["row"])
                )
        except (ValueError, TypeError, LookupError):
            return

    def table(self, name: str) -> dict[tuple[Any, ...], dict[str, Any]]:
        """Give the rows of a table with the columns it has now."""
        versions = self._versions.get(name, {})
        now = versions[max(versions)] if versions else ()
        return {
            key: _as_of(each.row, versions[each.version], now)
            for key, each in self._rows.get(name, {}).items()
            if each.row is not None and is_same_table(versions.get(each.version, ()), now)
        }

    def _remember(self, table: str, key: tuple[Any, ...], found: Remembered) -> None:
        rows = self._rows.setdefault(table, {})
        known = rows.get(key)
        if known is None or known.position < found.position:
            rows[key] = found


def _as_of(
    row: dict[str, Any], version: tuple[Column, ...], now: tuple[Column, ...]
) -> dict[str, Any]:
    """Give a row of an older version the columns of now, in their order."""
    names = names_now(version, now)
    values = {names[name]: value for name, value in row.items() if name in names}
    values = defaults_since(version, now) | values
    return {each.name: values.get(each.name) for each in now}
