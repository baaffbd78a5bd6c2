"""Retention against a plain list of records: only old or surplus segments go, all of them, and nothing else."""

import random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from log_kit import DIRECTORY, NOW, append, config, open_log, read_all

from barnabas.sim.disk import SimDisk
from barnabas.storage.retention import Bounds, Reason, decide_drops, forecast
from barnabas.wire.batch import NO_TIMESTAMP

RETENTION_MS = 100


class RetentionMachine(RuleBasedStateMachine):
    """`records` is what the log must hold: offset -> timestamp."""

    @initialize(
        seed=st.integers(0, 2**32),
        segment_bytes=st.sampled_from([100, 300, 1000]),
        retention_ms=st.sampled_from([-1, RETENTION_MS]),
        retention_bytes=st.sampled_from([-1, -1, 0, 400, 1500]),
        policy=st.sampled_from([("delete",), ("delete",), ("compact", "delete"), ("compact",), ()]),
    )
    def open_first(self, seed, segment_bytes, **retention):
        self.disk = SimDisk(random.Random(seed))
        self.disk.make_dir(DIRECTORY)
        self.disk.now_ms = lambda: self.now
        policy = retention.pop("policy")
        self.config = config(segment_bytes=segment_bytes, cleanup_policy=policy, **retention)
        self.now = NOW
        self.records = {}
        self.written_ms = {}
        self.start = self.end = 0
        self.recovery_point = 0
        self.open(clean=True)

    def open(self, *, clean):
        self.log = open_log(
            self.disk, self.config, now_ms=self.now, clean=clean,
            recovery_point=self.recovery_point, log_start_offset=self.start,
        )  # fmt: skip

    @rule(
        count=st.integers(1, 4),
        size=st.integers(0, 60),
        ahead_ms=st.one_of(st.none(), st.integers(-150, 150)),
    )
    def append(self, count, size, ahead_ms):
        self.now += 1
        timestamp = NO_TIMESTAMP if ahead_ms is None else self.now + ahead_ms
        append(self.log, count=count, size=size, timestamp=timestamp, now_ms=self.now)
        for offset in range(self.end, self.end + count):
            self.records[offset] = timestamp
            self.written_ms[offset] = self.now
        self.end += count

    @rule(milliseconds=st.integers(1, 120))
    def wait(self, milliseconds):
        self.now += milliseconds

    @rule()
    def roll(self):
        self.log.roll(self.now)

    @rule(behind=st.integers(0, 6))
    def retain(self, behind):
        """Let segments go, with a high watermark that may be behind the end."""
        watermark = max(self.log.log_start_offset, self.end - behind)
        before = self.spans()
        drops = decide_drops(self.log.segments, self.bounds(watermark), self.log.config, self.now)
        gone = naive(before, self.config, self.now, self.log.log_start_offset, watermark)
        assert [segment.base_offset for drop in drops for segment in drop.segments] == [
            base for base, *_ in gone
        ]
        if not drops:
            return
        end_offset = drops[-1].end_offset
        assert end_offset <= watermark
        if end_offset == self.end:
            self.log.roll(self.now)
        for path in self.log.advance_log_start(end_offset):
            self.disk.remove(path)
        self.start = self.log.log_start_offset
        if all(drop.reason is Reason.TIME for drop in drops):
            assert all(
                self.now - self.time_of(offset) > RETENTION_MS
                for offset in self.records
                if offset < end_offset
            )
        self.records = {at: time for at, time in self.records.items() if at >= self.start}

    @rule()
    def forecast_comes_true(self):
        bounds = self.bounds(self.end)
        for segment, when in zip(
            self.log.segments,
            forecast(self.log.segments, bounds, self.log.config),
            strict=True,
        ):
            if when.at_ms is None or self.config.retention_bytes >= 0:
                continue
            assert segment not in self.dropped_at(bounds, when.at_ms - 1)
            assert segment in self.dropped_at(bounds, when.at_ms)

    @rule(share=st.floats(0, 1))
    def delete_records(self, share):
        self.start += int((self.end - self.start) * share)
        self.log.move_log_start(self.start)
        self.records = {at: time for at, time in self.records.items() if at >= self.start}

    @rule(power=st.booleans())
    def crash(self, power):
        self.flush()
        if power:
            self.disk.crash()
        else:
            self.disk.process_crash()
        self.open(clean=False)

    @rule()
    def stop_and_start(self):
        self.log.close(clean=True)
        self.recovery_point = self.log.recovery_point
        self.open(clean=True)

    @invariant()
    def holds_what_it_must(self):
        if hasattr(self, "log"):
            assert (self.log.log_start_offset, self.log.log_end_offset) == (self.start, self.end)
            found = {record.offset: record.timestamp for record in read_all(self.log)}
            assert found == self.records

    # What the model knows

    def flush(self):
        job = self.log.plan_flush(self.now, everything=True)
        if job is not None:
            job.run()
            self.log.on_flushed(job)
            self.recovery_point = self.log.recovery_point

    def bounds(self, watermark):
        return Bounds(self.log.log_start_offset, self.end, watermark)

    def dropped_at(self, bounds, now_ms):
        drops = decide_drops(self.log.segments, bounds, self.log.config, now_ms)
        return [segment for drop in drops for segment in drop.segments]

    def time_of(self, offset):
        timestamp = self.records[offset]
        return timestamp if timestamp >= 0 else self.written_ms[offset]

    def spans(self):
        """Each segment as (base offset, end offset, bytes, largest time)."""
        ends = [*self.log.base_offsets[1:], self.end]
        return [
            (segment.base_offset, end, segment.size, segment.largest_timestamp())
            for segment, end in zip(self.log.segments, ends, strict=True)
        ]


def naive(spans, settings_, now_ms, start_offset, watermark):
    """Take segments off one by one, as Kafka's documentation says it."""
    left, gone = list(spans), []

    def take_while(holds):
        while left and left[0][1] <= watermark and holds(left[0]):
            if len(left) == 1 and not left[0][2]:
                return
            gone.append(left.pop(0))

    take_while(lambda span: len(left) > 1 and span[1] <= start_offset)
    if "delete" in settings_.cleanup_policy:
        limit = settings_.retention_bytes
        take_while(lambda span: 0 <= limit <= sum(one[2] for one in left) - span[2])
        take_while(
            lambda span: settings_.retention_ms >= 0 and span[3] < now_ms - settings_.retention_ms
        )
    return gone


TestRetention = RetentionMachine.TestCase
TestRetention.settings = settings(max_examples=60, stateful_step_count=40)
