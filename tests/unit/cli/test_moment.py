import pytest

from barnabas.cli.moment import duration_ms, moment_ms

NOW_MS = 1_800_000_000_000


def test_a_time_is_so_long_ago_or_a_date():
    assert moment_ms("1h", NOW_MS) == NOW_MS - 3_600_000
    assert moment_ms("@1731700000000", NOW_MS) == 1_731_700_000_000
    assert moment_ms("1970-01-02T00:00:00Z", NOW_MS) == 86_400_000


@pytest.mark.parametrize(
    "text", ["", "bogus", "beginning", "end", "42", "20261115", "-10", "2026-13-01"]
)
def test_what_is_no_time_is_refused_and_only_times_are_offered(text):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the whole text is compared
        moment_ms(text, NOW_MS)
    assert str(caught.value) == f"'{text}' is no time; allowed: 1h, 30m, 2d, @1731700000000 or 2026-11-15T10:00"  # fmt: skip


@pytest.mark.parametrize("text", ["0001-01-01", "9999-12-31T23:59-12:00"])
def test_a_date_at_the_end_of_the_calendar_is_no_traceback(text):
    with pytest.raises(ValueError, match="allowed: 1h"):
        moment_ms(text, NOW_MS)


def test_units_add_up():
    assert duration_ms("1w1d1h1m1s1ms") == 604_800_000 + 86_400_000 + 3_600_000 + 60_000 + 1_001
