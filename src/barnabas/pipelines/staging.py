"""What the tasks of a streaming batch tell the commit of a sink that stages: of which query and batch they are, and where they left their rows.

Job: Spark's words for that, and the message from a task to the driver. Must not know where rows are left, nor what becomes of them.

Invariants: a query is known by the id that its checkpoint keeps, so a batch that is run again has the same query and number; an attempt without rows leaves nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from barnabas.pipelines.problem import PipelineProblem

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Where Spark tells its tasks which query and batch they are of (StreamExecution.QUERY_ID_KEY, MicroBatchExecution.BATCH_ID_KEY).
QUERY_ID: Final = "sql.streaming.queryId"
BATCH_ID: Final = "streaming.sql.batchId"


@dataclass
class Staged(WriterCommitMessage):
    """What an attempt of a task has left, under a name that its sink understands; none if it had no rows."""

    query: str
    name: str
    rows: int = 0


class Attempt(NamedTuple):
    """Who is writing."""

    query: str
    batch: int
    name: str
    """Of this attempt of this task, and no other's of the batch."""


def this_task() -> TaskContext:
    """Give the task that runs."""
    task = TaskContext.get()
    assert task is not None, "Spark calls write() in tasks"
    return task


def this_attempt() -> Attempt:
    """Say of which query and batch the task is that runs; PipelineProblem if Spark does not tell."""
    task = this_task()
    query, batch = task.getLocalProperty(QUERY_ID), task.getLocalProperty(BATCH_ID)
    if not query or batch is None:
        raise PipelineProblem("Spark does not tell which query and batch this is")
    return Attempt(query, int(batch), f"{task.partitionId()}-{task.taskAttemptId()}")


def staged(messages: Iterable[WriterCommitMessage | None]) -> list[Staged]:
    """Give what tasks have left, of those that had rows."""
    return [each for each in messages if isinstance(each, Staged) and each.name]
