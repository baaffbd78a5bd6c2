"""From definitions to frames: every flow's function called, every table known in the catalog before whoever reads it.

Job: call functions in an order that works, and tell what does not fit, with file and line. Must not run anything. A function is called where its inputs are known;
one that asks for a table which is defined but not yet known is called again after that. So nobody has to say what depends on what.
"""

from __future__ import annotations

import difflib
import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException
from pyspark.pipelines.output import MaterializedView, Sink, StreamingTable, TemporaryView
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from barnabas.pipelines.definitions import placed
from barnabas.pipelines.graph import Step
from barnabas.pipelines.lineage import reads_of
from barnabas.pipelines.problem import PipelineProblem
from barnabas.pipelines.surroundings import surroundings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.pipelines.flow import Flow
    from pyspark.pipelines.output import Output
    from pyspark.sql import SparkSession

    from barnabas.pipelines.definitions import Definitions
    from barnabas.pipelines.stored_tables import StoredTables


@dataclass(frozen=True)
class Work:
    """A step and what it takes to run it: the flows that write into an output as one."""

    step: Step
    output: Output
    flows: Sequence[Flow]
    client: Mapping[str, str]
    """Settings of a client for the topics it reads; nothing if it reads none."""
    patterns: frozenset[str] = frozenset()
    """What it finds topics by, where it does not name them."""

    @property
    def is_view(self) -> bool:
        """Whether it is computed as a whole, and not as a stream."""
        return isinstance(self.output, MaterializedView)


class Resolver:
    """Resolves one project in one session."""

    def __init__(
        self, definitions: Definitions, spark: SparkSession, tables: StoredTables
    ) -> None:  # fmt: skip
        """Take what was defined, and where tables become known."""
        self._definitions = definitions
        self._spark = spark
        self._tables = tables
        self._known: dict[str, list[DataFrame]] = {}
        self._under_way: list[str] = []

    def resolve(self) -> list[Work]:
        """Make every table known and give every step; PipelineProblem with file and line."""
        for problem in self.target_problems():
            raise problem
        self._tables.forget(self._definitions.outputs)
        for name in self._definitions.outputs:
            self.resolve_one(name)
        return self.works()

    def works(self) -> list[Work]:
        """Give the steps of what is resolved."""
        return [work for name in self._known for work in self._works(name)]

    def frame(self, work: Work) -> DataFrame:
        """Call the functions of a step again: what they read may be new."""
        frames = [self._call(flow) for flow in work.flows]
        return functools.reduce(_union, frames)

    def target_problems(self) -> Iterator[PipelineProblem]:
        """Tell flows that write into nothing, and outputs that nothing writes into."""
        outputs = self._definitions.outputs
        for flow in self._definitions.flows:
            if flow.target not in outputs:
                yield self._problem(flow, f"flow {flow.name!r} writes into {flow.target!r}, which is not defined{_near(flow.target, outputs)}")  # fmt: skip
        for name, output in outputs.items():
            if not self._definitions.flows_of(name):
                yield self._problem(output, f"nothing writes into {name!r}: add a flow with target={name!r}, or remove it")  # fmt: skip
            if "." in name:
                yield self._problem(output, f"{name!r}: tables of a project are in one database: leave out what is before the dot")  # fmt: skip

    def resolve_one(self, name: str) -> None:
        """Make one output known, and those it needs."""
        if name in self._known:
            return
        output = self._definitions.outputs[name]
        if name in self._under_way:
            way = [*self._under_way[self._under_way.index(name) :], name]
            raise self._problem(output, f"{name!r} depends on itself: {' -> '.join(way)}")
        self._under_way.append(name)
        try:
            flows = self._definitions.flows_of(name)
            frames = [self._call_resolving(flow) for flow in flows]
            for flow, frame in zip(flows, frames, strict=True):
                self._check_kind(flow, output, frame)
            self._publish(output, functools.reduce(_union, frames))
            self._known[name] = frames
        finally:
            self._under_way.pop()

    def _call_resolving(self, flow: Flow) -> DataFrame:
        while True:
            try:
                return self._call(flow)
            except PipelineProblem as problem:
                missing = _missing_table(problem.__cause__)
                if missing is None:
                    raise
                place = str(problem).partition(": ")[0]
                if missing not in self._definitions.outputs:
                    raise PipelineProblem(f"{place}: {flow.name!r} reads {missing!r}, and there is no such table or view{_near(missing, self._definitions.outputs)}") from None  # fmt: skip
                if missing in self._known:
                    raise PipelineProblem(f"{place}: {flow.name!r} reads {missing!r}, which is a sink: only tables and views can be read") from None  # fmt: skip
                self.resolve_one(missing)

    def _call(self, flow: Flow) -> DataFrame:
        place = self._definitions.place(flow.source_code_location)
        project = self._definitions.project
        with placed(project, place), surroundings(project, self._spark):
            frame = flow.func()
        if not isinstance(frame, DataFrame):
            raise self._problem(flow, f"{flow.name!r} must return a DataFrame, not {type(frame).__name__}")  # fmt: skip
        return frame

    def _check_kind(self, flow: Flow, output: Output, frame: DataFrame) -> None:
        if isinstance(output, StreamingTable | Sink) and not frame.isStreaming:
            raise self._problem(flow, f"{flow.name!r} gives a batch, and {output.name!r} takes a stream: read with readStream, or define a materialized_view")  # fmt: skip
        if isinstance(output, MaterializedView) and frame.isStreaming:
            raise self._problem(flow, f"{flow.name!r} gives a stream, and a materialised view is computed as a whole: read with spark.read, or define a table")  # fmt: skip

    def _publish(self, output: Output, frame: DataFrame) -> None:
        place = self._definitions.place(output.source_code_location)
        with placed(self._definitions.project, place):
            if isinstance(output, TemporaryView):
                frame.createOrReplaceTempView(output.name)
            elif isinstance(output, StreamingTable | MaterializedView):
                schema = _declared(output.schema) or frame.schema
                is_view = isinstance(output, MaterializedView)
                told = self._tables.of_other_kind(output.name, is_view=is_view)
                if told:
                    raise self._problem(output, told)
                self._tables.create(output, schema, is_view=is_view)

    def _works(self, name: str) -> list[Work]:
        """A sink has a step for each flow; a table has one for all, as Spark's file sink takes one query only."""
        output = self._definitions.outputs[name]
        flows = self._definitions.flows_of(name)
        frames = self._known[name]
        if isinstance(output, TemporaryView):
            return []
        if isinstance(output, Sink):
            pairs = zip(flows, frames, strict=True)
            return [self._work(flow.name, output, [flow], [frame]) for flow, frame in pairs]
        return [self._work(name, output, flows, frames)]

    def _work(
        self, name: str, output: Output, flows: Sequence[Flow], frames: Sequence[DataFrame]
    ) -> Work:
        reads = [reads_of(frame) for frame in frames]
        tables = frozenset[str]().union(*(each.tables for each in reads))
        step = Step(
            name=name,
            place=self._definitions.place(flows[0].source_code_location),
            writes=output.name,
            reads=tables & frozenset(self._definitions.outputs),
            topics_read=frozenset[str]().union(*(each.topics for each in reads)),
            topics_written=_topics_written(output),
        )
        client = next((each.client for each in reads if each.client), {})
        patterns = frozenset[str]().union(*(each.patterns for each in reads))
        return Work(step, output, flows, client, patterns)

    def _problem(self, where: Any, text: str) -> PipelineProblem:  # noqa: ANN401 - anything with a location
        return PipelineProblem(f"{self._definitions.place(where.source_code_location)}: {text}")


def _union(one: DataFrame, other: DataFrame) -> DataFrame:
    return one.unionByName(other, allowMissingColumns=True)


def _declared(schema: StructType | str | None) -> StructType | None:
    if isinstance(schema, str):
        parsed = StructType.fromDDL(schema)
        assert isinstance(parsed, StructType)
        return parsed
    return schema


def _missing_table(problem: BaseException | None) -> str | None:
    if not isinstance(problem, AnalysisException):
        return None
    if problem.getCondition() != "TABLE_OR_VIEW_NOT_FOUND":
        return None
    named = (problem.getMessageParameters() or {}).get("relationName", "")
    return str(named).split(".")[-1].strip("`")


def _topics_written(output: Output) -> frozenset[str]:
    if not isinstance(output, Sink):
        return frozenset()
    options = {name.lower(): value for name, value in output.options.items()}
    return frozenset({options["topic"]} if "topic" in options else ())


def _near(name: str, known: Any) -> str:  # noqa: ANN401 - any names
    near = difflib.get_close_matches(name, list(known), 1)
    return f": did you mean {near[0]!r}?" if near else ""
