"""The leader's rules."""

import pytest

from barnabas.core.partition import PartitionState
from barnabas.model.errors import ErrorCode


def test_the_high_watermark_follows_the_only_replica():
    state = PartitionState(1, (1,), 0, 10)
    assert state.on_end_offset(1, 12)
    assert state.high_watermark == 12
    assert not state.on_end_offset(1, 12)


def test_the_slowest_in_sync_replica_bounds_the_high_watermark():
    state = PartitionState(1, (1, 2, 3), 0, 10)
    assert not state.on_end_offset(1, 20)
    assert not state.on_end_offset(2, 15)
    assert state.on_end_offset(3, 13)
    assert state.high_watermark == 13
    state.in_sync = (1, 2)
    assert state.on_end_offset(2, 16)
    assert state.high_watermark == 16


def test_the_high_watermark_never_falls():
    state = PartitionState(1, (1,), 0, 10)
    assert not state.on_end_offset(1, 5)
    assert state.high_watermark == 10


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
    state = PartitionState(1, (1, 2, 3), 0, 0)
    state.in_sync = (1,)
    assert state.decide_append(acks, min_in_sync) == code


def test_no_more_than_all_replicas_need_be_in_sync():
    """What production asks of three replicas does not stop a topic with one."""
    state = PartitionState(1, (1,), 0, 0)
    assert state.decide_append(-1, 2) == ErrorCode.NONE
    assert not state.is_under(2)
    assert state.is_at(2)


def test_replicas_out_of_sync_are_told():
    state = PartitionState(1, (1, 2, 3), 0, 0)
    assert not state.is_under(2)
    assert not state.is_at(2)
    state.in_sync = (1, 3)
    assert not state.is_under(2)
    assert state.is_at(2)
    state.in_sync = (1,)
    assert state.is_under(2)
    assert not state.is_at(2)


@pytest.mark.parametrize(
    ("epoch", "code"),
    [
        (-1, ErrorCode.NONE),
        (4, ErrorCode.NONE),
        (3, ErrorCode.FENCED_LEADER_EPOCH),
        (5, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_a_clients_leader_epoch_is_compared(epoch, code):
    assert PartitionState(1, (1,), 4, 0).decide_epoch(epoch) == code
