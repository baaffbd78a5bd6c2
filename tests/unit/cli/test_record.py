import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.cli.record import (
    Draft,
    Record,
    compile_format,
    draft_from_json,
    record_to_json,
    unescape,
)

RECORD = Record(
    topic="orders",
    partition=3,
    offset=42,
    timestamp=1_700_000_000_000,
    timestamp_type="CreateTime",
    key=b"k1",
    value=b"val",
    headers=(("a", b"1"), ("b", None), ("a", b"2")),
)
EMPTY = Record("orders", 0, 0, None, None, None, None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"%t/%p/%o\n", b"orders/3/42\n"),
        ("%k=%s", b"k1=val"),
        ("%K %S %T", b"2 3 1700000000000"),
        ("%h", b"a=1,b=~,a=2"),
        ("%R", b"\x00\x00\x00\x03"),
        (r"100%% \t \\ \x41 \0", b"100% \t \\ A \0"),
        ("é%pé", "é3é".encode()),
        ("", b""),
    ],
)
def test_format_strings_are_kcats(text, expected):
    assert compile_format(text, b"~")(RECORD) == expected


def test_null_prints_as_the_marker_and_counts_minus_one():
    assert compile_format("%k|%s|%K|%S|%T|%h", b"NULL")(EMPTY) == b"NULL|NULL|-1|-1|-1|"
    assert compile_format("%R")(EMPTY) == b"\xff\xff\xff\xff"


@pytest.mark.parametrize("text", ["%q", "100%", r"\q", "\\"])
def test_unknown_letters_are_refused_with_those_there_are(text):
    with pytest.raises(ValueError, match="there are"):
        compile_format(text)


def test_bytes_of_a_value_are_not_touched():
    assert compile_format("%s")(Record("t", 0, 0, 1, None, None, b"%s\\n\xff")) == b"%s\\n\xff"


@pytest.mark.parametrize(
    ("text", "expected"),
    [(r"\t", b"\t"), (r"\x1f", b"\x1f"), ("::", b"::"), (r"\0", b"\0"), ("é", "é".encode())],
)
def test_separators_may_be_written_with_escapes(text, expected):
    assert unescape(text) == expected


def test_json_keys_are_stable():
    assert record_to_json(RECORD) == {
        "topic": "orders",
        "partition": 3,
        "offset": 42,
        "timestamp": 1_700_000_000_000,
        "timestamp_type": "CreateTime",
        "key": "k1",
        "value": "val",
        "headers": [
            {"key": "a", "value": "1"},
            {"key": "b", "value": None},
            {"key": "a", "value": "2"},
        ],
    }


def test_bytes_that_are_not_text_are_marked_base64():
    shown = record_to_json(Record("t", 0, 0, 1, "CreateTime", b"\xff\x00", b"ok"))
    assert shown["key"] == {"base64": "/wA="}
    assert shown["value"] == "ok"


maybe_bytes = st.none() | st.binary(max_size=40)


@given(
    key=maybe_bytes,
    value=maybe_bytes,
    headers=st.lists(st.tuples(st.text(max_size=5), maybe_bytes), max_size=3),
)
def test_what_consume_prints_produce_reads(key, value, headers):
    record = Record("t", 2, 7, 99, "CreateTime", key, value, tuple(headers))
    line = json.dumps(record_to_json(record)).encode()
    assert draft_from_json(line) == Draft(key, value, tuple(headers), partition=2, timestamp=99)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b'{"value": "v"}', Draft(None, b"v")),
        (b'{"value": null, "key": "k"}', Draft(b"k", None)),
        (b'{"value": {"a": [1, "\xc3\xa9"]}}', Draft(None, '{"a":[1,"é"]}'.encode())),
        (b'{"value": 7, "key": true}', Draft(b"true", b"7")),
        (
            b'{"value": "", "headers": {"h": "1", "n": null}}',
            Draft(None, b"", (("h", b"1"), ("n", None))),
        ),
    ],
)
def test_json_lines_people_write(line, expected):
    assert draft_from_json(line) == expected


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"hello", "not JSON"),
        (b"[1]", "not a JSON object but list"),
        (b"{}", 'no "value"'),
        (b'{"value": {"base64": "a"}}', "bad base64 'a'"),
        (b'{"value": "v", "partition": -1}', '"partition" must be'),
        (b'{"value": "v", "timestamp": "now"}', '"timestamp" must be'),
        (b'{"value": "v", "partition": true}', '"partition" must be'),
        (b'{"value": "v", "headers": [1]}', '"headers" must be'),
        (b"\xff", "not JSON"),
    ],
)
def test_json_lines_that_are_no_records_say_why(line, why):
    with pytest.raises(ValueError, match=why):
        draft_from_json(line)
