"""Where Spark finds `format("barnabas_search")`: it looks for modules named pyspark_* that have a DefaultSource.

Job: the entry. Must not import more than it needs: Spark imports it in every session that has the package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamWriter
    from pyspark.sql.types import StructType


class DefaultSource(DataSource):
    """A full-text index of log events, to be written by a stream."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "barnabas_search"

    def streamWriter(
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamWriter:  # Spark's name
        """Make what writes a stream. What is searched only grows."""
        del overwrite
        from barnabas.pipelines.search import sink

        return sink.stream_writer(self.options, schema)
