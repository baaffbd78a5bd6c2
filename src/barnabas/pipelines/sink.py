"""The sink: DataFrames into topics, batch and streaming.

Job: what Spark asks of a writer; which query, epoch and task it is. Must not know transactions (`delivery.py`) or rows (`row_sending.py`).

Invariants: a streaming query is known by the id that its checkpoint keeps, so it is the same after a restart and another one with
another checkpoint; attempts of one task have one transactional id in a stream, and each its own in a batch.
"""

from __future__ import annotations

import re
import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from barnabas.pipelines import delivery
from barnabas.pipelines.options import impatient
from barnabas.pipelines.problem import PipelineProblem, one_sentence
from barnabas.pipelines.staging import BATCH_ID, QUERY_ID, this_task
from barnabas.runtime.blocking_client import BlockingClient

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyarrow import RecordBatch

    from barnabas.client.transaction import PreparedTransaction
    from barnabas.pipelines.options import SinkOptions

PREFIX: Final = "barnabas-sink"
#: When to look for what killed tasks have left open, in seconds after each other: Spark kills the Python of a task up to four
#: seconds after it has failed the job, and until then it goes on writing.
_LOOKS_S: Final = (0, 1, 2, 2)


@dataclass
class Written(WriterCommitMessage):
    """What a task has done, for the driver."""

    rows: int
    prepared: PreparedTransaction | None = None


class TopicStreamWriter(DataSourceStreamArrowWriter):
    """Writes a stream."""

    def __init__(self, options: SinkOptions) -> None:
        """Take what was asked for."""
        self._options = options

    def write(self, iterator: Iterator[RecordBatch]) -> Written:
        """Write what one task has of one epoch. All is done when this returns: the driver has nothing to commit."""
        options, task = self._options, this_task()
        with one_sentence():
            query, epoch = task.getLocalProperty(QUERY_ID), task.getLocalProperty(BATCH_ID)
            name = f"{PREFIX}-{query}-{task.partitionId()}"
            with BlockingClient(options.settings) as client:
                if not options.exactly_once:
                    return Written(delivery.write_at_least_once(client, options, name, iterator))
                if not query or epoch is None:
                    raise PipelineProblem(
                        "Spark does not tell which query and batch this is, so it cannot be written exactly once: set "
                        "delivery=at-least-once"
                    )
                return Written(delivery.write_epoch(client, options, name, int(epoch), iterator))


class TopicWriter(DataSourceArrowWriter):
    """Writes a batch: what tasks have written becomes visible together, when all are done."""

    def __init__(self, options: SinkOptions) -> None:
        """Take what was asked for, and a name for this write."""
        self._options = options
        self._name = f"{PREFIX}-{options.sink_id or uuid.uuid4()}"
        if options.sink_id and options.topic:
            # What one batch writes to several topics are several sinks. No name of a topic has such a sign.
            self._name += f"@{options.topic}"

    def check(self) -> None:
        """Look whether the topics are there, before tasks are started that would all fail."""
        named = [each for each in (self._options.topic, self._options.dead_letter_topic) if each]
        if named:
            with BlockingClient(impatient(self._options.settings)) as client:
                client.partitions(named)

    def write(self, iterator: Iterator[RecordBatch]) -> Written:
        """Write what one task has."""
        options, task = self._options, this_task()
        name = f"{self._name}-{task.partitionId()}"
        with one_sentence(), BlockingClient(options.settings) as client:
            if not options.exactly_once:
                return Written(delivery.write_at_least_once(client, options, name, iterator))
            if options.epoch is not None:
                return Written(delivery.write_epoch(client, options, name, options.epoch, iterator))
            # Each attempt has an id of its own: one that comes second (speculation) must not end what the first has left open
            # for the driver.
            name = f"{name}-{task.attemptNumber()}"
            return Written(*delivery.write_open(client, options, name, iterator))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """All tasks are done: let readers see it. An attempt that came second (speculation) may have left its own open."""
        prepared = _prepared(messages)
        if prepared:
            with one_sentence(), BlockingClient(self._options.settings) as client:
                delivery.end_all(client, prepared)
                delivery.abort_left(client, self._attempts())

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """A task has failed: nobody shall see what the others wrote, nor wait for it."""
        if not self._options.exactly_once:
            return
        with one_sentence(), BlockingClient(self._options.settings) as client:
            delivery.abort_all(client, _prepared(messages))
            for pause_s in _LOOKS_S:
                time.sleep(pause_s)
                delivery.abort_left(client, self._attempts())

    def _attempts(self) -> re.Pattern[str]:
        """Match the transactional ids of this write, and no others'."""
        task = r"-\d+" if self._options.epoch is not None else r"-\d+-\d+"
        return re.compile(re.escape(self._name) + task)


def _prepared(messages: Sequence[WriterCommitMessage | None]) -> list[PreparedTransaction]:
    return [each.prepared for each in messages if isinstance(each, Written) and each.prepared]
