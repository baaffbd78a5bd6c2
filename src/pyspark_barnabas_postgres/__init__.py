"""Where Spark finds `format("barnabas_postgres")`: it looks for modules named pyspark_* that have a DefaultSource.

Job: the entry. Must not import more than it needs: Spark imports it in every session that has the package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamWriter
    from pyspark.sql.types import StructType


class DefaultSource(DataSource):
    """A PostgreSQL database that follows a topic of changes."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "barnabas_postgres"

    def streamWriter(
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamWriter:  # Spark's name
        """Make what writes a stream; a database is changed row by row, never overwritten."""
        del overwrite
        from barnabas.pipelines.postgres.writer import ChangeWriter

        return ChangeWriter(self.options, schema)
