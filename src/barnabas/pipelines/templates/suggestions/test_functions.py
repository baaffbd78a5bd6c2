"""The rules of suggestions, on a handful of visits."""

from datetime import UTC, datetime, timedelta

import functions as f
import pytest

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
NOON_MS = f.milliseconds(NOON)
MINUTE_MS = 60_000


def visit(product, minutes=0.0, weight=1.0):
    return f.Visit(product, round(NOON_MS + minutes * MINUTE_MS), weight)


def test_a_cart_says_more_than_a_look_and_a_long_look_more_than_a_glance():
    assert f.weight("view", 0) == 1
    assert f.weight("view", 60) == 2
    assert f.weight("view", 9999) == f.weight("view", f.SECONDS_MAX) == 3
    assert f.weight("cart", 0) == 3
    assert f.weight("view", -5) == 1


def test_products_are_paired_both_ways_as_the_weaker_visit_says():
    pairs = f.pairs_with(visit("b", 5, weight=3), [visit("a", weight=2)])
    at_ms = NOON_MS + 5 * MINUTE_MS
    assert pairs == [f.Pair("b", "a", 2, at_ms), f.Pair("a", "b", 2, at_ms)]


def test_no_product_is_its_own_neighbour_and_long_ago_is_not_together():
    assert f.pairs_with(visit("a", 5), [visit("a")]) == []
    assert f.pairs_with(visit("b", 30), [visit("a")])
    assert f.pairs_with(visit("b", 31), [visit("a")]) == []


def test_scores_halve_with_time_whatever_the_order_of_pairs():
    week_ms = f.HALF_LIFE_MS
    old = f.Pair("a", "x", 4.0, NOON_MS)
    new = f.Pair("a", "y", 1.0, NOON_MS + week_ms)
    forward, backward = {}, {}
    at_ms = f.add_pair(forward, f.add_pair(forward, 0, old), new)
    assert f.add_pair(backward, f.add_pair(backward, 0, new), old) == at_ms == NOON_MS + week_ms
    assert forward == backward == {"x": 2.0, "y": 1.0}


def test_the_best_come_first_and_equals_by_name():
    assert list(f.strongest({"c": 1.0, "a": 1.0, "b": 2.0}, 2)) == ["b", "a"]
    assert f.as_suggestions({"a": 0.5}) == '{"similar": [{"product": "a", "score": 0.5}]}'


def test_frames_weigh_as_the_rule_does(spark):
    rows = [
        ("ann", "a", "view", 30.0, NOON),
        ("ann", "b", "cart", None, NOON),
        ("bob", "a", "view", 500.0, NOON),
    ]
    weighed = (
        f.weighed(spark.createDataFrame(rows, f.VISIT)).orderBy("customer", "product").collect()
    )
    assert [row.weight for row in weighed] == [
        f.weight("view", 30),
        f.weight("cart", 0),
        f.weight("view", 500),
    ]
    assert {row.at_ms for row in weighed} == {NOON_MS}


def reasons(spark, schema, checked, *values):
    """What is wrong with each of these values, received at noon."""
    error = "_error STRUCT<column: STRING, reason: STRING, bytes: BINARY>"
    rows = [(each, NOON, None) for each in values]
    frame = spark.createDataFrame(rows, f"value STRUCT<{schema}>, timestamp TIMESTAMP, {error}")
    return [each.reason for each in checked(frame).select("_error.reason").collect()]


def test_a_visit_says_who_looked_at_what_and_when(spark):
    assert reasons(
        spark,
        f.VISIT,
        f.checked_visits,
        ("ann", "a", None, None, NOON),
        ("ann", "a", None, None, NOON + timedelta(seconds=30)),
        ("ann", "a", None, None, NOON + timedelta(seconds=31)),
        (None, "a", None, None, NOON),
        ("ann", None, None, None, NOON),
        ("ann", "a", "view", 3.0, None),
        None,
    ) == [
        None,
        None,
        "'at' is in the future",
        "'customer' is missing",
        "'product' is missing",
        "'at' is missing",
        "it has no value",
    ]


def test_a_pair_is_whole_and_has_a_weight_that_can_be_added(spark):
    assert reasons(
        spark,
        f.PAIR,
        f.checked_pairs,
        ("a", "b", 1.0, NOON_MS),
        ("a", "b", 1.0, None),
        ("a", "b", None, NOON_MS),
        (None, "b", 1.0, NOON_MS),
        ("a", None, 1.0, NOON_MS),
        ("a", "b", float("nan"), NOON_MS),
        ("a", "b", float("-inf"), NOON_MS),
    ) == [
        None,
        "'at_ms' is missing",
        "'weight' is missing",
        "'product' is missing",
        "'other' is missing",
        "'weight' is no number",
        "'weight' is no number",
    ]


@pytest.fixture(scope="module")
def spark():
    from barnabas.pipelines import session

    return session("tests", quick=True)
