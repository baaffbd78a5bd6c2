"""Settings of users, client ids and addresses: what others keep at the same place stays."""

import json

import pytest
from node_kit import NodeKit

from barnabas.broker import entity_config
from barnabas.broker.tasks import drive
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.ports import SetData, ZNode


def changed(kit, entity, plan):
    ended = []
    drive(
        entity_config.change(kit.node, entity, plan),
        lambda result, error: ended.append((result, error)),
    )
    kit.run(lambda: ended)
    result, error = ended[0]
    if error is not None:
        raise error
    return result


def stored(kit, path):
    found = []
    kit.node.world.coordination.read(path, lambda node, _error: found.append(node))
    kit.run(lambda: found)
    return found[0]


@pytest.mark.parametrize(
    ("name", "part"),
    [("alice", "alice"), ("a b", "a%20b"), ("x/y*~", "x%2Fy%2A%7E"), ("CN=é", "CN%3D%C3%A9"), ("a.b-c_d", "a.b-c_d")],
)  # fmt: skip
def test_names_are_written_as_kafka_writes_them(name, part):
    assert entity_config.sanitized(name) == part
    assert entity_config.desanitized(part) == name


def test_a_change_keeps_what_others_wrote():
    kit = NodeKit()
    changed(kit, "users/alice", lambda texts: {**texts, "SCRAM-SHA-256": "secret"})
    changed(kit, "users/alice", lambda texts: {**texts, "producer_byte_rate": "10"})
    assert json.loads(stored(kit, "/config/users/alice").data) == {
        "version": 1,
        "config": {"SCRAM-SHA-256": "secret", "producer_byte_rate": "10"},
    }


def test_a_place_that_only_has_others_below_it_is_empty():
    kit = NodeKit()
    changed(kit, "users/alice/clients/c", lambda texts: {**texts, "a": "1"})
    assert changed(kit, "users/alice", lambda texts: {**texts, "b": "2"}) == {"b": "2"}


def test_who_was_slower_plans_again_on_what_is_there_then():
    kit = NodeKit()
    changed(kit, "users/alice", lambda _texts: {"a": "1"})
    seen = []

    def plan(texts):
        seen.append(texts)
        if len(seen) == 1:
            data = json.dumps({"version": 1, "config": {"a": "2"}}).encode()
            kit.node.world.coordination.commit(
                [SetData("/config/users/alice", data)], lambda _paths, _error: None
            )
        return {**texts, "b": "3"}

    assert changed(kit, "users/alice", plan) == {"a": "2", "b": "3"}
    assert seen == [{"a": "1"}, {"a": "2"}]


def test_a_plan_may_refuse():
    kit = NodeKit()

    def plan(_texts):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "no")

    with pytest.raises(KafkaError, match="no"):
        changed(kit, "users/alice", plan)
    assert stored(kit, "/config/users/alice") is None


def test_entities_of_a_kind_are_read_with_what_is_below_them():
    def node(**texts):
        return ZNode(json.dumps({"version": 1, "config": texts}).encode(), 0)

    tree = {
        "/config/users/a": node(x="1"),
        "/config/users/b": ZNode(b"", 0),
        "/config/users/b/clients/c": node(y="2"),
        "/config/clients/c": node(z="3"),
    }
    assert entity_config.read_below(tree, "users") == {"a": {"x": "1"}, "b/clients/c": {"y": "2"}}
