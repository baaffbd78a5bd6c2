"""What is wrong with a project, found without running it.

Job: everything that can be told before: the specification, the definitions, how they fit together, what Spark's own dry run lets through. Must not write anything that outlives the check,
nor read a record. An error is what keeps it from running; a warning is what may be meant.
"""

from __future__ import annotations

import importlib
import re
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.pipelines.output import MaterializedView, Sink, Table
from pyspark.sql.datasource import CaseInsensitiveDict

from barnabas.client.errors import ClientError
from barnabas.client.settings import ClientSettings, SettingError
from barnabas.pipelines import definitions
from barnabas.pipelines.formats import FORMAT_OPTIONS
from barnabas.pipelines.graph import waves
from barnabas.pipelines.intervals import check_interval
from barnabas.pipelines.lineage import reads_of
from barnabas.pipelines.options import source_options
from barnabas.pipelines.problem import PipelineProblem
from barnabas.pipelines.project import Project, line_of
from barnabas.pipelines.resolution import Resolver
from barnabas.pipelines.stored_tables import StoredTables
from barnabas.pipelines.surroundings import in_this_thread, surroundings
from barnabas.runtime.blocking_client import BlockingClient

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from barnabas.pipelines.definitions import Definitions
    from barnabas.pipelines.resolution import Work

ERROR: Final = "error"
WARNING: Final = "warning"
_PATIENCE_MS: Final = 5_000
_PLACED: Final = re.compile(r"([^:\n]+):(\d+): (.*)", re.DOTALL)
_FORMAT_OPTIONS: Final = tuple(sorted(FORMAT_OPTIONS))
#: Formats of ours that can be written.
_OURS: Final = ("barnabas", "barnabas_iceberg", "barnabas_postgres", "barnabas_search")
#: A sink of Spark's that is no format which could be looked up.
_IN_MEMORY: Final = "memory"


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong, or may be."""

    level: str
    file: str
    line: int
    text: str

    @classmethod
    def of(cls, told: str, level: str = ERROR, file: str = "spark-pipeline.yml") -> Finding:
        """Take file and line from the text, where it begins with them."""
        placed = _PLACED.fullmatch(told)
        if placed:
            return cls(level, placed[1], int(placed[2]), placed[3])
        return cls(level, file, 1, told)

    def __str__(self) -> str:
        """As compilers write it, which editors understand."""
        return f"{self.file}:{self.line}: {self.level}: {self.text}"


def check(folder: Path, spark: SparkSession, settings: Mapping[str, str]) -> list[Finding]:
    """Find everything, errors first in the order of the files."""
    try:
        project = Project.open(folder)
    except PipelineProblem as problem:
        return [Finding.of(str(problem))]
    with tempfile.TemporaryDirectory() as scratch:
        check = _Check(project, spark.newSession(), settings, f"file://{scratch}")
        try:
            found = list(dict.fromkeys(check.findings()))
        finally:
            check.tables.drop()
    return sorted(found, key=lambda each: (each.level, each.file, each.line))


class _Check:
    """One project in a session whose tables are thrown away."""

    def __init__(
        self, project: Project, spark: SparkSession, settings: Mapping[str, str], scratch: str
    ) -> None:
        self._project = project
        self._spark = spark
        self._settings = settings
        self.tables = StoredTables(spark, scratch, f"check_{Path(scratch).name}")

    def findings(self) -> Iterator[Finding]:
        yield from self._configuration()
        try:
            defined = definitions.load(self._project, self._spark)
        except PipelineProblem as problem:
            yield Finding.of(str(problem))
            return
        yield from self._graph(defined)
        yield from self._modules()

    def _configuration(self) -> Iterator[Finding]:
        for key, value in {**self._project.configuration, **self._settings}.items():
            try:
                self._spark.conf.set(key, value)
                check_interval(self._spark, key, value)
            except PipelineProblem as problem:
                yield Finding(ERROR, self._project.spec.name, line_of(self._project.spec, key), str(problem))  # fmt: skip
            except PySparkException:
                text = f"{key} is settled when Spark starts, and cannot be set by a pipeline: give it to the session, or leave it out"
                yield Finding(ERROR, self._project.spec.name, line_of(self._project.spec, key), text)  # fmt: skip

    def _graph(self, defined: Definitions) -> Iterator[Finding]:
        resolver = Resolver(defined, self._spark, self.tables)
        targets = resolver.target_problems()
        yield from (Finding.of(str(problem)) for problem in targets)
        for name in defined.outputs:
            if defined.flows_of(name):
                try:
                    resolver.resolve_one(name)
                except PipelineProblem as problem:
                    yield Finding.of(str(problem))
        works = resolver.works()
        try:
            waves([work.step for work in works])
        except PipelineProblem as problem:
            yield Finding.of(str(problem))
        for work in works:
            yield from self._work(work, resolver)
        yield from _shared_ids(works)
        yield from _topics(works)
        yield from self._other_kinds(defined)
        yield from self._old_checkpoints(works)

    def _work(self, work: Work, resolver: Resolver) -> Iterator[Finding]:
        """What Spark, our source or our sinks would say when the query starts."""
        place = work.step.place
        try:
            for flow in work.flows:
                for key, value in flow.spark_conf.items():
                    check_interval(self._spark, key, value)
            frame = resolver.frame(work)
            for source in reads_of(frame).sources:
                source_options(source.options, streaming=source.is_stream, more_names=_FORMAT_OPTIONS)  # fmt: skip
            if not work.is_view:
                self._check_streaming(frame)
            if isinstance(work.output, Sink):
                self._check_sink(work.output, frame)
        except (PipelineProblem, SettingError) as problem:
            yield Finding.of(f"{place}: {problem}")
        except (PySparkException, Py4JError, ImportError) as problem:
            yield Finding.of(f"{place}: {definitions.told(problem)}")

    def _check_streaming(self, frame: Any) -> None:  # noqa: ANN401 - a frame's Java side is asked
        jvm: Any = self._spark._jvm
        checker = jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
        plan = frame._jdf.queryExecution().analyzed()
        checker.checkForStreaming(plan, jvm.org.apache.spark.sql.streaming.OutputMode.Append())

    def _check_sink(self, sink: Sink, frame: DataFrame) -> None:
        """Look whether there is such a format, and have those of ours check options and columns."""
        if sink.format == _IN_MEMORY:
            return
        jvm: Any = self._spark._jvm
        with in_this_thread(self._spark):
            conf = self._spark._jsparkSession.sessionState().conf()
            jvm.org.apache.spark.sql.execution.datasources.DataSource.lookupDataSource(sink.format, conf)  # fmt: skip
        if sink.format in _OURS:
            # Spark finds them by the same names.
            source = importlib.import_module(f"pyspark_{sink.format}").DefaultSource
            source(CaseInsensitiveDict(sink.options)).streamWriter(frame.schema, overwrite=False)

    def _modules(self) -> Iterator[Finding]:
        """Workers import the project's modules, where there is no session to be had."""
        folder = self._project.folder
        files = [Path(getattr(module, "__file__", None) or "/") for module in [*sys.modules.values()]]  # fmt: skip
        names = sorted({file.stem for file in files if file.parent == folder})
        with surroundings(self._project, self._spark):
            context = self._spark.sparkContext
            failed = context.parallelize(names, max(1, len(names))).map(_imported).collect()
        for name, text in zip(names, failed, strict=True):
            if text:
                yield Finding(ERROR, f"{name}.py", 1, f"workers cannot import it: {text}")

    def _other_kinds(self, defined: Definitions) -> Iterator[Finding]:
        storage = f"{self._project.storage}/continuous"
        for name, output in defined.outputs.items():
            if isinstance(output, Table):
                is_view = isinstance(output, MaterializedView)
                told = self.tables.of_other_kind(name, is_view=is_view, storage=storage)
                if told:
                    yield Finding.of(f"{defined.place(output.source_code_location)}: {told}")

    def _old_checkpoints(self, works: list[Work]) -> Iterator[Finding]:
        storage = f"{self._project.storage}/continuous/checkpoints"
        known = {work.step.name for work in works}
        for name in self.tables.names(storage):
            if name not in known:
                text = f"{storage}/{name} is the checkpoint of a flow that is not defined any more: if it was renamed, it begins anew; remove the folder if it is gone"
                yield Finding(WARNING, self._project.spec.name, 1, text)


def _imported(name: str) -> str | None:
    """Import a module in a worker; say what went wrong."""
    import importlib

    try:
        importlib.import_module(name)
    except Exception as problem:  # noqa: BLE001 - a person's code may raise anything
        return f"{type(problem).__name__}: {str(problem).partition(chr(10))[0]}"
    return None


def _shared_ids(works: list[Work]) -> Iterator[Finding]:
    """Two flows with one id would each take the other's batches for its own, done already."""
    first: dict[tuple[str, str | None], Work] = {}
    for work in works:
        options = getattr(work.output, "options", {})
        lower = {name.lower(): value for name, value in options.items()}
        if "sinkid" not in lower:
            continue
        key = (lower["sinkid"], lower.get("topic"))
        if key in first:
            other = first[key].step
            yield Finding.of(f"{work.step.place}: {work.step.name!r} writes with the sinkId {key[0]!r} of {other.name!r} ({other.place}): leave sinkId out, or give each its own")  # fmt: skip
        first.setdefault(key, work)


def _topics(works: list[Work]) -> Iterator[Finding]:
    """Ask each cluster once whether the topics that are read are there."""
    written = {topic for work in works for topic in work.step.topics_written}
    known: dict[str, set[str] | str] = {}
    for work in works:
        if not work.client:
            continue
        address = work.client.get("bootstrap.servers", "")
        if address not in known:
            known[address] = _known_topics(work.client)
        topics = known[address]
        if isinstance(topics, str):
            yield Finding.of(f"{work.step.place}: no broker answers at {address}: {topics}", WARNING)  # fmt: skip
            continue
        for topic in sorted(work.step.topics_read - topics - written):
            yield Finding.of(f"{work.step.place}: there is no topic {topic!r} at {address} yet", WARNING)  # fmt: skip


def _known_topics(client: Mapping[str, str]) -> set[str] | str:
    try:
        settings = ClientSettings.parse(client).replace(
            request_timeout_ms=_PATIENCE_MS, api_timeout_ms=_PATIENCE_MS
        )
        with BlockingClient(settings) as asked:
            return set(asked.connect().topics())
    except (ClientError, SettingError) as problem:
        return str(problem)
