from datetime import UTC, datetime

import pytest

from barnabas.cli.position import (
    At,
    Back,
    Beginning,
    End,
    Since,
    moment_ms,
    parse_position,
    relative_ms,
    resolve,
)

NOW_MS = 1_800_000_000_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("beginning", Beginning()),
        ("earliest", Beginning()),
        ("end", End()),
        ("latest", End()),
        ("0", At(0)),
        ("42", At(42)),
        ("-10", Back(10)),
        ("@1731700000000", Since(1_731_700_000_000)),
        ("1h", Since(NOW_MS - 3_600_000)),
        ("1h30m", Since(NOW_MS - 5_400_000)),
        ("250ms", Since(NOW_MS - 250)),
        ("1970-01-02T00:00:00Z", Since(86_400_000)),
        ("1970-01-01T01:00:00.5+01:00", Since(500)),
    ],
)
def test_what_a_person_types_is_a_position(text, expected):
    assert parse_position(text, NOW_MS) == expected


def test_a_time_without_a_zone_is_local_time():
    local = datetime.fromtimestamp(1_731_700_000, tz=UTC).astimezone().replace(tzinfo=None)
    assert parse_position(local.isoformat(), NOW_MS) == Since(1_731_700_000_000)


@pytest.mark.parametrize(
    "text", ["", "-", "@", "yesterday", "1y", "h1", "2026-13-01", "4.2", "1h "[:-1] + "x"]
)
def test_anything_else_is_refused_with_what_is_allowed(text):
    with pytest.raises(ValueError, match="allowed: beginning, end"):
        parse_position(text, NOW_MS)


def test_a_time_is_a_position_of_that_kind():
    assert moment_ms("1h", NOW_MS) == NOW_MS - 3_600_000
    assert moment_ms("@1731700000000", NOW_MS) == 1_731_700_000_000
    assert moment_ms("1970-01-02T00:00:00Z", NOW_MS) == 86_400_000


@pytest.mark.parametrize("text", ["", "bogus", "beginning", "end", "42", "-10", "2026-13-01"])
def test_what_is_no_time_is_refused_and_only_times_are_offered(text):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the whole text is compared
        moment_ms(text, NOW_MS)
    assert str(caught.value) == f"'{text}' is no time; allowed: 1h, 30m, 2d, @1731700000000 or 2026-11-15T10:00"  # fmt: skip


@pytest.mark.parametrize("text", ["0001-01-01", "9999-12-31T23:59-12:00"])
def test_a_date_at_the_end_of_the_calendar_is_no_traceback(text):
    with pytest.raises(ValueError, match="allowed: 1h"):
        moment_ms(text, NOW_MS)


def test_units_add_up():
    assert relative_ms("1w1d1h1m1s1ms") == 604_800_000 + 86_400_000 + 3_600_000 + 60_000 + 1_001


@pytest.mark.parametrize(
    ("position", "since", "expected"),
    [
        (Beginning(), None, 10),
        (End(), None, 20),
        (At(15), None, 15),
        (At(3), None, 10),
        (At(99), None, 20),
        (Back(4), None, 16),
        (Back(0), None, 20),
        (Back(400), None, 10),
        (Since(5), 12, 12),
        (Since(5), -1, 20),
        (Since(5), None, 20),
    ],
)
def test_a_position_becomes_an_offset_within_the_bounds(position, since, expected):
    assert resolve(position, 10, 20, since) == expected
