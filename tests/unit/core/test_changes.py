"""Onlookers hear of every change of their keys, once, and of no others."""

from barnabas.core.changes import Changes, Onlooker


def watching(changes, *keys):
    onlooker = Onlooker()
    changes.watch(onlooker, keys)
    return onlooker


def test_a_change_is_noted_once_with_everybody_who_looks():
    changes = Changes()
    one, other = watching(changes, "a", "b"), watching(changes, "b")
    assert list(changes.on_change("b")) == [one, other]
    changes.on_change("a")
    changes.on_change("b")
    assert one.take() == ["b", "a"], "in the order in which they first changed"
    assert one.take() == []
    assert other.take() == ["b"]


def test_a_key_that_nobody_looks_at_changes_unnoticed():
    assert list(Changes().on_change("a")) == []


def test_other_keys_take_the_place_of_those_before():
    changes = Changes()
    onlooker = watching(changes, "a", "b")
    changes.watch(onlooker, ["b", "c"])
    assert "a" not in onlooker
    assert "c" in onlooker
    for key in "abc":
        changes.on_change(key)
    assert onlooker.take() == ["b", "c"]


def test_nothing_is_kept_of_one_who_looks_at_nothing_any_more():
    changes = Changes()
    onlooker, stays = watching(changes, "a", "b"), watching(changes, "b")
    changes.watch(onlooker, ())
    assert list(changes.on_change("a")) == []
    assert list(changes.on_change("b")) == [stays]
    assert onlooker.take() == []
