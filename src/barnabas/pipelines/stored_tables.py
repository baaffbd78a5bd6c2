"""The tables of a project, as files under its storage, and their names in a session's catalog.

Job: make tables known, write new versions of materialised views. Must not know flows. The catalog is made anew at each start; what counts is the files:

- tables/NAME: a streaming table, as Spark's file sink writes it. Whoever reads the folder with Spark sees finished batches only.
- views/NAME/N: version N of a materialised view. The newest that has Spark's _SUCCESS counts; readers never see half of one. Where storage is a local disk,
  tables/NAME is a link to it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.pipelines.output import Table
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

FORMAT: Final = "parquet"
_VERSIONS_KEPT: Final = 2
#: Where Spark's file sink notes which batches a table has.
_BATCHES: Final = "_spark_metadata"


class StoredTables:
    """Tables of one project in one session."""

    def __init__(self, spark: SparkSession, storage: str, database: str) -> None:
        """Make the database known, and the session's current one."""
        self._spark = spark
        self._storage = storage
        # Without a place of its own it would leave a folder wherever the program was started.
        place = text(f"{storage}/database")
        spark.sql(f"CREATE DATABASE IF NOT EXISTS {quoted(database)} LOCATION {place}")
        spark.sql(f"USE {quoted(database)}")
        self._database = database

    def location(self, name: str) -> str:
        """Say where a streaming table is written."""
        return f"{self._storage}/tables/{name}"

    def create(self, table: Table, schema: StructType, *, is_view: bool) -> None:
        """Make the table known under its name, with what is stored of it already."""
        if is_view:
            version = self._current(table.name)
            location = self._version(table.name, version) if version else self._empty(table.name)
        else:
            location = self.location(table.name)
            # A reader that begins before the first batch must see that this folder has a log of batches.
            self._make_folder(f"{location}/{_BATCHES}")
        # At a place with files Spark would take the columns from them, and mistake those that partition.
        self._spark.sql(_ddl(table, schema, self._make_folder(f"{self._storage}/empty")))
        self._move(table.name, location)

    def of_other_kind(self, name: str, *, is_view: bool, storage: str = "") -> str | None:
        """Say what to do if what is stored under this name is of the other kind, and its files are in the way; None if they are not."""
        storage = storage or self._storage
        table, versions = f"{storage}/tables/{name}", f"{storage}/views/{name}"
        if is_view and _BATCHES in self.names(table):
            return f"{name!r} was a streaming table until now: to make it a materialised view, remove {table} and {storage}/checkpoints/{name}, or give it another name"
        if not is_view and any(self._numbers(versions)):
            return f"{name!r} was a materialised view until now: to make it a streaming table, remove {versions} and {table}, or give it another name"
        return None

    def forget(self, names: Iterable[str]) -> None:
        """Let no table of an earlier run be found by its name; its files stay."""
        for name in names:
            self._spark.sql(f"DROP TABLE IF EXISTS {quoted(name)}")

    def drop(self) -> None:
        """Forget everything, the database too; files of tables stay."""
        self._spark.sql("USE default")
        self._spark.sql(f"DROP DATABASE {quoted(self._database)} CASCADE")

    def refresh(self, name: str) -> None:
        """Have the next reader look at the files again."""
        self._spark.catalog.refreshTable(quoted(name))

    def replace(self, table: Table, frame: DataFrame) -> None:
        """Write the next version of a materialised view, then let readers see it."""
        versions = self._versions(table.name)
        location = self._version(table.name, max(versions, default=0) + 1)
        writer = frame.write.format(table.format or FORMAT)
        if table.partition_cols:
            writer = writer.partitionBy(*table.partition_cols)
        writer.save(location)
        self._move(table.name, location)
        self._link(table.name, location)
        for version in sorted(versions)[: -(_VERSIONS_KEPT - 1) or None]:
            self._delete(self._version(table.name, version))

    def _move(self, name: str, location: str) -> None:
        self._spark.sql(f"ALTER TABLE {quoted(name)} SET LOCATION {text(location)}")
        self.refresh(name)

    def tidy_checkpoint(self, location: str) -> None:
        """Remove what a query left that was ended while it noted its first batch: a piece of the note, with which Spark refuses to start for ever."""
        offsets = f"{location}/offsets"
        names = self.names(offsets)
        if names and not any(name.isdigit() for name in names):
            self._delete(offsets)

    def file_tasks(self, flows: Iterable[str], now: int) -> int:
        """Say into how many tasks at least the files of a batch are cut: as many as before if one of these flows has a batch that is not through, else `now`, which is noted for the next start."""
        place = f"{self._storage}/file-tasks"
        noted = self._numbers(place)
        if noted and any(map(self._is_within_batch, flows)):
            return noted[0]
        self._delete(place)
        self._make_folder(f"{place}/{now}")
        return now

    def _is_within_batch(self, flow: str) -> bool:
        begun, through = (
            max(self._numbers(f"{self._storage}/checkpoints/{flow}/{each}"), default=-1)
            for each in ("offsets", "commits")
        )
        return begun > through

    def _version(self, name: str, version: int) -> str:
        return f"{self._storage}/views/{name}/{version}"

    def _empty(self, name: str) -> str:
        return self._make_folder(self._version(name, 0))

    def _versions(self, name: str) -> list[int]:
        return self._numbers(f"{self._storage}/views/{name}")

    def _numbers(self, location: str) -> list[int]:
        return [int(each) for each in self.names(location) if each.isdigit()]

    def _current(self, name: str) -> int:
        """Give the newest version that is whole; 0 if there is none."""
        for version in sorted(self._versions(name), reverse=True):
            if "_SUCCESS" in self.names(self._version(name, version)):
                return version
        return 0

    def _link(self, name: str, location: str) -> None:
        target, link = _local(location), _local(self.location(name))
        if target is None or link is None:
            return
        link.parent.mkdir(parents=True, exist_ok=True)
        new = link.with_name(f".{name}.new")
        new.unlink(missing_ok=True)
        new.symlink_to(os.path.relpath(target, link.parent))
        new.replace(link)

    def _files(self, location: str) -> tuple[Any, Any]:
        """Hadoop's file system of this address, and the path in it."""
        jvm: Any = self._spark._jvm
        path = jvm.org.apache.hadoop.fs.Path(location)
        return path.getFileSystem(self._spark._jsparkSession.sessionState().newHadoopConf()), path

    def _make_folder(self, location: str) -> str:
        files, path = self._files(location)
        files.mkdirs(path)
        return location

    def names(self, location: str) -> list[str]:
        """List a folder; nothing if it is not there."""
        files, path = self._files(location)
        if not files.exists(path):
            return []
        return [str(each.getPath().getName()) for each in files.listStatus(path)]

    def _delete(self, location: str) -> None:
        files, path = self._files(location)
        files.delete(path, True)


def _ddl(table: Table, schema: StructType, location: str) -> str:
    parts = [
        f"CREATE TABLE {quoted(table.name)} ({schema.toDDL()})",
        f"USING {table.format or FORMAT}",
    ]
    if table.partition_cols:
        parts.append(f"PARTITIONED BY ({', '.join(map(quoted, table.partition_cols))})")
    parts.append(f"LOCATION {text(location)}")
    if table.comment:
        parts.append(f"COMMENT {text(table.comment)}")
    if table.table_properties:
        pairs = [f"{text(key)} = {text(value)}" for key, value in table.table_properties.items()]
        parts.append(f"TBLPROPERTIES ({', '.join(pairs)})")
    return " ".join(parts)


def quoted(name: str) -> str:
    """Write a name as SQL takes it."""
    return "`" + name.replace("`", "``") + "`"


def text(value: str) -> str:
    """Write a text as SQL takes it."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _local(location: str) -> Path | None:
    return Path(location.removeprefix("file://")) if location.startswith("file:///") else None
