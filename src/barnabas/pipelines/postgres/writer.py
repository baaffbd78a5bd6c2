"""The sink `barnabas_postgres`: changes of a topic into a PostgreSQL database, each batch once.

Job: options, and what Spark asks of a writer. Must not know SQL (`target.py`).

Invariants: tasks only stage; the driver applies a batch with its number in one transaction. A query is known by the id that its checkpoint
keeps; one with a new checkpoint replays from zero, and changes nothing that is newer.
"""

from __future__ import annotations

import json
import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import psycopg
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from barnabas.pipelines.options import OptionTexts
from barnabas.pipelines.postgres.target import Change, StagedLost, connected
from barnabas.pipelines.problem import PipelineProblem, one_sentence
from barnabas.pipelines.staging import Staged, staged, this_attempt

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyarrow import RecordBatch
    from pyspark.sql.types import StructType

OPTIONS: Final = ("url", "schema", "keepDeletesHours")
#: Replays and repeated captures older than this may bring deleted rows back until they have caught up.
KEEP_DELETES_HOURS: Final = 168
COLUMNS: Final = {
    "kind": "string",
    "table": "string",
    "key": "string",
    "version": "int",
    "position": "bigint",
    "value": "string",
}


class ChangeWriter(DataSourceStreamArrowWriter):
    """Writes a stream of changes."""

    def __init__(self, options: Mapping[str, str], columns: StructType) -> None:
        """Check options and columns."""
        with one_sentence():
            texts = OptionTexts(options, OPTIONS)
            self._url = texts.text("url")
            if not self._url:
                raise PipelineProblem(
                    "the option url is missing: give postgresql://USER@HOST:PORT/DATABASE, or words as libpq takes them"
                )
            self._schema = texts.text("schema", "public")
            self._keep_deletes_hours = texts.number("keepDeletesHours") or KEEP_DELETES_HOURS
            found = {each.name: each.dataType.simpleString() for each in columns}
            if found != COLUMNS:
                wanted = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
                raise PipelineProblem(f"changes have the columns {wanted}; these are {found}")

    def write(self, iterator: Iterator[RecordBatch]) -> Staged:
        """Stage what one task has."""
        with _told():
            query, batch, _ = this_attempt()
            rows = (row for each in iterator for row in each.to_pylist())
            first = next(rows, None)
            if first is None:
                return Staged(query, "")
            attempt = str(uuid.uuid4())
            with connected(self._url, self._schema) as target:
                changes = target.stage(query, batch, attempt, _changes(first, rows))
        return Staged(query, attempt, changes)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Apply the batch."""
        left = staged(messages)
        if left:
            with _told(), connected(self._url, self._schema) as target:
                attempts = {each.name: each.rows for each in left}
                target.apply(left[0].query, batchId, attempts, self._keep_deletes_hours)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Leave what is staged: the batch that is run again removes it."""


@contextmanager
def _told() -> Iterator[None]:
    """Let what the database says be one sentence."""
    with one_sentence():
        try:
            yield
        except (psycopg.Error, StagedLost) as problem:
            sentence = " ".join(str(problem).split())
            raise PipelineProblem(
                f"the database of the option url cannot be written: {sentence}"
            ) from None


def _changes(first: dict[str, Any], rows: Iterator[dict[str, Any]]) -> Iterator[Change]:
    yield _change(first)
    yield from map(_change, rows)


def _change(row: dict[str, Any]) -> Change:
    """Take a row; its key is written in one way, so that equal keys are equal texts. One that cannot be read here is left as it is: the database says what is wrong with it."""
    try:
        key = json.dumps(json.loads(row["key"]))
    except (ValueError, RecursionError):
        key = row["key"]
    return Change(**{**row, "key": key})
