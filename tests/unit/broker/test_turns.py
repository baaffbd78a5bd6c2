"""One after another, in the order of asking, however many wait."""

import pytest

from barnabas.broker.turns import Turns


def taker(turns, name, taken):
    turns.take(lambda _result, _error: taken.append(name))


def test_the_first_has_it_at_once_and_the_others_in_their_order():
    turns, taken = Turns(), []
    for name in "abc":
        taker(turns, name, taken)
    assert taken == ["a"]
    turns.give()
    assert taken == ["a", "b"]
    turns.give()
    turns.give()
    assert taken == ["a", "b", "c"]
    taker(turns, "d", taken)
    assert taken[-1] == "d"


def test_thousands_who_give_at_once_do_not_recurse():
    turns, taken = Turns(), []

    def give_at_once(_result, _error):
        taken.append(len(taken))
        turns.give()

    turns.take(lambda _result, _error: None)
    for _ in range(5000):
        turns.take(give_at_once)
    turns.give()
    assert len(taken) == 5000


def test_nobody_jumps_the_queue():
    turns, taken = Turns(), []

    def ask_again(_result, _error):
        taker(turns, "again", taken)
        taken.append("b")

    turns.take(lambda _result, _error: None)
    turns.take(ask_again)
    taker(turns, "c", taken)
    turns.give()
    turns.give()
    turns.give()
    assert taken == ["b", "c", "again"]


def test_as_many_go_at_once_as_there_are_places():
    turns, went = Turns(2), []
    for name in "abcd":
        turns.take(lambda _result, _error, name=name: went.append(name))
    assert went == ["a", "b"]
    turns.give()
    assert went == ["a", "b", "c"]
    turns.give()
    turns.give()
    assert went == ["a", "b", "c", "d"]


def test_one_who_fails_with_its_turn_does_not_keep_the_others_from_theirs():
    turns, taken = Turns(), []

    def fail(_result, _error):
        raise RuntimeError("planted")

    taker(turns, "a", taken)
    turns.take(fail)
    taker(turns, "b", taken)
    with pytest.raises(RuntimeError, match="planted"):
        turns.give()
    turns.give()
    assert taken == ["a", "b"]
