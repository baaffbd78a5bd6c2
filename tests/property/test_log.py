"""The log against a list: whatever is done to it, it holds what the list holds, and so it does when opened again."""

import random

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)
from log_kit import DIRECTORY, NOW, append, batch_of, config, open_log, read, read_all

from barnabas.core.producer_state import Duplicate
from barnabas.sim.disk import SimDisk
from barnabas.wire.batch import Producer, headers, read_header
from barnabas.wire.compression import Codec


class LogMachine(RuleBasedStateMachine):
    """`batches` is the model: (base offset, count, timestamp, epoch) of everything acknowledged."""

    def __init__(self):
        super().__init__()
        self.batches = []
        self.end = self.start = self.epoch = self.sequence = 0
        self.recovery_point = 0
        self.now = NOW

    @initialize(
        seed=st.integers(0, 2**32),
        interval=st.sampled_from([0, 100, 300, 4096]),
        segment_bytes=st.sampled_from([200, 600, 3000, 1 << 20]),
        segment_ms=st.sampled_from([5, 1000, 10**9]),
        index_bytes=st.sampled_from([12, 60, 10**6]),
    )
    def open_first(self, seed, interval, segment_bytes, segment_ms, index_bytes):
        self.disk = SimDisk(random.Random(seed))
        self.disk.make_dir(DIRECTORY)
        self.config = config(
            index_interval_bytes=interval,
            segment_bytes=segment_bytes,
            segment_ms=segment_ms,
            segment_index_bytes=index_bytes,
        )
        self.open(clean=True)

    def open(self, *, clean):
        self.log = open_log(
            self.disk,
            self.config,
            now_ms=self.now,
            clean=clean,
            recovery_point=self.recovery_point,
            log_start_offset=self.start,
        )

    # What may happen

    @rule(
        count=st.integers(1, 5),
        size=st.integers(0, 60),
        ahead=st.integers(-20, 20),
        codec=st.sampled_from(Codec),
        idempotent=st.booleans(),
    )
    def append(self, count, size, ahead, codec, idempotent):
        self.now += 1
        timestamp = self.now + ahead
        producer = Producer(7, 0, self.sequence) if idempotent else Producer()
        batch = batch_of(count, timestamp=timestamp, size=size, codec=codec, producer=producer)
        if idempotent:
            assert self.log.check_producer(read_header(batch)) is None
            self.sequence += count
        appended = append(self.log, batch, epoch=self.epoch, now_ms=self.now)
        assert appended.base_offset == self.end
        self.batches.append((self.end, count, timestamp, self.epoch))
        self.end += count
        if idempotent:
            again = self.log.check_producer(read_header(batch))
            assert again == Duplicate(appended.base_offset, appended.last_offset, timestamp)

    @rule(times=st.integers(20, 60))
    def append_many(self, times):
        for _ in range(times):
            self.append(1, 1, 0, Codec.NONE, idempotent=False)

    @rule()
    def change_leader(self):
        self.epoch += 1

    @rule()
    def roll(self):
        self.log.roll(self.now)

    @rule(everything=st.booleans())
    def flush(self, everything):
        job = self.log.plan_flush(self.now, everything=everything)
        if job is not None:
            job.run()
            self.log.on_flushed(job)
            self.recovery_point = self.log.recovery_point

    @rule(share=st.floats(0, 1))
    def delete_records(self, share):
        self.start = self.start + int((self.end - self.start) * share)
        for path in self.log.advance_log_start(self.start):
            self.disk.remove(path)

    @rule(share=st.floats(0, 1))
    def cut(self, share):
        """As a follower of a new leader, which goes on with an epoch of its own."""
        offset = self.start + int((self.end - self.start) * share)
        for path in self.log.truncate_to(offset, self.now):
            self.disk.remove(path)
        end = self.log.log_end_offset
        assert end <= offset
        assert not any(end < base + count <= offset for base, count, _, _ in self.batches)
        self.start = self.log.log_start_offset
        self.forget_from(end)
        self.recovery_point = self.log.recovery_point
        self.epoch += 1
        self.take_sequence()

    def take_sequence(self):
        entry = self.log.producers.get(7)
        self.sequence = entry.next_sequence if entry else 0

    @rule()
    def stop_and_start(self):
        self.log.close(clean=True)
        self.recovery_point = self.log.recovery_point
        assert self.recovery_point == self.end
        self.disk.crash()  # a clean stop brought everything to the medium
        self.open(clean=True)
        assert self.log.recovery.scanned_bytes == 0

    @rule()
    def kill(self):
        self.disk.process_crash()
        self.open(clean=False)
        assert self.log.recovery.cut_bytes == 0

    @rule()
    def lose_power(self):
        self.disk.crash()
        self.open(clean=False)
        assert self.log.log_end_offset >= min(self.end, self.recovery_point)
        self.forget_from(self.log.log_end_offset)
        # Names of dropped segments may come back, the start is remembered elsewhere.
        self.recovery_point = min(self.recovery_point, self.end)
        self.start = self.log.log_start_offset
        self.take_sequence()

    def forget_from(self, end):
        assert end <= self.end or not self.batches
        self.batches = [batch for batch in self.batches if batch[0] < end]
        self.end = end
        if end == self.start:
            self.batches = []  # everything after the start was lost: the log begins anew there
        elif self.batches:
            base, count, _, _ = self.batches[-1]
            assert base + count == end, "a batch was torn"

    # What must hold

    @rule(data=st.data(), nowait=st.booleans())
    @precondition(lambda self: self.end > self.start)
    def read_somewhere(self, data, nowait):
        offset = data.draw(st.integers(self.start, self.end))
        end_offset = data.draw(st.integers(offset, self.end))
        max_bytes = data.draw(st.integers(0, 2000))
        part = read(self.log, offset, max_bytes, end_offset=end_offset, nowait=nowait)
        wanted = [b for b in self.batches if b[0] + b[1] > offset and b[0] + b[1] <= end_offset]
        if not wanted:
            assert part is None
            return
        found = [header.base_offset for _, header in headers(memoryview(part.read()))]
        assert found, "at least one batch comes whole"
        assert found == [batch[0] for batch in wanted[: len(found)]]
        assert len(found) == 1 or part.size <= max_bytes

    @rule(ahead=st.integers(-60, 60))
    @precondition(lambda self: self.end > self.start)
    def look_by_time(self, ahead):
        wanted = self.now + ahead
        found = self.log.offset_for_timestamp(wanted)
        expected = None
        for base, count, timestamp, epoch in self.batches:
            if base + count > self.start and timestamp >= wanted:
                expected = (timestamp, max(base, self.start), epoch)
                break
        assert found == expected

    @invariant()
    def holds_what_the_list_holds(self):
        if not hasattr(self, "log"):
            return
        assert (self.log.log_start_offset, self.log.log_end_offset) == (self.start, self.end)
        expected = [
            (base + number, timestamp)
            for base, count, timestamp, _ in self.batches
            for number in range(count)
            if base + number >= self.start
        ]
        assert [(one.offset, one.timestamp) for one in read_all(self.log)] == expected

    @invariant()
    def knows_each_epoch(self):
        if not hasattr(self, "log"):
            return
        for base, count, _, epoch in self.batches:
            if base + count > self.start:
                assert self.log.epochs.epoch_at(base + count - 1) == epoch


#: Shrinking a run of the whole machine takes minutes: the blob that is printed replays it as well.
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)
LogMachine.TestCase.settings = settings(
    max_examples=80, stateful_step_count=30, print_blob=True, phases=PHASES
)
TestLog = LogMachine.TestCase
