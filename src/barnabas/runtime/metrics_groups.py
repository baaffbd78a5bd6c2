"""The lag of groups as Prometheus text, under the names of kafka_exporter and kafka-lag-exporter.

Works on plain figures, on any thread. A partition whose lag is not known has no sample.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.runtime.metrics_text import labelled, write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from barnabas.broker.group_lag import GroupFigures, PartitionLag
    from barnabas.runtime.metrics_text import Family, Sample


def render(groups: list[GroupFigures], cluster: str) -> str:
    """Write the families of all groups; nothing when there are none."""
    return write(_families(groups, cluster)) if groups else ""


def _families(groups: list[GroupFigures], cluster: str) -> Iterator[Family]:
    yield (
        "kafka_consumergroup_members", "gauge", "Members of a group.",
        [(labelled(consumergroup=g.group_id), g.member_count) for g in groups],
    )  # fmt: skip
    for name, about, value in (
        ("current_offset", "Offset that a group committed.", lambda p: p.offset),
        ("lag", "Records from the committed offset to the high watermark.", lambda p: p.lag),
    ):
        yield f"kafka_consumergroup_{name}", "gauge", about, _each(groups, value)
        about = f"{about[:-1]}, summed over a topic."
        yield f"kafka_consumergroup_{name}_sum", "gauge", about, _sums(groups, value)
    yield (
        "kafka_consumergroup_group_lag_seconds", "gauge",
        "Time from the first record not consumed to the newest one, by their timestamps.",
        _seconds(groups, cluster),
    )  # fmt: skip
    yield (
        "kafka_consumergroup_group_max_lag_seconds", "gauge",
        "The most that a group is behind in any partition.",
        _max_seconds(groups, cluster),
    )  # fmt: skip


def _each(groups: list[GroupFigures], value: Callable[[PartitionLag], int | None]) -> list[Sample]:
    return [
        (labelled(consumergroup=g.group_id, topic=p.topic, partition=p.partition), number)
        for g in groups
        for p in g.partitions
        if (number := value(p)) is not None
    ]


def _sums(groups: list[GroupFigures], value: Callable[[PartitionLag], int | None]) -> list[Sample]:
    sums: dict[tuple[str, str], int] = {}
    for group in groups:
        for partition in group.partitions:
            number = value(partition)
            if number is not None:
                key = (group.group_id, partition.topic)
                sums[key] = sums.get(key, 0) + number
    return [(labelled(consumergroup=g, topic=t), total) for (g, t), total in sums.items()]


def _seconds(groups: list[GroupFigures], cluster: str) -> list[Sample]:
    return [
        (labelled(cluster_name=cluster, group=g.group_id, topic=p.topic, partition=p.partition), p.lag_seconds)
        for g in groups
        for p in g.partitions
        if p.lag_seconds is not None
    ]  # fmt: skip


def _max_seconds(groups: list[GroupFigures], cluster: str) -> list[Sample]:
    """Tell nothing of a group while some partition of it has not been read: the most could be there."""
    return [
        (labelled(cluster_name=cluster, group=g.group_id), max(seconds))
        for g in groups
        if (seconds := [p.lag_seconds for p in g.partitions if p.lag_seconds is not None])
        and len(seconds) == sum(p.lag is not None for p in g.partitions)
    ]
