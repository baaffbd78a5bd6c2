from __future__ import annotations

import pytest

from barnabas.core.producer_state import BATCHES_KEPT, Duplicate, ProducerEntry, ProducerStates
from barnabas.model.errors import ErrorCode
from barnabas.wire.batch import CONTROL, NO_SEQUENCE, TRANSACTIONAL, BatchHeader
from barnabas.wire.control_batch import EndMarker

LAST_SEQUENCE = 2**31 - 1


def header(
    sequence: int,
    count: int = 1,
    *,
    producer: int = 7,
    epoch: int = 0,
    timestamp: int = 1000,
    attributes: int = 0,
) -> BatchHeader:
    return BatchHeader(
        base_offset=0,
        batch_length=100,
        partition_leader_epoch=0,
        magic=2,
        crc=0,
        attributes=attributes,
        last_offset_delta=count - 1,
        base_timestamp=timestamp,
        max_timestamp=timestamp,
        producer_id=producer,
        producer_epoch=epoch,
        base_sequence=sequence,
        record_count=count,
    )


def written(*batches: BatchHeader) -> ProducerStates:
    """Batches that were appended one after another from offset 100 on."""
    states, offset = ProducerStates(), 100
    for batch in batches:
        states.update(batch, offset)
        offset += batch.last_offset_delta + 1
    return states


@pytest.mark.parametrize("sequence", [0, 1, 4711, LAST_SEQUENCE])
def test_unknown_producer_starts_anywhere(sequence: int) -> None:
    assert ProducerStates().check(header(sequence)) is None


def test_next_sequence_is_accepted() -> None:
    states = written(header(0, 10))
    assert states.check(header(10, 3)) is None


@pytest.mark.parametrize("sequence", [9, 11, 0, LAST_SEQUENCE])
def test_gap_and_overlap_are_refused(sequence: int) -> None:
    states = written(header(0, 10))
    assert states.check(header(sequence, 3)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_repeated_batch_is_answered_with_its_first_place() -> None:
    states = written(header(0, 10), header(10, 5, timestamp=2000), header(15, 1))
    assert states.check(header(10, 5)) == Duplicate(
        base_offset=110, last_offset=114, timestamp=2000
    )


def test_same_first_sequence_with_other_length_is_no_repetition() -> None:
    states = written(header(0, 10), header(10, 5))
    assert states.check(header(10, 4)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_only_the_last_five_batches_are_recognised() -> None:
    states = written(*(header(sequence) for sequence in range(BATCHES_KEPT + 1)))
    assert states.check(header(0)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    for sequence in range(1, BATCHES_KEPT + 1):
        offset = 100 + sequence
        assert states.check(header(sequence)) == Duplicate(offset, offset, 1000)


def test_sequence_wraps_to_zero() -> None:
    states = written(header(LAST_SEQUENCE, 1))
    assert states.check(header(0)) is None
    assert states.check(header(1)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_batch_across_the_wrap() -> None:
    states = written(header(LAST_SEQUENCE - 1, 5))
    assert states.check(header(3)) is None
    assert states.check(header(LAST_SEQUENCE - 1, 5)) == Duplicate(100, 104, 1000)
    entry = states.get(7)
    assert entry is not None
    assert entry.batches[0].last_sequence == 2
    assert entry.batches[0].first_sequence == LAST_SEQUENCE - 1


def test_older_epoch_is_fenced() -> None:
    states = written(header(0, epoch=3))
    assert states.check(header(1, epoch=2)) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert states.check(header(0, epoch=2)) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_new_epoch_starts_at_zero() -> None:
    states = written(header(0, 10, epoch=3))
    assert states.check(header(10, epoch=4)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert states.check(header(0, 10, epoch=4)) is None


def test_new_epoch_forgets_the_batches_of_the_old_one() -> None:
    states = written(header(0, 10, epoch=3), header(0, 2, epoch=4))
    assert states.check(header(0, 10, epoch=4)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert states.check(header(0, 2, epoch=4)) == Duplicate(110, 111, 1000)
    assert states.check(header(2, epoch=4)) is None


def test_check_changes_nothing() -> None:
    states = written(header(0))
    assert states.check(header(1)) is None
    assert states.check(header(1, producer=8)) is None
    assert states.check(header(0)) == Duplicate(100, 100, 1000)
    assert len(states) == 1


def test_producers_do_not_meet() -> None:
    states = written(header(0, 10, producer=1), header(0, 3, producer=2))
    assert states.check(header(3, producer=2)) is None
    assert states.check(header(10, producer=1)) is None
    assert [entry.producer_id for entry in states] == [1, 2]


def test_expiry_goes_by_the_time_of_the_last_batch() -> None:
    states = written(
        header(0, producer=1, timestamp=1000),
        header(0, producer=2, timestamp=1001),
        header(0, producer=3, timestamp=5, attributes=TRANSACTIONAL),
    )
    assert states.remove_expired(now_ms=1100, expiration_ms=100) == 1
    assert [entry.producer_id for entry in states] == [2, 3]
    assert states.check(header(9, producer=1)) is None


def test_replayed_transaction_is_kept_for_the_snapshot() -> None:
    states = written(
        header(0, 2, attributes=TRANSACTIONAL),
        header(2, 2, attributes=TRANSACTIONAL),
    )
    entry = states.get(7)
    assert entry is not None
    assert entry.current_txn_first_offset == 100
    marker = header(NO_SEQUENCE, attributes=TRANSACTIONAL | CONTROL, timestamp=3000)
    states.update(marker, 104, EndMarker(commit=True, coordinator_epoch=6))
    assert entry.coordinator_epoch == 6
    assert entry.current_txn_first_offset is None
    assert entry.last_timestamp == 3000
    assert entry.next_sequence == 4
    assert [batch.last_sequence for batch in entry.batches] == [1, 3]


def test_replayed_batch_without_sequence() -> None:
    states = written(header(NO_SEQUENCE, 3, attributes=TRANSACTIONAL))
    entry = states.get(7)
    assert entry is not None
    assert entry.batches[0].last_sequence == NO_SEQUENCE
    assert states.check(header(0, attributes=TRANSACTIONAL)) is None


def test_load_replaces_and_clear_forgets() -> None:
    states = written(header(0, producer=1))
    loaded = ProducerEntry(5, 2)
    states.load([loaded])
    assert list(states) == [loaded]
    # An entry without a batch, as a marker leaves one behind: its epoch starts at 0.
    assert states.check(header(3, producer=5, epoch=2)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert states.check(header(0, producer=5, epoch=2)) is None
    states.clear()
    assert len(states) == 0
    assert states.get(5) is None


# Transactions


def marker(*, epoch: int = 0, producer: int = 7) -> BatchHeader:
    return header(NO_SEQUENCE, producer=producer, epoch=epoch, attributes=TRANSACTIONAL | CONTROL)


def test_a_transaction_needs_a_guard_that_no_marker_came_before() -> None:
    states, first = ProducerStates(), header(0, attributes=TRANSACTIONAL)
    assert states.check(first) == ErrorCode.INVALID_TXN_STATE
    guard = states.begin_verification(first, 0, bumps_epochs=False)
    assert states.begin_verification(first, 0, bumps_epochs=False) is guard
    assert states.check(first, guard) is None
    states.update(marker(), 100, EndMarker(commit=False, coordinator_epoch=1))
    assert states.check(first, guard) == ErrorCode.INVALID_TXN_STATE


def test_offsets_in_a_transaction_need_such_a_guard_too() -> None:
    states, first = ProducerStates(), header(-1, attributes=TRANSACTIONAL)
    assert states.check_coordinated(first, None) == ErrorCode.INVALID_TXN_STATE
    guard = states.begin_verification(first, 0, bumps_epochs=False)
    assert states.check_coordinated(first, guard) == ErrorCode.NONE
    states.update(marker(), 100, EndMarker(commit=False, coordinator_epoch=1))
    assert states.check_coordinated(first, guard) == ErrorCode.INVALID_TXN_STATE
    states.update(header(-1, attributes=TRANSACTIONAL), 101)
    assert states.check_coordinated(first, None) == ErrorCode.NONE


def test_an_open_transaction_needs_no_guard() -> None:
    states = written(header(0, attributes=TRANSACTIONAL))
    following = header(1, attributes=TRANSACTIONAL)
    assert not states.needs_verification(following)
    assert states.check(following) is None
    assert states.check(header(0, attributes=TRANSACTIONAL)) == Duplicate(100, 100, 1000)
    assert states.check(header(1)) == ErrorCode.INVALID_TXN_STATE
    newer = header(0, epoch=1, attributes=TRANSACTIONAL)
    assert states.needs_verification(newer)


def test_the_lowest_sequence_that_waits_is_written_first() -> None:
    states = ProducerStates()
    guard = states.begin_verification(header(3, attributes=TRANSACTIONAL), 0, bumps_epochs=False)
    states.begin_verification(header(1, attributes=TRANSACTIONAL), 0, bumps_epochs=False)
    out_of_order = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert states.check(header(3, attributes=TRANSACTIONAL), guard) == out_of_order
    assert states.check(header(1, attributes=TRANSACTIONAL), guard) is None


def test_a_producer_that_bumps_epochs_begins_at_zero() -> None:
    states = ProducerStates()
    late = header(3, attributes=TRANSACTIONAL)
    guard = states.begin_verification(late, 0, bumps_epochs=True)
    assert states.check(late, guard) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_guard_for_the_next_transaction_outlives_the_marker_of_the_last() -> None:
    states = written(header(0, attributes=TRANSACTIONAL))
    following = header(0, epoch=1, attributes=TRANSACTIONAL)
    guard = states.begin_verification(following, 0, bumps_epochs=True)
    states.update(marker(epoch=1), 101, EndMarker(commit=True, coordinator_epoch=1))
    assert states.check(following, guard) is None


def test_guards_are_forgotten_with_time() -> None:
    states, first = ProducerStates(), header(0, attributes=TRANSACTIONAL)
    guard = states.begin_verification(first, 0, bumps_epochs=False)
    states.remove_expired(now_ms=100, expiration_ms=100)
    assert states.check(first, guard) == ErrorCode.INVALID_TXN_STATE


@pytest.mark.parametrize(
    ("version", "epoch", "is_open", "expected"),
    [
        (1, 4, True, ErrorCode.INVALID_PRODUCER_EPOCH),
        (1, 5, True, ErrorCode.NONE),
        (2, 4, True, ErrorCode.INVALID_PRODUCER_EPOCH),
        (2, 5, True, ErrorCode.INVALID_PRODUCER_EPOCH),
        (2, 5, False, ErrorCode.NONE),
        (2, 6, True, ErrorCode.NONE),
    ],
)
def test_markers_are_fenced_by_epoch(
    version: int, epoch: int, is_open: bool, expected: ErrorCode
) -> None:
    states = written(header(0, epoch=5, attributes=TRANSACTIONAL))
    if not is_open:
        states.update(marker(epoch=5), 101, EndMarker(commit=True, coordinator_epoch=3))
    assert states.check_marker(7, epoch, 3, version) == expected


def test_a_coordinator_of_the_past_ends_nothing() -> None:
    states = ProducerStates()
    assert states.check_marker(7, 0, 0, 1) == ErrorCode.NONE
    states.update(marker(), 100, EndMarker(commit=True, coordinator_epoch=3))
    assert states.check_marker(7, 0, 2, 1) == ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert states.check_marker(7, 0, 3, 1) == ErrorCode.NONE


def test_an_emptied_marker_changes_nothing() -> None:
    states = written(header(0, attributes=TRANSACTIONAL))
    states.update(marker(epoch=1), 101, None)
    entry = states.get(7)
    assert entry is not None
    assert (entry.producer_epoch, entry.current_txn_first_offset) == (0, 100)


def test_loading_knows_the_open_transactions() -> None:
    late, early = ProducerEntry(1), ProducerEntry(2)
    late.current_txn_first_offset, early.current_txn_first_offset = 30, 20
    states = ProducerStates()
    states.load([late, early])
    assert states.transactions.first_unstable(100) == 20
    states.update(marker(producer=2), 50, EndMarker(commit=True, coordinator_epoch=0))
    assert states.transactions.first_unstable(100) == 30


def test_a_transaction_is_late_when_it_should_have_been_aborted_five_minutes_ago() -> None:
    states = written(
        header(0, producer=1, timestamp=1000, attributes=TRANSACTIONAL),
        header(0, producer=2, timestamp=9000, attributes=TRANSACTIONAL),
    )
    assert not states.has_late_transaction(1000 + 60_000 + 300_000, 60_000)
    assert states.has_late_transaction(1001 + 60_000 + 300_000, 60_000)
    states.update(marker(producer=1), 102, EndMarker(commit=False, coordinator_epoch=0))
    assert not states.has_late_transaction(1001 + 60_000 + 300_000, 60_000)
    assert states.has_late_transaction(9001 + 60_000 + 300_000, 60_000)


def test_without_a_transaction_none_is_late() -> None:
    assert not written(header(0, timestamp=1)).has_late_transaction(1 << 50, 0)
