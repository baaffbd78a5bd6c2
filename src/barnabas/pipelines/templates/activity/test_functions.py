"""Run with `pytest` in this folder."""

import random
from datetime import UTC, datetime, timedelta

import functions
import generate
import pytest
from functions import GAP_MS, Event
from pyspark.sql import functions as F

MINUTE_MS = 60_000


@pytest.fixture(scope="session")
def spark():
    from barnabas.pipelines import session

    running = session("activity tests", master="local[2]", quick=True)
    yield running
    running.stop()


def view(minutes, page="/"):
    return Event(round(minutes * MINUTE_MS), "view", page)


def test_a_session_ends_when_nothing_happens_for_a_time():
    events = [view(0), view(29), view(58), view(88), view(200)]
    assert [len(each) for each in functions.split(events)] == [3, 1, 1]
    assert functions.split([]) == []


def test_the_order_of_events_does_not_matter():
    events = [view(each) for each in (0, 10, 45, 46, 70, 101, 131)]
    expected = functions.split(events)
    for seed in range(20):
        shuffled = random.Random(seed).sample(events, len(events))
        assert functions.split(shuffled) == expected


def test_a_session_is_summed_up():
    session = [
        view(0),
        Event(MINUTE_MS, "click", "/"),
        view(2, "/product/7"),
        Event(3 * MINUTE_MS, "search", ""),
    ]
    found = functions.summary("ann", session)
    assert found == {
        "visitor": "ann", "started": 0, "ended": 3 * MINUTE_MS, "seconds": 180.0,
        "views": 2, "clicks": 1, "searches": 1, "pages": ["/", "/product/7"], "depth": 1,
    }  # fmt: skip


def test_pages_have_their_place_in_the_funnel():
    places = [
        functions.depth_of(each)
        for each in ("/", "/product/1", "/cart", "/checkout", "/thanks", "")
    ]
    assert places == [0, 1, 2, 3, 4, 0]


def test_events_have_one_form_and_who_and_when(spark):
    at = datetime(2026, 1, 1, 23, 30, tzinfo=UTC)
    rows = [
        (("ann", at, "/", None, None, None), "page-views", None),
        (("ann", at, "/", "buy", None, None), "clicks", None),
        (("ann", at, None, None, "lamp", 3), "searches", None),
        (("", at, "/", None, None, None), "page-views", None),
        (("bo", None, "/", None, None, None), "page-views", None),
        (("bo", at + timedelta(seconds=30), "/later", None, None, None), "page-views", None),
        (("bo", at + timedelta(seconds=31), "/", None, None, None), "page-views", None),
        (None, "page-views", None),
        (None, "page-views", ("value", "is no JSON", b"{")),
    ]
    columns = (
        f"value STRUCT<{functions.EVENT.replace(' ', ': ').replace(',:', ',')}>, topic STRING, "
    )
    frame = spark.createDataFrame(
        rows, columns + "_error STRUCT<column: STRING, reason: STRING, bytes: BINARY>"
    )
    checked = functions.checked(frame.withColumn("timestamp", F.lit(at)))
    reasons = [each.reason for each in checked.select("_error.reason").collect()]
    assert reasons == [None] * 3 + [
        "'visitor' is missing",
        "'at' is missing",
        None,
        "'at' is in the future",
        "it has no value",
        "is no JSON",
    ]
    good = (
        functions.by_hour(functions.typed(checked.where("_error IS NULL")))
        .orderBy("kind", "page")
        .collect()
    )
    assert [(each.kind, each.page, each.detail) for each in good] == [
        ("click", "/", "buy"), ("search", "", "lamp"), ("view", "/", None), ("view", "/later", None),
    ]  # fmt: skip
    assert len({each.hour for each in good}) == 1


def test_generated_events_come_nearly_in_order_and_are_the_same_for_the_same_seed():
    made = list(generate.visits(1, 2000))
    assert made == list(generate.visits(1, 2000))
    assert len(made) == 2000
    newest = START = datetime.fromisoformat(made[0][1]["at"])
    for _, event in made:
        at = datetime.fromisoformat(event["at"])
        assert (newest - at).total_seconds() <= generate.JITTER_S
        newest = max(newest, at)
    assert (newest - START).total_seconds() * 1000 > GAP_MS
