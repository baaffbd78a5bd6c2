from __future__ import annotations

import pytest

from barnabas.core.producer_state import BATCHES_KEPT, Duplicate, ProducerEntry, ProducerStates
from barnabas.model.errors import ErrorCode
from barnabas.wire.batch import CONTROL, NO_SEQUENCE, TRANSACTIONAL, BatchHeader

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
    states.update(header(NO_SEQUENCE, attributes=TRANSACTIONAL | CONTROL, timestamp=3000), 104)
    assert entry.current_txn_first_offset is None
    assert entry.last_timestamp == 3000
    assert entry.next_sequence == 4
    assert [batch.last_sequence for batch in entry.batches] == [1, 3]


def test_replayed_batch_without_sequence() -> None:
    states = written(header(NO_SEQUENCE, 3, attributes=TRANSACTIONAL))
    entry = states.get(7)
    assert entry is not None
    assert entry.batches[0].last_sequence == NO_SEQUENCE
    assert states.check(header(0)) is None


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
