"""What waits for the high watermark: bytes for readers, answers for producers."""

from barnabas.broker.commitment import APPENDS_MAX, Commitment
from barnabas.core.partition import PartitionState
from barnabas.model.errors import ErrorCode


class Timers:
    def __init__(self):
        self.booked = []

    @property
    def timers(self):
        return self

    def call_at(self, deadline_ms, call):
        timer = Booked(deadline_ms, call)
        self.booked.append(timer)
        return timer


class Booked:
    def __init__(self, deadline_ms, call):
        self.deadline_ms = deadline_ms
        self.call = call
        self.is_cancelled = False

    def cancel(self):
        self.is_cancelled = True


def leading(in_sync=(1, 2)):
    """Broker 1 leads with broker 2 in sync; ten records are there, none committed."""
    state = PartitionState.undecided(1, 0)
    state.become_leader(
        replicas=(1, 2),
        in_sync=in_sync,
        leader_epoch=5,
        partition_epoch=0,
        log_end_offset=0,
        now_ms=0,
    )
    state.on_end_offset(10)
    return state


def wait(commitment, state, end_offset, world=None, deadline_ms=None):
    codes = []
    start = commitment.until(end_offset, state.leader_epoch, deadline_ms, world)
    start(lambda code, _error: codes.append(code))
    return codes


def test_bytes_become_readable_as_far_as_the_high_watermark_goes():
    commitment = Commitment()
    commitment.on_appended(3, 100)
    commitment.on_appended(5, 20)
    assert commitment.take_readable(2) == 0
    assert commitment.take_readable(3) == 100
    assert commitment.take_readable(3) == 0
    assert commitment.take_readable(9) == 20


def test_what_was_cut_off_is_never_readable():
    commitment = Commitment()
    commitment.on_appended(3, 100)
    commitment.on_appended(5, 20)
    commitment.on_truncated(3)
    assert commitment.take_readable(9) == 100


def test_very_many_appends_are_counted_together():
    commitment = Commitment()
    for number in range(APPENDS_MAX + 50):
        commitment.on_appended(number + 1, 1)
    assert commitment.take_readable(APPENDS_MAX + 49) == APPENDS_MAX - 1
    assert commitment.take_readable(APPENDS_MAX + 50) == 51


def test_a_producer_is_answered_when_all_in_sync_have_its_records():
    commitment, state = Commitment(), leading()
    early, late = wait(commitment, state, 4), wait(commitment, state, 10)
    commitment.settle(state, 1)
    assert early == late == []
    state.on_follower_fetch(2, 4, 0, 0)
    commitment.settle(state, 1)
    assert (early, late) == ([ErrorCode.NONE], [])
    state.on_follower_fetch(2, 10, 0, 0)
    commitment.settle(state, 1)
    assert late == [ErrorCode.NONE]


def test_who_loses_the_leadership_cannot_say_that_records_are_safe():
    commitment, state = Commitment(), leading()
    codes = wait(commitment, state, 10)
    state.become_follower(
        leader=2, leader_epoch=6, partition_epoch=1, replicas=(1, 2), in_sync=(2,)
    )
    commitment.settle(state, 1)
    assert codes == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


def test_time_runs_out_once():
    commitment, state, world = Commitment(), leading(), Timers()
    codes = wait(commitment, state, 10, world, 500)
    [timer] = world.booked
    assert timer.deadline_ms == 500
    timer.call()
    assert codes == [ErrorCode.REQUEST_TIMED_OUT]
    state.on_follower_fetch(2, 10, 0, 0)
    commitment.settle(state, 1)
    assert codes == [ErrorCode.REQUEST_TIMED_OUT]


def test_an_answer_cancels_the_time_and_giving_up_answers_everybody():
    commitment, state, world = Commitment(), leading(), Timers()
    codes, others = wait(commitment, state, 4, world, 500), wait(commitment, state, 10)
    state.on_follower_fetch(2, 4, 0, 0)
    commitment.settle(state, 1)
    assert codes == [ErrorCode.NONE]
    assert world.booked[0].is_cancelled
    commitment.give_up(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert others == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


def test_who_comes_late_with_a_lower_offset_does_not_wait_for_a_higher_one():
    commitment, state = Commitment(), leading()
    high, low = wait(commitment, state, 10), wait(commitment, state, 4)
    state.on_follower_fetch(2, 4, 0, 0)
    commitment.settle(state, 1)
    assert (high, low) == ([], [ErrorCode.NONE])


def test_records_of_an_epoch_that_was_lost_and_won_again_are_not_called_safe():
    commitment, state = Commitment(), leading()
    codes = []
    before = state.leader_epoch
    state.become_follower(
        leader=2, leader_epoch=6, partition_epoch=1, replicas=(1, 2), in_sync=(1, 2)
    )
    state.become_leader(
        replicas=(1, 2),
        in_sync=(1, 2),
        leader_epoch=7,
        partition_epoch=2,
        log_end_offset=10,
        now_ms=0,
    )
    state.on_end_offset(10)
    commitment.until(10, before, None, None)(lambda code, _error: codes.append(code))
    state.on_follower_fetch(2, 10, 0, 0)
    commitment.settle(state, 1)
    assert codes == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


def test_who_comes_after_the_replica_is_given_up_does_not_wait():
    commitment, state = Commitment(), leading()
    commitment.give_up(ErrorCode.KAFKA_STORAGE_ERROR)
    assert wait(commitment, state, 10) == [ErrorCode.KAFKA_STORAGE_ERROR]
