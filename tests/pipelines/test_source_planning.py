"""How far a trigger goes and how its ranges are cut: against the rules of Spark's `kafka` format."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.model.ids import TopicPartition
from barnabas.pipelines.planning import (
    Range,
    check_losses,
    count_new,
    limit_offsets,
    limit_weights,
    plan,
)
from barnabas.pipelines.problem import PipelineProblem

A, B, C = (TopicPartition("t", each) for each in range(3))


def test_one_task_for_each_partition_that_has_something():
    assert plan({A: 5, B: 7}, {B: 7, A: 9, C: 2}, None, None) == [Range(A, 5, 9), Range(C, 0, 2)]


def test_large_partitions_are_cut_until_there_are_enough_tasks():
    assert plan({A: 0}, {A: 10}, 3, None) == [Range(A, 0, 3), Range(A, 3, 6), Range(A, 6, 10)]
    pieces = plan({A: 0, B: 0}, {A: 1, B: 100}, 4, None)
    assert [each.partition for each in pieces] == [A, B, B, B]


def test_tasks_hold_no_more_records_than_allowed():
    assert [each.size for each in plan({A: 0}, {A: 10}, None, 4)] == [3, 3, 4]


def test_a_trigger_takes_from_each_partition_in_proportion():
    start, latest = {A: 0, B: 0}, {A: 300, B: 100}
    assert limit_offsets(start, latest, 40) == {A: 30, B: 10}
    assert limit_offsets(start, latest, 400) == latest


def test_a_small_partition_is_not_starved():
    assert limit_offsets({A: 0, B: 0}, {A: 1_000_000, B: 1}, 10) == {A: 9, B: 1}


def test_partitions_that_shrank_are_left_as_they_are():
    assert limit_offsets({A: 10, B: 0}, {A: 5, B: 100}, 10) == {A: 5, B: 10}


def test_bytes_are_offsets_by_their_weight():
    assert limit_weights({A: 0, B: 0}, {A: 100, B: 100}, {A: 10.0, B: 30.0}, 400) == {A: 10, B: 10}


def test_new_partitions_count_from_their_start():
    assert count_new({A: 5}, {A: 7, B: 3}) == 5


def test_losses_fail_the_query_unless_told_otherwise():
    with pytest.raises(PipelineProblem, match="t-1 is gone; t-0 ended at 9 and ends at 4 now"):
        check_losses({A: 9, B: 3}, {A: 4}, fails=True)
    check_losses({A: 9, B: 3}, {A: 4}, fails=False)
    check_losses({A: 9}, {A: 9, B: 1}, fails=True)


offsets = st.integers(0, 1000)
partitions = st.sampled_from([TopicPartition(topic, n) for topic in "ab" for n in range(3)])


@given(
    st.dictionaries(partitions, offsets),
    st.dictionaries(partitions, offsets),
    st.none() | st.integers(1, 20),
    st.none() | st.integers(1, 50),
)
def test_every_offset_is_in_exactly_one_task_and_always_in_the_same(start, end, least, most):
    pieces = plan(start, end, least, most)
    assert pieces == plan(dict(reversed(start.items())), dict(reversed(end.items())), least, most)
    read = {}
    for each in pieces:
        assert each.size > 0
        assert most is None or each.size <= most
        assert read.get(each.partition, start.get(each.partition, 0)) == each.start
        read[each.partition] = each.end
    expected = {each: until for each, until in end.items() if until > start.get(each, 0)}
    assert read == expected


@given(
    st.dictionaries(partitions, offsets),
    st.dictionaries(partitions, offsets),
    st.integers(1, 500),
)
def test_a_limited_trigger_moves_on_and_stays_within(start, latest, limit):
    ends = limit_offsets(start, latest, limit)
    assert set(ends) == set(latest)
    for each, end in ends.items():
        begin = start.get(each, 0)
        assert end <= latest[each]
        assert end > begin or latest[each] <= begin
    assert count_new(start, ends) <= max(limit, len(latest))
