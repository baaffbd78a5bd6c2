"""What `format("barnabas")` makes of options: schemas, readers and writers.

Job: put options, formats, source and sink together. Must not decide anything itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.pipelines import catalog_tables
from barnabas.pipelines.formats import FORMAT_OPTIONS, Formats
from barnabas.pipelines.options import OptionTexts, sink_options, source_options
from barnabas.pipelines.problem import PipelineProblem, one_sentence
from barnabas.pipelines.sink import TopicStreamWriter, TopicWriter
from barnabas.pipelines.sink_columns import check_columns
from barnabas.pipelines.source import RefusedStreamReader, TopicReader, TopicStreamReader

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql.types import StructType

    from barnabas.pipelines.formats import Decoder

#: The columns of Spark's `kafka` format.
_COLUMNS: Final = {
    "key": "BINARY",
    "value": "BINARY",
    "topic": "STRING",
    "partition": "INT",
    "offset": "BIGINT",
    "timestamp": "TIMESTAMP",
    "timestampType": "INT",
}
_HEADERS: Final = {"headers": "ARRAY<STRUCT<key: STRING, value: BINARY>>"}
_MORE_NAMES: Final = tuple(sorted(FORMAT_OPTIONS))


def schema(options: Mapping[str, str]) -> str:
    """Return the columns of what is read, as DDL."""
    with one_sentence():
        texts = OptionTexts(options, _MORE_NAMES)
        texts.settings()
        columns = _COLUMNS
        if texts.truth("includeHeaders", default=False):
            columns = _COLUMNS | _HEADERS
        columns = catalog_tables.remember(columns, options)
        formats = Formats.parse(options)
        if formats.is_plain:
            return ", ".join(f"{name} {kind}" for name, kind in columns.items())
        return formats.ddl(columns)


def reader(options: Mapping[str, str], columns: StructType) -> TopicReader:
    """Make what reads a batch."""
    with one_sentence():
        options = catalog_tables.recall(options, columns)
        checked = source_options(options, streaming=False, more_names=_MORE_NAMES)
        return TopicReader(checked, _decoder(options, columns))


def stream_reader(
    options: Mapping[str, str], columns: StructType
) -> TopicStreamReader | RefusedStreamReader:
    """Make what reads a stream; what is wrong with the options, it says when it is asked for something."""
    try:
        options = catalog_tables.recall(options, columns)
        checked = source_options(options, streaming=True, more_names=_MORE_NAMES)
        return TopicStreamReader(checked, _decoder(options, columns))
    except PipelineProblem as problem:
        return RefusedStreamReader(problem)


def writer(options: Mapping[str, str], columns: StructType, *, overwrite: bool) -> TopicWriter:
    """Make what writes a batch."""
    with one_sentence():
        if overwrite:
            raise PipelineProblem(
                "a topic only grows and cannot be overwritten: use mode('append')"
            )
        checked = sink_options(options, streaming=False, more_names=_MORE_NAMES)
        check_columns(columns, checked.topic)
        made = TopicWriter(checked)
        made.check()
        return made


def stream_writer(
    options: Mapping[str, str], columns: StructType, *, overwrite: bool
) -> TopicStreamWriter:
    """Make what writes a stream. In complete mode (`overwrite`) each batch is written after the last, as the `kafka` format does."""
    del overwrite
    with one_sentence():
        checked = sink_options(options, streaming=True, more_names=_MORE_NAMES)
        check_columns(columns, checked.topic)
        return TopicStreamWriter(checked)


def _decoder(options: Mapping[str, str], columns: StructType) -> Decoder | None:
    formats = Formats.parse(options)
    if not formats.is_plain:
        return formats.decoder(columns)
    if columns.fieldNames() not in ([*_COLUMNS], [*_COLUMNS, *_HEADERS]):
        raise PipelineProblem(
            "topics have columns of their own: leave out schema(...), and set valueFormat and valueSchema for typed values"
        )
    return None
