"""Everything that a topic has, once: for pictures, checks, and memories that are filled from it.

Job: the records of all partitions from given offsets to what is the end now. Must not know what they mean.

Invariants: records of one partition come in their order, committed ones only; a start that is gone (retention, compaction) is the first that is there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from barnabas.client.offsets import EARLIEST, LATEST
from barnabas.client.settings import READ_COMMITTED, ClientSettings
from barnabas.model.ids import TopicPartition
from barnabas.pipelines.columns import read_columns
from barnabas.runtime.blocking_client import BlockingClient

if TYPE_CHECKING:
    from collections.abc import Iterator, MutableMapping


class TopicRecord(NamedTuple):
    """A record as it lies in the topic."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    partition: int
    offset: int


def read_topic(
    bootstrap: str, topic: str, positions: MutableMapping[int, int] | None = None
) -> Iterator[TopicRecord]:
    """Read a topic. `positions` has the next offset of each partition, and is moved on when a partition is done."""
    positions = {} if positions is None else positions
    with BlockingClient(ClientSettings.parse({"bootstrap.servers": bootstrap})) as client:
        places = [TopicPartition(topic, each) for each in client.partitions([topic])[topic]]
        starts = client.list_offsets(dict.fromkeys(places, EARLIEST))
        ends = client.list_offsets(dict.fromkeys(places, LATEST), READ_COMMITTED)
        for place in places:
            start = max(positions.get(place.partition, 0), starts[place].offset)
            end = max(start, ends[place].offset)
            yield from _read(client, place, start, end)
            positions[place.partition] = end


def _read(
    client: BlockingClient, place: TopicPartition, start: int, end: int
) -> Iterator[TopicRecord]:
    for batch in read_columns(client, place, start, end, isolation=READ_COMMITTED, headers=True):
        for row in batch.select(["key", "value", "headers", "offset"]).to_pylist():
            headers = [(each["key"], each["value"]) for each in row["headers"] or ()]
            yield TopicRecord(row["key"], row["value"], headers, place.partition, row["offset"])
