"""Where two logs part."""

import pytest

from barnabas.core.divergence import (
    EpochEnd,
    NewStart,
    UnknownEpochError,
    find_divergence,
    plan_out_of_range,
    plan_truncation,
)
from barnabas.core.epochs import EpochEntry, LeaderEpochs


def epochs(*entries):
    return LeaderEpochs([EpochEntry(*entry) for entry in entries])


LEADER = epochs((1, 0), (4, 10), (6, 20))


@pytest.mark.parametrize(
    ("epoch", "offset", "answer"),
    [
        (6, 25, None),
        (6, 30, None),
        (4, 20, None),
        (4, 21, EpochEnd(4, 20)),
        (5, 15, EpochEnd(4, 20)),
        (1, 11, EpochEnd(1, 10)),
        (0, 3, EpochEnd(0, 0)),
        (-1, 0, None),
    ],
)
def test_the_leader_tells_where_an_epoch_ends(epoch, offset, answer):
    assert find_divergence(LEADER, 30, epoch, offset) == answer


def test_an_epoch_that_the_leader_never_heard_of():
    with pytest.raises(UnknownEpochError, match="later than 6"):
        find_divergence(LEADER, 30, 7, 5)


@pytest.mark.parametrize(
    ("ours", "end", "leader", "cut"),
    [
        (((1, 0), (4, 10)), 25, EpochEnd(4, 20), 20),
        (((1, 0), (4, 10)), 15, EpochEnd(4, 20), 15),
        (((1, 0), (5, 10)), 15, EpochEnd(4, 20), 10),
        (((4, 10), (5, 12)), 15, EpochEnd(4, 20), 12),
        (((5, 10),), 15, EpochEnd(4, 20), 10),
        ((), 15, EpochEnd(4, 12), 12),
        (((4, 10),), 15, EpochEnd(-1, -1), 15),
    ],
)
def test_the_follower_goes_back_to_the_last_epoch_that_both_know(ours, end, leader, cut):
    assert plan_truncation(epochs(*ours), end, leader) == cut


@pytest.mark.parametrize(
    ("end", "leader_log", "answer"),
    [
        (50, (10, 40), NewStart(40, starts_over=False)),
        (5, (10, 40), NewStart(10, starts_over=True)),
        (10, (10, 40), NewStart(10, starts_over=False)),
        (40, (10, 40), NewStart(40, starts_over=False)),
    ],
)
def test_an_offset_out_of_range_comes_back_into_the_leaders_log(end, leader_log, answer):
    assert plan_out_of_range(end, *leader_log) == answer
