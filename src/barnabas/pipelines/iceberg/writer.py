"""The sink `barnabas_iceberg`: a stream into an Iceberg table, each batch once.

Job: options, and what Spark asks of a writer. Must not know Iceberg (`appending.py`).

Invariants: tasks only put their rows down beside the table, where nobody reads them, in a folder of their query and batch; the driver appends a batch with its
number in one commit, and then removes what was put down for it and for those before, also by drivers that were killed, and what any query of the table put down
a day ago and longer. A query is known by the id that its checkpoint keeps. Nothing that is put down is the only copy: a batch that misses its rows fails, and is run again.
"""

from __future__ import annotations

import uuid
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.fs as files
import pyarrow.parquet as parquet
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from barnabas.pipelines.iceberg.appending import AppendedTable
from barnabas.pipelines.options import OptionTexts
from barnabas.pipelines.problem import PipelineProblem, one_sentence
from barnabas.pipelines.staging import Staged, staged, this_attempt
from barnabas.runtime.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql.types import StructType

OPTIONS: Final = ("uri", "warehouse", "table", "partitionBy")
_STAGED: Final = "_barnabas_staged"
#: So old, what was put down is of a query that is gone: no batch takes as long, and clocks do not differ by as much.
FORGOTTEN_S: Final = 24 * 60 * 60


class IcebergWriter(DataSourceStreamArrowWriter):
    """Writes a stream."""

    def __init__(self, options: Mapping[str, str], columns: StructType) -> None:
        """Check options and columns."""
        with one_sentence():
            texts = OptionTexts(options, OPTIONS)
            for name in ("uri", "warehouse", "table"):
                if not texts.text(name):
                    raise PipelineProblem(f"the option {name} is missing: {_MEANINGS[name]}")
            self._uri, self._warehouse = texts.text("uri"), texts.text("warehouse").rstrip("/")
            self._name, self._partition_by = texts.text("table"), texts.text("partitionBy")
            if "." not in self._name:
                raise PipelineProblem(f"table={self._name!r}: {_MEANINGS['table']}")
            if self._partition_by and self._partition_by not in columns.names:
                raise PipelineProblem(
                    f"partitionBy={self._partition_by!r}: the columns are {', '.join(columns.names)}"
                )

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        """Put down what one task has."""
        attempt = this_attempt()
        batches = [each for each in iterator if each.num_rows]
        if not batches:
            return Staged(attempt.query, "")
        store, above = self._store(attempt.query)
        folder = f"{above}/{attempt.batch}"
        store.create_dir(folder)
        path = f"{folder}/{uuid.uuid4()}.parquet"
        parquet.write_table(pa.Table.from_batches(batches), path, filesystem=store)
        return Staged(attempt.query, path)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Append the batch."""
        left = staged(messages)
        if not left:
            return
        query = left[0].query
        store, folder = self._store(query)
        rows = pa.concat_tables([parquet.read_table(each.name, filesystem=store) for each in left])
        table = AppendedTable(self._uri, self._warehouse, self._name)
        table.append(query, batchId, rows, self._partition_by)
        for each in store.get_file_info(files.FileSelector(folder, allow_not_found=True)):
            if each.base_name.isdecimal() and int(each.base_name) <= batchId:
                store.delete_dir(each.path)
        remove_forgotten(store, folder.rpartition("/")[0], SystemClock().now_ms())

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Remove what was put down: the batch is run again."""
        store, _ = self._store("")
        _remove(store, [each.name for each in staged(messages)])

    def _store(self, query: str) -> tuple[Any, str]:
        """Give the file system, and where a query puts rows down."""
        store, path = files.FileSystem.from_uri(self._warehouse)
        return store, f"{path}/{_STAGED}/{self._name}/{query}"


_MEANINGS: Final = {
    "uri": "where the catalog is, such as sqlite:////data/catalog.db or postgresql+psycopg://HOST/DATABASE",
    "warehouse": "where files are, such as file:///data/warehouse or s3://bucket/warehouse",
    "table": "give NAMESPACE.TABLE",
}


def remove_forgotten(store: Any, folder: str, now_ms: int) -> None:  # noqa: ANN401  # pyarrow is untyped
    """Remove files below a folder that are older than FORGOTTEN_S. The batch is there already: what hinders this, such as others who remove, is no failure of it."""
    oldest_ns = (now_ms - FORGOTTEN_S * 1000) * 1_000_000
    with suppress(OSError):
        found = files.FileSelector(folder, allow_not_found=True, recursive=True)
        for each in store.get_file_info(found):
            if each.is_file and each.mtime_ns is not None and each.mtime_ns < oldest_ns:
                with suppress(OSError):
                    store.delete_file(each.path)


def _remove(store: Any, paths: Sequence[str]) -> None:  # noqa: ANN401  # pyarrow is untyped
    for each in paths:
        if store.get_file_info(each).type != files.FileType.NotFound:
            store.delete_file(each)
