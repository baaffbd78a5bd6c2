"""One topic in full: partitions, leaders, offsets, settings, and which partitions are not as they should be.

One job: the values and the page of `barnabas topic describe`. Must not know the command line.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from barnabas.cli.cluster_view import PartitionView, TopicView, read_bounds
from barnabas.cli.output import counted, meaning, table

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

    from barnabas.cli.connection import Connection
    from barnabas.cli.settings import Setting

_MIN_IN_SYNC = "min.insync.replicas"


def describe_topic(
    connection: Connection, view: TopicView, settings: dict[str, Setting]
) -> dict[str, Any]:
    """The stable keys of `topic describe -o json`."""
    # A partition without a leader has nobody who knows its offsets.
    led = [p.partition for p in view.partitions if p.leader is not None]
    start, end = read_bounds(connection, view.name, led)
    asked = settings.get(_MIN_IN_SYNC)
    min_in_sync = int(asked.value) if asked is not None and asked.value else 1
    return {
        "topic": view.name,
        "topic_id": view.topic_id,
        "internal": view.internal,
        "replication_factor": view.replication_factor,
        "health": view.health,
        "configs": [s.as_dict() for s in settings.values() if s.source == "topic"],
        "partitions": [
            {
                **_partition(p, start.get(p.partition), end.get(p.partition)),
                "under_min_in_sync": p.leader is not None
                and len(p.in_sync) < min(min_in_sync, len(p.replicas)),
            }
            for p in view.partitions
        ],
    }


def _partition(
    partition: PartitionView, start: int | KafkaError | None, end: int | KafkaError | None
) -> dict[str, Any]:
    return {
        "partition": partition.partition,
        "leader": partition.leader,
        "replicas": list(partition.replicas),
        "in_sync": list(partition.in_sync),
        "start_offset": start if isinstance(start, int) else None,
        "end_offset": end if isinstance(end, int) else None,
        "offline": partition.leader is None,
        "under_replicated": partition.under_replicated,
    }


def page(data: dict[str, Any]) -> str:
    """The page of a topic, for people."""
    partitions = data["partitions"]
    facts = [
        counted(len(partitions), "partition"),
        f"replication factor {data['replication_factor']}",
        *(["internal"] if data["internal"] else []),
        *([data["health"]] if data["health"] != "ok" else []),
    ]
    lines = [click.style(data["topic"], bold=True) + "  " + ", ".join(facts)]
    if data["topic_id"]:
        lines.append(f"  id {data['topic_id']}")
    for entry in data["configs"]:
        words = meaning(entry["name"], entry["value"])
        lines.append(f"  {entry['name']}={entry['value']}" + (f"  ({words})" if words else ""))
    headings = ("PARTITION", "LEADER", "REPLICAS", "IN SYNC", "START", "END", "")
    keys = ("partition", "leader", "replicas", "in_sync", "start_offset", "end_offset")
    rows = [[*(partition[key] for key in keys), _marks(partition)] for partition in partitions]
    return "\n".join([*lines, "", table(headings, rows, indent="  ")])


def add_storage(
    connection: Connection,
    described: list[dict[str, Any]],
    found: dict[str, TopicView],
    settings: dict[str, dict[str, Setting]],
    data_dirs: tuple[str, ...],
) -> None:
    """Add what lies on the disks of this machine to each partition."""
    from barnabas.cli.topic_storage import describe_storage

    now_ms = time.time_ns() // 1_000_000
    for data in described:
        name = data["topic"]
        stored = describe_storage(connection, found[name], settings[name], data_dirs, now_ms)
        for partition in data["partitions"]:
            partition["storage"] = stored.get(partition["partition"])


def _marks(partition: dict[str, Any]) -> str:
    """What is not as it should be with a partition."""
    words = {
        "offline": "offline",
        "under_min_in_sync": f"under {_MIN_IN_SYNC}",
        "under_replicated": "under-replicated",
    }
    found = [text for key, text in words.items() if partition[key]]
    if partition["leader"] not in (None, *partition["replicas"][:1]):
        found.append("not led by the preferred replica")
    return ", ".join(found)
