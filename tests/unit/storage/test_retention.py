"""Which segments go, why, and when."""

from dataclasses import dataclass

import pytest
from log_kit import config

from barnabas.storage.retention import Bounds, Drop, Forecast, Reason, decide_drops, forecast

NOW = 1_000_000


@dataclass
class Stored:
    base_offset: int
    size: int = 100
    timestamp: int = NOW
    unsure: None = None

    def largest_timestamp(self):
        return self.timestamp


def segments_of(*timestamps, size=100):
    """One segment of ten offsets for each timestamp."""
    return [Stored(10 * number, size, at) for number, at in enumerate(timestamps)]


def decide(segments, settings, *, start=0, watermark=None, now_ms=NOW):
    """The reasons with the base offsets that go, and where the log starts then."""
    end = segments[-1].base_offset + (10 if segments[-1].size else 0)
    bounds = Bounds(start, end, end if watermark is None else watermark)
    drops = decide_drops(segments, bounds, settings, now_ms)
    return [(d.reason, [s.base_offset for s in d.segments], d.end_offset) for d in drops]


def by_time(ms, **more):
    return config(retention_ms=ms, **more)


# By time


def test_what_is_older_than_the_limit_goes():
    segments = segments_of(NOW - 300, NOW - 101, NOW - 100, NOW)
    assert decide(segments, by_time(100)) == [(Reason.TIME, [0, 10], 20)]


def test_an_older_segment_behind_a_younger_one_waits():
    segments = segments_of(NOW - 50, NOW - 300, NOW)
    assert decide(segments, by_time(100)) == []


def test_a_record_from_the_future_holds_back_all_that_follows():
    segments = segments_of(NOW - 300, NOW + 10**9, NOW - 300, NOW)
    assert decide(segments, by_time(100)) == [(Reason.TIME, [0], 10)]


@pytest.mark.parametrize("policy", ["compact", ""])
def test_without_the_policy_nothing_goes(policy):
    segments = segments_of(0, 0, 0)
    names = tuple(name for name in (policy,) if name)
    settings = config(retention_ms=1, retention_bytes=1, cleanup_policy=names)
    assert decide(segments, settings) == []
    assert decide(segments, settings, start=15) == [(Reason.START, [0], 10)]


def test_both_policies_delete():
    settings = by_time(100, cleanup_policy=("compact", "delete"))
    assert decide(segments_of(0, NOW), settings) == [(Reason.TIME, [0], 10)]


def test_for_ever():
    assert decide(segments_of(0, 0), by_time(-1)) == []


def test_the_active_segment_goes_when_all_of_it_is_old():
    assert decide(segments_of(0, 0), by_time(100)) == [(Reason.TIME, [0, 10], 20)]
    assert decide(segments_of(0), by_time(100)) == [(Reason.TIME, [0], 10)]


def test_an_empty_active_segment_stays():
    segments = [Stored(0, timestamp=0), Stored(10, size=0, timestamp=0)]
    assert decide(segments, by_time(100)) == [(Reason.TIME, [0], 10)]
    assert decide([Stored(10, size=0, timestamp=0)], by_time(100)) == []


def test_nothing_above_the_high_watermark_goes():
    segments = segments_of(0, 0, 0)
    assert decide(segments, by_time(100), watermark=19) == [(Reason.TIME, [0], 10)]
    assert decide(segments, by_time(100), watermark=20) == [(Reason.TIME, [0, 10], 20)]


# By size


@pytest.mark.parametrize(
    ("limit", "gone"),
    [(-1, []), (301, []), (300, [0]), (299, [0]), (200, [0, 10]), (1, [0, 10, 20])],
)
def test_the_log_stays_at_least_as_large_as_the_limit(limit, gone):
    found = decide(segments_of(NOW, NOW, NOW, NOW), config(retention_bytes=limit))
    assert found == ([(Reason.SIZE, gone, len(gone) * 10)] if gone else [])


def test_the_active_one_goes_only_when_nothing_may_stay():
    assert decide(segments_of(NOW, NOW), config(retention_bytes=0)) == [(Reason.SIZE, [0, 10], 20)]


def test_a_large_segment_is_not_passed_over():
    segments = [Stored(0, 1000), Stored(10, 10), Stored(20, 10)]
    assert decide(segments, config(retention_bytes=500)) == []


# One rule after another


def test_each_rule_goes_on_where_the_one_before_ended():
    segments = segments_of(0, 0, 0, 0, NOW)
    settings = config(retention_bytes=300, retention_ms=100)
    assert decide(segments, settings, start=12) == [
        (Reason.START, [0], 10),
        (Reason.SIZE, [10], 20),
        (Reason.TIME, [20, 30], 40),
    ]


def test_a_log_start_in_the_active_segment_drops_what_is_before():
    assert decide(segments_of(NOW, NOW), config(), start=15) == [(Reason.START, [0], 10)]
    assert decide(segments_of(NOW), config(), start=10) == []


def test_how_much_goes():
    segments = (Stored(0, 7), Stored(10, 8))
    assert Drop(Reason.SIZE, segments, 20).size_bytes == 15


# When


def predict(segments, settings):
    end = segments[-1].base_offset + 10
    return forecast(segments, Bounds(0, end, end), settings)


def test_the_forecast_by_time_waits_for_the_newest_before():
    found = predict(segments_of(50, 20, 70), by_time(100))
    assert [one.at_ms for one in found] == [151, 151, 171]
    assert all(one.after_bytes is None for one in found)


def test_the_forecast_by_size():
    found = predict(segments_of(0, 0, 0, 0), config(retention_bytes=350, retention_ms=-1))
    assert found == [
        Forecast(None, 50),
        Forecast(None, 150),
        Forecast(None, 250),
        Forecast(None, None),
    ]
    assert predict(segments_of(0, 0), config(retention_bytes=10))[0].after_bytes == 0


def test_an_empty_active_segment_is_not_forecast():
    found = predict([Stored(0), Stored(10, size=0)], by_time(100))
    assert found[1] == Forecast(None, None)


def test_nothing_is_forecast_without_the_policy():
    settings = config(retention_ms=1, retention_bytes=1, cleanup_policy=("compact",))
    assert predict(segments_of(0, 0), settings) == [Forecast(None, None)] * 2


@pytest.mark.parametrize("timestamps", [(5, 3, 9), (9, 5, 3), (3, 5, 9)])
def test_the_forecast_is_what_the_rule_does(timestamps):
    segments = segments_of(*timestamps)
    settings = by_time(100)
    for number, one in enumerate(predict(segments, settings)):
        before = decide(segments, settings, now_ms=one.at_ms - 1)
        after = decide(segments, settings, now_ms=one.at_ms)
        assert not before or segments[number].base_offset not in before[0][1]
        assert segments[number].base_offset in after[0][1]
