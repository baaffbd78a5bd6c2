"""What the files of a project define: outputs and flows, each with its file and line.

Job: run the definitions with a registry of our own, as Spark's runner does with its. Must not call a flow's function.
"""

from __future__ import annotations

import importlib.util
import traceback
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.pipelines.graph_element_registry import (
    GraphElementRegistry,
    graph_element_registration_context,
)

from barnabas.pipelines.problem import PipelineProblem
from barnabas.pipelines.surroundings import surroundings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.pipelines.flow import AutoCdcFlow, Flow
    from pyspark.pipelines.output import Output
    from pyspark.pipelines.source_code_location import SourceCodeLocation
    from pyspark.sql import SparkSession

    from barnabas.pipelines.project import Project


@dataclass
class Definitions:
    """Outputs by name, flows in the order of the files."""

    project: Project
    outputs: dict[str, Output] = field(default_factory=dict)
    flows: list[Flow] = field(default_factory=list)

    def place(self, location: SourceCodeLocation) -> str:
        """Give file:line as a person reads it."""
        return f"{self.project.shown(location.filename)}:{location.line_number or 1}"

    def flows_of(self, target: str) -> list[Flow]:
        """Give the flows that write into this output."""
        return [flow for flow in self.flows if flow.target == target]


def load(project: Project, spark: SparkSession) -> Definitions:
    """Run every file of the project; PipelineProblem with file and line if one cannot be run."""
    found = Definitions(project)
    files = project.files()
    registry = _Registry(found, spark)
    with surroundings(project, spark), graph_element_registration_context(registry):
        for file in files:
            _load_file(project, file, spark, registry)
    return found


def _load_file(project: Project, file: Path, spark: SparkSession, registry: _Registry) -> None:
    if file.suffix == ".sql":
        registry.register_sql(file.read_text(), file)
    elif file.suffix == ".py":
        spec = importlib.util.spec_from_file_location(file.stem, file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        module.__dict__["spark"] = spark
        with placed(project, str(file)):
            spec.loader.exec_module(module)
    else:
        raise PipelineProblem(
            f"{project.shown(file)}:1: definitions are in .py and .sql files: leave others outside the folder"
        )


@contextmanager
def placed(project: Project, fallback: str) -> Iterator[None]:
    """Let what goes wrong in a project's code be told with the line of it."""
    try:
        yield
    except PipelineProblem:
        raise
    except Exception as problem:
        raise PipelineProblem(f"{_place(project, problem, fallback)}: {told(problem)}") from problem


def told(problem: BaseException) -> str:
    """Say in a few lines what an exception means: Spark's carry plans and stacks."""
    text = str(problem)
    if isinstance(problem, Py4JJavaError):
        text = str(problem.java_exception.getMessage())
    text = text.partition("\n\nJVM stacktrace")[0].partition(";\n")[0].strip()
    if isinstance(problem, PySparkException | Py4JJavaError | PipelineProblem):
        return text
    return f"{type(problem).__name__}: {text}" if text else type(problem).__name__


def _place(project: Project, problem: BaseException, fallback: str) -> str:
    if isinstance(problem, SyntaxError) and problem.filename:
        return f"{project.shown(problem.filename)}:{problem.lineno or 1}"
    for frame in reversed(traceback.extract_tb(problem.__traceback__)):
        if Path(frame.filename).is_relative_to(project.folder):
            return f"{project.shown(frame.filename)}:{frame.lineno}"
    return project.shown(fallback)


class _Registry(GraphElementRegistry):
    """Keeps what is defined; names are unique, and flows write into what is defined."""

    def __init__(self, found: Definitions, spark: SparkSession) -> None:
        self._found = found
        self._spark = spark

    def register_output(self, output: Output) -> None:
        """Take one output."""
        known = self._found.outputs.get(output.name)
        if known is not None:
            raise self._problem(output, f"{output.name!r} is defined twice, first at {self._found.place(known.source_code_location)}")  # fmt: skip
        self._found.outputs[output.name] = output

    def register_flow(self, flow: Flow) -> None:
        """Take one flow."""
        for known in self._found.flows:
            if known.name == flow.name:
                raise self._problem(flow, f"a flow named {flow.name!r} is at {self._found.place(known.source_code_location)}")  # fmt: skip
        self._found.flows.append(flow)

    def register_auto_cdc_flow(self, flow: AutoCdcFlow) -> None:
        """Refuse: it needs tables that can be merged into."""
        raise self._problem(
            flow,
            "AutoCDC needs a table format with MERGE, which no format that comes with PySpark has",
        )

    def register_sql(self, sql_text: str, file_path: Path) -> None:
        """Take the statements of a SQL file."""
        from barnabas.pipelines import sql_files

        for output, flow in sql_files.read(self._spark, sql_text, file_path, self._found.project):
            if output is not None:
                self.register_output(output)
            if flow is not None:
                self.register_flow(flow)

    def _problem(self, where: Any, text: str) -> PipelineProblem:  # noqa: ANN401 - anything with a location
        return PipelineProblem(f"{self._found.place(where.source_code_location)}: {text}")
