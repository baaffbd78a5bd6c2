"""The rules of a partition, as leader and as follower."""

import pytest

from barnabas.core.partition import NO_LEADER, PartitionState
from barnabas.model.errors import ErrorCode

LAG = 1000
ALL = (1, 2, 3)


def leader(end_offset=10, high_watermark=10, in_sync=ALL, **settings):
    """Broker 1 as a new leader of three, in epoch 5."""
    state = PartitionState.undecided(1, high_watermark)
    state.lag_max_ms = LAG
    for name, value in settings.items():
        setattr(state, name, value)
    assert state.become_leader(
        replicas=ALL, in_sync=in_sync, leader_epoch=5, partition_epoch=0, log_end_offset=end_offset, now_ms=0
    )  # fmt: skip
    return state


def follow(state, leader_epoch=6, partition_epoch=1, leader=2):
    return state.become_follower(
        leader=leader, leader_epoch=leader_epoch, partition_epoch=partition_epoch, replicas=ALL, in_sync=ALL
    )  # fmt: skip


def lead(state, leader_epoch, partition_epoch=9, in_sync=ALL, end_offset=None, now_ms=0):
    return state.become_leader(
        replicas=ALL, in_sync=in_sync, leader_epoch=leader_epoch, partition_epoch=partition_epoch,
        log_end_offset=state.end_offset if end_offset is None else end_offset, now_ms=now_ms,
    )  # fmt: skip


# The only replica


def test_the_high_watermark_follows_the_only_replica():
    state = PartitionState(1, (1,), 0, 10)
    assert state.on_end_offset(12)
    assert state.high_watermark == 12
    assert not state.on_end_offset(12)


def test_the_high_watermark_never_falls():
    state = PartitionState(1, (1,), 0, 10)
    assert not state.on_end_offset(5)
    assert state.high_watermark == 10


def test_the_only_replica_tells_its_latest_offset_at_once():
    assert PartitionState(1, (1,), 0, 10).decide_latest() == ErrorCode.NONE


# Leading


def test_the_slowest_in_sync_replica_bounds_the_high_watermark():
    state = leader()
    assert not state.on_end_offset(20)
    assert not state.on_follower_fetch(2, 15, 0, 1)
    assert state.on_follower_fetch(3, 13, 0, 1)
    assert state.high_watermark == 13
    assert state.on_follower_fetch(3, 20, 0, 2)
    assert state.high_watermark == 15


def test_a_follower_that_lost_its_tail_does_not_move_the_high_watermark_back():
    state = leader()
    state.on_end_offset(20)
    state.on_follower_fetch(2, 20, 0, 1)
    assert state.on_follower_fetch(3, 20, 0, 1)
    assert not state.on_follower_fetch(3, 12, 0, 2)
    assert state.high_watermark == 20


def test_the_high_watermark_of_a_new_leader_waits_for_those_in_sync():
    state = leader(end_offset=20)
    assert not state.on_end_offset(20)
    assert state.decide_latest() == ErrorCode.OFFSET_NOT_AVAILABLE
    assert not state.on_follower_fetch(2, 20, 0, 1)
    assert state.on_follower_fetch(3, 20, 0, 1)
    assert state.decide_latest() == ErrorCode.NONE


def test_with_too_few_in_sync_the_high_watermark_stands_still():
    state = leader(in_sync=(1,), min_in_sync=2)
    assert not state.on_end_offset(20)
    assert state.on_in_sync_written((1, 2), 1) is False
    assert state.on_follower_fetch(2, 20, 0, 1)
    assert state.high_watermark == 20


def test_one_who_keeps_up_is_waited_for_before_it_is_in_sync():
    state = leader(in_sync=(1, 2))
    state.on_follower_fetch(2, 10, 0, 1)
    state.on_follower_fetch(3, 10, 0, 1)
    assert not state.on_end_offset(15)
    assert not state.on_follower_fetch(2, 15, 0, 2)
    assert state.on_follower_fetch(2, 15, 0, LAG + 2), "after that long nobody waits any more"
    assert state.high_watermark == 15


@pytest.mark.parametrize(
    ("acks", "min_in_sync", "code"),
    [
        (-1, 1, ErrorCode.NONE),
        (-1, 2, ErrorCode.NOT_ENOUGH_REPLICAS),
        (1, 2, ErrorCode.NONE),
        (0, 2, ErrorCode.NONE),
    ],
)
def test_acks_all_needs_enough_in_sync(acks, min_in_sync, code):
    assert leader(in_sync=(1,)).decide_append(acks, min_in_sync) == code


def test_no_more_than_all_replicas_need_be_in_sync():
    """What production asks of three replicas does not stop a topic with one."""
    state = PartitionState(1, (1,), 0, 0)
    assert state.decide_append(-1, 2) == ErrorCode.NONE
    assert not state.is_under(2)
    assert state.is_at(2)


def test_replicas_out_of_sync_are_told():
    state = leader()
    assert not state.is_under(2)
    assert not state.is_at(2)
    state.on_in_sync_written((1, 3), 1)
    assert not state.is_under(2)
    assert state.is_at(2)
    state.on_in_sync_written((1,), 2)
    assert state.is_under(2)
    assert not state.is_at(2)


def test_a_write_is_acknowledged_once_it_is_committed():
    state = leader()
    state.on_end_offset(12)
    assert state.decide_acknowledged(12, 5, 2) is None
    state.on_follower_fetch(2, 12, 0, 1)
    state.on_follower_fetch(3, 12, 0, 1)
    assert state.decide_acknowledged(12, 5, 2) == ErrorCode.NONE


def test_a_committed_write_that_too_few_have_is_told():
    state = leader()
    state.on_end_offset(12)
    assert state.plan_in_sync(LAG + 1, ALL) == (1,)
    assert state.on_in_sync_written((1,), 1)
    assert state.decide_acknowledged(12, 5, 2) == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    assert state.decide_acknowledged(12, 5, 1) == ErrorCode.NONE
    state.on_in_sync_sent((1, 2))
    assert state.decide_acknowledged(12, 5, 2) == ErrorCode.NONE


def test_a_write_is_not_acknowledged_across_a_time_as_follower():
    state = leader()
    lead(state, 6)
    assert state.decide_acknowledged(10, 5, 1) == ErrorCode.NONE, "it has led all the time"
    follow(state, 7)
    assert state.decide_acknowledged(10, 6, 1) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    lead(state, 8)
    assert state.decide_acknowledged(10, 6, 1) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert state.decide_acknowledged(10, 8, 1) == ErrorCode.NONE


@pytest.mark.parametrize(
    ("epoch", "code"),
    [
        (-1, ErrorCode.NONE),
        (5, ErrorCode.NONE),
        (4, ErrorCode.FENCED_LEADER_EPOCH),
        (6, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_a_clients_leader_epoch_is_compared(epoch, code):
    assert leader().decide_epoch(epoch) == code
    assert leader().decide_read(epoch, leader_only=True) == code
    assert leader().decide_follower(2, epoch) == code


def test_only_replicas_fetch_as_followers():
    assert leader().decide_follower(9, 5) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert leader().decide_follower(1, 5) == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_the_low_watermark_is_that_of_the_last_live_replica():
    state = leader()
    state.on_follower_fetch(2, 10, 4, 1)
    assert state.low_watermark(7, {1, 2}) == 4
    assert state.low_watermark(3, {1, 2}) == 3
    assert state.low_watermark(7, {1, 2, 3}) == -1
    assert state.low_watermark(7, {1}) == 7


# Who is in sync


def test_who_does_not_keep_up_leaves():
    state = leader()
    state.on_end_offset(20)
    state.on_follower_fetch(2, 20, 0, 500)
    state.on_follower_fetch(3, 12, 0, 500)
    assert state.plan_in_sync(LAG, ALL) is None
    assert state.plan_in_sync(LAG + 1, ALL) == (1, 2)
    assert state.plan_in_sync(500 + LAG, ALL) == (1, 2)


def test_who_has_all_that_is_committed_comes_in_if_it_lives():
    state = leader(end_offset=20, in_sync=(1, 2))
    state.on_follower_fetch(2, 20, 0, 1)
    state.on_follower_fetch(3, 19, 0, 1)
    assert state.plan_in_sync(1, ALL) is None
    state.on_follower_fetch(3, 20, 0, 2)
    assert state.plan_in_sync(2, {1, 2}) is None
    assert state.plan_in_sync(2, ALL) == (1, 2, 3)


def test_the_start_of_the_epoch_must_be_reached_and_not_only_the_high_watermark():
    """A new leader's high watermark lags: below its epoch's start there may be records that were committed."""
    state = leader(end_offset=20, high_watermark=10, in_sync=(1, 2))
    state.on_follower_fetch(3, 15, 0, 1)
    assert state.plan_in_sync(1, ALL) is None


def test_who_stopped_fetching_does_not_come_back_in():
    state = leader(in_sync=(1, 2), min_in_sync=3)
    state.on_follower_fetch(2, 10, 0, 1)
    state.on_follower_fetch(3, 10, 0, 1)
    state.on_end_offset(20)
    assert state.high_watermark == 10
    assert state.plan_in_sync(LAG + 1, ALL) == (1, 2, 3)
    assert state.plan_in_sync(LAG + 2, ALL) == (1,)


def test_one_change_is_under_way_at_a_time():
    state = leader()
    state.on_end_offset(20)
    planned = state.plan_in_sync(LAG + 1, ALL)
    assert planned == (1,)
    state.on_in_sync_sent(planned)
    assert state.plan_in_sync(LAG + 1, ALL) is None
    with pytest.raises(AssertionError):
        state.on_in_sync_sent((1, 2))


def test_one_who_is_leaving_counts_until_that_is_written():
    state = leader()
    state.on_end_offset(20)
    state.on_follower_fetch(2, 20, 0, LAG)
    state.on_in_sync_sent((1, 2))
    assert not state.on_follower_fetch(2, 20, 0, LAG + 5)
    assert state.on_in_sync_written((1, 2), 1)
    assert (state.high_watermark, state.in_sync, state.partition_epoch) == (20, (1, 2), 1)


def test_one_who_is_coming_in_counts_before_that_is_written():
    state = leader(in_sync=(1, 2))
    state.on_follower_fetch(3, 10, 0, 0)
    state.on_in_sync_sent((1, 2, 3))
    state.on_end_offset(20)
    assert not state.on_follower_fetch(2, 20, 0, 10 * LAG)
    assert state.on_in_sync_unchanged(), "it lags, and will not come in"
    assert state.high_watermark == 20
    assert state.pending_in_sync is None


def test_older_news_about_who_is_in_sync_pass_by():
    state = leader()
    lead(state, 6, partition_epoch=3, in_sync=(1, 2))
    assert not state.on_in_sync_written((1, 3), 3)
    assert state.in_sync == (1, 2)
    follow(state, 7, partition_epoch=4)
    assert not state.on_in_sync_written((1, 3), 5)
    assert not state.on_in_sync_unchanged()
    assert state.plan_in_sync(0, ALL) is None


def test_the_controllers_word_ends_a_change_under_way():
    state = leader()
    state.on_in_sync_sent((1,))
    assert lead(state, 5, partition_epoch=1, in_sync=(1, 2))
    assert state.pending_in_sync is None
    assert state.in_sync == (1, 2)


def test_a_replica_that_was_taken_from_the_partition_leaves():
    state = leader()
    state.become_leader(
        replicas=(1, 2), in_sync=ALL, leader_epoch=6, partition_epoch=1, log_end_offset=10, now_ms=0
    )
    assert state.plan_in_sync(0, ALL) == (1, 2)


# Changing roles


def test_a_replica_that_was_told_nothing_serves_nobody():
    state = PartitionState.undecided(1, 10)
    assert state.leader == NO_LEADER
    assert state.decide_append(1, 1) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert state.decide_acknowledged(5, 0, 1) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert state.decide_read(-1, leader_only=True) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert not state.on_end_offset(12)
    assert follow(state, 0, 0)


@pytest.mark.parametrize(("leader_epoch", "partition_epoch"), [(4, 9), (5, 0)])
def test_old_news_change_nothing(leader_epoch, partition_epoch):
    state = leader()
    assert not follow(state, leader_epoch, partition_epoch)
    assert not lead(state, leader_epoch, partition_epoch)
    assert state.is_leader
    assert state.leader_epoch == 5


def test_a_new_epoch_of_the_same_leader_keeps_what_it_knows():
    state = leader()
    state.on_end_offset(20)
    state.on_follower_fetch(2, 18, 0, 1)
    state.on_follower_fetch(3, 12, 0, 1)
    assert lead(state, 6, in_sync=(1, 2), now_ms=5)
    assert state.followers[2].end_offset == 18
    assert state.epoch_start_offset == 20
    assert state.on_end_offset(20), (
        "the third was taken out of the in-sync set and is not waited for"
    )
    assert state.high_watermark == 18


def test_after_a_time_as_follower_nothing_is_known_of_the_others():
    state = leader()
    state.on_follower_fetch(2, 10, 0, 1)
    follow(state, 6)
    lead(state, 7)
    assert state.followers[2].end_offset == -1


def test_a_leader_that_is_laid_down_serves_nobody():
    state = leader()
    state.on_in_sync_sent((1, 2))
    state.lay_down()
    assert state.decide_append(1, 1) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert state.decide_acknowledged(5, 5, 1) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert state.decide_read(-1, leader_only=False) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert state.decide_follower(2, 5) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert state.plan_in_sync(10 * LAG, ALL) is None
    assert not state.on_in_sync_written((1, 2), 1)
    assert not state.on_end_offset(12)


def test_a_leader_that_is_laid_down_may_lead_again_in_its_epoch():
    state = leader()
    state.on_end_offset(20)
    state.on_follower_fetch(2, 20, 0, 1)
    state.on_in_sync_written((1, 2), 3)
    state.lay_down()
    assert not lead(state, 5, partition_epoch=2), "the store held something later"
    assert not lead(state, 4)
    now_ms = 10 * LAG
    assert lead(state, 5, partition_epoch=3, in_sync=(1, 2), end_offset=20, now_ms=now_ms)
    assert not state.serves_nobody
    assert state.decide_append(1, 1) == ErrorCode.NONE
    assert state.decide_acknowledged(20, 5, 1) is None, "followers are to be heard of again"
    assert state.plan_in_sync(now_ms + LAG, ALL) is None, "they have their time to fetch"
    assert state.plan_in_sync(now_ms + LAG + 1, ALL) == (1,)
    assert not lead(state, 5, partition_epoch=3), "which is no news any more"


def test_a_leader_that_is_laid_down_may_follow():
    state = leader()
    state.lay_down()
    assert follow(state, 6)
    assert not state.serves_nobody
    assert state.decide_read(-1, leader_only=False) == ErrorCode.NONE


# Following


def test_a_follower_takes_its_leaders_high_watermark_as_far_as_its_log_goes():
    state = PartitionState.undecided(1, 10)
    follow(state)
    assert state.leader == 2
    assert state.on_leader_high_watermark(30, 20)
    assert state.high_watermark == 20
    assert not state.on_leader_high_watermark(15, 25)
    assert state.high_watermark == 20


def test_a_follower_serves_readers_and_no_writers():
    state = PartitionState.undecided(1, 10)
    follow(state)
    assert state.decide_append(1, 1) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert state.decide_read(6, leader_only=False) == ErrorCode.NONE
    assert state.decide_read(5, leader_only=False) == ErrorCode.FENCED_LEADER_EPOCH
    assert state.decide_follower(3, 6) == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_cutting_and_deleting_keep_the_high_watermark_within_the_log():
    state = PartitionState.undecided(1, 10)
    follow(state)
    state.on_truncated(15)
    assert state.high_watermark == 10
    state.on_truncated(7)
    assert state.high_watermark == 7
    assert not state.on_log_start(7)
    assert state.on_log_start(9)
    assert state.high_watermark == 9


def test_one_that_was_told_nothing_yet_serves_nobody():
    state = PartitionState.undecided(1, 10)
    assert state.is_undecided
    for epoch in (-1, 0):
        for leader_only in (False, True):
            code = state.decide_read(epoch, leader_only=leader_only)
            assert code is ErrorCode.NOT_LEADER_OR_FOLLOWER
