"""How many connections, and how fast: in all, per listener, per address."""

import pytest
from node_kit import NodeKit

from barnabas.broker.connection_limits import ConnectionLimits, Verdict
from barnabas.core.quota_table import DEFAULT, Entity

TAKEN, REFUSED = Verdict(is_taken=True), Verdict(is_taken=False)
TWO_LISTENERS = {
    "listeners": "CLIENTS://127.0.0.1:0,BROKERS://127.0.0.1:0",
    "listener.security.protocol.map": "CLIENTS:PLAINTEXT,BROKERS:PLAINTEXT",
    "inter.broker.listener.name": "BROKERS",
}


def limits_of(**settings):
    kit = NodeKit(**settings)
    return kit, ConnectionLimits(kit.node)


def test_the_number_in_all():
    _, limits = limits_of(max_connections="2")
    assert [limits.take("L", f"10.0.0.{n}") for n in range(3)] == [TAKEN, TAKEN, REFUSED]
    limits.give("L", "10.0.0.1")
    assert limits.take("L", "10.0.0.9") == TAKEN


def test_the_number_of_an_address_and_those_that_may_have_more():
    settings = {"max.connections.per.ip": "1", "max.connections.per.ip.overrides": "10.0.0.2:2"}
    _, limits = limits_of(**settings)
    assert [limits.take("L", "10.0.0.1") for _ in range(2)] == [TAKEN, REFUSED]
    assert [limits.take("L", "10.0.0.2") for _ in range(3)] == [TAKEN, TAKEN, REFUSED]


def test_an_address_of_the_old_family_is_the_same_on_a_listener_for_both():
    _, limits = limits_of(max_connections_per_ip="1")
    assert limits.take("L", "10.0.0.1") == TAKEN
    assert limits.take("M", "::ffff:10.0.0.1") == REFUSED
    limits.give("L", "::ffff:10.0.0.1")
    assert limits.take("M", "10.0.0.1") == TAKEN


def test_the_number_of_a_listener():
    _, limits = limits_of(**TWO_LISTENERS, **{"listener.name.clients.max.connections": "1"})
    assert [limits.take("CLIENTS", "10.0.0.1") for _ in range(2)] == [TAKEN, REFUSED]
    assert limits.take("BROKERS", "10.0.0.1") == TAKEN


def test_clients_do_not_keep_brokers_from_each_other():
    _, limits = limits_of(**TWO_LISTENERS, max_connections="1", max_connection_creation_rate="1")
    assert limits.take("CLIENTS", "10.0.0.1") == TAKEN
    assert limits.take("CLIENTS", "10.0.0.1") == REFUSED
    assert [limits.take("BROKERS", "10.0.0.2") for _ in range(30)] == [TAKEN] * 30


def test_above_the_brokers_rate_the_next_one_waits():
    kit, limits = limits_of(max_connection_creation_rate="2")
    assert [limits.take("L", "10.0.0.1") for _ in range(20)] == [TAKEN] * 20
    verdict = limits.take("L", "10.0.0.1")
    assert verdict.is_taken
    assert 0 < verdict.delay_ms <= 1000
    kit.advance(60_000)
    assert limits.take("L", "10.0.0.1") == TAKEN


def test_above_a_listeners_rate_the_next_one_waits():
    rate = {"listener.name.clients.max.connection.creation.rate": "1"}
    _, limits = limits_of(**TWO_LISTENERS, **rate)
    assert [limits.take("CLIENTS", "10.0.0.1") for _ in range(10)] == [TAKEN] * 10
    assert limits.take("CLIENTS", "10.0.0.1").delay_ms > 0
    assert limits.take("BROKERS", "10.0.0.1") == TAKEN


@pytest.mark.parametrize("entity", [Entity(ip="10.0.0.1"), Entity(ip=DEFAULT)])
def test_an_address_above_its_rate_is_refused_until_it_has_fallen(entity):
    kit, limits = limits_of()
    kit.node.quotas.put(entity, {"connection_creation_rate": 1})
    assert [limits.take("L", "10.0.0.1") for _ in range(10)] == [TAKEN] * 10
    verdict = limits.take("L", "10.0.0.1")
    assert not verdict.is_taken
    assert 0 < verdict.delay_ms <= 1000
    assert limits.take("L", "10.0.0.2") == TAKEN
    kit.advance(11_000)
    assert limits.take("L", "10.0.0.1") == TAKEN


def test_limits_know_an_address_however_it_is_written():
    kit, limits = limits_of(max_connections_per_ip_overrides="0:0:0:0:0:0:0:2:0")
    kit.node.quotas.put(Entity(ip="0:0:0:0:0:0:0:1"), {"connection_creation_rate": 1})
    assert [limits.take("L", "::1") for _ in range(10)] == [TAKEN] * 10
    assert not limits.take("L", "::1").is_taken
    assert not limits.take("L", "::2").is_taken
    assert limits.take("L", "::3") == TAKEN
    kit.node.quotas.put(Entity(ip="0:0:0:0:0:0:0:1"), {})
    assert limits.take("L", "::1") == TAKEN


def test_what_is_refused_is_told_once_not_each_time(caplog):
    _, limits = limits_of(max_connections="0")
    for number in range(100):
        limits.take("L", f"10.0.0.{number}")
    assert caplog.text.count("refusing connections") == 1
