"""Appending to a log: batches of producers as leader, and those of a leader as follower.

Job: write bytes, and keep end offset, indexes and producers in step with them. Must not know requests, or which bytes are worth
appending: a leader's caller has checked the batch, a follower's batches are checked by `leader_batches.py`.

Invariants: an append is whole, or nothing changed; the end offset moves before a segment's size (see `log_reader.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.core.epochs import UNDEFINED_EPOCH
from barnabas.storage.leader_batches import LeaderBatch, whole_batches
from barnabas.storage.replay import index_entry
from barnabas.storage.rolling_log import RollingLog
from barnabas.storage.segment import Segment, remove_files
from barnabas.wire.batch import LOG_OVERHEAD, NO_TIMESTAMP, BatchError, stamp
from barnabas.wire.control_batch import build_marker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barnabas.core.producer_state import Duplicate, Verification
    from barnabas.model.errors import ErrorCode
    from barnabas.wire.batch import BatchHeader
    from barnabas.wire.control_batch import EndMarker


#: What the constructor of a NamedTuple does, a function in Python that takes as long as the rest of an append.
_new: Final = tuple.__new__


class Appended(NamedTuple):
    """Where a batch went, and whether a flush is due now."""

    base_offset: int
    last_offset: int
    flush_due: bool


class LogWriter(RollingLog):
    """See the module."""

    __slots__ = ()

    # Appending

    def check_producer(
        self, header: BatchHeader, guard: Verification | None = None
    ) -> Duplicate | ErrorCode | None:
        """Tell whether a batch fits its producer's sequence: None, the first copy of it, or an error."""
        return self.producers.check(header, guard)

    def append_marker(
        self,
        marker: EndMarker,
        producer_id: int,
        producer_epoch: int,
        leader_epoch: int,
        now_ms: int,
    ) -> Appended:
        """End a producer's transaction here, as leader. The caller has checked the epochs. On OSError nothing changed."""
        batch, header = build_marker(marker, producer_id, producer_epoch, now_ms)
        # Before the index entry: that belongs into the segment with the marker.
        self._roll_if_due(header, self.log_end_offset + header.last_offset_delta, now_ms)
        completed = self.producers.completion(
            producer_id, self.log_end_offset, aborted=not marker.commit
        )
        if completed is None or marker.commit:
            return self.append(batch, header, leader_epoch, now_ms, marker)
        if not len(self._active.aborted):
            self._names_changes += 1
        self._active.aborted.add(index_entry(self.producers, completed))
        try:
            return self.append(batch, header, leader_epoch, now_ms, marker)
        except OSError as error:
            self._undo_aborted(error)
            raise

    def _undo_aborted(self, error: OSError) -> None:
        try:
            self._active.aborted.drop_last()
        except OSError:
            self._break(error)

    def append(
        self,
        batch: memoryview,
        header: BatchHeader,
        leader_epoch: int,
        now_ms: int,
        marker: EndMarker | None = None,
    ) -> Appended:
        """Write one batch as leader, stamping offset and epoch in place.

        The caller has checked its bytes and sequence, and `header` is what stands in it; `marker` is what a control
        batch says. On OSError nothing was appended.
        """
        segment = self._active
        position = segment.size
        base_offset = self.log_end_offset
        last_offset = base_offset + header.last_offset_delta
        max_timestamp = header.max_timestamp
        end = position + header.batch_length + LOG_OVERHEAD
        if (
            end > self._roll_bytes
            or max_timestamp > self._roll_timestamp
            or last_offset > self._roll_offset
        ):
            self._roll_if_due(header, last_offset, now_ms)
            segment = self._active
            end += segment.size - position
            position = segment.size
        if leader_epoch != self.epochs.latest:
            self.assign_epoch(leader_epoch)
        indexed = segment.since_index > self._index_interval
        if indexed:
            segment.spill_when_due()
        stamp(batch, base_offset, leader_epoch)
        try:
            segment.log.write(position, (batch,))
        except OSError as error:
            self._undo_write(segment, error)
            raise
        # From here on nothing fails. The end offset goes first: see the module.
        self.log_end_offset = last_offset + 1
        segment.size = end
        if max_timestamp > segment.largest[0]:
            segment.largest = (max_timestamp, last_offset)
        if indexed:
            segment.add_index_entries(last_offset, position)
            self._entries_left -= 1
            if self._entries_left <= 0:
                self._set_roll_limits()
        segment.since_index += end - position
        if position == 0:
            segment.first_timestamp = max_timestamp
            self._set_roll_limits()
        if header.producer_id >= 0:
            self.producers.update(header, base_offset, marker)
        flush_due = (
            last_offset + 1 - self.recovery_point >= self._flush_messages or self._closed_unflushed
        ) and not self._flushing
        return _new(Appended, (base_offset, last_offset, flush_due))

    def append_run(
        self, run: Sequence[tuple[memoryview, BatchHeader]], leader_epoch: int
    ) -> int | None:
        """Write several batches with one call, as `append` would one by one; the first one's base offset.

        None, and nothing changed, where one of them may have to do more than that: begin a segment or an epoch, or
        spill an index. On OSError none was appended.
        """
        segment = self._active
        position = segment.size
        base_offset = next_offset = self.log_end_offset
        end, latest = position, NO_TIMESTAMP
        for batch, header in run:
            stamp(batch, next_offset, leader_epoch)
            next_offset += header.last_offset_delta + 1
            end += len(batch)
            latest = max(latest, header.max_timestamp)
        if (
            position == 0
            or end > self._roll_bytes
            or latest > self._roll_timestamp
            or next_offset > self._roll_offset
            or leader_epoch != self.epochs.latest
            or len(run) >= self._entries_left
            or segment.is_spill_due
            or next_offset - self.recovery_point >= self._flush_messages
            or self._closed_unflushed
        ):
            return None
        try:
            segment.log.write(position, [batch for batch, _ in run])
        except OSError as error:
            self._undo_write(segment, error)
            raise
        # From here on nothing fails. The end offset goes first: see the module.
        self.log_end_offset = next_offset
        segment.size = end
        offset = base_offset
        for batch, header in run:
            indexed = segment.since_index > self._index_interval
            last_offset = offset + header.last_offset_delta
            if header.max_timestamp > segment.largest[0]:
                segment.largest = (header.max_timestamp, last_offset)
            if indexed:
                segment.add_index_entries(last_offset, position)
                self._entries_left -= 1
            segment.since_index += len(batch)
            if header.producer_id >= 0:
                self.producers.update(header, offset)
            position += len(batch)
            offset = last_offset + 1
        return base_offset

    # Appending as follower

    def append_as_follower(self, records: memoryview, now_ms: int) -> bool:
        """Write the batches of a leader as they are, up to the last whole one; tell whether a flush is due.

        BatchError, and nothing was appended, if one is damaged or does not go behind what is here. On OSError those written
        before it stay. A log without records may begin in the middle of a batch, whose first records the leader deleted: it
        begins with that batch then.
        """
        batches = whole_batches(records, self.log_end_offset)
        if not batches:
            return False
        if batches[0].header.base_offset < self.log_end_offset:
            self._begin_below(batches[0].header.base_offset, now_ms)
        run: list[LeaderBatch] = []
        for batch in batches:
            if run and not self._fits(batch, run):
                self._write_run(records, run)
                run = []
            if not run:
                self._prepare_run(batch.header, now_ms)
            run.append(batch)
        self._write_run(records, run)
        unflushed = self.log_end_offset - self.recovery_point
        return (unflushed >= self._flush_messages or self._closed_unflushed) and not self._flushing

    def _begin_below(self, base_offset: int, now_ms: int) -> None:
        """Let a log without records begin at a lower offset."""
        self._check_settled()
        if self.log_end_offset > self.log_start_offset or self.size_bytes:
            raise BatchError(f"offset {base_offset} comes after {self.log_end_offset - 1}")
        old = self._segments
        segment = self._create_segment(base_offset, now_ms)
        for one in old:
            one.dropped = True
            remove_files(self._disk, self.directory, one.base_offset)
        self._go_on_with((segment,))
        self.log_start_offset = self.log_end_offset = base_offset
        self.recovery_point = min(self.recovery_point, base_offset)
        self._hints.clear()
        self._set_roll_limits()

    def _fits(self, batch: LeaderBatch, run: Sequence[LeaderBatch]) -> bool:
        """Tell whether a batch may be written together with those before it."""
        header, size = batch.header, self._active.size
        epoch = header.partition_leader_epoch
        return (
            0 < size <= self._roll_bytes - (batch.end - run[0].start)
            and header.max_timestamp <= self._roll_timestamp
            and header.base_offset + header.last_offset_delta <= self._roll_offset
            and (epoch == self.epochs.latest or epoch == UNDEFINED_EPOCH)
            and len(run) < self._entries_left
            # The index entry of one that was aborted needs the state after those before it.
            and (batch.marker is None or batch.marker.commit)
        )

    def _prepare_run(self, header: BatchHeader, now_ms: int) -> None:
        """Do what the next batch asks for before it is written: a new segment, a new epoch, room in the index."""
        segment, epoch = self._active, header.partition_leader_epoch
        if (
            segment.size + header.size > self._roll_bytes
            or header.max_timestamp > self._roll_timestamp
            or header.last_offset > self._roll_offset
        ):
            self._roll_if_due(header, header.last_offset, now_ms)
        if epoch not in (self.epochs.latest, UNDEFINED_EPOCH):
            self.assign_epoch(epoch, header.base_offset)
        self._active.spill_when_due()

    def _write_run(self, records: memoryview, run: Sequence[LeaderBatch]) -> None:
        """Write batches that follow each other with one call. On OSError none was appended."""
        segment, next_offset = self._active, self.log_end_offset
        shift = segment.size - run[0].start
        is_noted = self._note_aborted(run[0])
        try:
            segment.log.write(segment.size, (records[run[0].start : run[-1].end],))
        except OSError as error:
            self._undo_write(segment, error)
            if is_noted:
                self._undo_aborted(error)
            raise
        # From here on nothing fails. The end offset goes first: see the module.
        self.log_end_offset = run[-1].header.next_offset
        segment.size = shift + run[-1].end
        for header, start, end, marker in run:
            base_offset, position = header.base_offset, shift + start
            last_offset = base_offset + header.last_offset_delta
            if base_offset > next_offset and not self._may_have_gaps:
                self._allow_gaps()
            if header.max_timestamp > segment.largest[0]:
                segment.largest = (header.max_timestamp, last_offset)
            if segment.since_index > self._index_interval:
                segment.add_index_entries(last_offset, position)
            segment.since_index += end - start
            if position == 0:
                segment.first_timestamp = header.max_timestamp
            if header.producer_id >= 0:
                self.producers.update(header, base_offset, marker)
            next_offset = last_offset + 1
        self._set_roll_limits()

    def _note_aborted(self, batch: LeaderBatch) -> bool:
        """Put the transaction that a batch aborts into the index, before the batch is written; tell whether there was one."""
        if not batch.is_abort:
            return False
        header = batch.header
        completed = self.producers.completion(header.producer_id, header.base_offset, aborted=True)
        if completed is None:
            return False
        if not len(self._active.aborted):
            self._names_changes += 1
        self._active.aborted.add(index_entry(self.producers, completed))
        return True

    def _undo_write(self, segment: Segment, error: OSError) -> None:
        try:
            segment.log.truncate(segment.size)
        except OSError:
            self._break(error)
