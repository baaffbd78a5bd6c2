"""Those whose work takes long share all places but one, and nobody else waits for them."""

import pytest

from barnabas.broker.fair_turns import SLOW_MS, FairTurns


class Kit:
    """Turns, and who has got a place, in order."""

    def __init__(self, places=2):
        self.turns = FairTurns(places)
        self.went = []

    def take(self, *names):
        for name in names:
            self.turns.take(name, lambda _result, _error, name=name: self.went.append(name))

    def give(self, name, took_ms=0):
        self.turns.give(name, took_ms)

    def make_slow(self, *names):
        for name in names:
            self.take(name)
            self.give(name, SLOW_MS)
        self.went.clear()


@pytest.fixture
def kit():
    return Kit()


def test_as_many_go_at_once_as_there_are_places_and_the_others_in_their_order(kit):
    kit.take(*"abcd")
    assert kit.went == ["a", "b"]
    kit.give("b")
    assert kit.went == ["a", "b", "c"]
    kit.give("a")
    assert kit.went == ["a", "b", "c", "d"]


def test_the_slow_leave_a_place_to_others(kit):
    kit.make_slow("x", "y", "z")
    kit.take("x", "y", "z")
    assert kit.went == ["x"]
    kit.take("a")
    assert kit.went == ["x", "a"]
    kit.give("a")
    assert kit.went == ["x", "a"]
    kit.give("x", SLOW_MS)
    assert kit.went == ["x", "a", "y"]


def test_the_slow_wait_while_anybody_else_does(kit):
    kit.make_slow("x", "y")
    kit.take(*"abc")
    kit.take("x")
    kit.give("a")
    assert kit.went == ["a", "b", "c"]
    kit.give("b")
    assert kit.went == ["a", "b", "c", "x"]


def test_who_was_quick_the_last_time_is_slow_no_more(kit):
    kit.make_slow("x", "y")
    kit.take("x")
    kit.give("x", SLOW_MS - 1)
    kit.take("y", "x")
    assert kit.went == ["x", "y", "x"]


def test_who_came_new_and_is_slow_counts_as_slow_from_the_next_on(kit):
    kit.take("x", "y")
    kit.give("x", SLOW_MS)
    kit.give("y", SLOW_MS)
    kit.take("x", "y")
    assert kit.went == ["x", "y", "x"]


def test_one_place_is_for_all(kit):
    kit = Kit(places=1)
    kit.make_slow("x")
    kit.take("x", "a")
    assert kit.went == ["x"]
    kit.give("x", SLOW_MS)
    assert kit.went == ["x", "a"]


def test_who_has_gone_is_forgotten_and_leaves_no_place_behind(kit):
    kit.make_slow("x", "y", "z")
    kit.turns.forget("x")
    kit.turns.forget("nobody")
    kit.take("y", "z", "x")
    assert kit.went == ["y", "x"]
    kit.turns.forget("y")
    kit.give("y", SLOW_MS)
    assert kit.went == ["y", "x", "z"]
    kit.give("z", SLOW_MS)
    kit.give("x")
    kit.take("z", "y")
    assert kit.went == ["y", "x", "z", "z", "y"], "what it still held has not brought it back"


def test_thousands_who_give_at_once_do_not_recurse(kit):
    went = []

    def give_at_once(number):
        went.append(number)
        kit.give(number)

    kit.take("a", "b")
    for number in range(5000):
        kit.turns.take(number, lambda _result, _error, number=number: give_at_once(number))
    kit.give("a")
    assert went == list(range(5000))


def test_one_who_fails_with_its_place_does_not_keep_the_others_from_theirs(kit):
    def fail(_result, _error):
        raise RuntimeError("planted")

    kit.take("a", "b")
    kit.turns.take("failing", fail)
    kit.take("c")
    with pytest.raises(RuntimeError, match="planted"):
        kit.give("a")
    kit.give("failing")
    assert kit.went == ["a", "b", "c"]
