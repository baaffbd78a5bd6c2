"""The sink `barnabas_search`: a stream of events into the index.

Job: what Spark asks of a writer, its options and columns checked. Must not know the index from inside (`writing.py`).

Columns: `time` (TIMESTAMP, never null), any of the texts that `fields.py` names (STRING), and `details` (MAP<STRING, STRING>). Options: `path`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from barnabas.pipelines.problem import PipelineProblem, one_sentence
from barnabas.pipelines.search import staged_files
from barnabas.pipelines.search.fields import DETAILS, TEXTS
from barnabas.pipelines.search.writing import write_batch
from barnabas.pipelines.staging import Staged, staged, this_attempt

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyarrow import RecordBatch
    from pyspark.sql.types import StructType

_TYPES: Final = {
    "time": "timestamp",
    **dict.fromkeys(TEXTS, "string"),
    DETAILS: "map<string,string>",
}


class SearchStreamWriter(DataSourceStreamArrowWriter):
    """Writes a stream into an index."""

    def __init__(self, folder: str) -> None:
        """Take the folder of the index."""
        self._folder = folder

    def write(self, iterator: Iterator[RecordBatch]) -> Staged:
        """Leave what one task has for the commit."""
        with one_sentence():
            query, batch, name = this_attempt()
            file = staged_files.stage(self._folder, query, batch, name, _filled(iterator))
            return Staged(query, file or "")

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Put what the tasks left into the index, once."""
        left = staged(messages)
        if not left:
            return
        query = left[0].query
        with one_sentence():
            rows = staged_files.staged_rows(self._folder, [each.name for each in left])
            write_batch(self._folder, query, batchId, rows)
        staged_files.clear(self._folder, query, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Throw away what the tasks left: the batch is run again."""
        for each in staged(messages):
            staged_files.clear(self._folder, each.query, batchId)


def stream_writer(options: Mapping[str, str], columns: StructType) -> SearchStreamWriter:
    """Make what writes a stream; PipelineProblem for options and columns that cannot be."""
    with one_sentence():
        path = {name.lower(): value for name, value in options.items()}.get("path", "").strip()
        if not path:
            raise PipelineProblem(
                "the option 'path' of the format barnabas_search is missing: the folder of the index"
            )
        _check(columns)
        return SearchStreamWriter(str(Path(path).absolute()))


def _check(columns: StructType) -> None:
    if "time" not in columns.fieldNames():
        raise PipelineProblem("events that are searched need a column 'time' TIMESTAMP")
    for column in columns.fields:
        wanted, given = _TYPES.get(column.name), column.dataType.simpleString()
        if wanted is None:
            raise PipelineProblem(
                f"the index has no column '{column.name}'; columns are {', '.join(_TYPES)}"
            )
        if wanted != given:
            raise PipelineProblem(f"the column '{column.name}' is {given}, and must be {wanted}")


def _filled(batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
    for batch in batches:
        if batch.column("time").null_count:
            raise PipelineProblem(
                "an event has no time: leave such rows out before the sink barnabas_search"
            )
        if batch.num_rows:
            yield batch
