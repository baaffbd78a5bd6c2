"""A clock that is believed only when it may be."""

from barnabas.core.steady_clock import HOLD_MS, TOLERANCE_MS, SteadyClock

START = 1_700_000_000_000
HOUR = 3_600_000


def read(clock, passed_ms, wrong_by_ms=0):
    """Read after some time of the clock that never jumps, the other one being wrong."""
    return clock.read(START + passed_ms + wrong_by_ms, passed_ms) - START


def test_a_clock_that_is_kept_right_is_believed():
    clock = SteadyClock(START, 0)
    assert read(clock, 1000) == 1000
    assert read(clock, 2000, TOLERANCE_MS) == 2000 + TOLERANCE_MS
    assert not clock.is_doubted


def test_a_jump_ahead_is_not_believed_at_first():
    clock = SteadyClock(START, 0)
    assert read(clock, 1000, HOUR) == 1000
    assert clock.is_doubted
    assert read(clock, 1000 + HOLD_MS - 1, HOUR) == 1000 + HOLD_MS - 1


def test_a_time_that_is_kept_is_believed_after_a_while():
    clock = SteadyClock(START, 0)
    read(clock, 1000, HOUR)
    assert read(clock, 1000 + HOLD_MS, HOUR + 5) == 1000 + HOLD_MS + HOUR + 5
    assert not clock.is_doubted


def test_another_jump_begins_the_wait_anew():
    clock = SteadyClock(START, 0)
    read(clock, 0, HOUR)
    assert read(clock, HOLD_MS, 2 * HOUR) == HOLD_MS
    assert read(clock, HOLD_MS + 1, 2 * HOUR) == HOLD_MS + 1
    assert read(clock, 2 * HOLD_MS, 2 * HOUR) == 2 * HOLD_MS + 2 * HOUR


def test_a_clock_that_is_set_right_again_never_counted():
    clock = SteadyClock(START, 0)
    read(clock, 0, HOUR)
    assert read(clock, 1000) == 1000
    assert not clock.is_doubted
    assert read(clock, HOLD_MS + 1000, HOUR) == HOLD_MS + 1000


def test_going_back_is_believed_at_once():
    clock = SteadyClock(START, 0)
    assert read(clock, 1000, -HOUR) == 1000 - HOUR
    assert read(clock, 2000) == 2000 - HOUR  # and the way back is a jump ahead
    assert clock.is_doubted
