"""Typed columns: options to column types, batches to typed batches, and what becomes of rows that do not fit. No session is needed."""

import io
import json
import pickle
from datetime import UTC, datetime
from decimal import Decimal

import fastavro
import pyarrow as pa
import pytest
from pyspark.sql import types as t

from barnabas.pipelines.formats import FormatError, Formats

BASE = {"key": "BINARY", "value": "BINARY", "topic": "STRING", "partition": "INT", "offset": "BIGINT", "timestamp": "TIMESTAMP"}  # fmt: skip
CLICK = t.StructType([t.StructField("user", t.StringType()), t.StructField("n", t.IntegerType())])
ERROR = t.StructType(
    [
        t.StructField("column", t.StringType()),
        t.StructField("reason", t.StringType()),
        t.StructField("bytes", t.BinaryType()),
    ]
)
JSON = {"valueFormat": "json", "valueSchema": "user STRING, n INT"}
AVRO = {
    "type": "record",
    "name": "a.b.Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}},
        {"name": "before", "type": ["null", "State"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "price", "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}]},
        {"name": "lines", "type": {"type": "array", "items": {"type": "record", "name": "Line", "fields": [{"name": "sku", "type": "string"}]}}},
        {"name": "tags", "type": {"type": "map", "values": "int"}},
        {"name": "ref", "type": {"type": "string", "logicalType": "uuid"}},
    ],
}  # fmt: skip
AVRO_DDL = (
    "STRUCT<`id`: BIGINT, `state`: STRING, `before`: STRING, `at`: TIMESTAMP, `price`: DECIMAL(9, 2), "
    "`lines`: ARRAY<STRUCT<`sku`: STRING>>, `tags`: MAP<STRING, INT>, `ref`: STRING>"
)


def records(*values, keys=None):
    count = len(values)
    stamp = datetime(2026, 11, 16, tzinfo=UTC)
    return pa.RecordBatch.from_pydict(
        {
            "key": pa.array(keys or [None] * count, pa.binary()),
            "value": pa.array(values, pa.binary()),
            "topic": pa.array(["clicks"] * count),
            "partition": pa.array([3] * count, pa.int32()),
            "offset": pa.array(range(100, 100 + count), pa.int64()),
            "timestamp": pa.array([stamp] * count, pa.timestamp("us", "UTC")),
        }
    )


def schema_of(value=None, key=None, *, errors=True):
    """What Spark makes of the DDL."""
    types = {
        "key": key or t.BinaryType(), "value": value or t.BinaryType(), "topic": t.StringType(),
        "partition": t.IntegerType(), "offset": t.LongType(), "timestamp": t.TimestampType(),
    }  # fmt: skip
    if errors:
        types["_error"] = ERROR
    return t.StructType([t.StructField(name, kind) for name, kind in types.items()])


def decode(options, batch, value=None, key=None):
    formats = Formats.parse(options)
    decoder = formats.decoder(schema_of(value, key, errors=formats.bad_rows == "column"))
    return pickle.loads(pickle.dumps(decoder)).decode(batch)


def test_nothing_asked_for_leaves_bytes():
    formats = Formats.parse({"subscribe": "clicks", "valueFormat": "raw"})
    assert formats.is_plain
    assert formats.ddl({"key": "BINARY"}) == "`key` BINARY"


def test_column_types():
    options = {"VALUEFORMAT": "JSON", "valueSchema": "user STRING, n INT", "keyFormat": "text"}
    assert Formats.parse(options).ddl({"key": "BINARY", "value": "BINARY", "topic": "STRING"}) == (
        "`key` STRING, `value` STRUCT<user STRING, n INT>, `topic` STRING, "
        "`_error` STRUCT<column: STRING, reason: STRING, bytes: BINARY>"
    )


@pytest.mark.parametrize(
    "one", ["INT", "ARRAY<STRUCT<a: INT>>", "DECIMAL(9, 2)", "map<string, int>"]
)
def test_a_type_by_itself_is_the_type_of_the_column(one):
    options = {"valueFormat": "json", "valueSchema": one, "badRows": "fail"}
    assert Formats.parse(options).ddl({"value": "BINARY"}) == f"`value` {one}"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"valueFormat": "xml"}, "valueFormat is 'xml': it can be json, avro, text, raw"),
        ({"valueFormat": "json"}, "valueFormat json needs a schema: set valueSchema"),
        ({"keyFormat": "avro"}, "keyFormat avro needs a schema: set keySchema, as Avro JSON"),
        ({"valueSchema": "a INT"}, "valueSchema needs valueFormat to be json or avro: it is raw"),
        ({"valueFormat": "json", "valueSchema": '{"type": "int"}'}, "is DDL"),
        ({"valueFormat": "json", "valueSchema": "a INT, b STRNG"}, "valueSchema has no type in 'b STRNG': did you mean STRING?"),
        ({"valueFormat": "json", "valueSchema": "a ARRAY<STRUCT<b: NUMBER>>"}, "has no type in 'b NUMBER'"),
        ({"valueFormat": "json", "valueSchema": "user"}, "has no type in 'user': write it as user STRING, clicks INT"),
        ({"valueFormat": "avro", "valueSchema": "a INT"}, "valueSchema is no Avro schema in JSON"),
        ({"valueFormat": "avro", "valueSchema": '"blob"'}, "valueSchema is no Avro schema: "),
        ({"valueFormat": "avro", "valueSchema": '["int", "string"]'}, 'a union of ["int", "string"] has no column type'),
        ({**JSON, "badRows": "drop"}, "badRows is 'drop': it can be column, fail, topic"),
        ({**JSON, "badRows": "topic"}, "name the topic that takes bad rows as deadLetterTopic"),
        ({**JSON, "includeBytes": "yes"}, "includeBytes is 'yes': it can be true, false"),
        ({**JSON, "schemaRegistryUrl": "http://x"}, "schemaRegistryUrl is not supported yet"),
    ],
)  # fmt: skip
def test_options_that_cannot_be(options, sentence):
    with pytest.raises(FormatError) as told:
        Formats.parse(options)
    assert sentence in str(told.value)


@pytest.mark.parametrize(
    "schema",
    [
        "a: INT, b: ARRAY<STRUCT<c: DECIMAL(10,2), d MAP<STRING, array<int>>>> NOT NULL COMMENT 'x, y STRNG'",
        '`a b, INT` DATE, c string comment "it\'s", d INTERVAL DAY TO SECOND, e VARCHAR(10)',
        "a STRUCT<>",
    ],
)
def test_what_ddl_may_have(schema):
    (column,) = Formats.parse({"valueFormat": "json", "valueSchema": schema}).columns
    assert column.ddl == f"STRUCT<{schema}>"


def test_an_avro_type_that_contains_itself():
    node = {
        "type": "record",
        "name": "Node",
        "fields": [{"name": "next", "type": ["null", "Node"]}],
    }
    with pytest.raises(FormatError, match="the type Node contains itself"):
        Formats.parse({"valueFormat": "avro", "valueSchema": json.dumps(node)})


def test_bad_rows_stay_with_the_reason_and_their_bytes():
    done = decode(JSON, records(b'{"user": "ann", "n": 1}', b"{", None), CLICK)
    assert done.rejected is None
    assert done.batch.schema.names == [*BASE, "_error"]
    rows = done.batch.to_pylist()
    assert rows[0]["value"] == {"user": "ann", "n": 1}
    assert rows[0]["_error"] is None
    assert rows[1]["value"] is None
    assert rows[1]["_error"]["column"] == "value"
    assert rows[1]["_error"]["bytes"] == b"{"
    assert "is no JSON" in rows[1]["_error"]["reason"]
    assert (rows[2]["value"], rows[2]["_error"]) == (None, None)
    assert [row["offset"] for row in rows] == [100, 101, 102]


def test_bad_rows_go_to_the_dead_letter_topic():
    options = {**JSON, "deadLetterTopic": "clicks-bad"}
    done = decode(
        options, records(b'{"n": 1}', b"oops", b'{"n": 2}', keys=[b"a", b"b", b"c"]), CLICK
    )
    assert done.batch.column("offset").to_pylist() == [100, 102]
    assert "_error" not in done.batch.schema.names
    [row] = done.rejected.to_pylist()
    headers = {header["key"]: header["value"].decode() for header in row["headers"]}
    assert (row["topic"], row["key"], row["value"]) == ("clicks-bad", b"b", b"oops")
    assert headers.pop("barnabas.reason").startswith("is no JSON")
    assert headers == {
        "barnabas.column": "value",
        "barnabas.topic": "clicks",
        "barnabas.partition": "3",
        "barnabas.offset": "101",
    }


def test_rows_have_their_bytes_too_if_that_is_asked_for():
    came = [b'{"n":  1, "more": 2}', b"oops", None]
    done = decode({**JSON, "includeBytes": "true"}, records(*came, keys=[b"a", None, b"c"]), CLICK)
    assert done.batch.schema.names == [*BASE, "_bytes", "_error"]
    kept = [row["_bytes"] for row in done.batch.to_pylist()]
    assert [each["value"] for each in kept] == came
    assert [each["key"] for each in kept] == [b"a", None, b"c"]
    good = decode({**JSON, "includeBytes": "true", "deadLetterTopic": "bad"}, records(*came), CLICK)
    assert [row["_bytes"]["value"] for row in good.batch.to_pylist()] == [came[0], None]


def test_a_dead_letter_keeps_the_headers_of_its_record():
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    batch = records(b"oops").append_column(
        "headers", pa.array([[{"key": "trace", "value": b"7"}]], kind)
    )
    [row] = decode({**JSON, "deadLetterTopic": "bad"}, batch, CLICK).rejected.to_pylist()
    assert row["headers"][0] == {"key": "trace", "value": b"7"}
    assert row["headers"][1]["key"] == "barnabas.reason"


def test_a_bad_row_ends_the_query_if_that_is_asked_for():
    with pytest.raises(
        FormatError, match="the value of the record at offset 101 of clicks-3 is no JSON"
    ):
        decode({**JSON, "badRows": "fail"}, records(b"{}", b"x"), CLICK)


def test_text_keys():
    done = decode(
        {"keyFormat": "text"},
        records(b"1", b"2", keys=["Zoë".encode(), b"\xff"]),
        key=t.StringType(),
    )
    assert done.batch.column("key").to_pylist() == ["Zoë", None]
    assert (
        done.batch.column("_error").to_pylist()[1]["reason"] == "is no UTF-8 text: byte 0 is 0xff"
    )


def avro_bytes(value):
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(AVRO), value)
    return out.getvalue()


def test_avro():
    options = {"valueFormat": "avro", "valueSchema": json.dumps(AVRO)}
    assert f"`value` {AVRO_DDL}" in Formats.parse(options).ddl(BASE)
    kind = t.StructType(
        [
            t.StructField("id", t.LongType()),
            t.StructField("state", t.StringType()),
            t.StructField("before", t.StringType()),
            t.StructField("at", t.TimestampType()),
            t.StructField("price", t.DecimalType(9, 2)),
            t.StructField(
                "lines", t.ArrayType(t.StructType([t.StructField("sku", t.StringType())]))
            ),
            t.StructField("tags", t.MapType(t.StringType(), t.IntegerType())),
            t.StructField("ref", t.StringType()),
        ]
    )
    order = {
        "id": 7, "state": "PAID", "before": None, "at": datetime(2026, 11, 16, tzinfo=UTC), "price": Decimal("1.50"),
        "lines": [{"sku": "x"}], "tags": {"a": 1}, "ref": "6b0f1c1e-0000-4000-8000-000000000000",
    }  # fmt: skip
    whole = avro_bytes(order)
    done = decode(options, records(whole, whole[:-3], whole + b"!", b"\0\0\0\0\x2a" + whole), kind)
    rows = done.batch.to_pylist()
    assert rows[0]["value"] == {**order, "tags": [("a", 1)]}
    reasons = [row["_error"] and row["_error"]["reason"] for row in rows]
    assert reasons[0] is None
    assert reasons[1].startswith("is no value of the Avro schema")
    assert reasons[2] == "has 1 bytes after the value of the Avro schema"
    assert "mark of a schema registry (id 42)" in reasons[3]


def test_avro_that_no_column_can_hold():
    """Decoded, but larger than the schema says: a bad row, and its neighbours are read."""
    price = {"type": "bytes", "logicalType": "decimal", "precision": 3, "scale": 2}
    options = {"valueFormat": "avro", "valueSchema": json.dumps(price)}
    bad, cut = b"\x06\x01\x00\x00", b"\x06\x01"
    done = decode(options, records(b"\x02\x7b", bad, cut), t.DecimalType(3, 2))
    assert done.batch.column("value").to_pylist() == [Decimal("1.23"), None, None]
    errors = [each and each["reason"] for each in done.batch.column("_error").to_pylist()]
    assert errors[0] is None
    assert errors[1].startswith("does not fit its type: ")
    assert errors[2].removeprefix("is no value of the Avro schema: ")
