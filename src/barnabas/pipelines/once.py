"""Runs a project with Spark's own runner, to the end of what is there.

Job: a Spark Connect server with a catalog that outlives it, and Spark's own steps on it. Must not have a way of its own to run anything. Spark's default catalog forgets the tables that its
second run then finds on the disk; here it is Derby, in DIR/.barnabas/once, beside them.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
from typing import TYPE_CHECKING, Any, Final

from pyspark.errors import PySparkException
from pyspark.pipelines.output import Sink
from pyspark.pipelines.spark_connect_graph_element_registry import SparkConnectGraphElementRegistry

from barnabas.pipelines.connect_server import ConnectServer
from barnabas.pipelines.definitions import told
from barnabas.pipelines.poison import DEAD_LETTER_COLUMNS, HEADER
from barnabas.pipelines.problem import PipelineProblem, one_sentence
from barnabas.pipelines.sink_topics import client_of, create_missing, topics_found, topics_of
from barnabas.pipelines.surroundings import importing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyspark.pipelines.flow import Flow
    from pyspark.pipelines.output import Output
    from pyspark.sql import SparkSession

    from barnabas.pipelines.project import Project

FOLDER: Final = "once"
#: Into how many tasks at least the files of a batch are cut.
_FILE_TASKS: Final = "8"
#: How a plan tells which topics are read.
_SUBSCRIBED: Final = re.compile(r'key: "subscribe"\s+value: "([^"]+)"')
_FOUND_BY: Final = re.compile(r'key: "subscribePattern"\s+value: "([^"]+)"')


def run(
    project: Project, master: str, settings: Mapping[str, str], say: Callable[[str], object], *, dry: bool = False
) -> None:  # fmt: skip
    """Run the project, or with `dry` only have Spark check it; PipelineProblem says what went wrong."""
    (project.state / FOLDER).mkdir(parents=True, exist_ok=True)
    with _import_path(project):
        server = ConnectServer("127.0.0.1", 0, master, server_settings(project))
        server.start()
        try:
            _run(project, server.url, settings, say, dry=dry)
        except PySparkException as problem:
            raise PipelineProblem(told(problem)) from problem
        finally:
            server.stop()


def server_settings(project: Project) -> dict[str, str]:
    """What only a Spark that starts can be told: where the catalog and the tables are."""
    folder = project.state / FOLDER
    derby = f"jdbc:derby:;databaseName={folder / 'metastore'};create=true"
    return {
        "spark.log.level": "OFF",
        "spark.sql.catalogImplementation": "hive",
        "spark.sql.warehouse.dir": f"{project.storage}/{FOLDER}/tables",
        # A batch that is run again must have the tasks it had, whatever cores there are: the sink of topics notes by the number of a task what is written.
        "spark.sql.files.minPartitionNum": _FILE_TASKS,
        "spark.sql.adaptive.streaming.stateless.enabled": "false",
        "spark.hadoop.javax.jdo.option.ConnectionURL": derby,
        "spark.driver.extraJavaOptions": f"-Dderby.stream.error.file={folder / 'derby.log'}",
        # Workers on a cluster have the environment of whoever started them there.
        "spark.executorEnv.PYTHONPATH": str(project.folder),
    }


def _run(
    project: Project, url: str, settings: Mapping[str, str], say: Callable[[str], object], *, dry: bool
) -> None:  # fmt: skip
    spark = _session(url, {**project.configuration, **settings})
    try:
        topics_between = _run_graph(project, spark, settings, say, dry=dry)
        for _ in range(0 if dry else topics_between):
            _run_graph(project, spark, settings, say, dry=dry)
    finally:
        spark.stop()


def _run_graph(
    project: Project, spark: SparkSession, settings: Mapping[str, str], say: Callable[[str], object], *, dry: bool
) -> int:  # fmt: skip
    """Do what Spark's own command does, once; say how many topics are between flows."""
    from pyspark.pipelines.cli import load_pipeline_spec, register_definitions
    from pyspark.pipelines.spark_connect_pipeline import create_dataflow_graph, start_run

    spec = load_pipeline_spec(project.spec)
    graph = create_dataflow_graph(spark, spec.catalog, spec.database, {**spec.configuration, **settings})  # fmt: skip
    registry = _Registry(spark, graph)
    with contextlib.redirect_stdout(io.StringIO()):  # it tells of each file
        register_definitions(project.spec, registry, spec, spark, graph)
    if not dry:
        registry.create_topics()
    storage = f"{project.storage}/{FOLDER}"
    _follow(start_run(spark, graph, [], full_refresh_all=False, refresh=[], dry=dry, storage=storage), say)  # fmt: skip
    return registry.topics_between_flows()


def _follow(events: Iterator[dict[str, Any]], say: Callable[[str], object]) -> None:
    """Tell what a run tells until its end; PipelineProblem if that was no good one."""
    message = ""
    for event in events:
        if "pipeline_event_result" in event:
            message = str(event["pipeline_event_result"].event.message)
            say(message)
    if message.startswith("Run is") and "COMPLETED" not in message:
        raise PipelineProblem(message)


class _Registry(SparkConnectGraphElementRegistry):
    """Spark's own, which remembers what is needed to create the topics of sinks."""

    def __init__(self, spark: SparkSession, graph: str) -> None:
        super().__init__(spark, graph)
        self._sinks: dict[str, Sink] = {}
        self._dead_letter_sinks: set[str] = set()
        self._topics_read: set[str] = set()
        self._patterns: set[str] = set()

    def register_output(self, output: Output) -> None:
        super().register_output(output)
        if isinstance(output, Sink):
            self._sinks[output.name] = output

    def register_flow(self, flow: Flow) -> None:
        super().register_flow(flow)
        frame: Any = flow.func()
        plan = str(frame._plan.to_proto(self._client))
        for topics in _SUBSCRIBED.findall(plan):
            self._topics_read.update(topic.strip() for topic in topics.split(","))
        # It is told with backslashes before backslashes.
        self._patterns.update(each.replace(r"\\", "\\") for each in _FOUND_BY.findall(plan))
        if f"{HEADER}reason" in plan:
            self._dead_letter_sinks.add(flow.target)

    def create_topics(self) -> None:
        """Create what sinks write to."""
        for name, sink in self._sinks.items():
            with one_sentence():
                if name in self._dead_letter_sinks:
                    self._topics_read |= topics_found(client_of(sink), self._patterns)
                create_missing(sink, self._topics_of(name))

    def topics_between_flows(self) -> int:
        """Count topics that one flow writes and another reads. Spark's runner knows nothing of them, and may end the reader before the writer: a run more for each, and all has come through."""
        written = {topic for name in self._sinks for topic in self._topics_of(name)}
        return len(written & self._topics_read)

    def _topics_of(self, name: str) -> list[str]:
        columns = DEAD_LETTER_COLUMNS if name in self._dead_letter_sinks else ()
        return topics_of(self._sinks[name], columns, self._topics_read)


def _session(url: str, conf: Mapping[str, str]) -> SparkSession:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.remote(url).config("spark.sql.connect.serverStacktrace.enabled", "false")  # fmt: skip
    return builder.config(map=dict(conf)).getOrCreate()


@contextlib.contextmanager
def _import_path(project: Project) -> Iterator[None]:
    """Have workers of the server find the project's modules, as this process does."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(project.folder), before]))
    try:
        with importing(project):
            yield
    finally:
        del os.environ["PYTHONPATH"]
        if before is not None:
            os.environ["PYTHONPATH"] = before
