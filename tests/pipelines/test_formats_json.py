"""JSON values: what fits, what does not and why; the quick way gives what the careful one gives."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import types as t
from pyspark.sql.pandas.types import to_arrow_type

from barnabas.pipelines.json_values import (
    Misfit,
    converter,
    is_shared,
    read_each,
    read_json,
    read_together,
)

CLICK = t.StructType(
    [
        t.StructField("user", t.StringType()),
        t.StructField("clicks", t.IntegerType()),
        t.StructField("share", t.DoubleType()),
        t.StructField("seen", t.BooleanType()),
        t.StructField("pages", t.ArrayType(t.LongType())),
        t.StructField("where", t.StructType([t.StructField("city", t.StringType())])),
    ]
)


def arrow(kind):
    return to_arrow_type(kind, timezone="UTC")


def column(*texts):
    return pa.array(
        [text.encode() if isinstance(text, str) else text for text in texts], pa.binary()
    )


def values(kind, *texts):
    found, reasons = read_json(column(*texts), kind, arrow(kind))
    return found.to_pylist(), reasons


def test_fields_missing_null_or_unknown():
    found, reasons = values(
        CLICK, '{"user": "ann", "more": [1]}', None, ' {"clicks":3,"user":null}\n'
    )
    assert reasons == {}
    assert found[0]["user"] == "ann"
    assert found[0]["clicks"] is None
    assert found[1] is None
    assert (found[2]["user"], found[2]["clicks"]) == (None, 3)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "is no JSON: Expecting value"),
        ("{", "is no JSON: Expecting property name"),
        ("[]", "expected an object, found []"),
        ('{"clicks": 1.5}', "clicks: expected INT, found 1.5"),
        ('{"clicks": 3000000000}', "clicks: expected INT, found 3000000000"),
        ('{"clicks": true}', "clicks: expected INT, found true"),
        ('{"user": 5}', "user: expected STRING, found 5"),
        ('{"where": {"city": 1}}', "where: city: expected STRING, found 1"),
        ('{"pages": [1, "x"]}', 'pages: expected BIGINT, found "x"'),
        ('{"clicks": NaN}', "clicks: expected INT, found NaN"),
        ('{"user": "a"} {"user": "b"}', "is no JSON: Extra data"),
        ('{"user": "\\ud800"}', "does not fit its type: "),
        (b'{"user": "\xff"}', "is no UTF-8 text: byte 10 is 0xff"),
        (b"\x00\x00\x00\x00\x11{}", "the mark of a schema registry (id 17)"),
    ],
)
def test_a_row_that_does_not_fit_is_told_and_its_neighbours_are_read(text, reason):
    found, reasons = values(CLICK, '{"clicks": 1}', text, '{"clicks": 2}')
    assert list(reasons) == [1]
    assert reason in reasons[1]
    assert [row and row["clicks"] for row in found] == [1, None, 2]


def test_texts_that_would_join_to_others_are_no_neighbours_of_theirs():
    found, reasons = values(CLICK, '{"clicks": 1', ',"user": "x"} {"clicks": 2}', '{"clicks": 3}')
    assert sorted(reasons) == [0, 1]
    assert found[2]["clicks"] == 3


def test_bad_rows_far_apart_are_found_where_they_are():
    bad = {5, 700, 701, 1999}
    texts = ["[" if row in bad else f'{{"clicks": {row}}}' for row in range(2000)]
    found, reasons = values(CLICK, *texts)
    assert set(reasons) == bad
    assert [row and row["clicks"] for row in found] == [
        None if n in bad else n for n in range(2000)
    ]


def test_every_other_type():
    kind = t.StructType(
        [
            t.StructField("price", t.DecimalType(6, 2)),
            t.StructField("day", t.DateType()),
            t.StructField("at", t.TimestampType()),
            t.StructField("raw", t.BinaryType()),
            t.StructField("tags", t.MapType(t.StringType(), t.ShortType())),
        ]
    )
    text = '{"price": 12.30, "day": "2026-11-16", "at": "2026-11-16T10:00:00+02:00", "raw": "AAE=", "tags": {"a": 1}}'
    found, reasons = values(kind, text, '{"price": "99999.99"}', '{"at": "2026-11-16T10:00:00"}')
    assert found[0] == {
        "price": Decimal("12.30"),
        "day": date(2026, 11, 16),
        "at": datetime(2026, 11, 16, 8, tzinfo=UTC),
        "raw": b"\0\1",
        "tags": [("a", 1)],
    }
    assert reasons == {1: 'price: expected DECIMAL(6,2), found "99999.99"'}
    assert found[2]["at"] == datetime(2026, 11, 16, 10, tzinfo=UTC)


def test_what_must_not_be_null():
    kind = t.StructType([t.StructField("id", t.LongType(), nullable=False)])
    assert values(kind, "{}", '{"id": 1}')[1] == {0: "id: is missing and must not be"}


def test_a_type_by_itself():
    assert values(t.ArrayType(t.IntegerType()), "[1, null]")[0] == [[1, None]]
    assert values(t.DoubleType(), "2", '"x"') == ([2.0, None], {1: 'expected DOUBLE, found "x"'})


def test_a_type_that_json_cannot_be():
    with pytest.raises(Misfit, match="MAP is read from JSON with STRING keys only"):
        converter(t.MapType(t.LongType(), t.LongType()))


FIELD_VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**40), 2**40), st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=5), st.lists(st.integers(-5, 5), max_size=3), st.dictionaries(st.sampled_from(["city", "x"]), st.text(max_size=3)),
)  # fmt: skip
OBJECTS = st.dictionaries(st.sampled_from([*CLICK.names, "other"]), FIELD_VALUES, max_size=4)


@given(st.lists(st.one_of(st.none(), OBJECTS.map(json.dumps), st.text(max_size=4)), max_size=5))
def test_the_quick_way_gives_what_the_careful_one_gives(texts):
    assert is_shared(CLICK)
    quick = read_together(column(*texts), arrow(CLICK))
    careful, reasons = read_each(column(*texts), CLICK, arrow(CLICK))
    if quick is not None:
        assert reasons == {}
        assert quick.equals(careful)


@given(st.lists(OBJECTS.map(json.dumps), min_size=1, max_size=5))
def test_the_quick_way_takes_whatever_fits(texts):
    _careful, reasons = read_each(column(*texts), CLICK, arrow(CLICK))
    if not reasons:
        assert read_together(column(*texts), arrow(CLICK)) is not None


MOMENTS = t.StructType(
    [
        t.StructField("at", t.TimestampType()),
        t.StructField("others", t.ArrayType(t.TimestampType())),
        t.StructField("stay", t.StructType([t.StructField("until", t.TimestampType())])),
    ]
)
ODD_TIMES = (
    "0000-01-01T00:00:00Z", "0000-12-31T23:59:59-23:59", "0001-01-01T00:00:00+10:00", "9999-12-31T23:59:59-10:00", "2026-11-16", "2026-11-16 12:00", "2026-11-16T12Z",
    "20261116T120000Z", "2026-11-16T12:00:00.1234567Z", "2026-11-16T12:00:00.Z", "2026-11-16T12:00:00,5Z", "2026-11-16T12:00:00+02:60", "2026-11-16T24:00:00Z", "2026-02-30", "",
)  # fmt: skip
TIMES = st.one_of(
    st.none(), st.integers(0, 2**40), st.sampled_from(ODD_TIMES),
    st.datetimes().map(lambda each: each.isoformat()), st.datetimes(timezones=st.timezones()).map(lambda each: each.isoformat()),
)  # fmt: skip
WITH_TIMES = st.fixed_dictionaries(
    {},
    optional={
        "at": TIMES,
        "others": st.lists(TIMES, max_size=2),
        "stay": st.fixed_dictionaries({"until": TIMES}),
    },
)


@given(st.lists(WITH_TIMES.map(json.dumps), max_size=3))
def test_times_are_the_same_both_ways(texts):
    quick = read_together(column(*texts), arrow(MOMENTS))
    careful, reasons = read_each(column(*texts), MOMENTS, arrow(MOMENTS))
    if quick is not None:
        assert reasons == {}
        assert quick.equals(careful)


@pytest.mark.parametrize("time", ["2026-11-16T12:00:00.003Z", "2026-11-16T12:00:00+02:00", "2026-11-16T12:00:00"])  # fmt: skip
def test_times_as_programs_write_them_go_the_quick_way(time):
    assert is_shared(MOMENTS)
    assert read_together(column(json.dumps({"at": time})), arrow(MOMENTS)) is not None


@settings(max_examples=20)
@given(st.lists(st.tuples(st.integers(0, 4999), st.sampled_from(["{", "null", "[1]", '{"clicks": "x"}', ' {"clicks": 1} ', None])), max_size=6))  # fmt: skip
def test_many_with_a_few_that_are_unusual(unusual):
    texts = [f'{{"clicks": {number}}}' for number in range(5000)]
    for place, text in unusual:
        texts[place] = text
    found, reasons = read_json(column(*texts), CLICK, arrow(CLICK))
    careful, expected = read_each(column(*texts), CLICK, arrow(CLICK))
    assert reasons == expected
    assert found.equals(careful)
