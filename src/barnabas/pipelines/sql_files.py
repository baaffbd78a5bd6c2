"""SQL files of a project, understood by Spark's own parser.

Job: the statements of a file as outputs and flows. Must not have a grammar of its own: Spark splits the text, parses each statement, and its plans are asked
what they say. A statement that defines nothing is refused with its line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.pipelines.flow import Flow
from pyspark.pipelines.output import MaterializedView, StreamingTable, TemporaryView
from pyspark.pipelines.source_code_location import SourceCodeLocation
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from barnabas.pipelines.problem import PipelineProblem

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.pipelines.output import Output
    from pyspark.sql import SparkSession

    from barnabas.pipelines.project import Project

_TABLES = {
    "CreateStreamingTable": StreamingTable,
    "CreateStreamingTableAsSelect": StreamingTable,
    "CreateMaterializedViewAsSelect": MaterializedView,
}


def read(
    spark: SparkSession, text: str, file: Path, project: Project
) -> Iterator[tuple[Output | None, Flow | None]]:
    """Give what each statement defines."""
    shown = project.shown(file)
    splitter = spark._jvm.org.apache.spark.sql.pipelines.graph.SqlGraphRegistrationContext  # type: ignore[union-attr]
    try:
        found = splitter.splitSqlFileIntoQueries(spark._jsparkSession, text, str(file))
    except (PySparkException, Py4JJavaError) as problem:
        raise PipelineProblem(f"{shown}:{_line_told(problem)}: {_told(problem)}") from None
    for index in range(found.size()):
        statement = found.apply(index)
        line = _or_none(statement.queryOrigin().line()) or 1
        yield _Statement(spark, statement.plan(), SourceCodeLocation(str(file), line), shown).read()


def _told(problem: Exception) -> str:
    return str(problem).strip().splitlines()[0]


def _line_told(problem: Exception) -> int:
    """Spark says the line in the text of the error: `(line 3, pos 7)`."""
    _, _, after = str(problem).partition("(line ")
    number = after.partition(",")[0]
    return int(number) if number.isdigit() else 1


class _Statement:
    """One statement, as Spark's plan of it."""

    def __init__(
        self, spark: SparkSession, plan: Any, location: SourceCodeLocation, shown: str  # noqa: ANN401 - a Java object
    ) -> None:  # fmt: skip
        self._spark = spark
        self._plan = plan
        self._location = location
        self._shown = shown

    def read(self) -> tuple[Output | None, Flow | None]:
        kind = self._plan.getClass().getSimpleName()
        if kind in _TABLES:
            return self._table(_TABLES[kind], has_query=kind.endswith("AsSelect"))
        if kind == "CreateViewCommand":
            name = str(self._plan.name().table())
            return TemporaryView(name, None, self._location), self._flow(
                name, name, self._plan.plan()
            )
        if kind == "CreateFlowCommand":
            return None, self._insert()
        raise PipelineProblem(
            f"{self._shown}:{self._location.line_number}: this defines nothing: a pipeline has CREATE STREAMING TABLE, CREATE MATERIALIZED VIEW, "
            "CREATE TEMPORARY VIEW and CREATE FLOW"
        )

    def _table(self, kind: type[Any], *, has_query: bool) -> tuple[Output, Flow | None]:
        plan, spec = self._plan, self._plan.tableSpec()
        name = _name(plan.name().nameParts())
        table = kind(
            name=name,
            comment=_or_none(spec.comment()),
            source_code_location=self._location,
            table_properties=_texts(spec.properties()),
            partition_cols=[str(each.references().apply(0).fieldNames()[0]) for each in _each(plan.partitioning())]
            or None,
            cluster_by=None,
            schema=self._schema(plan.columns()),
            format=_or_none(spec.provider()),
        )  # fmt: skip
        return table, self._flow(name, name, plan.query()) if has_query else None

    def _schema(self, columns: Any) -> StructType | None:  # noqa: ANN401 - a Java object
        if columns.isEmpty():
            return None
        fields = [f"`{each.name()}` {each.dataType().sql()}" for each in _each(columns)]
        schema = StructType.fromDDL(", ".join(fields))
        assert isinstance(schema, StructType)
        return schema

    def _insert(self) -> Flow:
        insert = self._plan.flowOperation()
        if insert.getClass().getSimpleName() != "InsertIntoStatement":
            raise PipelineProblem(
                f"{self._shown}:{self._location.line_number}: AutoCDC needs a table format with MERGE, which no format that comes with PySpark has"
            )
        target = _name(insert.table().multipartIdentifier())
        return self._flow(_name(self._plan.name().nameParts()), target, insert.query())

    def _flow(self, name: str, target: str, query: Any) -> Flow:  # noqa: ANN401 - a Java object
        spark = self._spark

        def rows() -> DataFrame:
            dataset = spark._jvm.org.apache.spark.sql.classic.Dataset  # type: ignore[union-attr]
            return DataFrame(dataset.ofRows(spark._jsparkSession, query), spark)

        return Flow(name, target, {}, self._location, rows)


def _name(parts: Any) -> str:  # noqa: ANN401 - a Scala sequence
    return ".".join(str(part) for part in _each(parts))


def _each(sequence: Any) -> list[Any]:  # noqa: ANN401 - a Scala sequence
    return [sequence.apply(index) for index in range(sequence.size())]


def _or_none(option: Any) -> Any:  # noqa: ANN401 - a Scala option
    return option.get() if option.isDefined() else None


def _texts(properties: Any) -> dict[str, str]:  # noqa: ANN401 - a Scala map
    pairs = _each(properties.toSeq())
    return {str(pair._1()): str(pair._2()) for pair in pairs}
