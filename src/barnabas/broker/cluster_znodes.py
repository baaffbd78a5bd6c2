"""What the brokers of a cluster keep in ZooKeeper about each other, as Kafka 3.9 writes it: paths and JSON.

Topics and settings, which a lone broker has as well, are in `znodes.py`. No I/O, no rules.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from barnabas.model.cluster import LiveBroker
from barnabas.model.ids import topic_id_from_text
from barnabas.ports import Check, Create, Delete, Operation, SetData

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from barnabas.model.ids import TopicId
    from barnabas.ports import ZNode

BROKER_IDS: Final = "/brokers/ids"
CONTROLLER: Final = "/controller"
CONTROLLER_EPOCH: Final = "/controller_epoch"
IN_SYNC_CHANGES: Final = "/isr_change_notification"
LOST_LOGS: Final = "/log_dir_event_notification"
CONFIG_CHANGES: Final = "/config/changes"
DELETE_TOPICS: Final = "/admin/delete_topics"

_REGISTRATION_VERSION: Final = 5
_IN_SYNC_NOTICE: Final = "isr_change_"
_LOST_LOGS_NOTICE: Final = "log_dir_event_"
_LOG_DIR_FAILURE: Final = 1
_CONFIG_NOTICE: Final = "config_change_"


def _encode(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


# Brokers


def register_operation(broker: LiveBroker, protocols: Mapping[str, str], now_ms: int) -> Operation:
    """Say that a broker is there, for as long as its session lasts; `protocols` by listener name."""
    host, port = next(iter(broker.endpoints.values()))
    data: dict[str, object] = {
        "features": {},
        "listener_security_protocol_map": dict(protocols),
        "endpoints": [
            f"{name}://{_bracketed(at[0])}:{at[1]}" for name, at in broker.endpoints.items()
        ],
        "jmx_port": -1,
        "port": port,
        "host": host,
        "version": _REGISTRATION_VERSION,
        "timestamp": str(now_ms),
    }
    if broker.rack is not None:
        data["rack"] = broker.rack
    return Create(broker_path(broker.id), _encode(data), ephemeral=True)


def broker_path(broker_id: int) -> str:
    """Name where a broker stands while it lives."""
    return f"{BROKER_IDS}/{broker_id}"


def read_broker(broker_id: int, node: ZNode) -> LiveBroker:
    """Read what a broker says of itself; its epoch is the store's transaction that created the node."""
    content: dict[str, Any] = json.loads(node.data)
    endpoints: dict[str, tuple[str, int]] = {}
    for endpoint in content["endpoints"]:
        name, _, address = endpoint.partition("://")
        host, _, port = address.rpartition(":")
        endpoints[name] = (host.strip("[]"), int(port))
    return LiveBroker(broker_id, node.created, content.get("rack"), endpoints)


def read_brokers(tree: Mapping[str, ZNode]) -> dict[int, LiveBroker]:
    """Read all that are registered."""
    prefix = BROKER_IDS + "/"
    ids = {path: int(path[len(prefix) :]) for path in tree if path.startswith(prefix)}
    return {broker_id: read_broker(broker_id, tree[path]) for path, broker_id in ids.items()}


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


# The controller


class Term(NamedTuple):
    """A controller's epoch, and the version of the node that holds it: what its writes are conditional on."""

    epoch: int
    version: int


def elect_operations(
    broker_id: int, before: Term | None, epoch: int, now_ms: int
) -> list[Operation]:
    """Become controller in this epoch, after `before`; refused if somebody else was faster."""
    data = {
        "version": 2,
        "brokerid": broker_id,
        "timestamp": str(now_ms),
        "kraftControllerEpoch": -1,
    }
    data_of_epoch = str(epoch).encode()
    return [
        Create(CONTROLLER_EPOCH, data_of_epoch)
        if before is None
        else SetData(CONTROLLER_EPOCH, data_of_epoch, before.version),
        Create(CONTROLLER, _encode(data), ephemeral=True),
    ]


def raise_epoch_operation(term: Term, by: int) -> Operation:
    """Go on in a later epoch; refused if there is a newer controller."""
    return SetData(CONTROLLER_EPOCH, str(term.epoch + by).encode(), term.version)


def read_term(node: ZNode | None) -> Term | None:
    """Read the epoch of the last controller; None if there never was one."""
    return None if node is None else Term(int(node.data), node.version)


def read_controller(node: ZNode | None) -> int | None:
    """Read who is controller; None if nobody is."""
    return None if node is None else int(json.loads(node.data)["brokerid"])


def fence(term: Term) -> Operation:
    """Let a commit fail once there is a newer controller."""
    return Check(CONTROLLER_EPOCH, term.version)


# Partitions


class StoredState(NamedTuple):
    """What the store holds on the leadership of a partition."""

    leader: int
    leader_epoch: int
    in_sync: tuple[int, ...]
    controller_epoch: int
    version: int


def state_path(topic: str, index: int) -> str:
    """Name where the leadership of a partition stands."""
    return f"/brokers/topics/{topic}/partitions/{index}/state"


def state_data(
    leader: int, leader_epoch: int, in_sync: Sequence[int], controller_epoch: int
) -> bytes:
    """Write down who leads a partition and who is in sync."""
    return _encode(
        {
            "controller_epoch": controller_epoch,
            "leader": leader,
            "version": 1,
            "leader_epoch": leader_epoch,
            "isr": list(in_sync),
        }
    )


def read_state(node: ZNode) -> StoredState:
    """Read who leads a partition and who is in sync."""
    content: dict[str, Any] = json.loads(node.data)
    return StoredState(
        content["leader"],
        content["leader_epoch"],
        tuple(content["isr"]),
        content["controller_epoch"],
        node.version,
    )


def in_sync_notice(partitions: Iterable[tuple[str, int]]) -> Operation:
    """Tell the controller that leaders have changed who is in sync."""
    content = [{"topic": topic, "partition": index} for topic, index in partitions]
    return Create(
        f"{IN_SYNC_CHANGES}/{_IN_SYNC_NOTICE}",
        _encode({"version": 1, "partitions": content}),
        sequential=True,
    )


def read_in_sync_notice(node: ZNode) -> list[tuple[str, int]]:
    """Read which partitions a notice is about."""
    content = json.loads(node.data)
    return [(each["topic"], each["partition"]) for each in content["partitions"]]


def lost_logs_notice(broker_id: int) -> Operation:
    """Tell the controller that a broker has lost logs with their disk."""
    return Create(
        f"{LOST_LOGS}/{_LOST_LOGS_NOTICE}",
        _encode({"version": 1, "broker": broker_id, "event": _LOG_DIR_FAILURE}),
        sequential=True,
    )


def read_lost_logs_notice(node: ZNode) -> int:
    """Read which broker a notice is about."""
    return int(json.loads(node.data)["broker"])


# Topics


class StoredTopic(NamedTuple):
    """What the store holds on the replicas of a topic."""

    id_text: str
    replicas: dict[int, tuple[int, ...]]
    adding: dict[int, tuple[int, ...]]
    removing: dict[int, tuple[int, ...]]


def topic_path(topic: str) -> str:
    """Name where a topic's replicas stand."""
    return f"/brokers/topics/{topic}"


def topic_data(topic: StoredTopic) -> bytes:
    """Write down where a topic's replicas are, come to and leave."""

    def texts(brokers: Mapping[int, Sequence[int]]) -> dict[str, list[int]]:
        return {str(index): list(brokers[index]) for index in sorted(brokers)}

    return _encode(
        {
            "partitions": texts(topic.replicas),
            "topic_id": topic.id_text,
            "adding_replicas": texts(topic.adding),
            "removing_replicas": texts(topic.removing),
            "version": 3,
        }
    )


def read_topic(node: ZNode) -> StoredTopic:
    """Read where a topic's replicas are."""
    content: dict[str, Any] = json.loads(node.data)

    def numbers(field: str) -> dict[int, tuple[int, ...]]:
        found: dict[str, list[int]] = content.get(field) or {}
        return {int(index): tuple(brokers) for index, brokers in found.items()}

    return StoredTopic(
        content["topic_id"],
        numbers("partitions"),
        numbers("adding_replicas"),
        numbers("removing_replicas"),
    )


def id_of_topic(node: ZNode) -> TopicId:
    """Read which of the topics of one name it is."""
    return topic_id_from_text(read_topic(node).id_text)


def set_operation(path: str, data: bytes, version: int) -> Operation:
    """Replace what stands at a path, if it still has this version."""
    return SetData(path, data, version)


def wish_path(topic: str) -> str:
    """Name where it stands that a topic is to be deleted."""
    return f"{DELETE_TOPICS}/{topic}"


def wish_deleted_operation(topic: str) -> Operation:
    """Ask for a topic to be deleted: kept until that is done."""
    return Create(wish_path(topic))


def deleted_operations(topic: str) -> list[Operation]:
    """Take a topic away whose replicas are gone, and the wish with it."""
    return [
        Delete(topic_path(topic)),
        Delete(f"/config/topics/{topic}"),
        Delete(wish_path(topic)),
    ]


# Settings


def config_notice(entity: str) -> Operation:
    """Tell all brokers that settings have changed: `topics/NAME`, `brokers/ID`, `groups/NAME`."""
    return Create(
        f"{CONFIG_CHANGES}/{_CONFIG_NOTICE}",
        _encode({"version": 2, "entity_path": entity}),
        sequential=True,
    )


def read_config_notice(node: ZNode) -> str:
    """Read what a notice is about."""
    return str(json.loads(node.data)["entity_path"])


def notice_number(name: str) -> int:
    """Return the number at the end of a notice's name."""
    return int(name[-10:])
