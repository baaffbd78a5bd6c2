"""One step of a pipeline while it runs: a streaming query with its checkpoint, or a materialised view.

Job: start it, look at it, stop it, say what it does. Must not know other steps, nor when they run. Whatever a step does wrong is kept as its last error, and never raised
but by `run_to_end`.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from pyspark.errors import PySparkException
from pyspark.pipelines.output import Sink, Table

from barnabas.pipelines.definitions import told
from barnabas.pipelines.intervals import TRIGGER_SETTING
from barnabas.pipelines.options import OUR_FORMAT
from barnabas.pipelines.problem import PipelineProblem, one_sentence
from barnabas.pipelines.progress import Query, may_have_written, read_batch
from barnabas.pipelines.sink_topics import (
    create_missing,
    takes_dead_letters,
    topics_found,
    topics_of,
)
from barnabas.pipelines.stored_tables import FORMAT
from barnabas.pipelines.supervision import Life

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from barnabas.pipelines.resolution import Resolver, Work
    from barnabas.pipelines.stored_tables import StoredTables

NO_DATA_BATCHES: Final = "spark.sql.streaming.noDataMicroBatches.enabled"
#: Lets Spark put tasks after a shuffle together, by their sizes and the number of cores.
_TASKS_BY_SIZE: Final = "spark.sql.adaptive.streaming.stateless.enabled"

#: How Spark begins when a file in which it notes batches is not what it wrote.
_UNREADABLE: Final = "Failed to read log file "


class StreamRun:
    """A step that is a streaming query."""

    kind = "stream"

    def __init__(
        self, work: Work, spark: SparkSession, resolver: Resolver, tables: StoredTables, storage: str
    ) -> None:  # fmt: skip
        """Take the step; nothing starts."""
        self.work = work
        self.life = Life(work.step.name)
        self.shown = Query(work.step.name, work.step.name)
        self.rows = 0
        self.changes = 0
        """How many batches may have written something: whoever depends on this one compares."""
        self._spark = spark
        self._resolver = resolver
        self._tables = tables
        self._checkpoint = f"{storage}/checkpoints/{work.step.name}"
        self._query: StreamingQuery | None = None
        self._seen = ""
        self._must_restart = False
        self._has_worked = False

    @property
    def writes_topics(self) -> bool:
        """Whether its rows go to topics, exactly once."""
        output = self.work.output
        return isinstance(output, Sink) and output.format == OUR_FORMAT

    def start(self, **trigger: Any) -> None:  # noqa: ANN401 - as Spark's `trigger` takes them
        """Start the query from its checkpoint; raises what Spark or the project's code raises."""
        for name in self.work.step.reads:
            self._tables.refresh(name)
        frame = self._resolver.frame(self.work)
        self._create_topics(frame)
        conf = {key: value for flow in self.work.flows for key, value in flow.spark_conf.items()}
        if not trigger:
            # Timers ask for batches without data, and runs to the end of what is there would have none: projects switch them off for those.
            conf[NO_DATA_BATCHES] = "true"
        if self.writes_topics:
            # A batch that is run again must have the tasks it had: the sink notes by the number of a task what is written.
            conf[_TASKS_BY_SIZE] = "false"
        before = {key: self._spark.conf.get(key, None) for key in conf}
        self._set(conf)
        try:
            if not trigger and (interval := self._spark.conf.get(TRIGGER_SETTING, None)):
                trigger = {"processingTime": interval}
            writer = self._writer(frame)
            self._tables.tidy_checkpoint(self._checkpoint)
            self._query = (writer.trigger(**trigger) if trigger else writer).start()
            self._must_restart = self._has_worked = False
        finally:
            self._set(before)

    def _create_topics(self, frame: DataFrame) -> None:
        sink = self.work.output
        if not isinstance(sink, Sink):
            return
        with one_sentence():
            read = self.work.step.topics_read
            if takes_dead_letters(sink, frame.columns):
                read |= topics_found(self.work.client, self.work.patterns)
            create_missing(sink, topics_of(sink, frame.columns, read))

    def _set(self, conf: Mapping[str, str | None]) -> None:
        for key, value in conf.items():
            if value is None:
                self._spark.conf.unset(key)
            else:
                self._spark.conf.set(key, value)

    def _writer(self, frame: DataFrame) -> DataStreamWriter:
        output = self.work.output
        writer = frame.writeStream.queryName(self.work.step.name).outputMode("append")
        writer = writer.option("checkpointLocation", self._checkpoint)
        if isinstance(output, Sink):
            return writer.format(output.format).options(**output.options)
        assert isinstance(output, Table)
        if output.partition_cols:
            writer = writer.partitionBy(*output.partition_cols)
        writer = writer.format(output.format or FORMAT)
        return writer.option("path", self._tables.location(output.name))

    def look(self, now: float) -> None:
        """Take in what the query has done and whether it still runs."""
        query = self._query
        if query is None:
            return
        is_active = query.isActive
        if self._take_progress(query):
            self.life.on_batch(now)
            self._has_worked = True
        if is_active and self._must_restart and (self._has_worked or not query.status["isTriggerActive"]):  # fmt: skip
            self.stop()
            self.life.on_restart()
            return
        if not is_active:
            problem = query.exception()
            self._query = None
            if problem is not None:
                self.life.on_failed(self._advised(_cause(told(problem))), now)
            else:
                self.life.on_ended()

    def _take_progress(self, query: StreamingQuery) -> bool:
        """Note batches that are new; a report without a batch tells of waiting."""
        reports: Any = query._jsq.recentProgress()
        fresh = []
        for index in range(len(reports) - 1, -1, -1):
            if str(reports[index].timestamp()) <= self._seen:
                break
            fresh.append(json.loads(reports[index].json()))
        for report in reversed(fresh):
            self._seen = report["timestamp"]
            batch = read_batch(report)
            if "addBatch" in batch.phases_ms:
                self.shown.batches.append(batch)
                self.rows += batch.rows
                self.changes += may_have_written(report)
        return any("addBatch" in report.get("durationMs", {}) for report in fresh)

    def ask_restart(self) -> None:
        """Have the query stopped and started again, once it has come further than at its last start."""
        self._must_restart = True

    def await_end(self) -> None:
        """Wait until a query with an end is there; PipelineProblem if it failed."""
        query = self._query
        assert query is not None
        try:
            query.awaitTermination()
        except PySparkException as problem:
            raise PipelineProblem(f"{self.work.step.place}: {self.work.step.name!r} failed: {self._advised(_cause(told(problem)))}") from problem  # fmt: skip
        finally:
            self._take_progress(query)
            self._query = None
        self.life.on_ended()

    def _advised(self, error: str) -> str:
        """Say what to do about a checkpoint that is damaged, which trying again does not mend. The file sink passes over batches whose numbers its table has, so the table goes with the checkpoint."""
        checkpoint, output = _plain(self._checkpoint), self.work.output
        if not error.startswith(_UNREADABLE) or f"{checkpoint}/" not in _plain(error):
            return error
        table = _plain(self._tables.location(output.name)) if isinstance(output, Table) else ""
        places = f"{checkpoint} and {table}, both" if table else checkpoint
        outcome = "its table is made again from what its sources still have, and who reads the table gets everything again" if table else "what it has written already comes out a second time"  # fmt: skip
        return f"the checkpoint is damaged ({error}): to begin anew from startingOffsets stop the pipeline and remove {places}; {outcome}"

    def stop(self) -> None:
        """Stop the query; what was not finished is done again at the next start."""
        if self._query is not None:
            self._query.stop()
            self._take_progress(self._query)
            self._query = None
        self.life.on_ended()


class ViewRun:
    """A step that is a materialised view."""

    kind = "view"

    def __init__(self, work: Work, resolver: Resolver, tables: StoredTables) -> None:
        """Take the step; nothing starts."""
        self.work = work
        self.life = Life(work.step.name)
        self.shown = Query(work.step.name, work.step.name)
        self.rows = 0
        self.changes = 0
        """How often it was computed."""
        self.based_on: dict[str, int] | None = None
        """How often its inputs had changed when it was computed."""
        self._resolver = resolver
        self._tables = tables

    def refresh(self) -> None:
        """Compute it anew from what is there; raises what Spark or the project's code raises."""
        for name in self.work.step.reads:
            self._tables.refresh(name)
        assert isinstance(self.work.output, Table)
        self._tables.replace(self.work.output, self._resolver.frame(self.work))
        self.changes += 1


def _plain(text: str) -> str:
    """Write local files in one way: Spark has one slash where we have three."""
    return re.sub(r"file:/+", "/", text)


def _cause(text: str) -> str:
    """Leave out what Spark says about the query itself: its ids, and that it has terminated."""
    _, found, after = text.partition("terminated with exception: ")
    text = after if found else text
    return text.partition("\n=== Streaming Query ===")[0].partition("\n\nJVM")[0].strip()
