"""Bytes per second over the last windows."""

import pytest

from barnabas.core.byte_rate import ByteRate


def test_nothing_is_no_rate():
    assert ByteRate(11, 1000).per_second(5000) == 0


def test_the_first_bytes_are_taken_over_a_whole_window():
    rate = ByteRate(11, 1000)
    rate.add(500, 10_000)
    assert rate.per_second(10_001) == 500
    rate.add(500, 10_999)
    assert rate.per_second(10_999) == 1000


def test_a_steady_stream_has_its_rate():
    rate = ByteRate(11, 1000)
    for now_ms in range(0, 60_000, 100):
        rate.add(100, now_ms)
    assert rate.per_second(60_000) == pytest.approx(1000, rel=0.05)


def test_old_windows_are_forgotten():
    rate = ByteRate(3, 1000)
    rate.add(9000, 0)
    rate.add(600, 2000)
    assert rate.per_second(2500) == pytest.approx(9600 / 2.5)
    assert rate.per_second(3000) == pytest.approx(600)
    assert rate.per_second(5000) == 0
    rate.add(100, 5000)
    assert rate.per_second(5500) == 100
