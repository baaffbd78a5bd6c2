"""What stands in the store reads back, under Kafka's paths and in its JSON."""

import json

from barnabas.broker import znodes
from barnabas.model.cluster import Partition, Topic
from barnabas.ports import Create, Delete, SetData, ZNode

TOPIC = Topic(
    "orders",
    bytes(range(16)),
    [Partition((1,), 1, 0, (1,)), Partition((1,), 1, 3, (1,))],
    {"retention.ms": "1000"},
)


def apply(operations, tree=None):
    tree = dict(tree or {})
    for operation in operations:
        match operation:
            case Create(path, data):
                assert path not in tree
                tree[path] = ZNode(data, 0)
            case SetData(path, data):
                tree[path] = ZNode(data, tree[path].version + 1)
            case Delete(path):
                tree = {p: n for p, n in tree.items() if p != path and not p.startswith(path + "/")}
    return tree


def test_a_topic_reads_back():
    tree = apply(znodes.create_topic_operations(TOPIC))
    assert znodes.read_topics(tree) == [TOPIC]


def test_paths_and_json_are_kafkas():
    tree = apply(znodes.create_topic_operations(TOPIC))
    assert sorted(tree) == [
        "/brokers/topics/orders",
        "/brokers/topics/orders/partitions/0/state",
        "/brokers/topics/orders/partitions/1/state",
        "/config/topics/orders",
    ]
    assert json.loads(tree["/brokers/topics/orders"].data) == {
        "version": 3,
        "topic_id": "AAECAwQFBgcICQoLDA0ODw",
        "partitions": {"0": [1], "1": [1]},
        "adding_replicas": {},
        "removing_replicas": {},
    }
    assert json.loads(tree["/brokers/topics/orders/partitions/1/state"].data) == {
        "controller_epoch": 1,
        "leader": 1,
        "version": 1,
        "leader_epoch": 3,
        "isr": [1],
    }


def test_partitions_are_added():
    tree = apply(znodes.create_topic_operations(TOPIC))
    grown = Topic(
        TOPIC.name, TOPIC.id, [*TOPIC.partitions, Partition((1,), 1, 0, (1,))], TOPIC.overrides
    )
    tree = apply(znodes.add_partitions_operations(grown, 2), tree)
    assert znodes.read_topics(tree) == [grown]


def test_a_deleted_topic_leaves_nothing():
    tree = apply(znodes.create_topic_operations(TOPIC))
    assert apply(znodes.delete_topic_operations(TOPIC), tree) == {}


def test_settings_read_back():
    tree = apply([znodes.new_broker_config("1", {"a": "b"})])
    assert znodes.read_broker_configs(tree) == {"1": {"a": "b"}}
    tree = apply([znodes.new_group_config("g./", {"a": "c"})], tree)
    assert znodes.read_group_configs(tree) == {"g./": {"a": "c"}}


def test_the_cluster_id_reads_back():
    assert znodes.read_cluster_id({}) is None
    tree = apply([znodes.cluster_id_operation("abc")])
    assert znodes.read_cluster_id(tree) == "abc"


def test_a_block_of_producer_ids_begins_behind_the_one_before_and_only_if_that_is_still_the_last():
    start, operation = znodes.next_producer_id_block(1, None)
    assert start == 0
    tree = apply([operation])
    start, operation = znodes.next_producer_id_block(2, tree[znodes.PRODUCER_IDS])
    assert start == 1000
    assert operation.version == 0
    block = {"version": 1, "broker": 2, "block_start": "1000", "block_end": "1999"}
    assert json.loads(operation.data) == block


def test_the_first_block_of_producer_ids_where_kafka_has_made_the_place_for_it():
    start, operation = znodes.next_producer_id_block(1, ZNode(b"", 0))
    assert start == 0
    assert operation.version == 0
    assert json.loads(operation.data)["block_end"] == "999"


def test_a_raised_epoch_is_written():
    tree = apply(znodes.create_topic_operations(TOPIC))
    raised = Topic(
        TOPIC.name, TOPIC.id, [Partition((1,), 1, 9, (1,)), TOPIC.partitions[1]], TOPIC.overrides
    )
    tree = apply(znodes.leader_epoch_operations(raised, 0), tree)
    assert znodes.read_topics(tree)[0].partitions[0].leader_epoch == 9
