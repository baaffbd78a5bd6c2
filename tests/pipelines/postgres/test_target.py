"""Changes into a real PostgreSQL, without Spark: in any order, twice, with kills at every statement, with poison."""

import json
import random
import uuid

import psycopg
import pytest
from postgres_kit import rows

from barnabas.pipelines.postgres.target import Change, StagedLost, Target, connected

V1 = [
    {"id": 1, "name": "id", "type": "bigint", "key": True},
    {"id": 2, "name": "name", "type": "text"},
    {"id": 3, "name": "price", "type": "numeric(12,2)"},
]


class Run:
    """One query into a schema of its own."""

    def __init__(self, url):
        self.url, self.schema, self.query, self.batch = (
            url,
            f'run "{uuid.uuid4()}"',
            str(uuid.uuid4()),
            0,
        )

    def apply(self, *changes, batch=None):
        number = self.batch if batch is None else batch
        with connected(self.url, self.schema) as target:
            staged = {"a": target.stage(self.query, number, "a", changes)}
            new = target.apply(self.query, number, staged, 24)
        self.batch += 1
        return new

    def table(self, name="goods", columns="*"):
        with psycopg.connect(self.url) as connection:
            connection.execute(
                "SELECT set_config('search_path', quote_ident(%s), false)", [self.schema]
            )
            cursor = connection.execute(f'SELECT {columns} FROM "{name}" ORDER BY 1')
            names = [each.name for each in cursor.description]
            found = [dict(zip(names, each, strict=True)) for each in cursor]
        return [{k: v for k, v in each.items() if k != "barnabas_position"} for each in found]

    def refused(self):
        return [each["reason"] for each in self.table("barnabas_refused", "key, reason")]


@pytest.fixture
def run(postgres_url):
    return Run(postgres_url)


def schema(version, columns, table="goods"):
    key = json.dumps([table, {"schema": version}])
    return Change("schema", table, key, version, version, json.dumps({"columns": columns}))


def row(position, number, version=1, table="goods", **values):
    value = json.dumps({"position": position, "schema": version, "row": {"id": number, **values}})
    return Change("row", table, json.dumps([table, number]), version, position, value)


def gone(position, number, table="goods"):
    return Change("delete", table, json.dumps([table, number]), None, position, None)


def test_rows_come_change_and_go(run):
    run.apply(schema(1, V1), row(10, 1, name="a", price=1.5), row(11, 2, name="b"), row(12, 3))
    run.apply(row(13, 1, name="A", price=2), gone(14, 2))
    assert [(each["id"], each["name"], each["price"]) for each in run.table()] == [
        (1, "A", 2),
        (3, None, None),
    ]
    assert run.refused() == []


def test_numbers_are_exact(run):
    value = '{"position": 1, "schema": 1, "row": {"id": 9007199254740993, "price": 12345678901234567890.1234567890123}}'
    run.apply(schema(1, V1), Change("row", "goods", '["goods", 1]', 1, 1, value))
    (found,) = run.table()
    assert found["id"] == 9007199254740993
    assert str(found["price"]) == "12345678901234567890.1234567890123"


def test_an_older_change_never_wins(run):
    run.apply(schema(1, V1), row(20, 1, name="new"), row(10, 1, name="old"), gone(21, 2))
    run.apply(row(15, 1, name="older"), row(20, 2, name="back?"), gone(19, 1))
    assert [each["name"] for each in run.table()] == ["new"]
    run.apply(row(22, 2, name="back"))
    assert [each["name"] for each in run.table()] == ["new", "back"]


def test_a_batch_counts_once(run):
    assert run.apply(schema(1, V1), row(10, 1, name="a"))
    assert not run.apply(row(11, 1, name="b"), batch=0)
    assert [each["name"] for each in run.table()] == ["a"]
    assert run.table("barnabas_staged") == []


def test_a_batch_whose_staged_changes_are_gone_is_not_taken_for_done(run):
    """As after a crash of the database, which empties tables that are not logged."""
    run.apply(schema(1, V1))
    with connected(run.url, run.schema) as target:
        count = target.stage(run.query, 1, "x", [row(10, 1, name="a"), row(11, 2, name="b")])
        target._execute("DELETE FROM barnabas_staged WHERE position = 11")
        with pytest.raises(StagedLost):
            target.apply(run.query, 1, {"x": count}, 24)
    assert run.apply(row(10, 1, name="a"), row(11, 2, name="b"))
    assert [each["name"] for each in run.table()] == ["a", "b"]


def test_columns_are_added_dropped_renamed_and_retyped(run):
    run.apply(schema(1, V1), row(10, 1, name="7", price=1), row(11, 2, name="8", price=2))
    v2 = [
        V1[0],
        {"id": 2, "name": "price", "type": "int"},
        {"id": 3, "name": "name", "type": "text"},
        {"id": 4, "name": 'odd "name"; --', "type": "text[]", "default": ["x", "y"]},
    ]
    run.apply(schema(2, v2), row(12, 3, version=1, name="9", price=3))
    assert run.table() == [
        {"id": each, "price": each + 6, "name": str(each), 'odd "name"; --': ["x", "y"]}
        for each in (1, 2, 3)
    ]
    run.apply(schema(3, [V1[0]]))
    assert run.table() == [{"id": 1}, {"id": 2}, {"id": 3}]


def test_a_table_goes_and_rows_of_it_with_it(run):
    run.apply(schema(1, V1), row(10, 1), schema(2, []), row(11, 2))
    with pytest.raises(psycopg.errors.UndefinedTable):
        run.table()
    assert run.refused() == []
    again = [{**each, "id": each["id"] + 10} for each in V1]
    run.apply(schema(3, again), row(12, 3, version=3), row(9, 4, version=1))
    assert [each["id"] for each in run.table()] == [3]


def test_a_table_made_anew_has_nothing_of_the_one_before_even_if_its_end_comes_late(run):
    run.apply(schema(1, V1), row(10, 1), row(11, 2))
    again = [{**each, "id": each["id"] + 10} for each in V1]
    run.apply(schema(3, again), row(14, 2, version=3, name="b"))
    run.apply(schema(2, []), row(12, 3, version=1))
    assert [(each["id"], each["name"]) for each in run.table()] == [(2, "b")]


def test_rows_wait_for_their_schema(run):
    run.apply(row(10, 1, name="a"), row(11, 2, name="b"))
    assert run.refused() == ["waits for version 1 of the table's schema"] * 2
    run.apply(row(12, 2, name="c"), schema(1, V1))
    assert [each["name"] for each in run.table()] == ["a", "c"]
    assert run.refused() == []


def test_what_cannot_be_is_kept_with_the_reason_and_stops_nothing(run):
    v1 = [*V1, {"id": 5, "name": "stars", "type": "int"}]
    bad = [
        row(11, 2, stars="many"),
        row(12, 3, stars=10**12),
        Change("row", "goods", '["goods", 4]', 1, 13, '{"row": {"name": "no key"}}'),
        Change("row", "goods", '["goods", 5]', 1, 14, '{"row": {"id": 5, "name": "\\u0000"}}'),
        Change("row", "goods", '["goods", 6]', 1, 15, '{"row": 6}'),
        Change("delete", "goods", '["goods", "x"]', None, 16, None),
    ]
    run.apply(schema(1, v1), row(10, 1, stars=5), *bad, row(20, 9, stars=6))
    assert [(each["id"], each["stars"]) for each in run.table()] == [(1, 5), (9, 6)]
    assert len(run.refused()) == len(bad)


def test_keys_that_no_index_can_hold(run):
    columns = [{"id": 1, "name": "id", "type": "text", "key": True}]
    noise = random.Random(1).randbytes(4000).hex()
    run.apply(schema(1, columns), row(10, "a"), row(11, noise), gone(12, noise + "x"), row(13, "b"))
    assert [each["id"] for each in run.table()] == ["a", "b"]
    (reason,) = run.refused()
    assert "index row" in reason
    # One that can be packed fits, and is a key like any other.
    packed = "x" * 5000
    run.apply(row(20, packed))
    assert [each["id"] for each in run.table()] == ["a", "b", packed]
    run.apply(gone(22, packed))
    run.apply(row(21, packed), row(23, "c"))
    assert [each["id"] for each in run.table()] == ["a", "b", "c"]


def test_more_than_postgresql_can_do_is_refused_and_stops_nothing(run):
    deep = "[" * 500_000 + "]" * 500_000
    value = f'{{"position": 12, "schema": 1, "row": {{"id": 2, "name": {deep}}}}}'
    many = [V1[0], *({"id": each, "name": f"c{each}", "type": "int"} for each in range(2, 1702))]
    run.apply(
        schema(1, V1),
        schema(1, many, table="wide"),
        Change("schema", "goods", '["goods", {"schema": 2}]', 2, 2, f'{{"columns": {deep}}}'),
        row(11, 1, name="a"),
        Change("row", "goods", '["goods", 2]', 1, 12, value),
        row(13, 3, name="c"),
    )
    assert [each["name"] for each in run.table()] == ["a", "c"]
    assert len(run.refused()) == 3


@pytest.mark.parametrize(
    "columns",
    [
        [{"id": 1, "name": "id", "type": "bigint); DROP TABLE goods; --", "key": True}],
        [{"id": 1, "name": "id", "type": "no_such_type", "key": True}],
        [V1[0], {"id": 2, "name": "name", "type": "int"}],
        "x",
    ],
)
def test_a_schema_that_cannot_be_is_refused_and_the_table_stays(run, columns):
    run.apply(schema(1, V1), row(10, 1, name="a"))
    run.apply(schema(2, columns), row(11, 1, version=2, name="b"), row(12, 2, version=1, name="c"))
    assert [each["name"] for each in run.table()] == ["a", "c"]
    assert len(run.refused()) == 2


def test_odd_names_are_names(run):
    name = "'; DROP TABLE goods; --\"%s{}"
    columns = [V1[0], {"id": 2, "name": name, "type": "text"}]
    run.apply(
        schema(1, columns, table=name),
        row(10, 1, table=name, **{name: name}),
        row(11, 2, table=name),
    )
    run.apply(gone(12, 2, table=name))
    with psycopg.connect(run.url) as connection:
        found = connection.execute(
            psycopg.sql.SQL("SELECT {} FROM {}").format(
                psycopg.sql.Identifier(name), psycopg.sql.Identifier(run.schema, name)
            )
        ).fetchall()
    assert found == [(name,)]


def test_a_table_that_would_be_ours_is_refused(run):
    run.apply(schema(1, V1, table="barnabas_batches"), schema(1, V1, table="x" * 64))
    assert len(run.refused()) == 2


def test_marks_of_deletes_are_kept_for_a_time(run):
    run.apply(schema(1, V1), gone(10, 1))
    assert len(run.table("barnabas_deleted")) == 1
    with connected(run.url, run.schema) as target:
        target._execute("UPDATE barnabas_deleted SET since = now() - interval '25 hours'")
    run.apply()
    assert run.table("barnabas_deleted") == []


class Killed(Exception):
    """The process is gone."""


class Mortal:
    """A connection that dies before its statement number `fatal`; what it began is rolled back, as after a kill."""

    def __init__(self, connection, fatal):
        self._connection, self._left = connection, fatal

    def __getattr__(self, name):
        return getattr(self._connection, name)

    def execute(self, *args):
        self._left -= 1
        if self._left < 0:
            self._connection.close()
            raise Killed
        return self._connection.execute(*args)


def test_a_kill_at_any_statement_changes_nothing_in_the_end(run):
    first = [
        schema(1, V1),
        row(10, 1, name="a"),
        row(11, 2, name="b"),
        row(12, 3, version=2, name="later"),
    ]
    second = [
        schema(2, [*V1, {"id": 4, "name": "n", "type": "int", "default": 4}]),
        row(13, 1, name="c"),
        gone(14, 2),
    ]
    run.apply(*first)
    for fatal in range(1000):
        connection = psycopg.connect(run.url)
        try:
            target = Target(Mortal(connection, fatal), run.schema)
            staged = {str(fatal): target.stage(run.query, 1, str(fatal), second)}
            target.apply(run.query, 1, staged, 24)
        except Killed:
            continue
        connection.close()
        break
    assert fatal > 10
    assert [(each["id"], each["name"], each["n"]) for each in run.table()] == [
        (1, "c", 4),
        (3, "later", None),
    ]
    assert run.table("barnabas_staged") == []


@pytest.mark.parametrize("seed", range(8))
def test_any_order_and_any_batches_give_the_same_table(postgres_url, seed):
    """What a capture that crashed sends again comes late: the newest positions still win."""
    rng = random.Random(seed)
    v2 = [
        V1[0],
        {"id": 2, "name": "title", "type": "text"},
        {"id": 5, "name": "n", "type": "int", "default": 1},
    ]
    changes, model = [schema(1, V1), schema(2, v2)], {}
    for position in range(10, 130):
        number = rng.randrange(12)
        if rng.random() < 0.3:
            changes.append(gone(position, number))
            model.pop(number, None)
        elif position < 70:
            changes.append(row(position, number, name=f"n{position}", price=position))
            model[number] = {"id": number, "title": f"n{position}", "n": 1}
        else:
            changes.append(row(position, number, version=2, title=f"t{position}", n=position))
            model[number] = {"id": number, "title": f"t{position}", "n": position}
    changes += rng.choices(changes, k=40)
    rng.shuffle(changes)
    run = Run(postgres_url)
    while changes:
        cut = rng.randrange(1, 30)
        run.apply(*changes[:cut])
        changes = changes[cut:]
    assert run.table() == [model[each] for each in sorted(model)]
    assert run.refused() == []
    assert rows(run.url, "SELECT 1") == [(1,)]
