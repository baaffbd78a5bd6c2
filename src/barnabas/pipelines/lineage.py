"""What a frame reads, found in the plan that Spark has made of it.

Job: names of tables, and topics. Must not know what a pipeline is. Temporary views are part of the plan of whoever reads them, so what they read is found and
not their names.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import StructType

from barnabas.pipelines import catalog_tables
from barnabas.pipelines.offsets import parse_partitions
from barnabas.pipelines.options import OUR_FORMAT
from barnabas.pipelines.problem import PipelineProblem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Source:
    """What is read of `format("barnabas")`."""

    options: Mapping[str, str]
    is_stream: bool


@dataclass(frozen=True)
class Reads:
    """Tables by their names without a database, and topics as options name them."""

    tables: frozenset[str]
    topics: frozenset[str]
    patterns: frozenset[str]
    """Regular expressions that topics are found by."""
    client: Mapping[str, str]
    """Settings of a client that reads these topics, as the first source has them."""
    sources: tuple[Source, ...]


def reads_of(frame: DataFrame) -> Reads:
    """Look through the analysed plan."""
    tables, topics, patterns = set[str](), set[str](), set[str]()
    client: dict[str, str] = {}
    sources = []
    for leaf in _leaves(frame._jdf.queryExecution().analyzed()):
        table = _table(leaf)
        if table is not None:
            tables.add(table)
        options = _options(leaf)
        topics.update(_topics(options))
        patterns.update(_patterns(options))
        client = client or _client(options)
        if options and str(leaf.table().name()) == OUR_FORMAT:
            sources.append(Source(options, bool(leaf.isStreaming())))
    return Reads(frozenset(tables), frozenset(topics), frozenset(patterns), client, tuple(sources))


def _leaves(plan: Any) -> list[Any]:  # noqa: ANN401 - a Java object
    found = _each(plan.collectLeaves())
    for subquery in _each(plan.subqueriesAll()):
        found += _each(subquery.collectLeaves())
    return found


def _table(leaf: Any) -> str | None:  # noqa: ANN401 - a Java object
    kind = leaf.getClass().getSimpleName()
    if kind == "LogicalRelation":
        table = leaf.catalogTable()
    elif kind == "StreamingRelation":
        table = leaf.dataSource().catalogTable()
    else:
        return None
    return str(table.get().identifier().table()) if table.isDefined() else None


def _options(leaf: Any) -> dict[str, str]:  # noqa: ANN401 - a Java object
    kind = leaf.getClass().getSimpleName()
    if kind == "StreamingRelationV2":
        options = leaf.extraOptions()
    elif kind == "DataSourceV2Relation":
        options = leaf.options()
    else:
        return {}
    given = {str(name): str(value) for name, value in options.asCaseSensitiveMap().items()}
    return catalog_tables.recall(given, StructType.fromJson(json.loads(leaf.schema().json())))


def _topics(options: Mapping[str, str]) -> list[str]:
    """Name the topics that options name; a pattern names none, nor what cannot be read, which is told where options are checked."""
    lower = {name.lower(): value for name, value in options.items()}
    if "assign" in lower:
        with suppress(PipelineProblem):
            return [each.topic for each in parse_partitions("assign", lower["assign"])]
        return []
    return [topic.strip() for topic in lower.get("subscribe", "").split(",") if topic.strip()]


def _patterns(options: Mapping[str, str]) -> list[str]:
    return [value.strip() for name, value in options.items() if name.lower() == "subscribepattern"]


def _client(options: Mapping[str, str]) -> dict[str, str]:
    start = "kafka."
    return {
        name[len(start) :]: value
        for name, value in options.items()
        if name.lower().startswith(start)
    }


def _each(sequence: Any) -> list[Any]:  # noqa: ANN401 - a Scala sequence
    return [sequence.apply(index) for index in range(sequence.size())]
