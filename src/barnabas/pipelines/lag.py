"""How far a query is behind in seconds, by the records' own timestamps.

Job: of partitions and the offsets that were reached, the longest time between the first record not read and the newest one, as `barnabas group` has it: 0 when
everything is read, None when it cannot be known. Reads little, joins no group, commits nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.client.errors import ClientError
from barnabas.client.offsets import LATEST
from barnabas.client.settings import ClientSettings
from barnabas.model.ids import TopicPartition
from barnabas.pipelines.columns import read_columns
from barnabas.runtime.blocking_client import BlockingClient

if TYPE_CHECKING:
    from collections.abc import Mapping

#: What ListOffsets takes for "the record with the highest timestamp" (KIP-734).
_NEWEST: Final = -3
#: One batch of a partition is enough to see a timestamp.
_LITTLE_BYTES: Final = 64 * 1024
#: Whoever waits for this figure looks at a screen.
_PATIENCE_MS: Final = 5_000


class LagMeter:
    """Asks a cluster; a cluster that does not answer makes the lag unknown, and nothing else."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        """Take client settings, bootstrap.servers among them; SettingError for what they cannot be."""
        self._settings = ClientSettings.parse(settings).replace(
            max_partition_fetch_bytes=_LITTLE_BYTES,
            request_timeout_ms=_PATIENCE_MS,
            api_timeout_ms=_PATIENCE_MS,
        )

    def seconds(self, reached: Mapping[str, Mapping[str, int]]) -> float | None:
        """Measure, for topics to partitions to the offset after the last record that was read."""
        offsets = {
            TopicPartition(topic, int(partition)): offset
            for topic, partitions in reached.items()
            for partition, offset in partitions.items()
        }
        if not offsets:
            return None
        try:
            with BlockingClient(self._settings) as client:
                return _seconds(client, offsets)
        except ClientError:
            return None


def _seconds(client: BlockingClient, offsets: Mapping[TopicPartition, int]) -> float | None:
    ends = client.list_offsets(dict.fromkeys(offsets, LATEST))
    behind = {one: offset for one, offset in offsets.items() if ends[one].offset > offset}
    if not behind:
        return 0.0
    newest = client.list_offsets(dict.fromkeys(behind, _NEWEST))
    waits = []
    for one, offset in behind.items():
        first_ms = _first_ms(client, one, offset, ends[one].offset)
        if first_ms is not None:
            waits.append(max(0, newest[one].timestamp_ms - first_ms) / 1000)
    # Between the offset and the end there may be no record, only gaps: nothing waits there.
    return max(waits, default=0.0)


def _first_ms(client: BlockingClient, one: TopicPartition, start: int, end: int) -> int | None:
    for batch in read_columns(client, one, start, end):
        if len(batch):
            return int(batch.column("timestamp")[0].value) // 1000
    return None
