"""Lag: what is known about each partition and what the whole group adds up to."""

import pytest

from barnabas.cli.group_lag import PartitionLag, Stamp, seconds_between, total_lag
from barnabas.cli.group_view import Bounds, Committed, Place

PLACE = Place("orders", 0)


def partition(offset, end, lag_seconds):
    committed = None if offset is None else Committed(PLACE, offset, None, "")
    return PartitionLag(PLACE, committed, None if end is None else Bounds(0, end), lag_seconds)


@pytest.mark.parametrize(
    ("offset", "end", "lag"), [(3, 10, 7), (10, 10, 0), (12, 10, 0), (None, 10, None), (3, None, None)]
)  # fmt: skip
def test_lag_in_records(offset, end, lag):
    assert partition(offset, end, None).lag == lag


@pytest.mark.parametrize(
    ("first", "newest", "seconds"),
    [
        (Stamp(3, 1_000), Stamp(9, 3_500), 2.5),
        (Stamp(3, 1_000), Stamp(3, 1_000), 0.0),
        (Stamp(3, 5_000), Stamp(9, 1_000), 0.0),  # the producers' clocks disagree
        (None, None, 0.0),  # only markers are left
        (Stamp(3, None), Stamp(9, 1_000), None),
        (Stamp(3, 1_000), None, None),
    ],
)
def test_lag_in_seconds(first, newest, seconds):
    assert seconds_between(first, newest) == seconds


def test_the_total_is_the_sum_of_records_and_the_most_seconds():
    known = [partition(3, 10, 1.5), partition(1, 5, 0.5), partition(None, 7, None)]
    assert total_lag(known) == (11, 1.5)
    assert total_lag([partition(None, 7, None)]) == (None, None)
    assert total_lag([]) == (None, None)
