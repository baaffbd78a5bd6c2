"""Quotas in the store: Kafka 3.9's places and texts, and what else stands there left alone."""

import json

import pytest
from member_kit import new_store, put, start_member

from barnabas.broker import cluster_znodes, quota_store
from barnabas.broker.tasks import drive
from barnabas.core.quota_table import DEFAULT, Entity
from barnabas.ports import Create, Delete, ZNode

PLACES = [
    (Entity("alice"), "users/alice"),
    (Entity(DEFAULT), "users/<default>"),
    (Entity("a/b c", "x*y"), "users/a%2Fb%20c/clients/x%2Ay"),
    (Entity("alice", DEFAULT), "users/alice/clients/<default>"),
    (Entity(DEFAULT, "c"), "users/<default>/clients/c"),
    (Entity(None, "c"), "clients/c"),
    (Entity(None, DEFAULT), "clients/<default>"),
    (Entity(ip="10.0.0.1"), "ips/10.0.0.1"),
    (Entity(ip="::1"), "ips/%3A%3A1"),
    (Entity(ip=DEFAULT), "ips/<default>"),
]


@pytest.mark.parametrize(("entity", "path"), PLACES)
def test_each_entity_has_a_place(entity, path):
    assert quota_store.path_of(entity) == path
    assert quota_store.entity_at(path) == entity


@pytest.mark.parametrize("path", ["topics/t", "brokers/1", "users", "users/a/clients", "ips/a/b"])
def test_other_places_have_no_quotas(path):
    assert quota_store.entity_at(path) is None


def test_what_is_no_quota_is_left_out_and_so_is_what_cannot_be_meant(caplog):
    texts = {"SCRAM-SHA-256": "salt=x", "producer_byte_rate": "10", "consumer_byte_rate": "lots"}
    assert quota_store.limits_of(Entity("a"), texts) == {"producer_byte_rate": 10}
    assert "consumer_byte_rate" in caplog.text
    assert "salt" not in caplog.text
    assert quota_store.limits_of(Entity("a"), {"request_percentage": "0"}) == {}
    assert quota_store.limits_of(Entity(ip="1.2.3.4"), {"producer_byte_rate": "1"}) == {}


def test_a_whole_store_is_read():
    def node(**texts):
        return ZNode(json.dumps({"version": 1, "config": texts}).encode(), 0)

    tree = {
        "/config/users/alice": node(request_percentage="12.5"),
        "/config/users/bob": ZNode(b"", 0),
        "/config/users/bob/clients/<default>": node(producer_byte_rate="7"),
        "/config/clients/c%20d": node(consumer_byte_rate="8"),
        "/config/ips/<default>": node(connection_creation_rate="9"),
        "/config/topics/t": node(),
    }
    assert quota_store.read_tree(tree) == {
        Entity("alice"): {"request_percentage": 12.5},
        Entity("bob", DEFAULT): {"producer_byte_rate": 7},
        Entity(None, "c d"): {"consumer_byte_rate": 8},
        Entity(ip=DEFAULT): {"connection_creation_rate": 9},
    }


def test_what_somebody_else_writes_is_in_force_after_its_notice():
    store = new_store()
    member = start_member(store)
    data = json.dumps({"version": 1, "config": {"producer_byte_rate": "10"}}).encode()
    for path in ("users/a%20b/clients/<default>", "clients/c", "ips/10.0.0.1"):
        put(store, Create(f"/config/{path}", data), cluster_znodes.config_notice(path))
    member.events.settle()
    assert dict(member.node.quotas.table.items()) == {
        Entity("a b", DEFAULT): {"producer_byte_rate": 10},
        Entity(None, "c"): {"producer_byte_rate": 10},
    }
    put(store, Delete("/config/clients/c"), cluster_znodes.config_notice("clients/c"))
    member.events.settle()
    assert dict(member.node.quotas.table.items()) == {
        Entity("a b", DEFAULT): {"producer_byte_rate": 10}
    }


def test_a_member_tells_the_others_what_it_has_changed():
    store = new_store()
    member = start_member(store)
    entity = Entity("alice", DEFAULT)
    drive(
        quota_store.change(member.node, entity, [("request_percentage", 2.5)], validate_only=False),
        lambda _result, problem: None,
    )
    member.events.settle()
    stored = json.loads(store.tree["/config/users/alice/clients/<default>"].data)
    assert stored == {"version": 1, "config": {"request_percentage": "2.5"}}
    (notice,) = [path for path in store.tree if path.startswith("/config/changes/")]
    assert json.loads(store.tree[notice].data) == {
        "version": 2,
        "entity_path": "users/alice/clients/<default>",
    }
