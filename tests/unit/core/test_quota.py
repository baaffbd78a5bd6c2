"""Rates over windows, throttle times and token buckets: Kafka's arithmetic."""

import pytest

from barnabas.core.quota import THROTTLE_MS_MAX, Rate, TokenBucket, Windows

WINDOWS = Windows(11, 1000)


def test_nothing_is_no_rate():
    rate = Rate(WINDOWS)
    assert rate.per_second(5) == 0
    assert rate.window_ms(5) == 10_000
    assert rate.throttle_ms(1, 5) == 0


def test_a_burst_is_spread_over_ten_windows():
    rate = Rate(WINDOWS)
    rate.record(10_000, 0)
    assert rate.per_second(0) == 1000
    assert rate.throttle_ms(1000, 0) == 0
    rate.record(1000, 0)
    assert rate.throttle_ms(1000, 0) == 1000


def test_the_throttle_time_is_what_the_same_sum_would_take_longer():
    rate = Rate(WINDOWS)
    rate.record(30_000, 0)
    assert rate.throttle_ms(2000, 0) == 5000
    assert (
        rate.throttle_ms(2000, 10_000) == 5000
    )  # it is measured over ten windows, whether they have passed or not
    assert rate.throttle_ms(2000, 10_900) == 4100
    assert rate.throttle_ms(2000, 11_000) == 0


def test_the_window_grows_until_the_oldest_sample_goes():
    rate = Rate(WINDOWS)
    for second in range(12):
        rate.record(100, second * 1000)
    assert rate.window_ms(11_000) == 10_000
    assert rate.total(11_000) == 1100  # what came at 0 is eleven seconds old
    assert rate.window_ms(11_500) == 10_500


def test_a_sample_with_late_events_is_kept_whole():
    rate = Rate(Windows(2, 1000))
    rate.record(1, 0)
    rate.record(1, 900)
    assert rate.total(2500) == 2
    assert rate.total(2900) == 0


def test_no_more_samples_are_kept_than_windows_and_one():
    rate = Rate(Windows(2, 1000))
    for second in range(4):
        rate.record(1, second * 1000)
        rate.record(1, second * 1000 + 999)
    assert rate.total(3999) == 4


def test_what_was_counted_can_be_taken_back():
    rate = Rate(WINDOWS)
    rate.record(500, 0)
    rate.record(-500, 1)
    assert rate.total(1) == 0


def test_one_window_is_measured_over_what_has_passed_of_it():
    rate = Rate(Windows(1, 1000))
    rate.record(5, 0)
    assert rate.window_ms(0) == 1
    assert rate.per_second(500) == 10


def test_a_throttle_time_fits_its_field():
    rate = Rate(WINDOWS)
    rate.record(1e18, 0)
    assert rate.throttle_ms(1, 0) == THROTTLE_MS_MAX


def test_a_bucket_starts_full_and_is_refilled_up_to_its_burst():
    bucket = TokenBucket(WINDOWS, 2, 0)
    assert bucket.tokens(0) == 22
    bucket.take(10, 0)
    assert bucket.tokens(1000) == 14
    assert bucket.tokens(60_000) == 22


def test_a_bucket_lends_and_then_makes_wait():
    bucket = TokenBucket(WINDOWS, 2, 0)
    bucket.take(30, 0)
    assert bucket.tokens(0) == -8
    assert bucket.throttle_ms(0) == 4000
    assert bucket.throttle_ms(3000) == 1000
    assert bucket.throttle_ms(4000) == 0


def test_a_bucket_whose_rate_has_changed_goes_on_with_what_it_has():
    bucket = TokenBucket(WINDOWS, 2, 0)
    bucket.take(22, 0)
    bucket.bound = 4
    assert bucket.tokens(1000) == 4
    bucket.bound = 0.1
    assert bucket.tokens(1000) == pytest.approx(1.1)
