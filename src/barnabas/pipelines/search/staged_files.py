"""What tasks hand to the commit: files beside the index.

Job: rows of a task as one file, files of a batch as rows, and no file left for long. Must not know the index, nor Spark.

Only one process may write the index, and a task is one of many: each leaves its rows here, and the commit, which runs once per batch, takes
them. The folder must be one that driver and workers share, as that of the index.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from barnabas.pipelines.search.fields import DETAILS, TEXTS, TIME

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_FOLDER: Final = "staging"
_TIME_COLUMN: Final = "time"


def stage(
    index: str, writer: str, batch: int, task: str, rows: Iterable[pa.RecordBatch]
) -> str | None:
    """Write what a task has into a file; return its name, or None if there were no rows."""
    pending = iter(rows)
    first = next(pending, None)
    if first is None:
        return None
    folder = _writer_folder(index, writer) / str(batch)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{task}.arrow"
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, first.schema) as stream:
        stream.write_batch(first)
        for each in pending:
            stream.write_batch(each)
    return str(path.relative_to(index))


def staged_rows(index: str, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Read the rows of files, one batch in memory at a time."""
    for name in names:
        with pa.OSFile(str(Path(index) / name), "rb") as file, pa.ipc.open_stream(file) as stream:
            for batch in stream:
                yield from _rows(batch)


def clear(index: str, writer: str, batch: int) -> None:
    """Delete the files of a batch and of those before it."""
    folder = _writer_folder(index, writer)
    for each in folder.glob("*"):
        if each.name.isdecimal() and int(each.name) <= batch:
            shutil.rmtree(each, ignore_errors=True)


def _writer_folder(index: str, writer: str) -> Path:
    return Path(index) / _FOLDER / writer


def _rows(batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    times = batch.column(_TIME_COLUMN).cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    names = [name for name in (*TEXTS, DETAILS) if name in batch.schema.names]
    columns = [batch.column(name).to_pylist() for name in names]
    for time_us, *values in zip(times.to_pylist(), *columns, strict=True):
        yield {TIME: time_us // 1000, **dict(zip(names, values, strict=True))}
