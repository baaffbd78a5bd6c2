"""A database that follows a topic of changes: staged by tasks, applied by the driver, a batch in one transaction.

Job: run the statements in the right order. Must not know Spark, nor where changes come from.

Invariants: the number of a batch and what it changes are committed together, so a batch counts once; a row has the newest change by the
source's position, whatever the order and however often changes come; a change that cannot be applied is kept in `barnabas_refused` with
the reason, and stops nothing. One batch at a time is applied to a target.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import psycopg
from psycopg.sql import SQL, Composed, Identifier

from barnabas.pipelines.postgres import statements
from barnabas.pipelines.postgres.schemas import (
    BadSchema,
    Column,
    check_name,
    defaults_since,
    is_same_table,
    names_now,
    parse_columns,
    plan_steps,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

#: What is wrong with a change and not with the database: types, keys, statements that one change made impossible.
_REFUSALS: Final = (
    psycopg.DataError,
    psycopg.IntegrityError,
    psycopg.ProgrammingError,
    psycopg.NotSupportedError,
    # What is more than PostgreSQL can do for anybody: by their class these are troubles of the server, and would be tried again for ever.
    psycopg.errors.ProgramLimitExceeded,
    psycopg.errors.StatementTooComplex,
    psycopg.errors.TooManyColumns,
    psycopg.errors.TooManyArguments,
)
_FIELDS: Final = 'query, batch, attempt, kind, "table", key, version, position, value'
#: An entry of an index has room for so much, and a table and a position beside it. Longer keys are known by how they begin and their hash.
_KEY_BYTES: Final = 2000
_KEY_SHOWN: Final = 200


class Change(NamedTuple):
    """One change: `kind` is row, delete or schema; `key` is JSON, [table, key …]; `value` is the record's."""

    kind: str
    table: str
    key: str
    version: int | None
    position: int
    value: str | None


class StagedLost(Exception):
    """Staged changes are gone: the batch must be run again."""


class Target:
    """One schema of a PostgreSQL database."""

    def __init__(self, connection: psycopg.Connection[Any], schema: str = "public") -> None:
        """Take a connection of one's own; tables are made in the schema, which is made if it is not there."""
        self._connection = connection
        self._execute = connection.execute
        self._schema = schema
        self._execute("SELECT set_config('search_path', quote_ident(%s), false)", [schema])
        found = self._execute("SELECT to_regclass('barnabas_refused')").fetchone()
        if found == (None,):
            self._make_books()
        connection.commit()

    def _make_books(self) -> None:
        """Make the tables of this target, one at a time: two that start at once would both find nothing there."""
        self._execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 1))", [self._schema])
        self._execute("SET LOCAL client_min_messages = warning")
        self._execute(SQL("CREATE SCHEMA IF NOT EXISTS {}").format(Identifier(self._schema)))
        self._execute(statements.BOOKS)

    def stage(self, query: str, batch: int, attempt: str, changes: Iterable[Change]) -> int:
        """Put down what one attempt of a task has; return how many changes these are."""
        statement = f"COPY barnabas_staged ({_FIELDS}) FROM STDIN"
        count = 0
        with (
            self._connection.transaction(),
            self._connection.cursor() as cursor,
            cursor.copy(statement) as copy,
        ):
            for each in changes:
                copy.write_row((query, batch, attempt, *_staged(each)))
                count += 1
        return count

    def apply(
        self, query: str, batch: int, staged: Mapping[str, int], keep_deletes_hours: int
    ) -> bool:
        """Apply a batch that attempts have staged, so many changes each; return whether it was new. StagedLost if some are not there."""
        attempts = [*staged]
        with self._connection.transaction():
            self._execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [self._schema])
            new = self._note(query, batch)
            if new:
                self._check_staged(attempts, sum(staged.values()))
                self._apply_schemas(query, batch, attempts)
                self._apply_rows(attempts)
                self._execute(
                    "DELETE FROM barnabas_deleted WHERE since < now() - make_interval(hours => %s)",
                    [keep_deletes_hours],
                )
            # Also what earlier attempts left behind, and what one that nobody waits for writes later.
            self._execute(
                "DELETE FROM barnabas_staged WHERE query = %s AND batch <= %s", [query, batch]
            )
        return new

    def _check_staged(self, attempts: Sequence[str], expected: int) -> None:
        """A crash of the database takes what is staged: to apply the rest would be to lose it."""
        row = self._execute(
            "SELECT count(*) FROM barnabas_staged WHERE attempt = ANY(%s)", [attempts]
        ).fetchone()
        if row != (expected,):
            raise StagedLost(f"of {expected} staged changes {row[0] if row else 0} are left")

    def _note(self, query: str, batch: int) -> bool:
        noted = self._execute(
            "INSERT INTO barnabas_batches VALUES (%s, %s) ON CONFLICT (query) DO UPDATE SET batch = excluded.batch "
            "WHERE barnabas_batches.batch < excluded.batch",
            [query, batch],
        )
        return noted.rowcount == 1

    # -- schemas ------------------------------------------------------------------------------

    def _apply_schemas(self, query: str, batch: int, attempts: Sequence[str]) -> None:
        found = self._execute(
            "SELECT ctid::text, \"table\", version, value FROM barnabas_staged WHERE attempt = ANY(%s) AND kind = 'schema' "
            'ORDER BY "table", version, position',
            [attempts],
        ).fetchall()
        for row, table, version, value in found:
            try:
                with self._connection.transaction():
                    self._apply_schema(table, version, value)
            except (BadSchema, *_REFUSALS) as problem:
                self._refuse([row], problem)
            else:
                words = {
                    "query": query,
                    "batch": batch,
                    "attempt": attempts[0],
                    "table": table,
                    "version": version,
                }
                self._execute(statements.STAGE_AGAIN, words)
        self._execute(
            "DELETE FROM barnabas_staged WHERE attempt = ANY(%s) AND kind = 'schema'", [attempts]
        )

    def _apply_schema(self, table: str, version: int, value: str) -> None:
        """Note a version; the table follows if it is the newest."""
        check_name(table, "a table")
        columns = parse_columns(value)
        now_version, now = self._columns_now(table)
        self._execute(
            'INSERT INTO barnabas_schemas ("table", version, columns) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING',
            [table, version, value],
        )
        if now_version is not None and version <= now_version:
            return
        types = {each.type: self._type(each.type) for each in columns}
        if now and is_same_table(now, columns):
            self._alter(table, now, columns, types)
        else:
            self._execute(statements.drop_table(table))
            if columns:
                self._execute(statements.create_table(table, columns, types))
        self._execute(
            'UPDATE barnabas_schemas SET applied = (version = %s) WHERE "table" = %s',
            [version, table],
        )

    def _alter(
        self, table: str, old: Sequence[Column], new: Sequence[Column], types: dict[str, str]
    ) -> None:
        steps = plan_steps(old, new)
        for statement in statements.alter_table(table, steps, types):
            self._execute(statement)
        filled = {each.name: each.default for each in steps.add if each.default is not None}
        if filled:
            self._execute(statements.fill_added(table, [*filled]), {"values": json.dumps(filled)})

    def _type(self, name: str) -> str:
        """Have PostgreSQL say what a type is called: what it says is safe to put into a statement."""
        row = self._execute("SELECT to_regtype(%s)::text", [name]).fetchone()
        if row is None or row[0] is None:
            raise BadSchema(f"PostgreSQL knows no type {name!r}")
        return str(row[0])

    def _columns_now(self, table: str) -> tuple[int | None, tuple[Column, ...]]:
        row = self._execute(
            'SELECT version, columns FROM barnabas_schemas WHERE "table" = %s AND applied', [table]
        ).fetchone()
        return (None, ()) if row is None else (row[0], parse_columns(row[1]))

    def _columns_of(self, table: str, version: int) -> tuple[Column, ...] | None:
        row = self._execute(
            'SELECT columns FROM barnabas_schemas WHERE "table" = %s AND version = %s',
            [table, version],
        ).fetchone()
        return None if row is None else parse_columns(row[0])

    # -- rows ---------------------------------------------------------------------------------

    def _apply_rows(self, attempts: Sequence[str]) -> None:
        words = {"attempts": attempts}
        for statement in (statements.KEEP_NEWEST, statements.SKIP_DELETED, statements.MARK_DELETED):
            self._execute(statement, words)
        groups = self._execute(
            'SELECT kind, "table", version, array_agg(ctid::text ORDER BY key) FROM barnabas_staged '
            'WHERE attempt = ANY(%s) GROUP BY kind, "table", version ORDER BY kind, "table", version',
            [attempts],
        ).fetchall()
        for kind, table, version, rows in groups:
            if kind == "delete":
                self._delete(table, rows)
            else:
                self._upsert(table, version, rows)

    def _delete(self, table: str, rows: Sequence[str]) -> None:
        _, now = self._columns_now(table)
        if now:
            names = {
                f"key{at}": each.name for at, each in enumerate(each for each in now if each.key)
            }
            self._each_or_all(statements.delete_rows(table, now), names, rows)

    def _upsert(self, table: str, version: int, rows: Sequence[str]) -> None:
        now_version, now = self._columns_now(table)
        known = self._columns_of(table, version)
        if known is None or now_version is None or now_version < version:
            self._refuse(rows, f"waits for version {version} of the table's schema")
        elif is_same_table(known, now):
            words = {
                "names": json.dumps(names_now(known, now)),
                "defaults": json.dumps(defaults_since(known, now)),
            }
            self._each_or_all(statements.upsert_rows(table, now), words, rows)

    def _each_or_all(self, statement: Composed, words: dict[str, str], rows: Sequence[str]) -> None:
        """Run a statement for all rows; if that cannot be, for each of them, and refuse those that are at fault."""
        try:
            with self._connection.transaction():
                self._execute(statement, {**words, "rows": rows})
        except _REFUSALS as problem:
            if len(rows) == 1:
                self._refuse(rows, problem)
                return
            half = len(rows) // 2
            self._each_or_all(statement, words, rows[:half])
            self._each_or_all(statement, words, rows[half:])

    def _refuse(self, rows: Sequence[str], reason: Exception | str) -> None:
        sentence = str(reason).splitlines()[0] if str(reason) else repr(reason)
        self._execute(statements.REFUSE, {"rows": rows, "reason": sentence})


def _staged(change: Change) -> Change:
    """Give a change as it is put down: its key fits into an index, and a delete, which has no value, has its key there as it is."""
    value = change.key if change.kind == "delete" else change.value
    if len(change.key.encode()) <= _KEY_BYTES:
        return change._replace(value=value)
    digest = sha256(change.key.encode()).hexdigest()
    return change._replace(key=f"{change.key[:_KEY_SHOWN]} sha256 {digest}", value=value)


@contextmanager
def connected(url: str, schema: str) -> Iterator[Target]:
    """Connect to a target, and hang up after."""
    with psycopg.connect(url, application_name="barnabas") as connection:
        yield Target(connection, schema)
