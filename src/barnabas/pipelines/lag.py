"""How far a query is behind now: in records, and in seconds by the records' own timestamps.

Job: of partitions and the offsets that were reached, how many offsets are after them, and the longest time between the first record not read and the newest one, as
`barnabas group` has it: 0 when everything is read, None when it cannot be known. Reads little, joins no group, commits nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.client.errors import ClientError, Unreachable
from barnabas.client.offsets import LATEST
from barnabas.client.settings import ClientSettings
from barnabas.model.ids import TopicPartition
from barnabas.pipelines.columns import read_columns
from barnabas.pipelines.progress import Lag
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

    def measure(self, reached: Mapping[str, Mapping[str, int]]) -> Lag:
        """Measure, for topics to partitions to the offset after the last record that was read."""
        offsets = {
            TopicPartition(topic, int(partition)): offset
            for topic, partitions in reached.items()
            for partition, offset in partitions.items()
        }
        if not offsets:
            return Lag()
        try:
            with BlockingClient(self._settings) as client:
                return _measure(client, offsets)
        except Unreachable:
            return Lag(answered=False)
        except ClientError:
            return Lag()


def _measure(client: BlockingClient, offsets: Mapping[TopicPartition, int]) -> Lag:
    ends = {one: end.offset for one, end in client.list_offsets(dict.fromkeys(offsets, LATEST)).items()}  # fmt: skip
    behind = {one: offset for one, offset in offsets.items() if ends[one] > offset}
    records = sum(ends[one] - offset for one, offset in behind.items())
    return Lag(records, _seconds(client, behind, ends))


def _seconds(
    client: BlockingClient, behind: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> float:
    if not behind:
        return 0.0
    newest = client.list_offsets(dict.fromkeys(behind, _NEWEST))
    waits = []
    for one, offset in behind.items():
        first_ms = _first_ms(client, one, offset, ends[one])
        if first_ms is not None:
            waits.append(max(0, newest[one].timestamp_ms - first_ms) / 1000)
    # Between the offset and the end there may be no record, only gaps: nothing waits there.
    return max(waits, default=0.0)


def _first_ms(client: BlockingClient, one: TopicPartition, start: int, end: int) -> int | None:
    for batch in read_columns(client, one, start, end):
        if len(batch):
            return int(batch.column("timestamp")[0].value) // 1000
    return None
