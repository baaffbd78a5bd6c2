"""Runs a project with Spark's own runner, to the end of what is there.

Job: a Spark Connect server with a catalog that outlives it, and Spark's own steps on it. Must not have a way of its own to run anything. Spark's default catalog forgets the tables that its
second run then finds on the disk; here it is Derby, in DIR/.barnabas/once, beside them.
"""

from __future__ import annotations

import contextlib
import io
import os
from typing import TYPE_CHECKING, Final

from pyspark.errors import PySparkException

from barnabas.pipelines.connect_server import ConnectServer
from barnabas.pipelines.definitions import told
from barnabas.pipelines.problem import PipelineProblem
from barnabas.pipelines.surroundings import importing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyspark.sql import SparkSession

    from barnabas.pipelines.project import Project

FOLDER: Final = "once"


def run(
    project: Project, master: str, settings: Mapping[str, str], say: Callable[[str], object], *, dry: bool = False
) -> None:  # fmt: skip
    """Run the project, or with `dry` only have Spark check it; PipelineProblem says what went wrong."""
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
        "spark.sql.catalogImplementation": "hive",
        "spark.sql.warehouse.dir": f"{project.storage}/{FOLDER}/tables",
        "spark.hadoop.javax.jdo.option.ConnectionURL": derby,
        "spark.driver.extraJavaOptions": f"-Dderby.stream.error.file={folder / 'derby.log'}",
    }


def _run(
    project: Project, url: str, settings: Mapping[str, str], say: Callable[[str], object], *, dry: bool
) -> None:  # fmt: skip
    from pyspark.pipelines.cli import load_pipeline_spec, register_definitions
    from pyspark.pipelines.spark_connect_graph_element_registry import (
        SparkConnectGraphElementRegistry,
    )
    from pyspark.pipelines.spark_connect_pipeline import create_dataflow_graph, start_run

    spec = load_pipeline_spec(project.spec)
    conf = {**spec.configuration, **settings}
    spark = _session(url, conf)
    try:
        graph = create_dataflow_graph(spark, spec.catalog, spec.database, conf)
        registry = SparkConnectGraphElementRegistry(spark, graph)
        with contextlib.redirect_stdout(io.StringIO()):  # it tells of each file
            register_definitions(project.spec, registry, spec, spark, graph)
        storage = f"{project.storage}/{FOLDER}"
        events = start_run(spark, graph, [], full_refresh_all=False, refresh=[], dry=dry, storage=storage)  # fmt: skip
        for event in events:
            if "pipeline_event_result" in event:
                say(str(event["pipeline_event_result"].event.message))
    finally:
        spark.stop()


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
