"""What a record of the topic `changes` means.

| change | key (JSON) | value (JSON) |
|---|---|---|
| a row was inserted or updated | `["customers", 7]`: table, then the key's columns | `{"position": 18, "schema": 2, "row": {"id": 7, "name": "Ann"}}` |
| a row was deleted | the same | null, with the position as text in the header `position` |
| a table was made, changed or (no columns) dropped | `["customers", {"schema": 2}]` | `{"position": 17, "columns": [{"id": 1, "name": "id", "type": "bigint", "key": true}, …]}` |

Compaction keeps the newest record of each key: the newest state of each row, and every version of each table, so that rows written before a change
of columns can still be read. A column is known by its `id`. `position` is where the source's own log has the change: it only grows.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

#: Longer names PostgreSQL would cut.
_NAME_BYTES = 63


def changes(records: DataFrame) -> DataFrame:
    """Read records (raw bytes, with headers): adds kind, table, version and position; what is no change has `_error`."""
    key, value = F.col("key").cast("string"), F.col("value").cast("string")
    in_key = F.get_json_object(key, "$[1].schema")
    kind = (
        F.when(in_key.isNotNull(), "schema")
        .when(F.col("value").isNull(), "delete")
        .otherwise("row")
    )
    version = F.coalesce(in_key, F.get_json_object(value, "$.schema")).try_cast("int")
    position = F.coalesce(F.get_json_object(value, "$.position"), _header("position"))
    read = records.select(
        "*",
        kind.alias("kind"),
        F.get_json_object(key, "$[0]").alias("table"),
        version.alias("version"),
        position.try_cast("bigint").alias("position"),
    )
    return read.withColumn("_error", _error(key, value))


def for_target(good: DataFrame) -> DataFrame:
    """Give the sink its columns."""
    key, value = F.col("key").cast("string"), F.col("value").cast("string")
    return good.select(
        "kind", "table", key.alias("key"), "version", "position", value.alias("value")
    )


def _header(name: str) -> Column:
    """Give the text of a header, null if it is not there."""
    found = F.filter("headers", lambda each: each["key"] == name)
    return F.get(found, F.lit(0))["value"].cast("string")


def _error(key: Column, value: Column) -> Column:
    """Say what is wrong with a record; null if nothing is."""
    nothing = F.col("value").isNull()
    reason = (
        F.when(F.col("key").isNull(), "it has no key")
        .when(
            ~F.is_valid_utf8(key) | ~F.is_valid_utf8(F.coalesce(value, F.lit(""))),
            "it is no UTF-8 text",
        )
        .when(
            F.contains(F.concat(key, F.coalesce(value, F.lit(""))), F.lit("\0")),
            "it has a zero byte",
        )
        .when(F.try_parse_json(key).isNull(), "its key is no JSON")
        .when(F.get_json_object(key, "$[1]").isNull(), "its key is no [table, key …]")
        .when(
            ~F.octet_length("table").between(1, _NAME_BYTES),
            "its table has no name that a table can have",
        )
        .when(F.contains("table", F.lit("\0")), "its table has no name that a table can have")
        .when((F.col("kind") == "schema") & nothing, "the schema of a table has no value")
        .when(~nothing & F.try_parse_json(value).isNull(), "its value is no JSON")
        .when(F.col("position").isNull(), "it has no position")
        .when(
            (F.col("kind") != "delete") & F.col("version").isNull(), "it has no number of a schema"
        )
    )
    told = F.struct(
        F.lit("value").alias("column"), reason.alias("reason"), F.col("value").alias("bytes")
    )
    return F.when(reason.isNotNull(), told)
