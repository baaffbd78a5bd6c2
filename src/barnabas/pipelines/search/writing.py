"""Putting batches of events into the index, each exactly once.

Job: one commit per batch, with its mark. Must not know Spark, nor where rows come from.

Invariants: a batch whose number is not above its writer's mark adds nothing; what a commit did not finish (a kill, a full disk) is not there;
one process writes at a time, which the index's own lock sees to, and a lock ends with its process.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tantivy import Index, Query

from barnabas.pipelines.problem import PipelineProblem
from barnabas.pipelines.search.fields import BATCH, WRITER, event_document, mark_document, schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tantivy import IndexWriter

#: What a commit gathers in memory before it writes a segment.
_HEAP_BYTES: Final = 64_000_000
_NO_BATCH: Final = -1


def open_index(folder: str) -> Index:
    """Open the index, made if there is none."""
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        return Index(schema(), path=folder)
    except (OSError, ValueError) as problem:
        raise PipelineProblem(
            f"{folder} cannot be opened as an index of logs ({problem}): give another folder, or delete it and let it be made anew"
        ) from None


def last_batch(index: Index, writer: str) -> int:
    """Return the number of the last batch that `writer` has committed, or -1."""
    index.reload()
    searcher = index.searcher()
    found = searcher.search(Query.term_query(index.schema, WRITER, writer), 1)
    if not found.hits:
        return _NO_BATCH
    return int(searcher.doc(found.hits[0][1])[BATCH][0])


def write_batch(
    folder: str, writer: str, batch: int, rows: Iterable[Mapping[str, Any]]
) -> int | None:
    """Add the events of a batch; return how many, or None if it was there already."""
    index = open_index(folder)
    held = _writer(index, folder)
    try:
        # Looked at with the lock held: who had it before may have been the same batch.
        if batch <= last_batch(index, writer):
            return None
        count = 0
        for row in rows:
            held.add_document(event_document(row, index.schema))
            count += 1
        held.delete_documents_by_term(WRITER, writer)
        held.add_document(mark_document(writer, batch, index.schema))
        held.commit()
        return count
    finally:
        # Also after an error: the threads of a writer hold its lock until they are waited for.
        held.wait_merging_threads()


def _writer(index: Index, folder: str) -> IndexWriter:
    try:
        return index.writer(_HEAP_BYTES, 1)
    except ValueError as problem:
        if "LockBusy" not in str(problem):
            raise PipelineProblem(f"the index {folder} cannot be written: {problem}") from None
        raise PipelineProblem(
            f"the index {folder} is being written by another process: stop it, or give this pipeline an index of its own"
        ) from None
