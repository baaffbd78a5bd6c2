"""Waiting requests: woken by enough bytes, by a change, or taken out; once."""

from barnabas.core.waiting import Waiter, Waiting


def add(waiting, name, keys, missing_bytes):
    waiter = Waiter(name, keys, missing_bytes)
    waiting.add(waiter)
    return waiter


def ready(waiting):
    return [waiter.owner for waiter in waiting.take_ready()]


def test_ready_when_the_bytes_of_all_its_keys_add_up():
    waiting = Waiting()
    add(waiting, "a", ["p", "q"], 100)
    waiting.on_bytes("p", 60)
    assert ready(waiting) == []
    waiting.on_bytes("other", 60)
    assert ready(waiting) == []
    waiting.on_bytes("q", 40)
    assert ready(waiting) == ["a"]
    assert waiting.count == 0
    waiting.on_bytes("p", 100)
    assert ready(waiting) == []


def test_each_waiter_counts_for_itself_and_they_come_in_order():
    waiting = Waiting()
    add(waiting, "late", ["p"], 10)
    add(waiting, "soon", ["p"], 1)
    waiting.on_bytes("p", 5)
    waiting.on_bytes("p", 5)
    assert ready(waiting) == ["soon", "late"]


def test_a_removed_one_is_not_woken():
    waiting = Waiting()
    waiter = add(waiting, "a", ["p", "q"], 1)
    assert waiting.remove(waiter)
    assert not waiting.remove(waiter)
    waiting.on_bytes("p", 10)
    waiting.on_change("q")
    assert ready(waiting) == []


def test_a_change_wakes_everyone_on_the_key():
    waiting = Waiting()
    add(waiting, "a", ["p"], 1000)
    add(waiting, "b", ["q"], 1000)
    add(waiting, "c", ["p", "q"], 1000)
    waiting.on_change("p")
    assert ready(waiting) == ["a", "c"]
    assert waiting.count == 1


def test_nothing_is_kept_of_keys_nobody_waits_on():
    waiting = Waiting()
    waiter = add(waiting, "a", ["p", "q"], 1)
    waiting.remove(waiter)
    assert waiting._by_key == {}


def test_one_that_lacks_nothing_is_ready_and_waits_on_no_key():
    waiting = Waiting()
    waiter = add(waiting, "a", ["p"], 0)
    assert waiting.has_ready
    assert waiting.count == 0
    assert not waiting.remove(waiter)
    assert ready(waiting) == ["a"]
    assert not waiting.has_ready


def test_it_is_fed_from_the_first_bytes_until_the_ready_ones_are_taken():
    waiting = Waiting()
    assert not waiting.is_fed
    waiting.on_bytes("nobody waits here", 1)
    assert waiting.is_fed
    waiting.take_ready()
    assert not waiting.is_fed
