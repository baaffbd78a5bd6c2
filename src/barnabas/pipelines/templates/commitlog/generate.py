"""A shop's database at work: customers and orders come, change and go, and four times the tables themselves change.

python generate.py --bootstrap 127.0.0.1:9092 --rate 200 --seconds 60
"""

import json
import random
from collections.abc import Iterator
from typing import Any

from barnabas.pipelines import feeding

TOPIC = "changes"
CITIES = ["Aarhus", "Bonn", "Cádiz", "Delft", "Évora"]
ID = {"id": 1, "name": "id", "type": "bigint", "key": True}
CUSTOMERS = [
    ID,
    {"id": 2, "name": "name", "type": "text"},
    {"id": 3, "name": "city", "type": "text"},
]
ORDERS = [
    ID,
    {"id": 2, "name": "customer", "type": "bigint"},
    {"id": 3, "name": "total", "type": "integer"},
    {"id": 4, "name": "lines", "type": "jsonb"},
]


class Database:
    """Tables as a database has them, and what its log says of each change."""

    def __init__(self) -> None:
        self.position = 0
        self.columns: dict[str, list[dict[str, Any]]] = {}
        self.rows: dict[str, dict[int, dict[str, Any]]] = {}
        self._versions: dict[str, int] = {}

    def alter(self, table: str, columns: list[dict[str, Any]]) -> feeding.Event:
        """Give a table these columns; rows keep their values by the columns' ids."""
        before = {each["id"]: each["name"] for each in self.columns.get(table, ())}
        rows = self.rows.setdefault(table, {})
        for number, row in rows.items():
            rows[number] = {
                each["name"]: row[before[each["id"]]]
                if each["id"] in before
                else each.get("default")
                for each in columns
            }
        self.columns[table] = columns
        self._versions[table] = version = self._versions.get(table, 0) + 1
        value = {"position": self._next(), "columns": columns}
        return feeding.Event(TOPIC, json.dumps([table, {"schema": version}]), json.dumps(value))

    def write(self, table: str, row: dict[str, Any]) -> feeding.Event:
        """Insert or update a row."""
        self.rows[table][row["id"]] = row
        value = {"position": self._next(), "schema": self._versions[table], "row": row}
        return feeding.Event(TOPIC, json.dumps([table, row["id"]]), json.dumps(value))

    def delete(self, table: str, number: int) -> feeding.Event:
        """Delete a row."""
        del self.rows[table][number]
        headers = (("position", str(self._next()).encode()),)
        return feeding.Event(TOPIC, json.dumps([table, number]), None, headers)

    def _next(self) -> int:
        self.position += 1
        return self.position


def work(database: Database, seed: int, count: int) -> Iterator[feeding.Event]:
    """Let a database work; when all events are taken, it is as the copy must be."""
    rng = random.Random(seed)
    altered = _changes_of_columns(count)
    for place in range(count):
        if place in altered:
            yield database.alter(*altered[place])
        elif rng.random() < 0.4:
            yield _work_on(database, rng, "customers", _customer)
        else:
            yield _work_on(database, rng, "orders", _order)


def events(seed: int, count: int) -> Iterator[feeding.Event]:
    """Make changes; the same for the same seed."""
    return work(Database(), seed, count)


def _changes_of_columns(count: int) -> dict[int, tuple[str, list[dict[str, Any]]]]:
    """Tables are made first; at fixed parts of the way columns are added, renamed, retyped and dropped."""
    stars = {"id": 4, "name": "stars", "type": "smallint", "default": 3}
    full_name = {"id": 2, "name": "full_name", "type": "text"}
    precise = {"id": 3, "name": "total", "type": "numeric(12,2)"}
    return {
        0: ("customers", CUSTOMERS),
        1: ("orders", ORDERS),
        max(count // 5, 2): ("customers", [*CUSTOMERS, stars]),
        max(2 * count // 5, 3): ("customers", [ID, full_name, CUSTOMERS[2], stars]),
        max(3 * count // 5, 4): ("orders", [ID, ORDERS[1], precise, ORDERS[3]]),
        max(4 * count // 5, 5): ("customers", [ID, full_name, stars]),
    }


def _work_on(database: Database, rng: random.Random, table: str, make: Any) -> feeding.Event:
    rows = database.rows[table]
    choice = rng.random()
    if rows and choice < 0.12:
        return database.delete(table, rng.choice(list(rows)))
    number = rng.choice(list(rows)) if rows and choice < 0.6 else database.position
    names = {each["name"]: each["type"] for each in database.columns[table]}
    return database.write(table, make(rng, number, names))


def _customer(rng: random.Random, number: int, names: dict[str, str]) -> dict[str, Any]:
    name = f"{rng.choice(['Ann', 'Bo', 'Chloé', 'Đức'])} {number}"
    values = {
        "id": number,
        "name": name,
        "full_name": name,
        "city": rng.choice(CITIES),
        "stars": rng.randint(1, 5),
    }
    return {each: values[each] for each in names}


def _order(rng: random.Random, number: int, names: dict[str, str]) -> dict[str, Any]:
    lines = [
        {"product": rng.randrange(500), "pieces": rng.randint(1, 4)}
        for _ in range(rng.randint(1, 3))
    ]
    total = rng.randint(100, 50_000)
    precise = names["total"] != "integer"
    return {
        "id": number,
        "customer": rng.randrange(200),
        "total": total / 4 if precise else total,
        "lines": lines,
    }


if __name__ == "__main__":
    feeding.main(events, __doc__)
