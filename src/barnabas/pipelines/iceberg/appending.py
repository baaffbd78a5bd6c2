"""Batches into an Iceberg table: rows, the number of the batch and tidying up in one commit.

Job: open or make the table, append a batch, keep the number of files and snapshots small. Must not know Spark, nor where rows come from.

Invariants: the number of a query's last batch is a property of the table, changed by the very commit that adds the rows, so a batch counts once; who
commits at the same time makes one of both fail, which then looks again whether the batch is there; a failed commit has added nothing. A part (an identity
partition) that has gathered MANY_FILES files is written again as a whole, so there are never more.

Old snapshots are expired by a commit of their own, after that of a batch: no batch is known by its snapshot, so none counts twice for it. A file is removed only
once no snapshot that is left needs it.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.catalog import delete_files
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
    from pyiceberg.table.snapshots import Snapshot

#: A part with as many files is made one file.
MANY_FILES: Final = 16
#: So many snapshots are expired at once.
MANY_SNAPSHOTS: Final = 50
#: What a new table is given; whoever wants it otherwise sets it there. Without these, every batch writes a metadata file that stays, and that lists every
#: snapshot ever, and a list of every manifest ever.
_PROPERTIES: Final = {
    TableProperties.METADATA_DELETE_AFTER_COMMIT_ENABLED: "true",
    TableProperties.METADATA_PREVIOUS_VERSIONS_MAX: "20",
    TableProperties.MANIFEST_MERGE_ENABLED: "true",
    # Whoever reads for longer than this may find files gone; but every commit costs pyiceberg a millisecond of CPU for each snapshot that is kept.
    TableProperties.MAX_SNAPSHOT_AGE_MS: str(60 * 60 * 1000),
    TableProperties.MIN_SNAPSHOTS_TO_KEEP: "10",
}
#: The name that the catalog's own tables know it by: who else opens it must use the same.
CATALOG: Final = "barnabas"
#: How often a batch is tried, while others commit before it.
_TRIES: Final = 5
_BATCH: Final = "barnabas.batch."
#: Iceberg's word on whether files of a table may be deleted; pyiceberg does not know it.
_MAY_DELETE: Final = "gc.enabled"
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
        _expire(table)
        return True

    def _table(self, schema: pa.Schema, partition_by: str) -> Table:
        try:
            return self._catalog.load_table(self._name)
        except NoSuchTableError:
            pass
        with suppress(NamespaceAlreadyExistsError):
            self._catalog.create_namespace(self._name.rpartition(".")[0])
        try:
            with self._catalog.create_table_transaction(
                self._name, schema, properties=_PROPERTIES
            ) as made:
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


def _expire(table: Table) -> None:
    """Forget old snapshots once there are many, with the files that only they need. The batch is there already: what hinders this, such as others who commit or expire, is no failure of it."""
    with suppress(CommitFailedException, ValueError, OSError):
        old = _old_snapshots(table)
        if len(old) < MANY_SNAPSHOTS:
            return
        theirs = _files(table, old)
        table.maintenance.expire_snapshots().by_ids([each.snapshot_id for each in old]).commit()
        unused = theirs - _files(table, table.metadata.snapshots)
        delete_files(table.io, unused, "expired")


def _old_snapshots(table: Table) -> list[Snapshot]:
    """Name the snapshots that the table's properties let go: none if they do not say how old one may be, as in a table that was made elsewhere.

    Those that branches and tags point to stay. A snapshot is as old as the newest is younger: no clock is asked.
    """
    properties = table.properties
    age_ms = properties.get(TableProperties.MAX_SNAPSHOT_AGE_MS)
    if age_ms is None or properties.get(_MAY_DELETE, "true").lower() == "false":
        return []
    kept = int(properties.get(TableProperties.MIN_SNAPSHOTS_TO_KEEP, 1))
    heads = {each.snapshot_id for each in table.metadata.refs.values()}
    by_age = sorted(table.metadata.snapshots, key=lambda each: each.timestamp_ms)
    return [
        each
        for each in by_age[: -max(kept, 1)]
        if each.timestamp_ms < by_age[-1].timestamp_ms - int(age_ms)
        and each.snapshot_id not in heads
    ]


def _files(table: Table, snapshots: Iterable[Snapshot]) -> set[str]:
    """Name every file that snapshots need: lists of manifests, manifests, and what is live in them."""
    found = set()
    for snapshot in snapshots:
        found.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            if manifest.manifest_path not in found:
                found.add(manifest.manifest_path)
                entries = manifest.fetch_manifest_entry(table.io)
                found.update(each.data_file.file_path for each in entries)
    return found


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
