"""How topics, configurations and ids stand in the coordination store: Kafka 3.9's paths and JSON.

Bytes in, values out, and the operations that change them. Nothing here talks to the store.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote

from barnabas.model.cluster import Partition, Topic
from barnabas.model.ids import TopicId, topic_id_from_text, topic_id_text
from barnabas.ports import Create, Delete, Operation, SetData, ZNode

if TYPE_CHECKING:
    from collections.abc import Mapping

CLUSTER_ID: Final = "/cluster/id"
TOPICS: Final = "/brokers/topics"
CONFIG: Final = "/config"
TOPIC_CONFIGS: Final = "/config/topics"
BROKER_CONFIGS: Final = "/config/brokers"
#: Kafka 3.9 keeps none there; in KRaft groups have settings since 4.0 (KIP-1082).
GROUP_CONFIGS: Final = "/config/groups"
PRODUCER_IDS: Final = "/latest_producer_id_block"
#: What reading a znode raises whose content makes no sense.
SENSELESS: Final = (ValueError, LookupError, TypeError, AttributeError)
#: Dynamic settings of all brokers stand under this name.
ALL_BROKERS: Final = "<default>"
#: Ids handed out per write to the store, as in Kafka.
PRODUCER_ID_BLOCK: Final = 1000


def _encode(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def cluster_id_operation(cluster_id: str) -> Operation:
    """Write down the id of a new cluster."""
    return Create(CLUSTER_ID, _encode({"version": "1", "id": cluster_id}))


def read_cluster_id(tree: Mapping[str, ZNode]) -> str | None:
    """Return the cluster's id; None in a new store."""
    node = tree.get(CLUSTER_ID)
    return None if node is None else str(json.loads(node.data)["id"])


def _topic_data(topic: Topic) -> bytes:
    return _encode(
        {
            "partitions": {str(i): list(p.replicas) for i, p in enumerate(topic.partitions)},
            "topic_id": topic_id_text(TopicId(topic.id)),
            "adding_replicas": {},
            "removing_replicas": {},
            "version": 3,
        }
    )


def _state_data(partition: Partition) -> bytes:
    return _encode(
        {
            "controller_epoch": 1,
            "leader": partition.leader,
            "version": 1,
            "leader_epoch": partition.leader_epoch,
            "isr": list(partition.in_sync),
        }
    )


def read_config(node: ZNode) -> dict[str, str]:
    """Read the settings that stand at one place."""
    return dict(json.loads(node.data)["config"])


def _config_data(overrides: Mapping[str, str]) -> bytes:
    return _encode({"version": 1, "config": dict(overrides)})


def _state_path(topic: str, index: int) -> str:
    return f"{TOPICS}/{topic}/partitions/{index}/state"


def create_topic_operations(topic: Topic) -> list[Operation]:
    """Create a topic whole: configuration, assignment, and the state of each partition."""
    return new_topic_operations(topic) + _create_states(topic, 0)


def new_topic_operations(topic: Topic) -> list[Operation]:
    """Create a topic whose leaders a controller will elect."""
    return [
        Create(f"{TOPIC_CONFIGS}/{topic.name}", _config_data(topic.overrides)),
        Create(f"{TOPICS}/{topic.name}", _topic_data(topic)),
    ]


def add_partitions_operations(topic: Topic, old_count: int) -> list[Operation]:
    """Write the partitions from `old_count` on of a topic that has them already in memory."""
    operations: list[Operation] = [SetData(f"{TOPICS}/{topic.name}", _topic_data(topic))]
    return operations + _create_states(topic, old_count)


def _create_states(topic: Topic, start: int) -> list[Operation]:
    return [
        Create(_state_path(topic.name, index), _state_data(topic.partitions[index]))
        for index in range(start, len(topic.partitions))
    ]


def delete_topic_operations(topic: Topic) -> list[Operation]:
    """Delete a topic whole."""
    return [Delete(f"{TOPICS}/{topic.name}"), Delete(f"{TOPIC_CONFIGS}/{topic.name}")]


def leader_epoch_operations(topic: Topic, index: int) -> list[Operation]:
    """Write a partition's state again after its leader epoch was raised."""
    return [SetData(_state_path(topic.name, index), _state_data(topic.partitions[index]))]


def new_broker_config(broker: str, overrides: Mapping[str, str]) -> Operation:
    """Write the first dynamic settings of one broker, or of `ALL_BROKERS`."""
    return Create(f"{BROKER_CONFIGS}/{broker}", _config_data(overrides))


def new_group_config(group_id: str, overrides: Mapping[str, str]) -> Operation:
    """Write the first settings of one group."""
    return Create(f"{CONFIG}/{group_entity(group_id)}", _config_data(overrides))


def group_entity(group_id: str) -> str:
    """Tell where below `CONFIG` a group's settings stand."""
    # Its id may be any text; as part of a path it is written as Kafka writes user names.
    return f"groups/{quote(group_id, safe='').replace('.', '%2E')}"


def read_group_configs(tree: Mapping[str, ZNode]) -> dict[str, dict[str, str]]:
    """Return the settings of groups by group id."""
    prefix = GROUP_CONFIGS + "/"
    return {
        unquote(path[len(prefix) :]): json.loads(node.data)["config"]
        for path, node in tree.items()
        if path.startswith(prefix) and node.data
    }


def read_broker_configs(tree: Mapping[str, ZNode]) -> dict[str, dict[str, str]]:
    """Return the dynamic settings by broker name."""
    prefix = BROKER_CONFIGS + "/"
    return {
        path[len(prefix) :]: json.loads(node.data)["config"]
        for path, node in tree.items()
        if path.startswith(prefix) and node.data
    }


def read_topics(tree: Mapping[str, ZNode]) -> list[Topic]:
    """Return all topics, sorted by name."""
    prefix = TOPICS + "/"
    names = sorted(
        path[len(prefix) :]
        for path in tree
        if path.startswith(prefix) and "/" not in path[len(prefix) :]
    )
    return [_read_topic(name, tree) for name in names]


def _read_topic(name: str, tree: Mapping[str, ZNode]) -> Topic:
    content = json.loads(tree[f"{TOPICS}/{name}"].data)
    assignment: dict[str, list[int]] = content["partitions"]
    partitions = []
    for index in range(len(assignment)):
        replicas, state_node = tuple(assignment[str(index)]), tree.get(_state_path(name, index))
        if state_node is None:  # the controller has not come to it yet
            partitions.append(Partition(replicas, -1))
            continue
        state: dict[str, Any] = json.loads(state_node.data)
        partitions.append(
            Partition(replicas, state["leader"], state["leader_epoch"], tuple(state["isr"]))
        )
    config = tree.get(f"{TOPIC_CONFIGS}/{name}")
    overrides = {} if config is None else json.loads(config.data)["config"]
    return Topic(name, topic_id_from_text(content["topic_id"]), partitions, overrides)


def next_producer_id_block(broker: int, found: ZNode | None) -> tuple[int, Operation]:
    """Take the block behind those that `found` tells of: its first id, and how to write it down if nobody else was faster."""
    if found is None:
        return 0, first_producer_id_block(broker, 0)
    # Apache Kafka's brokers make the place when they start, and write nothing there.
    start = int(json.loads(found.data)["block_end"]) + 1 if found.data else 0
    return start, SetData(PRODUCER_IDS, _producer_id_block(broker, start), found.version)


def first_producer_id_block(broker: int, start: int) -> Operation:
    """Write down the first block of a store."""
    return Create(PRODUCER_IDS, _producer_id_block(broker, start))


def _producer_id_block(broker: int, start: int) -> bytes:
    end = start + PRODUCER_ID_BLOCK - 1
    return _encode(
        {"version": 1, "broker": broker, "block_start": str(start), "block_end": str(end)}
    )
