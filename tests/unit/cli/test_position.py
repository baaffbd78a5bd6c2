from datetime import UTC, datetime

import pytest

from barnabas.cli.position import (
    At,
    Back,
    Beginning,
    End,
    Since,
    parse_position,
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
