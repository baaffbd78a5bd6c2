"""Where Spark finds `format("barnabas")`: it looks for modules named pyspark_* that have a DefaultSource.

Job: the entry. Must not import more than it needs: Spark imports it in every session that has the package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType


class DefaultSource(DataSource):
    """Topics of a Kafka-compatible cluster as tables."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "barnabas"

    def schema(self) -> str:
        """Return the columns of what is read."""
        from barnabas.pipelines import tables

        return tables.schema(self.options)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Make what reads a batch."""
        from barnabas.pipelines import tables

        return tables.reader(self.options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # Spark's name
        """Make what reads a stream."""
        from barnabas.pipelines import tables

        return tables.stream_reader(self.options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Make what writes a batch."""
        from barnabas.pipelines import tables

        return tables.writer(self.options, schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Make what writes a stream."""
        from barnabas.pipelines import tables

        return tables.stream_writer(self.options, schema, overwrite=overwrite)
