"""Where Spark finds `format("barnabas_iceberg")`: it looks for modules named pyspark_* that have a DefaultSource.

Job: the entry. Must not import more than it needs: Spark imports it in every session that has the package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamWriter
    from pyspark.sql.types import StructType


class DefaultSource(DataSource):
    """An Iceberg table."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "barnabas_iceberg"

    def streamWriter(
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamWriter:  # Spark's name
        """Make what writes a stream; rows are appended, whatever the mode."""
        del overwrite
        from barnabas.pipelines.iceberg.writer import IcebergWriter

        return IcebergWriter(self.options, schema)
