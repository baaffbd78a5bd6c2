"""Words for partitions and spans of time."""

import pytest

from barnabas.cli.group_describe import ranges, seconds
from barnabas.cli.group_view import Place


def places(topic, *partitions):
    return [Place(topic, partition) for partition in partitions]


def test_partitions_in_few_words():
    assert ranges([]) == ""
    assert ranges([*places("b", 1), *places("a", 3, 0, 1, 2, 7)]) == "a:0-3,7 b:1"
    assert ranges(places("a", *range(0, 20, 2))) == "a:0,2,4,6,8,10,... 4 more"


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0.0, "0 s"),
        (1.5, "1.5 s"),
        (59.999, "59.999 s"),
        (60.0, "1 min"),
        (723.4, "12 min 3 s"),
        (7_500.0, "2 h 5 min"),
        (86_400.0, "1 d"),
        (273_600.0, "3 d 4 h"),
    ],
)
def test_spans_of_time(count, text):
    assert seconds(count) == text
