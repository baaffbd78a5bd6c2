"""Runs a project's definitions in a session: to the end of what is there, or until it is stopped.

Job: which steps run when: all in order, or all at once with failures tried again and materialised views computed anew. Must not know a terminal or a process. Checkpoints
are under the project's storage, by the name of the step: a run goes on where the last one, however it ended, had come to.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import threading
import time
from typing import TYPE_CHECKING, Any, Final

from pyspark.errors import PySparkException

from barnabas.client.settings import SettingError
from barnabas.pipelines import definitions
from barnabas.pipelines.flow_runs import StreamRun, ViewRun
from barnabas.pipelines.graph import waves
from barnabas.pipelines.intervals import REFRESH_SETTING, check_interval, refresh_seconds
from barnabas.pipelines.lag import LagMeter
from barnabas.pipelines.problem import PipelineProblem
from barnabas.pipelines.progress import Lag
from barnabas.pipelines.project import Project, line_of
from barnabas.pipelines.resolution import Resolver
from barnabas.pipelines.run_state import now
from barnabas.pipelines.stored_tables import StoredTables, quoted
from barnabas.pipelines.supervision import FAILING
from barnabas.pipelines.surroundings import in_this_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from barnabas.pipelines.resolution import Work

#: How often queries are looked at, and how often lag is measured.
_LOOK_S: Final = 0.5
_LAG_S: Final = 2.0
#: Spark gives a Python process 10 seconds to answer, which cannot be set: too few on a machine with much else to do.
_SLOW_START: Final = "Python worker failed to connect back"
_STARTS: Final = 5
#: Tables here are files and nothing else: partitions are found by looking.
_OWN_SETTINGS: Final = {"spark.sql.hive.manageFilesourcePartitions": "false"}
#: Into how many tasks at least Spark cuts the files of a batch: the one, or the other, or as many as it has cores.
_FILE_TASKS: Final = "spark.sql.files.minPartitionNum"
_LEAF_TASKS: Final = "spark.sql.leafNodeDefaultParallelism"


class Pipeline:
    """One project in one session of its own, beside others of the same Spark."""

    def __init__(
        self,
        project: Project | Path | str,
        spark: SparkSession,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """Read and resolve the definitions; PipelineProblem with file and line. `settings` win over the project's configuration."""
        self.project = project if isinstance(project, Project) else Project.open(project)
        self.spark = spark.newSession()
        self._configure(settings or {})
        storage = f"{self.project.storage}/continuous"
        self._tables = StoredTables(self.spark, storage, _database(self.project))
        self._resolver = Resolver(definitions.load(self.project, self.spark), self.spark, self._tables)  # fmt: skip
        works = {work.step.name: work for work in self._resolver.resolve()}
        ordered = waves([work.step for work in works.values()])
        self._waves = [[self._run_of(works[step.name], storage) for step in wave] for wave in ordered]  # fmt: skip
        self.runs = [run for wave in self._waves for run in wave]
        self._keep_tasks()
        self._refresh_s = refresh_seconds(self.spark.conf.get(REFRESH_SETTING, None))
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._silent_since: dict[str, str] = {}
        """When brokers were first asked in vain, by their address; those that answer are not in it."""
        self.broken: Exception | None = None
        """What ended everything, if it was not `stop`."""
        self.on_look: Callable[[], object] = lambda: None
        """Called after each look at the queries and each start of one, on the thread that looks."""

    def _configure(self, settings: Mapping[str, str]) -> None:
        wanted = {**_OWN_SETTINGS, **self.project.configuration, **settings}
        for key, value in wanted.items():
            spec = self.project.spec
            place = f"{spec.name}:{line_of(spec, key)}: " if key not in settings else ""
            try:
                self.spark.conf.set(key, value)
                check_interval(self.spark, key, value)
            except PipelineProblem as problem:
                raise PipelineProblem(f"{place}{problem}") from None
            except PySparkException as problem:
                raise PipelineProblem(f"{place}{key} is settled when Spark starts, and cannot be set by a pipeline ({definitions.told(problem)})") from None  # fmt: skip

    def _run_of(self, work: Work, storage: str) -> StreamRun | ViewRun:
        if work.is_view:
            return ViewRun(work, self._resolver, self._tables)
        return StreamRun(work, self.spark, self._resolver, self._tables, storage)

    def _keep_tasks(self) -> None:
        """Have a batch that is run again cut into the tasks it had, also with another number of cores: the sink of topics notes by the number of a task what is written."""
        flows = [
            run.work.step.name
            for run in self.runs
            if isinstance(run, StreamRun) and run.writes_topics
        ]
        wanted = self.spark.conf.get(_FILE_TASKS, None) or self.spark.conf.get(_LEAF_TASKS, None)
        tasks = int(wanted or self.spark.sparkContext.defaultParallelism)
        self.spark.conf.set(_FILE_TASKS, str(self._tables.file_tasks(flows, tasks)))

    def table(self, name: str) -> DataFrame:
        """Read a table of the project as it is now."""
        self._tables.refresh(name)
        return self.spark.table(quoted(name))

    def run_available(self) -> None:
        """Run every step to the end of what is there, each after those it reads from; PipelineProblem if one fails."""
        with in_this_thread(self.spark):
            for wave in self._waves:
                self._run_streams([run for run in wave if isinstance(run, StreamRun)])
                for run in wave:
                    if isinstance(run, ViewRun):
                        self._refresh_once(run)

    def _run_streams(self, streams: list[StreamRun]) -> None:
        try:
            for run in streams:
                self._start_once(run)
            for run in streams:
                self._await_end(run)
        finally:
            for run in streams:
                run.stop()

    def _await_end(self, run: StreamRun) -> None:
        """Wait until a step has come to its end. One that failed only because a Python process was slow to start goes on from its checkpoint."""
        for left in reversed(range(_STARTS)):
            try:
                run.await_end()
                return
            except PipelineProblem as problem:
                if not left or _SLOW_START not in str(problem):
                    raise
            self._start_once(run)

    def _start_once(self, run: StreamRun) -> None:
        try:
            run.start(availableNow=True)
        except PySparkException as problem:
            raise self._problem(run, problem) from problem

    def _refresh_once(self, run: ViewRun) -> None:
        try:
            run.refresh()
        except PySparkException as problem:
            raise self._problem(run, problem) from problem

    def _problem(self, run: StreamRun | ViewRun, problem: PySparkException) -> PipelineProblem:
        step = run.work.step
        return PipelineProblem(f"{step.place}: {step.name!r} failed: {definitions.told(problem)}")

    def start(self) -> None:
        """Run every step until `stop`; one that fails is tried again, and does not disturb others."""
        assert not self._threads, "it runs already"
        self._stop.clear()
        self._threads = [
            threading.Thread(target=self._keep, args=(each,), name=name, daemon=True)
            for name, each in (("flows", self._look), ("lag", self._measure), ("views", self._refresh_due))
        ]  # fmt: skip
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop every query and wait for that; what was not finished is done again at the next start."""
        self._stop.set()
        for thread in self._threads:
            thread.join()
        self._threads = []
        for run in self.runs:
            if isinstance(run, StreamRun):
                run.stop()
            else:
                run.life.on_ended()
        self.on_look()

    def _keep(self, turn: Callable[[], float]) -> None:
        """Take turns until it is stopped; each says how long to wait for the next."""
        try:
            with in_this_thread(self.spark):
                while not self._stop.wait(turn()):
                    pass
        except Exception as problem:  # noqa: BLE001 - such as a JVM that is gone: whoever runs this must hear of it
            self.broken = problem
            self._stop.set()

    def _look(self) -> float:
        streams = [run for run in self.runs if isinstance(run, StreamRun)]
        for run in streams:
            run.look(time.monotonic())
        self.on_look()
        for run in streams:
            if run.life.is_due(time.monotonic()) and not self._stop.is_set():
                _try(run, run.start)
                # The next one may wait for a cluster that does not answer.
                self.on_look()
        return _LOOK_S

    def _measure(self) -> float:
        silent = set()
        for run in self.runs:
            last = run.shown.last
            if last is None or not last.end or not run.work.client or self._stop.is_set():
                continue
            brokers, asked = _brokers(run), now()
            with contextlib.suppress(SettingError):
                # Who has waited for them in vain does not do so again for each flow.
                lag = Lag(answered=False) if brokers in silent else LagMeter(run.work.client).measure(last.end)  # fmt: skip
                run.shown.measured = lag
                if lag.answered:
                    self._silent_since.pop(brokers, None)
                else:
                    silent.add(brokers)
                    self._silent_since.setdefault(brokers, asked)
        return _LAG_S

    def _refresh_due(self) -> float:
        changed = set()
        for run in self.runs:
            if isinstance(run, ViewRun) and not self._stop.is_set() and self._is_due(run):
                run.based_on = self._inputs(run)
                if _try(run, run.refresh):
                    changed.add(run.work.step.writes)
        for run in self.runs:
            # A query that joins a view keeps the files it began with.
            if isinstance(run, StreamRun) and changed & run.work.step.reads:
                run.ask_restart()
        return self._refresh_s

    def _is_due(self, run: ViewRun) -> bool:
        """Say whether what it reads has changed; what is no table of the pipeline always may have."""
        if run.life.state == FAILING:
            return run.life.is_due(time.monotonic())
        step = run.work.step
        return not step.reads or bool(step.topics_read) or run.based_on != self._inputs(run)

    def _inputs(self, run: ViewRun) -> dict[str, int]:
        step = run.work.step
        return {each.work.step.name: each.changes for each in self.runs if each.work.step.writes in step.reads}  # fmt: skip

    def status(self) -> list[dict[str, Any]]:
        """Say what each step does, under names that stay."""
        moment = time.monotonic()
        return [
            {**run_status(run, moment), "brokers": _brokers(run) or None, "brokers_silent_since": self._silent_since.get(_brokers(run))}
            for run in self.runs
        ]  # fmt: skip


def run_status(run: StreamRun | ViewRun, moment: float) -> dict[str, Any]:
    """Say what one step does at this moment of the clock that only goes on."""
    life = run.life
    summary = {key: value for key, value in run.shown.summary().items() if key not in {"id", "name", "state", "offsets"}}  # fmt: skip
    return {
        "name": life.name,
        "kind": run.kind,
        "place": run.work.step.place,
        "writes": run.work.step.writes,
        "state": life.state,
        **summary,
        "rows_total": run.rows,
        "changes": run.changes,
        "batch_ms_last": [batch.duration_ms for batch in run.shown.batches],
        "restarts": life.restarts,
        "last_error": life.last_error,
        "retry_in_seconds": max(0.0, life.retry_at - moment) if life.state == FAILING else None,
    }


def _brokers(run: StreamRun | ViewRun) -> str:
    """Where it reads topics; nothing if it reads none."""
    return run.work.client.get("bootstrap.servers", "")


def _try(run: StreamRun | ViewRun, what: Callable[[], object]) -> bool:
    try:
        what()
    except Exception as problem:  # noqa: BLE001 - one flow's trouble, whatever it is, is not the others'
        run.life.on_failed(definitions.told(problem), time.monotonic())
        return False
    run.life.on_started(time.monotonic())
    return True


def _database(project: Project) -> str:
    """Two projects of one Spark must not share names: a database for each."""
    if project.database:
        return project.database
    words = re.sub(r"\W+", "_", project.name)
    return f"{words}_{hashlib.sha256(str(project.folder).encode()).hexdigest()[:8]}"
