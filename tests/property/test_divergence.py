"""Two logs that went through any leadership find where they part, and cut no more than that."""

from hypothesis import given
from hypothesis import strategies as st
from replication_kit import Member

BOTH = (1, 2)


def common_prefix(one, other):
    length = 0
    while length < min(len(one), len(other)) and one[length] == other[length]:
        length += 1
    return length


@given(
    st.lists(
        st.tuples(st.sampled_from(BOTH), st.integers(0, 4), st.integers(0, 3), st.booleans()),
        max_size=12,
    ),
    st.sampled_from(BOTH),
)
def test_a_follower_ends_up_with_the_leaders_log(reigns, last):
    """Reigns of either, clean or not: some records each, of which the other fetches some, or nothing."""
    members = {one: Member(one) for one in BOTH}
    serial = epoch = 0
    for leader_id, writes, fetches, overlapping in [*reigns, (last, 0, 0, False)]:
        epoch += 1
        leader, other = members[leader_id], members[3 - leader_id]
        if not overlapping:  # else the other goes on leading in its older epoch for a while
            other.follow(leader_id, BOTH, BOTH, epoch, epoch)
        leader.lead(BOTH, (leader_id,), epoch, epoch)
        for one in (leader, other) if other.state.is_leader else (leader,):
            for _ in range(writes):
                serial += 1
                one.write(serial)
        for _ in range(fetches):
            other.fetch_from(leader)
    leader, follower = members[last], members[3 - last]
    follower.follow(last, BOTH, BOTH, epoch, epoch)
    agreed = common_prefix(leader.records, follower.records)
    for _ in range(2 * epoch + 2):
        follower.fetch_from(leader)
        assert follower.end >= agreed, "cut below where they part"
    assert follower.records == leader.records


def reign_that_ends_before_the_follower_knows(cut_at_high_watermark):
    """Two in sync; both have two records, the leader knows that both are committed, the follower only of one. It restarts,
    and becomes leader before it could fetch again: the first story of KIP-101.
    """
    leader, follower = Member(1), Member(2)
    leader.lead(BOTH, BOTH, 0, 0)
    follower.follow(1, BOTH, BOTH, 0, 0)
    leader.write(1)
    follower.fetch_from(leader)
    leader.write(2)
    follower.fetch_from(leader)
    leader.serve(*follower.question())
    assert (leader.state.high_watermark, follower.state.high_watermark) == (2, 1)
    acknowledged = leader.records[:2]
    follower.restart(follower.state.high_watermark)
    follower.follow(1, BOTH, BOTH, 0, 1)
    if cut_at_high_watermark:
        follower.cut(follower.state.high_watermark)
    follower.lead(BOTH, (2,), 1, 2)
    return acknowledged, follower.records


def test_cutting_at_the_high_watermark_would_lose_a_committed_record():
    acknowledged, records = reign_that_ends_before_the_follower_knows(cut_at_high_watermark=True)
    assert acknowledged != records[:2]


def test_cutting_where_the_logs_part_keeps_it():
    acknowledged, records = reign_that_ends_before_the_follower_knows(cut_at_high_watermark=False)
    assert acknowledged == records[:2]


def test_cutting_at_the_high_watermark_would_let_logs_differ_for_ever():
    """The second story of KIP-101: both crash, and come back with different records at one offset, below both high watermarks."""
    one, other = Member(1), Member(2)
    one.lead(BOTH, BOTH, 0, 0)
    other.follow(1, BOTH, BOTH, 0, 0)
    one.write(1)
    other.fetch_from(one)
    one.write(2)
    other.restart(1)
    other.lead(BOTH, (2,), 1, 1)
    other.write(3)
    assert one.records[1] != other.records[1]
    one.restart(1)
    one.follow(2, BOTH, (2,), 1, 1)
    one.fetch_from(other)
    assert one.records == one.records[:1], "cut where they part"
    one.fetch_from(other)
    assert one.records == other.records
