"""The SQL of the target: names quoted, values as parameters only.

Job: the text of each statement. Must not run anything. Everything lies in one PostgreSQL schema, which the connection's `search_path` names.

Renaming swaps (a becomes b while b becomes a) go through names of their own, so `rename` has two statements for each column.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from psycopg.sql import SQL, Composed, Identifier

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from barnabas.pipelines.postgres.schemas import Column, Steps

POSITION: Final = Identifier("barnabas_position")

#: Changes as tasks brought them (unlogged: a crash of the database takes them, and their batch is run again); the last batch of each query;
#: all versions of each table, and which one the table has; rows that are gone; changes that could not be applied.
BOOKS: Final = """
CREATE UNLOGGED TABLE IF NOT EXISTS barnabas_staged (
    query text NOT NULL, batch bigint NOT NULL, attempt text NOT NULL,
    kind text NOT NULL, "table" text NOT NULL, key text NOT NULL, version int, position bigint NOT NULL, value text);
CREATE INDEX IF NOT EXISTS barnabas_staged_attempt ON barnabas_staged (attempt);
CREATE TABLE IF NOT EXISTS barnabas_batches (query text PRIMARY KEY, batch bigint NOT NULL);
CREATE TABLE IF NOT EXISTS barnabas_schemas (
    "table" text, version int, columns text NOT NULL, applied bool NOT NULL DEFAULT false, PRIMARY KEY ("table", version));
CREATE TABLE IF NOT EXISTS barnabas_deleted (
    "table" text, key text, position bigint NOT NULL, since timestamptz NOT NULL DEFAULT now(), PRIMARY KEY ("table", key));
CREATE INDEX IF NOT EXISTS barnabas_deleted_since ON barnabas_deleted (since);
CREATE TABLE IF NOT EXISTS barnabas_refused (
    kind text NOT NULL, "table" text, key text, version int, position bigint, value text, reason text NOT NULL,
    since timestamptz NOT NULL DEFAULT now(), PRIMARY KEY ("table", key, position));
"""

#: Of several changes of one row the newest counts.
KEEP_NEWEST: Final = """
DELETE FROM barnabas_staged WHERE ctid IN (
    SELECT ctid FROM (
        SELECT ctid, row_number() OVER (PARTITION BY "table", key ORDER BY position DESC) AS place
        FROM barnabas_staged WHERE attempt = ANY(%(attempts)s)) AS ranked
    WHERE place > 1)
"""

#: What is not newer than the mark of a delete is older news.
SKIP_DELETED: Final = """
DELETE FROM barnabas_staged AS s USING barnabas_deleted AS d
WHERE s.attempt = ANY(%(attempts)s) AND s."table" = d."table" AND s.key = d.key AND s.position <= d.position
"""

MARK_DELETED: Final = """
INSERT INTO barnabas_deleted ("table", key, position)
SELECT "table", key, position FROM barnabas_staged WHERE attempt = ANY(%(attempts)s) AND kind = 'delete'
ON CONFLICT ("table", key) DO UPDATE SET position = excluded.position, since = now()
"""

#: A change whose schema came at last is tried again with this batch.
STAGE_AGAIN: Final = """
WITH found AS (DELETE FROM barnabas_refused WHERE "table" = %(table)s AND version = %(version)s AND kind = 'row' RETURNING *)
INSERT INTO barnabas_staged
SELECT %(query)s, %(batch)s, %(attempt)s, kind, "table", key, version, position, value FROM found
"""

REFUSE: Final = """
INSERT INTO barnabas_refused (kind, "table", key, version, position, value, reason)
SELECT kind, "table", key, version, position, value, %(reason)s FROM barnabas_staged WHERE ctid = ANY(%(rows)s::tid[])
ON CONFLICT ("table", key, position) DO UPDATE SET reason = excluded.reason
"""


def create_table(table: str, columns: Sequence[Column], types: dict[str, str]) -> Composed:
    """Make a table. `types` are as PostgreSQL itself writes them, so they need no quotes."""
    lines = [SQL("{} {}").format(Identifier(each.name), SQL(types[each.type])) for each in columns]
    keys = [Identifier(each.name) for each in columns if each.key]
    return SQL("CREATE TABLE {} ({}, {} bigint NOT NULL, PRIMARY KEY ({}))").format(
        Identifier(table), SQL(", ").join(lines), POSITION, SQL(", ").join(keys)
    )


def drop_table(table: str) -> Composed:
    """Drop a table."""
    return SQL("DROP TABLE IF EXISTS {}").format(Identifier(table))


def alter_table(table: str, steps: Steps, types: dict[str, str]) -> Iterator[Composed]:
    """Change a table; what new columns are filled with is `fill_added`'s."""
    altered = SQL("ALTER TABLE {} ").format(Identifier(table))
    for name in steps.drop:
        yield altered + SQL("DROP COLUMN {}").format(Identifier(name))
    rename = "RENAME COLUMN {} TO {}"
    for place, (was, _) in enumerate(steps.rename):
        yield altered + SQL(rename).format(Identifier(was), Identifier(f"barnabas_{place}"))
    for place, (_, now) in enumerate(steps.rename):
        yield altered + SQL(rename).format(Identifier(f"barnabas_{place}"), Identifier(now))
    for name, kind in steps.retype:
        yield altered + SQL("ALTER COLUMN {0} TYPE {1} USING {0}::text::{1}").format(
            Identifier(name), SQL(types[kind])
        )
    for each in steps.add:
        yield altered + SQL("ADD COLUMN {} {}").format(Identifier(each.name), SQL(types[each.type]))


def fill_added(table: str, names: Sequence[str]) -> Composed:
    """Give all rows the values of %(values)s in these columns."""
    sets = [SQL("{0} = v.{0}").format(_quoted(each)) for each in names]
    return SQL(
        "UPDATE {0} SET {1} FROM jsonb_populate_record(NULL::{0}, %(values)s::jsonb) AS v"
    ).format(_quoted(table), SQL(", ").join(sets))


def upsert_rows(table: str, columns: Sequence[Column]) -> Composed:
    """Write the staged rows %(rows)s, whose columns are called as %(names)s says now and others are as in %(defaults)s."""
    names = [_quoted(each.name) for each in columns]
    return SQL(
        "INSERT INTO {table} ({names}, {position}) SELECT {values}, s.position FROM barnabas_staged AS s, "
        "jsonb_populate_record(NULL::{table}, %(defaults)s::jsonb || ("
        "SELECT coalesce(jsonb_object_agg(n.value, r.value), '{{}}') "
        "FROM jsonb_each(s.value::jsonb -> 'row') AS r JOIN jsonb_each_text(%(names)s::jsonb) AS n USING (key))) AS v "
        "WHERE s.ctid = ANY(%(rows)s::tid[]) "
        "ON CONFLICT ({keys}) DO UPDATE SET {sets} WHERE {table}.{position} < excluded.{position}"
    ).format(
        table=_quoted(table),
        names=SQL(", ").join(names),
        values=SQL(", ").join(SQL("v.{}").format(each) for each in names),
        position=POSITION,
        keys=SQL(", ").join(_quoted(each.name) for each in columns if each.key),
        sets=SQL(", ").join(SQL("{0} = excluded.{0}").format(each) for each in (*names, POSITION)),
    )


def delete_rows(table: str, columns: Sequence[Column]) -> Composed:
    """Delete the rows that the staged deletes %(rows)s name: their values are [table, first key column, next …]."""
    keys = [each.name for each in columns if each.key]
    pairs = [
        SQL("%(key{0})s::text, s.value::jsonb -> {1}").format(SQL(str(at)), SQL(str(at + 1)))
        for at in range(len(keys))
    ]
    same = [SQL("t.{0} = v.{0}").format(_quoted(each)) for each in keys]
    return SQL(
        "DELETE FROM {table} AS t USING barnabas_staged AS s, "
        "jsonb_populate_record(NULL::{table}, jsonb_build_object({pairs})) AS v "
        "WHERE s.ctid = ANY(%(rows)s::tid[]) AND {same} AND t.{position} < s.position"
    ).format(
        table=_quoted(table),
        pairs=SQL(", ").join(pairs),
        same=SQL(" AND ").join(same),
        position=POSITION,
    )


def _quoted(name: str) -> Identifier:
    """Quote a name in a statement with parameters, where psycopg reads a % as the begin of one."""
    return Identifier(name.replace("%", "%%"))
