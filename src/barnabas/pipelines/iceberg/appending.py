"""Batches into an Iceberg table: rows, the number of the batch and tidying up in one commit.

Job: open or make the table, append a batch, keep the number of files small. Must not know Spark, nor where rows come from.

Invariants: the number of a query's last batch is a property of the table, changed by the very commit that adds the rows, so a batch counts once; who
commits at the same time makes one of both fail, which then looks again whether the batch is there; a failed commit has added nothing. A part (an identity
partition) that has gathered MANY_FILES files is written again as a whole, so there are never more.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.expressions import EqualTo
from pyiceberg.table import TableProperties
from pyiceberg.transforms import IdentityTransform

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa
    from pyiceberg.table import Table

#: A part with as many files is made one file.
MANY_FILES: Final = 16
#: The name that the catalog's own tables know it by: who else opens it must use the same.
CATALOG: Final = "barnabas"
#: How often a batch is tried, while others commit before it.
_TRIES: Final = 5
_BATCH: Final = "barnabas.batch."
_is_equal: Any = EqualTo


class AppendedTable:
    """One table of a catalog in a SQL database (SQLite, PostgreSQL)."""

    def __init__(self, uri: str, warehouse: str, name: str) -> None:
        """Open the catalog, which is made if it is not there."""
        self._catalog = SqlCatalog(CATALOG, uri=uri, warehouse=warehouse)
        self._name = name

    def append(self, query: str, batch: int, rows: pa.Table, partition_by: str = "") -> bool:
        """Append a batch; return whether it was new. The table is made with the columns of the first."""
        for _ in range(_TRIES - 1):
            with suppress(CommitFailedException):
                return self._append(query, batch, rows, partition_by)
        return self._append(query, batch, rows, partition_by)

    def _append(self, query: str, batch: int, rows: pa.Table, partition_by: str) -> bool:
        """Try once; CommitFailedException if somebody else was faster."""
        table = _without_retries(self._table(rows.schema, partition_by))
        if int(table.properties.get(_BATCH + query, -1)) >= batch:
            return False
        with table.transaction() as transaction:
            if rows.num_rows:
                transaction.append(rows)
                for value in self._crowded(table, partition_by, rows):
                    where = _is_equal(partition_by, value)
                    together = table.scan(row_filter=where).to_arrow()
                    mine = rows.filter(_equals(rows, partition_by, value))
                    transaction.overwrite(_stacked(together, mine), overwrite_filter=where)
            transaction.set_properties({_BATCH + query: str(batch)})
        return True

    def _table(self, schema: pa.Schema, partition_by: str) -> Table:
        try:
            return self._catalog.load_table(self._name)
        except NoSuchTableError:
            pass
        with suppress(NamespaceAlreadyExistsError):
            self._catalog.create_namespace(self._name.rpartition(".")[0])
        try:
            with self._catalog.create_table_transaction(self._name, schema) as made:
                if partition_by:
                    made.update_spec().add_field(partition_by, IdentityTransform()).commit()
        except TableAlreadyExistsError:
            pass
        return self._catalog.load_table(self._name)

    def _crowded(self, table: Table, partition_by: str, rows: pa.Table) -> Iterable[Any]:
        """Name the parts of this batch that have gathered many files already."""
        if not partition_by:
            return []
        files = table.inspect.files()
        counts = (
            Counter(each[partition_by] for each in files["partition"].to_pylist())
            if files.num_rows
            else Counter()
        )
        here = rows[partition_by].unique().to_pylist()
        return [value for value in here if counts[value] >= MANY_FILES - 1]


def _without_retries(table: Table) -> Table:
    """Let commits of this object fail when another was faster: that may have been this very batch, by a driver that was thought dead, and pyiceberg would add the rows to what it left.

    The property is of this object alone: what is in the catalog stays as it is.
    """
    properties = {**table.metadata.properties, TableProperties.COMMIT_NUM_RETRIES: "0"}
    table.metadata = table.metadata.model_copy(update={"properties": properties})
    return table


def _equals(rows: pa.Table, column: str, value: Any) -> Any:  # noqa: ANN401  # pyarrow is untyped
    import pyarrow.compute as pc

    return pc.equal(rows[column], value)


def _stacked(one: pa.Table, other: pa.Table) -> pa.Table:
    import pyarrow as pa

    return pa.concat_tables([one.cast(other.schema), other])
