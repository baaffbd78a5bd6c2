"""Compaction against a dictionary: whatever happened to a log, it says of every key what was said last."""

import contextlib
import random

from cleaner_kit import compact, compacted, put, state_of
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from log_kit import DIRECTORY, NOW, open_log, read, read_all

from barnabas.sim.disk import SimDisk
from barnabas.storage.cleaning_plan import CleanerLimits
from barnabas.wire.batch import headers
from barnabas.wire.compression import Codec

RETENTION = 100
KEYS = st.sampled_from([b"a", b"b", b"c", b"d", b"a key of more than sixteen bytes", b""])
VALUES = st.sampled_from([None, b"", b"1", b"2", b"x" * 300])


class CompactionMachine(RuleBasedStateMachine):
    """`written` is everything that was acknowledged, in order."""

    @initialize(
        seed=st.integers(0, 2**32),
        segment_bytes=st.sampled_from([100, 500, 3000]),
        memory=st.sampled_from([1, 100, 1 << 14]),
        buffer=st.sampled_from([1, 200, 1 << 16]),
    )
    def open_first(self, seed, segment_bytes, memory, buffer):
        self.disk = SimDisk(random.Random(seed))
        self.disk.make_dir(DIRECTORY)
        self.config = compacted(segment_bytes=segment_bytes, delete_retention_ms=RETENTION)
        self.limits = CleanerLimits(memory, 0.9, buffer)
        self.written = []
        self.end = 0
        self.clean_offset = None
        self.recovery_point = 0
        self.now = NOW
        self.reader = []  # what a reader knows who polls now and then, but within delete.retention.ms
        self.open(clean=True)

    def open(self, *, clean):
        self.log = open_log(
            self.disk, self.config, now_ms=self.now, clean=clean, recovery_point=self.recovery_point
        )

    def catch_up(self):
        next_offset = self.reader[-1].offset + 1 if self.reader else 0
        self.reader += read_all(self.log, next_offset)

    @rule(
        pairs=st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=6),
        codec=st.sampled_from([Codec.NONE, Codec.NONE, Codec.ZSTD, Codec.SNAPPY]),
    )
    def put(self, pairs, codec):
        self.now += 1
        put(self.log, pairs, codec=codec, timestamp=self.now, now_ms=self.now)
        head = read_all(self.log, self.log.log_end_offset - len(pairs))
        assert [(one.key, one.value) for one in head] == pairs
        self.written += head
        self.end += len(pairs)

    @rule()
    def roll(self):
        self.log.roll(self.now)

    @rule()
    def wait(self):
        self.catch_up()
        self.now += RETENTION

    @rule()
    def compact(self):
        """As a broker does: nothing that is not flushed counts."""
        self.clean_offset = compact(
            self.disk,
            self.log,
            clean_offset=self.clean_offset,
            now_ms=self.now,
            limits=self.limits,
            stable_offset=self.log.recovery_point,
        ).stats.clean_offset

    @rule()
    def flush_and_compact(self):
        self.flush()
        self.compact()

    @rule(nth=st.integers(1, 60), power=st.booleans())
    def compact_and_crash(self, nth, power):
        self.flush()
        self.disk.fail_call(nth)
        with contextlib.suppress(OSError):
            self.compact()
        if power:
            self.disk.crash()
        else:
            self.disk.process_crash()
        self.disk.heal()
        self.open(clean=False)

    @rule(power=st.booleans())
    def crash(self, power):
        """At any moment: a power loss may take what was not flushed, a kill takes nothing."""
        flushed = self.recovery_point if power else self.end
        (self.disk.crash if power else self.disk.process_crash)()
        self.open(clean=False)
        assert flushed <= self.log.log_end_offset <= self.end
        self.end = self.log.log_end_offset
        found = dict.fromkeys(read_all(self.log))
        self.written = [one for one in self.written if one.offset < flushed or one in found]
        self.reader = [one for one in self.reader if one.offset < flushed or one in found]
        if self.clean_offset is not None:
            self.clean_offset = min(self.clean_offset, self.end)

    @rule()
    def flush(self):
        job = self.log.plan_flush(self.now, everything=True)
        if job is not None:
            job.run()
            self.log.on_flushed(job)
            self.recovery_point = self.log.recovery_point

    @rule()
    def stop_and_start(self):
        self.log.close(clean=True)
        self.recovery_point = self.log.recovery_point
        self.open(clean=True)

    @invariant()
    def it_says_what_was_said_last(self):
        found = read_all(self.log)
        assert state_of(found) == state_of(self.written)
        assert found == sorted(found)
        assert dict.fromkeys(found).keys() <= dict.fromkeys(self.written).keys()
        assert self.log.log_end_offset == self.end

    @invariant()
    def a_reader_who_keeps_up_comes_to_the_same(self):
        self.catch_up()
        assert state_of(self.reader) == state_of(self.written)

    @invariant()
    def every_offset_can_be_read_from(self):
        found = [one.offset for one in read_all(self.log)]
        for offset in range(self.log.log_end_offset):
            slice_ = read(self.log, offset)
            after = [one for one in found if one >= offset]
            if slice_ is None:
                assert not after
                continue
            first = next(header for _, header in headers(memoryview(slice_.read())))
            assert first.last_offset >= offset
            assert not after or read_all(self.log, offset)[0].offset == after[0]


CompactionMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=30)
TestCompaction = CompactionMachine.TestCase
