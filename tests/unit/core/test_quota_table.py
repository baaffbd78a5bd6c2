"""Which limit counts: Kafka's precedence, for each kind by itself."""

import pytest

from barnabas.core.quota_table import CONNECTION, DEFAULT, FETCH, PRODUCE, Entity, QuotaTable, Share

#: From the closest to the farthest, and who shares what each of them gives.
PRECEDENCE = [
    (Entity("u", "c"), ("u", "c")),
    (Entity("u", DEFAULT), ("u", "c")),
    (Entity("u"), ("u", None)),
    (Entity(DEFAULT, "c"), ("u", "c")),
    (Entity(DEFAULT, DEFAULT), ("u", "c")),
    (Entity(DEFAULT), ("u", None)),
    (Entity(None, "c"), (None, "c")),
    (Entity(None, DEFAULT), (None, "c")),
]


@pytest.mark.parametrize("closest", range(len(PRECEDENCE)))
def test_the_closest_counts(closest):
    table = QuotaTable()
    for number, (entity, _) in enumerate(PRECEDENCE[closest:], closest):
        table.put(entity, {PRODUCE: number + 1.0})
    assert table.find(PRODUCE, "u", "c") == Share(*PRECEDENCE[closest][1], closest + 1.0)


def test_each_kind_is_looked_for_by_itself():
    table = QuotaTable()
    table.put(Entity("u", "c"), {FETCH: 1})
    table.put(Entity(None, DEFAULT), {PRODUCE: 2})
    assert table.find(PRODUCE, "u", "c") == Share(None, "c", 2)
    assert table.find(FETCH, "u", "c") == Share("u", "c", 1)
    assert table.find(FETCH, "u", "d") is None


def test_others_are_not_meant():
    table = QuotaTable()
    for entity in (Entity("x", "c"), Entity("x"), Entity(None, "d"), Entity(DEFAULT, "d")):
        table.put(entity, {PRODUCE: 1})
    assert table.find(PRODUCE, "u", "c") is None


def test_a_client_without_an_id_has_the_default():
    table = QuotaTable()
    table.put(Entity(None, DEFAULT), {PRODUCE: 5})
    assert table.find(PRODUCE, "u", "") == Share(None, "", 5)


def test_what_is_removed_limits_nobody():
    table = QuotaTable()
    assert table.put(Entity("u"), {PRODUCE: 1})
    assert not table.put(Entity("u"), {PRODUCE: 1})
    assert table.limits_clients
    assert table.put(Entity("u"), {})
    assert not table.put(Entity("u"), {})
    assert not table.limits_clients
    assert list(table.items()) == []


def test_addresses_have_limits_of_their_own():
    table = QuotaTable()
    assert table.find_address("10.0.0.1") is None
    table.put(Entity(ip=DEFAULT), {CONNECTION: 7})
    table.put(Entity(ip="10.0.0.1"), {CONNECTION: 3})
    assert table.find_address("10.0.0.1") == 3
    assert table.find_address("10.0.0.2") == 7
    assert not table.limits_clients
    assert Entity(ip="10.0.0.1").keys != Entity("u").keys
