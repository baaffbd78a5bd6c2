"""The source: topics as tables for Spark, batch and streaming.

Job: what Spark asks of a reader, answered from the cluster. Must not know how records are laid out (`columns`), how values are read
(`formats`), or how ranges are cut (`planning.py`).

Invariants: what runs in a task holds no connection of the driver's; a batch that is replayed has the same tasks and rows; offsets are
committed to the group only when Spark has finished the batch that ends there.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from barnabas.client.errors import UnknownTopic
from barnabas.model.ids import TopicPartition
from barnabas.pipelines import planning
from barnabas.pipelines.offsets import Offsets, OffsetsJson, from_json, to_json
from barnabas.pipelines.options import impatient
from barnabas.pipelines.positions import Positions
from barnabas.pipelines.problem import PipelineProblem, one_sentence
from barnabas.pipelines.range_reading import read_range
from barnabas.runtime.blocking_client import BlockingClient

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyarrow import RecordBatch
    from pyspark.sql.streaming.datasource import ReadLimit

    from barnabas.pipelines.formats import Decoder
    from barnabas.pipelines.options import SourceOptions, Subscription

#: What is fetched of a partition to see what its records weigh (maxBytesPerTrigger).
_SAMPLE_BYTES: Final = 64 * 1024


@dataclass
class LogRange(InputPartition):
    """What one task reads."""

    topic: str
    partition: int
    start: int
    end: int


class TopicReader(DataSourceReader):
    """Reads a batch."""

    def __init__(self, options: SourceOptions, decoder: Decoder | None) -> None:
        """Take what was asked for; no connection is made before it is needed."""
        self._options = options
        self._decoder = decoder

    def partitions(self) -> list[LogRange]:
        """Find out where the logs start and end now, and cut that into tasks."""
        options = self._options
        with one_sentence(), BlockingClient(impatient(options.settings)) as client:
            positions = Positions(client, options)
            start, end = positions.starting(), positions.ending()
        with one_sentence():
            _check_found(start, options.subscription)
            _check_order(start, end)
        return _tasks(options, start, end)

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        """Read the records of one task. A batch without tasks, as of an empty topic, has one in Spark all the same, of no range."""
        if not isinstance(partition, LogRange):
            return iter(())
        return _read(self._options, self._decoder, partition)


class TopicStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a stream. One object lives beside the driver as long as the query runs; others, without state, in tasks."""

    def __init__(self, options: SourceOptions, decoder: Decoder | None) -> None:
        """Take what was asked for; no connection is made before it is needed."""
        self._options = options
        self._decoder = decoder
        self._client: BlockingClient | None = None
        self._latest: Offsets | None = None
        self._is_available_now = False
        self._target: Offsets | None = None
        self._last_trigger_s = 0.0
        # What needs no commit: the start of a new query is not the end of a batch.
        self._committed: OffsetsJson | None = None

    def initialOffset(self) -> OffsetsJson:  # Spark's name
        """Return where a new query starts."""
        options = self._options
        with one_sentence(), BlockingClient(impatient(options.settings)) as client:
            self._committed = to_json(Positions(client, options).starting())
        return self._committed

    def getDefaultReadLimit(self) -> ReadLimit:
        """Tell whether there is a limit; which ones, latestOffset knows from the options."""
        options = self._options
        limit = options.offsets_max or options.bytes_max or options.offsets_min
        return ReadMaxRows(limit) if limit else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """From now on nothing newer than what is there at the first look is read."""
        self._is_available_now = True

    def latestOffset(self, start: OffsetsJson, limit: ReadLimit) -> OffsetsJson:
        """Return how far the next batch goes."""
        with one_sentence():
            begin = from_json(start)
            latest = self._latest = self._look(begin)
            # Spark asks for the next batch once the last one is finished; its commit() comes later, with the next batch.
            self._commit(start)
            if not isinstance(limit, ReadAllAvailable):
                latest = self._limited(begin, latest)
            return to_json(latest)

    def reportLatestOffset(self) -> OffsetsJson | None:
        """Return where the logs ended at the last look, for the query's progress."""
        return None if self._latest is None else to_json(self._latest)

    def partitions(self, start: OffsetsJson, end: OffsetsJson) -> list[LogRange]:
        """Cut a batch into tasks."""
        begin, until = from_json(start), from_json(end)
        with one_sentence():
            planning.check_losses(begin, until, fails=self._options.fails_on_data_loss)
        return _tasks(self._options, begin, until)

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        """Read the records of one task."""
        assert isinstance(partition, LogRange)
        return _read(self._options, self._decoder, partition)

    def commit(self, end: OffsetsJson) -> None:
        """Spark has finished all batches up to here."""
        with one_sentence():
            self._commit(end)

    def stop(self) -> None:
        """Hang up."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _positions(self) -> Positions:
        if self._client is None:
            self._client = BlockingClient(self._options.settings)
        return Positions(self._client, self._options)

    def _look(self, begin: Offsets) -> Offsets:
        if not self._is_available_now:
            return self._positions().latest(begin)
        if self._target is None:
            self._target = self._positions().latest(begin)
        return self._target

    def _limited(self, begin: Offsets, latest: Offsets) -> Offsets:
        options = self._options
        if options.offsets_min and not self._is_available_now and self._waits(begin, latest):
            return begin
        limited = latest
        if options.offsets_max:
            limited = planning.limit_offsets(begin, limited, options.offsets_max)
        if options.bytes_max:
            weights = self._weights(begin, limited)
            limited = planning.limit_weights(begin, limited, weights, options.bytes_max)
        return limited

    def _waits(self, begin: Offsets, latest: Offsets) -> bool:
        """Is there too little for a batch, and is it too early for a smaller one?"""
        options, now_s = self._options, time.monotonic()
        waited_ms = (now_s - self._last_trigger_s) * 1000
        is_early = self._last_trigger_s > 0 and waited_ms < options.trigger_delay_ms_max
        if is_early and planning.count_new(begin, latest) < (options.offsets_min or 0):
            return True
        self._last_trigger_s = now_s
        return False

    def _weights(self, begin: Offsets, latest: Offsets) -> dict[TopicPartition, float]:
        settings = self._options.settings.replace(max_partition_fetch_bytes=_SAMPLE_BYTES)
        with BlockingClient(settings) as client:
            return Positions(client, self._options).bytes_per_offset(begin, latest)

    def _commit(self, finished: OffsetsJson) -> None:
        if not self._options.group or finished == self._committed:
            return
        self._positions()
        assert self._client is not None
        offsets, latest = from_json(finished), self._latest
        if latest is not None:
            offsets = {each: offset for each, offset in offsets.items() if each in latest}
        # One that was deleted just now has no lag; whether that is a failure, the next look decides.
        with suppress(UnknownTopic):
            self._client.commit(self._options.group, offsets)
        self._committed = finished


class RefusedStreamReader(DataSourceStreamReader):
    """Stands for a stream that cannot be. Spark loses the words of an error while a reader is made, and tells those of the first call."""

    def __init__(self, problem: PipelineProblem) -> None:
        """Take what is wrong."""
        self._problem = problem

    def initialOffset(self) -> OffsetsJson:  # Spark's name
        """Say it, to a new query."""
        return self._refuse()

    def latestOffset(self, start: OffsetsJson, limit: ReadLimit) -> OffsetsJson:
        """Say it, to a query that goes on."""
        del start, limit
        return self._refuse()

    def partitions(self, start: OffsetsJson, end: OffsetsJson) -> list[LogRange]:
        """Say it, to a batch that is run again."""
        del start, end
        self._refuse()
        return []

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        """Never asked for."""
        del partition
        return iter(())

    def _refuse(self) -> OffsetsJson:
        with one_sentence():
            raise self._problem


def _check_found(start: Offsets, subscription: Subscription) -> None:
    if not start:
        raise PipelineProblem(
            f"no topic has a name in which subscribePattern={subscription.pattern!r} is found"
        )


def _check_order(start: Offsets, end: Offsets) -> None:
    for partition, offset in start.items():
        if partition in end and offset > end[partition]:
            raise PipelineProblem(
                f"reading {partition} would start at {offset} and end at {end[partition]}: let it start earlier or end later"
            )


def _tasks(options: SourceOptions, start: Offsets, end: Offsets) -> list[LogRange]:
    ranges = planning.plan(start, end, options.partitions_min, options.records_max)
    return [LogRange(*each.partition, each.start, each.end) for each in ranges]


def _read(options: SourceOptions, decoder: Decoder | None, task: LogRange) -> Iterator[RecordBatch]:
    piece = planning.Range(TopicPartition(task.topic, task.partition), task.start, task.end)
    with one_sentence(), BlockingClient(options.settings) as client:
        yield from read_range(client, options, decoder, piece)
