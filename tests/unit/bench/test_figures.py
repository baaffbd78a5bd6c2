import pytest
from bench.figures import BARNABAS, KAFKA, Figure, Result, alternating, short, worse_by

RATE = Figure("w4.rate", "requests/s", "1/s", higher=True, target=1.5)
COST = Figure("w4.cpu", "CPU", "s/million", target=0.7)


def result(figure, ours, theirs):
    found = Result(figure)
    for value in ours:
        found.add(BARNABAS, value)
    for value in theirs:
        found.add(KAFKA, value)
    return found


def test_the_ratio_is_between_the_medians():
    found = result(RATE, [30, 10, 1000], [20, 10, 5])
    assert found.median(BARNABAS) == 30
    assert found.spread(BARNABAS) == (10, 1000)
    assert found.ratio == 3


@pytest.mark.parametrize(
    ("figure", "ours", "theirs", "met"),
    [
        (RATE, [15], [10], True),
        (RATE, [14.9], [10], False),
        (COST, [7], [10], True),
        (COST, [7.1], [10], False),
        (RATE, [15], [], None),
        (RATE, [], [10], None),
        (RATE, [15], [0], None),
        (Figure("x", "no target", "s"), [1], [1], None),
    ],
)
def test_a_target_is_met_in_its_direction_and_up_to_its_bound(figure, ours, theirs, met):
    assert result(figure, ours, theirs).met is met


def test_an_own_target_judges_barnabas_alone():
    figure = Figure("w8.lz4", "of none", "", target=1.1, own=True)
    assert result(figure, [1.0], [5.0]).met is True
    assert result(figure, [1.2], [5.0]).met is False
    assert figure.shown_target() == "≤ 1.1"
    assert RATE.shown_target() == "≥ 1.5x"


def test_worse_follows_the_direction():
    assert worse_by(RATE, before=2.0, now=1.0) == 2
    assert worse_by(COST, before=1.0, now=2.0) == 2
    assert worse_by(COST, before=2.0, now=1.0) == 0.5
    assert worse_by(COST, before=0.0, now=1.0) == 1


def test_numbers_keep_three_digits():
    assert [short(v) for v in (12345.6, 123.4, 12.34, 1.234, 0.1234, None)] == [
        "12,346",
        "123",
        "12.3",
        "1.23",
        "0.123",
        "-",
    ]


def test_the_order_alternates():
    names = [name for _, name in alternating(["A", "B"], 3)]
    assert "".join(names) == "ABBAAB"
    assert alternating(["A"], 2) == [(0, "A"), (1, "A")]
