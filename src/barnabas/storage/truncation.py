"""Cutting records off the end of a log: what a follower does that has left its leader's way.

Job: find the place in a segment, and let the files follow in an order that is good at every crash. Must not know why it is cut.

| step                                                       | what a crash after it leaves                  |
|------------------------------------------------------------|-----------------------------------------------|
| segments behind the cut get other names, the last one first, | a beginning of the old log that holds         |
| each on the medium before the next                         | everything below the cut                      |
| the segment with the cut is cut, synced                    | the log as it is to be                        |
| its indexes are cut                                        | the same: after a crash they are built again  |

Snapshots of producers above the cut go with the first step: one that stayed would be taken for that of the records which come
in the place of those cut off.

Runs on a background thread, on files and on objects that the loop leaves alone until it has ended.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from barnabas.core.producer_state import ProducerStates
from barnabas.storage.drop import DropJob
from barnabas.storage.replay import replay_from
from barnabas.storage.segment import Segment
from barnabas.wire.batch import NO_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barnabas.ports import Disk
    from barnabas.storage.snapshots import Snapshots


def cut_segment(segment: Segment, offset: int) -> int:
    """Take the batches from the one that ends at or behind `offset` on out of a segment, in memory; the offset after the last left.

    Looks at what lies around the cut only, as an index entry leads there. DamagedBatch, and nothing changed, if that is no batch.
    """
    base_offset = segment.base_offset
    entry = segment.offset_index.find(offset - 1 - base_offset)
    start = entry[1] if entry else 0
    position, end_offset, largest = segment.size, base_offset, (NO_TIMESTAMP, base_offset)
    for at, header in segment.headers(start, segment.size):
        if header.last_offset >= offset:
            position = at
            break
        end_offset = header.next_offset
        if header.max_timestamp > largest[0]:
            largest = (header.max_timestamp, header.last_offset)
    segment.offset_index.keep_keys_below(offset - base_offset)
    segment.time_index.keep_values_below(offset - base_offset)
    segment.aborted.keep_below(offset)
    indexed = segment.time_index.last
    if indexed is not None and indexed[0] >= largest[0]:
        largest = (indexed[0], base_offset + indexed[1])
    segment.largest = largest
    segment.unsure = None if segment.unsure is None else largest
    segment.since_index = position - start
    segment.size = position
    segment.written_from = min(segment.written_from, position)
    segment.checked = tuple(
        (first, min(last, position)) for first, last in segment.checked if first < position
    )
    if position == 0:
        segment.first_timestamp = None
    segment.unsynced = True
    return end_offset


def trim_files(segment: Segment) -> None:
    """Let the files of a segment that was cut follow. Blocks."""
    if segment.log.size() > segment.size:
        segment.log.truncate(segment.size)
        # At once: new records will get these offsets, and the old ones must not come back in their place.
        segment.log.sync()
    segment.offset_index.trim()
    segment.time_index.trim()
    segment.aborted.trim()


class TruncationJob:
    """Made by `Log.plan_truncation`; `run` it on a background thread, then give it to `Log.on_truncated`."""

    __slots__ = (
        "_aside", "_directory", "_disk", "_kept", "_offsets", "_snapshots", "deleted", "error", "producers",
    )  # fmt: skip

    def __init__(
        self,
        disk: Disk,
        directory: str,
        aside: Sequence[Sequence[str]],
        kept: Sequence[Segment],
        snapshots: Snapshots,
        offsets: tuple[int, int],
    ) -> None:
        """Name the files of each segment that goes, the last first, those that stay, of which the last was cut, and the log's bounds."""
        self._disk = disk
        self._directory = directory
        self._aside = aside
        self._kept = kept
        self._snapshots = snapshots
        self._offsets = offsets
        #: The files put aside, to be removed after file.delete.delay.ms.
        self.deleted: list[str] = []
        #: As they were after the last record that stays.
        self.producers = ProducerStates()
        self.error: OSError | None = None

    def run(self) -> None:
        """Do it all. Keeps an error for `on_truncated`."""
        try:
            self._put_aside()
            self._finish()
        except OSError as error:
            self.error = error

    def _put_aside(self) -> None:
        for paths in self._aside:
            aside = DropJob(self._disk, paths).run()
            if aside:
                self._disk.sync_dir(self._directory)
            self.deleted += aside

    def _finish(self) -> None:
        trim_files(self._kept[-1])
        log_start_offset, log_end_offset = self._offsets
        start = self._snapshots.load(self.producers, log_end_offset)
        start = log_start_offset if start is None else start
        first = max(0, bisect_right(self._kept, start, key=lambda one: one.base_offset) - 1)
        if start < log_end_offset:
            replay_from(self.producers, self._kept[first:], start)


class StartOverJob(TruncationJob):
    """Made by `Log.plan_start_over`: everything goes, and the log begins at another offset."""

    __slots__ = ("_base_offset", "_now_ms", "segment")

    def __init__(
        self,
        disk: Disk,
        directory: str,
        aside: Sequence[Sequence[str]],
        snapshots: Snapshots,
        base_offset: int,
        now_ms: int,
    ) -> None:
        """Name the files of all segments, the last first, and where the log begins then."""
        super().__init__(disk, directory, aside, (), snapshots, (base_offset, base_offset))
        self._base_offset = base_offset
        self._now_ms = now_ms
        #: The new one.
        self.segment: Segment | None = None

    def _finish(self) -> None:
        # Only now: beside old segments it would make a log with a hole of what a crash leaves.
        self.segment = Segment.create(
            self._disk, self._directory, self._base_offset, now_ms=self._now_ms, jitter_ms=0
        )
        self._disk.sync_dir(self._directory)
