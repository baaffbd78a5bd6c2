"""Where replicas should go: even, over racks, and with no move that is not needed."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.cli.spread import Impossible, Layout, Move

NO_RACKS = {1: None, 2: None, 3: None}


def after(replicas, moves):
    return {**replicas, **{move.place: move.after for move in moves}}


def counts(layout, brokers):
    having = Counter(dict.fromkeys(brokers, 0))
    first = Counter(dict.fromkeys(brokers, 0))
    for replicas in layout.values():
        having.update(replicas)
        first.update(replicas[:1])
    return having, first


def spread(racks, replicas):
    layout = Layout(racks, replicas)
    layout.spread()
    return layout.moves()


def test_what_is_even_is_left_alone():
    replicas = {("t", 0): (1, 2), ("t", 1): (2, 3), ("t", 2): (3, 1)}
    assert spread(NO_RACKS, replicas) == []


def test_a_new_broker_gets_its_share_and_no_other_replica_moves():
    replicas = {("t", n): ((1, 2), (2, 1))[n % 2] for n in range(6)}
    moves = spread(NO_RACKS, replicas)
    assert sum(len(move.adding) for move in moves) == 4
    assert {broker for move in moves for broker in move.adding} == {3}
    having, first = counts(after(replicas, moves), NO_RACKS)
    assert having == {1: 4, 2: 4, 3: 4}
    assert first == {1: 2, 2: 2, 3: 2}


def test_topics_are_spread_too():
    replicas = {("a", n): (1,) for n in range(4)} | {("b", n): (1,) for n in range(4)}
    moved = after(replicas, spread({1: None, 2: None}, replicas))
    for topic in ("a", "b"):
        assert sorted(b[0] for (t, _), b in moved.items() if t == topic) == [1, 1, 2, 2]


def test_leaders_become_even_over_others_if_need_be():
    """1 leads all of its partitions with 2, and 2 could give up one to 3."""
    replicas = {("t", 0): (1, 2), ("t", 1): (1, 2), ("t", 2): (2, 3), ("t", 3): (1, 2), ("t", 4): (3, 1), ("t", 5): (2, 3), ("t", 6): (1, 3)}  # fmt: skip
    moves = spread(NO_RACKS, replicas)
    _, first = counts(after(replicas, moves), NO_RACKS)
    assert max(first.values()) - min(first.values()) <= 1


def test_partitions_with_a_replica_that_is_away_stay():
    replicas = {("t", n): (1, 9) for n in range(5)}
    assert spread(NO_RACKS, replicas) == []


def test_a_rack_does_not_keep_all_replicas():
    racks = {1: "a", 2: "a", 3: "b", 4: "b"}
    replicas = {("t", 0): (1, 2), ("t", 1): (3, 4)}
    for brokers in after(replicas, spread(racks, replicas)).values():
        assert sorted(racks[b] for b in brokers) == ["a", "b"]


def test_a_broker_is_drained_and_its_lead_goes_to_the_idlest():
    replicas = {("t", 0): (2, 1), ("t", 1): (1, 3), ("t", 2): (1, 2), ("t", 3): (3, 2)}
    layout = Layout(NO_RACKS, replicas)
    layout.drain(2)
    moved = after(replicas, layout.moves())
    assert all(set(brokers) == {1, 3} for brokers in moved.values())
    assert moved["t", 0] == (3, 1)
    assert moved["t", 1] == (1, 3)


def test_a_broker_that_is_gone_is_drained_too():
    layout = Layout({1: None, 2: None}, {("t", 0): (1, 7)})
    layout.drain(7)
    assert layout.moves() == [Move(("t", 0), (1, 7), (1, 2))]


def test_there_must_be_somewhere_to_go():
    layout = Layout(NO_RACKS, {("t", 0): (1, 2, 3)})
    with pytest.raises(Impossible, match="t-0 would need 3 brokers, and there are only 2"):
        layout.drain(1)
    with pytest.raises(Impossible, match="would need 4"):
        Layout(NO_RACKS, {("t", 0): (1, 2, 3)}).resize("t", 4)


def test_draining_goes_to_racks_that_have_none():
    racks = {1: "a", 2: "b", 3: "a", 4: "c"}
    layout = Layout(racks, {("t", 0): (1, 2)})
    layout.drain(2)
    assert layout.moves()[0].after == (1, 4)


def test_more_and_fewer_replicas():
    replicas = {("t", 0): (1,), ("t", 1): (2,), ("other", 0): (3, 1)}
    layout = Layout(NO_RACKS, replicas)
    layout.resize("t", 2)
    grown = after(replicas, layout.moves())
    assert [grown["t", n][0] for n in (0, 1)] == [1, 2], "who leads stays"
    assert [len(grown["t", n]) for n in (0, 1)] == [2, 2]
    assert grown["other", 0] == (3, 1)
    layout = Layout(NO_RACKS, {("t", 0): (1, 2, 3), ("t", 1): (9, 1, 2)})
    layout.resize("t", 2)
    shrunk = {move.place: move.after for move in layout.moves()}
    assert shrunk["t", 0][0] == 1
    assert shrunk["t", 1] == (1, 2), "one that is away goes first"


@st.composite
def layouts(draw):
    brokers = draw(st.integers(1, 6))
    racks = {b: draw(st.sampled_from([None, "a", "b", "c"])) for b in range(1, brokers + 1)}
    replicas = {}
    for topic in draw(st.lists(st.sampled_from("abc"), unique=True, min_size=1)):
        factor = draw(st.integers(1, brokers))
        for index in range(draw(st.integers(1, 8))):
            order = draw(st.permutations(range(1, brokers + 1)))
            replicas[topic, index] = tuple(order[:factor])
    return racks, replicas


@given(layouts())
def test_whatever_it_was_it_becomes_even_and_stays_whole(given_layout):
    racks, replicas = given_layout
    moves = spread(racks, replicas)
    moved = after(replicas, moves)
    for place, brokers in moved.items():
        assert len(set(brokers)) == len(brokers) == len(replicas[place])
        assert set(brokers) <= racks.keys()
    if len(set(racks.values())) == 1:
        having, _ = counts(moved, racks)
        assert max(having.values()) - min(having.values()) <= 1
    assert spread(racks, moved) == [], "doing it again moves nothing"
