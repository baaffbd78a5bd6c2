"""Running a project in this process, in the foreground, until a signal or to the end.

One job: from a project and settings to a run that can be watched: its lock, its status file, its log, its lines on the terminal. Must not know how a pipeline runs.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING, Any, Final, Self

import click

from barnabas.cli.failure import Failure
from barnabas.cli.output import counted
from barnabas.cli.pipeline_view import error_lines, flow_lines, silent_brokers, trouble
from barnabas.cli.stop_signals import StopSignals
from barnabas.pipelines import run_state

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from barnabas.pipelines.continuous import Pipeline
    from barnabas.pipelines.project import Project

_LOOK_S: Final = 1.0


def open_spark(project: Project, master: str | None, *, quick: bool = False) -> SparkSession:
    """Start a session for this project, with `quick` for work of seconds; Failure if there is no Java, or the master is of another kind."""
    from barnabas.pipelines.java import JavaMissing
    from barnabas.pipelines.jvm import CannotStart
    from barnabas.pipelines.master import default_master
    from barnabas.pipelines.problem import silence_traces
    from barnabas.pipelines.spark_session import session

    silence_traces()
    master = master or default_master()
    if master.startswith("sc://"):
        raise Failure(f"a pipeline needs a Spark of its own, not a Connect server ({master})", "--master local[*] or spark://HOST:PORT")  # fmt: skip
    config = {
        "spark.log.level": "OFF",  # what matters is told by flow
        "spark.sql.warehouse.dir": str(project.state / "warehouse"),
    }
    log = project.state / "spark.log"
    try:
        with _stderr_into(log):
            spark = session(f"pipeline {project.name}", master=master, config=config, quick=quick)
    except CannotStart as problem:
        has_said = log.exists() and log.stat().st_size > 0
        raise Failure(str(problem), f"{log} has what Spark says" if has_said else None) from None
    except JavaMissing as problem:
        raise Failure(str(problem)) from None
    if not master.startswith("local"):
        for file in project.folder.glob("*.py"):
            spark.sparkContext.addPyFile(str(file))
    return spark


@contextlib.contextmanager
def _stderr_into(file: Path) -> Iterator[None]:
    """Let processes that start now complain into a file: workers that are ended in the middle of something do, at length."""
    file.parent.mkdir(parents=True, exist_ok=True)
    sys.stderr.flush()
    before = os.dup(2)
    with file.open("ab") as log:
        os.dup2(log.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)


def run_continuous(project: Project, master: str | None, settings: Mapping[str, str]) -> None:
    """Run until SIGTERM or SIGHUP; or until Ctrl-C, which is told as KeyboardInterrupt."""
    with (
        StopSignals() as signals,
        run_state.running(project.state),
        _Notes(project, run_state.CONTINUOUS) as notes,
    ):
        click.echo(f"starting {project.name}", err=True)
        with _telling_of_stop(project), signals.at_once():
            spark, pipeline = _start(project, master, settings, signals)
        try:
            _run(pipeline, project, notes, signals)
        finally:
            spark.stop()


@contextlib.contextmanager
def _telling_of_stop(project: Project) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        click.echo(f"stopping {project.name}", err=True)
        raise


def _start(
    project: Project, master: str | None, settings: Mapping[str, str], signals: StopSignals
) -> tuple[SparkSession, Pipeline]:
    """Start Spark and resolve the project. If that is interrupted in the middle of a call to the JVM, nothing more can be asked of it: it ends with this process."""
    from barnabas.pipelines.continuous import Pipeline

    spark = open_spark(project, master)
    signals.take()
    try:
        return spark, Pipeline(project, spark, settings)
    except Exception:
        spark.stop()
        raise


def _run(pipeline: Pipeline, project: Project, notes: _Notes, signals: StopSignals) -> None:
    from barnabas.pipelines.definitions import told

    pipeline.on_look = lambda: notes.status(pipeline.status())
    # Whoever reads "ready" finds the flows.
    pipeline.on_look()
    pipeline.start()
    click.echo(f"ready {project.name}: {counted(len(pipeline.runs), 'flow')}")
    try:
        news = _News(notes)
        is_live = sys.stdout.isatty()
        while not signals.wait(_LOOK_S) and pipeline.broken is None:
            flows = pipeline.status()
            for line in news.of(flows):
                click.echo(line, err=is_live)
            if is_live:
                _redraw(project.name, flows)
    finally:
        click.echo(f"stopping {project.name}", err=True)
        if pipeline.broken is None:
            pipeline.stop()
    if pipeline.broken is not None:
        raise Failure(f"{project.name} broke: {told(pipeline.broken)}", f"{project.state / 'spark.log'} has what Spark said") from None  # fmt: skip
    click.echo("\n".join(flow_lines(pipeline.status())))


def _redraw(name: str, flows: Sequence[Mapping[str, Any]]) -> None:
    click.clear()
    silent = silent_brokers(flows).values()
    click.echo("\n".join([f"{name}, until Ctrl-C", *silent, *flow_lines(flows)]))


class _Notes:
    """What a run leaves for others to read: DIR/.barnabas/status.json, from its start to its end, and DIR/.barnabas/log. A disk that is full for a moment is told once, and ends nothing."""

    def __init__(self, project: Project, runner: str) -> None:
        self._project = project
        self._runner = runner
        self._started = run_state.now()
        self._is_told = False
        self._flows: Sequence[Mapping[str, Any]] = ()

    def __enter__(self) -> Self:
        """Say that it starts: what is there to read is of another run."""
        self._write(run_state.STARTING)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Say that it ended, and how: of a process that does not come to this, nobody knows."""
        is_stop = kind is None or issubclass(kind, KeyboardInterrupt)
        self._write(run_state.STOPPED if is_stop else run_state.FAILED)

    def status(self, flows: Sequence[Mapping[str, Any]]) -> None:
        """Say what the flows do."""
        self._flows = flows
        self._write(run_state.RUNNING)

    def _write(self, run: str) -> None:
        with self._forgiving():
            run_state.write_status(self._project.state, self._project.name, self._runner, self._flows, self._started, run)  # fmt: skip

    def log(self, text: str) -> None:
        """Add to the log."""
        with self._forgiving(), (self._project.state / "log").open("a") as log:
            log.write(f"{run_state.now()} {text}\n")

    @contextlib.contextmanager
    def _forgiving(self) -> Iterator[None]:
        try:
            yield
        except OSError as problem:
            if not self._is_told:
                click.echo(f"{self._project.name} goes on, but cannot note what it does: {problem}", err=True)  # fmt: skip
            self._is_told = True


class _News:
    """Changes of flows and of the brokers they read from, each told once, and kept in the log."""

    def __init__(self, notes: _Notes) -> None:
        self._notes = notes
        self._known: dict[str, tuple[str, int]] = {}
        self._silent: dict[str, str] = {}

    def of(self, flows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
        """Give a line for each flow that runs, or has failed, since the last look, and for brokers that went or came back."""
        yield from self._of_brokers(silent_brokers(flows))
        for flow in flows:
            now = (flow["state"], flow["restarts"])
            if self._known.get(flow["name"], ("waiting", 0)) != now:
                self._known[flow["name"]] = now
                line, more = f"{flow['name']} is {flow['state']}", ""
                if flow["state"] == "failing":
                    line += f": {trouble(flow)}: {error_lines(flow)[0]}"
                    more = f"\n{flow['last_error']}"
                self._notes.log(line + more)
                yield line

    def _of_brokers(self, silent: dict[str, str]) -> Iterator[str]:
        lines = [line for brokers, line in silent.items() if brokers not in self._silent]
        lines += [f"brokers at {brokers} answer again" for brokers in self._silent if brokers not in silent]  # fmt: skip
        self._silent = silent
        for line in lines:
            self._notes.log(line)
            yield line


def run_once(project: Project, master: str | None, settings: Mapping[str, str]) -> None:
    """Run with Spark's own runner, to the end of what is there, or until a signal as above."""
    with (
        StopSignals() as signals,
        run_state.running(project.state),
        _Notes(project, run_state.ONCE) as notes,
        _telling_of_stop(project),
        signals.at_once(),
    ):
        from barnabas.pipelines import once
        from barnabas.pipelines.java import JavaMissing
        from barnabas.pipelines.jvm import CannotStart
        from barnabas.pipelines.master import default_master
        from barnabas.pipelines.problem import silence_traces

        silence_traces()
        try:
            once.run(project, master or default_master(), settings, _Events(notes).on_event)
        except (CannotStart, JavaMissing) as problem:
            raise Failure(str(problem)) from None


class _Events:
    """What Spark's runner says, as lines and as a status."""

    def __init__(self, notes: _Notes) -> None:
        self._notes = notes
        self._states: dict[str, str] = {}

    def on_event(self, message: str) -> None:
        """Show it; `Flow spark_catalog.default.NAME is RUNNING.` is a state."""
        click.echo(message)
        words = message.removesuffix(".").split()
        if len(words) >= 4 and words[0] == "Flow":
            name = words[1].strip("'").rpartition(".")[2]
            state = message.partition(" is ")[2] or message.partition(" has ")[2]
            self._states[name] = state.removesuffix(".").lower()
            self._notes.status([_once_flow(*each) for each in self._states.items()])


def _once_flow(name: str, state: str) -> dict[str, Any]:
    """What is known of a flow: its state. Spark's runner does not say how many rows there were."""
    nothing = dict.fromkeys(("rows_total", "rows_per_second", "batch", "batch_ms", "lag", "lag_seconds", "rows", "last_error", "retry_in_seconds"))  # fmt: skip
    is_done = state == "completed"
    return {**nothing, "name": name, "kind": "stream", "place": "", "writes": "", "state": "done" if is_done else state, "changes": 0, "batch_ms_last": [], "restarts": 0}  # fmt: skip
