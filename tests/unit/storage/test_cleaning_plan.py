"""What of a log can be cleaned, how dirty it is, and when it is worth it."""

import pytest
from cleaner_kit import LIMITS, compacted, put
from log_kit import NOW, new_disk, open_log

from barnabas.storage.batch_filter import LastBatch
from barnabas.storage.cleaning_plan import is_worth_it, measure, plan
from barnabas.wire.batch import Producer

HOUR = 3_600_000


def log_of(*timestamps, **settings):
    """A log with one batch in each closed segment, and an active segment with one more."""
    log = open_log(new_disk(), compacted(**settings))
    for timestamp in timestamps:
        put(log, [(b"k", b"v"), (b"l", b"v")], timestamp=timestamp, step=0)
        log.roll(NOW)
    put(log, [(b"k", b"v")])
    return log


def look(log, clean_offset=None, *, stable_offset=10**9, now_ms=NOW):
    return measure(log, clean_offset, stable_offset, now_ms)


def test_a_log_that_was_never_cleaned_is_all_dirty():
    log = log_of(NOW, NOW, NOW)
    dirtiness = look(log)
    assert (dirtiness.first_dirty_offset, dirtiness.end_offset) == (0, 6)
    assert dirtiness.clean_bytes == 0
    assert dirtiness.cleanable_bytes == sum(one.size for one in log.closed_segments)
    assert dirtiness.ratio == 1.0


def test_what_was_cleaned_before_counts_as_clean():
    log = log_of(NOW, NOW, NOW, NOW)
    dirtiness = look(log, 6)
    assert dirtiness.ratio == 0.25
    assert not is_worth_it(log, dirtiness)
    log.configure(compacted(min_cleanable_dirty_ratio=0.2))
    assert is_worth_it(log, dirtiness)


@pytest.mark.parametrize("clean_offset", [0, 100])
def test_a_checkpoint_outside_of_the_log_does_not_count(clean_offset):
    log = log_of(NOW, NOW, NOW)
    log.advance_log_start(2)
    assert look(log, clean_offset).first_dirty_offset == 2


def test_nothing_from_the_stable_offset_on():
    log = log_of(NOW, NOW, NOW)
    assert look(log, stable_offset=6).end_offset == 6
    assert look(log, stable_offset=5).end_offset == 4
    assert look(log, stable_offset=1).end_offset == 0
    assert not is_worth_it(log, look(log, stable_offset=1))


def test_nothing_younger_than_the_minimal_lag():
    log = log_of(NOW - 3 * HOUR, NOW - HOUR, NOW - 2 * HOUR, min_compaction_lag_ms=HOUR)
    assert look(log).end_offset == 6
    assert look(log, now_ms=NOW - 1).end_offset == 2
    assert look(log, 4, now_ms=NOW - 1).end_offset == 6


def test_the_maximal_lag_makes_a_log_due():
    log = log_of(NOW - 3 * HOUR, NOW, NOW, NOW, max_compaction_lag_ms=2 * HOUR)
    log.configure(compacted(max_compaction_lag_ms=2 * HOUR, min_cleanable_dirty_ratio=1.0))
    assert is_worth_it(log, look(log))
    assert not is_worth_it(log, look(log, 2))
    assert is_worth_it(log, look(log, 2, now_ms=NOW + 3 * HOUR))
    assert not is_worth_it(log, look(log, 8, now_ms=NOW + 3 * HOUR))


def test_damage_does_not_make_a_log_due():
    log = log_of(NOW - 3 * HOUR, max_compaction_lag_ms=2 * HOUR)
    segment = log.closed_segments[0]
    segment.first_timestamp = None
    segment.log.write(16, [b"\7"])
    assert not look(log).is_overdue


def test_an_empty_log():
    log = open_log(new_disk(), compacted())
    dirtiness = look(log)
    assert dirtiness.ratio == 0.0
    assert not is_worth_it(log, dirtiness)


def test_the_order_tells_the_cleaner_all_it_needs():
    log = open_log(new_disk(), compacted(delete_retention_ms=5))
    put(log, [(b"k", b"v"), (b"l", b"v")], producer=Producer(7, 2, 0))
    log.roll(NOW)
    put(log, [(b"k", b"v")])
    log.roll(NOW)
    order = plan(log, look(log, stable_offset=2), LIMITS, NOW + 1)
    assert [source.base_offset for source in order.sources] == [0]
    assert order.sources[0].size_bytes == log.closed_segments[0].size
    assert order.later_segments == (2, 3)
    assert order.producers == {7: LastBatch(1, 2)}
    assert (order.now_ms, order.delete_retention_ms, order.segment_bytes) == (NOW + 1, 5, 1000)
