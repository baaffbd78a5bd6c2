"""When a follower counts as caught up."""

from barnabas.core.follower_progress import UNKNOWN_OFFSET, FollowerProgress

LAG = 100


def test_nothing_is_known_before_the_first_fetch():
    follower = FollowerProgress()
    assert follower.end_offset == follower.log_start_offset == UNKNOWN_OFFSET
    assert not follower.is_caught_up(0, 0, LAG)


def test_a_fetch_at_the_leaders_end_is_caught_up_now():
    follower = FollowerProgress()
    follower.on_fetch(10, 3, 10, 1000)
    assert (follower.end_offset, follower.log_start_offset) == (10, 3)
    assert follower.last_caught_up_ms == 1000


def test_under_a_steady_load_it_was_caught_up_at_its_fetch_before():
    follower = FollowerProgress()
    follower.on_fetch(10, 0, 15, 1000)
    assert not follower.is_caught_up(15, 1000, LAG)
    follower.on_fetch(15, 0, 20, 1050)
    assert follower.last_caught_up_ms == 1000
    follower.on_fetch(19, 0, 30, 1200)
    assert follower.last_caught_up_ms == 1000
    assert not follower.is_caught_up(30, 1200, LAG)


def test_who_has_everything_is_caught_up_however_long_ago_it_asked():
    follower = FollowerProgress()
    follower.on_fetch(10, 0, 10, 0)
    assert follower.is_caught_up(10, 10**9, LAG)
    assert follower.is_caught_up(11, LAG, LAG)
    assert not follower.is_caught_up(11, LAG + 1, LAG)


def test_a_new_epoch_gives_time_to_those_in_sync_only():
    for in_sync in (True, False):
        follower = FollowerProgress()
        follower.on_fetch(10, 0, 10, 0)
        follower.on_epoch(12, 500, in_sync=in_sync)
        assert follower.end_offset == 10
        assert follower.is_caught_up(12, 500 + LAG, LAG) is in_sync
