"""Run with `pytest` in this folder."""

import json

import functions
import generate
import memory
import pytest

from barnabas.pipelines.whole_topic import TopicRecord


@pytest.fixture(scope="session")
def spark():
    from barnabas.pipelines import session

    running = session("commitlog tests", master="local[2]", quick=True)
    yield running
    running.stop()


COLUMNS = "key BINARY, value BINARY, headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
POSITION = [("position", b"18")]
GOOD = [
    (b'["t", 7]', b'{"position": 18, "schema": 2, "row": {"id": 7}}', None),
    (b'["t", 7, "x"]', None, POSITION),
    (b'["t", {"schema": 2}]', b'{"position": 17, "columns": []}', None),
]
BAD = [
    (None, b'{"position": 1, "schema": 1, "row": {}}', None),
    (b"\xff", b"{}", None),
    (b'["t", 1]', b'{"position": 1, "schema": 1, "row": {"a": "\xc3"}}', None),
    (b'["t", 1]', b'{"position": 1, "schema": 1, "row": {"a": "\0"}}', None),
    (b"7", b'{"position": 1, "schema": 1}', None),
    (b'["t"]', b'{"position": 1, "schema": 1}', None),
    (b'["t", 1', b'{"position": 1, "schema": 1}', None),
    (b'["", 1]', b'{"position": 1, "schema": 1}', None),
    (b'["\\u0000", 1]', b'{"position": 1, "schema": 1}', None),
    (b'["' + b"x" * 64 + b'", 1]', b'{"position": 1, "schema": 1}', None),
    (b'["t", 1]', b'{"position": 1, "schema": 1, "row": ', None),
    (b'["t", 1]', b'{"schema": 1, "row": {}}', None),
    (b'["t", 1]', b'{"position": "soon", "schema": 1, "row": {}}', None),
    (b'["t", 1]', b'{"position": 1, "row": {}}', None),
    (b'["t", 1]', b"", None),
    (b'["t", 1]', None, None),
    (b'["t", 1]', None, [("position", b"x")]),
    (b'["t", {"schema": 2}]', None, POSITION),
]


def test_records_are_read_as_changes(spark):
    read = functions.changes(spark.createDataFrame(GOOD, COLUMNS))
    found = read.select("kind", "table", "version", "position", "_error").collect()
    assert [tuple(each) for each in found] == [
        ("row", "t", 2, 18, None),
        ("delete", "t", None, 18, None),
        ("schema", "t", 2, 17, None),
    ]
    sent = functions.for_target(read).collect()
    assert [each.value for each in sent] == [
        None if each[1] is None else each[1].decode() for each in GOOD
    ]


def test_what_is_no_change_says_why(spark):
    read = functions.changes(spark.createDataFrame(BAD, COLUMNS))
    found = read.select("key", "value", "_error.reason").collect()
    assert [each[:2] for each in found if each.reason is None] == []


def test_memory_has_what_the_database_has():
    database, remembered = generate.Database(), memory.Memory("127.0.0.1:1")
    made = list(generate.work(database, 5, 400))
    for each in [*made, *made[:200]]:  # what is sent again is older, and changes nothing
        value = None if each.value is None else each.value.encode()
        remembered.take(TopicRecord(each.key.encode(), value, [*each.headers], 0, 0))
    remembered.take(TopicRecord(b"no JSON", b"", [], 0, 0))
    for table, rows in database.rows.items():
        assert rows
        assert remembered.table(table) == {(number,): row for number, row in rows.items()}


def test_generated_changes_are_the_same_for_the_same_seed():
    made = list(generate.events(1, 300))
    assert made == list(generate.events(1, 300)) != list(generate.events(2, 300))
    schemas = [json.loads(each.key) for each in made if "schema" in each.key]
    assert len(schemas) == 6
