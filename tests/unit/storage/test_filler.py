"""Batches in the place of offsets that are gone."""

from barnabas.core.epochs import EpochEntry
from barnabas.storage.epoch_spans import EpochSpans
from barnabas.storage.filler import LostMarker, fill
from barnabas.wire.batch import checksum_matches, headers
from barnabas.wire.control_batch import EndMarker, read_marker


def filled(first, last, *markers):
    """Return (base offset, last offset, producer of a marker) of what stands there."""
    made = list(fill(first, last, EpochSpans([EpochEntry(3, 0)]), markers))
    data = memoryview(b"".join(bytes(batch) for _, batch in made))
    found = []
    for position, header in headers(data):
        batch = data[position : position + header.size]
        assert checksum_matches(batch, header)
        assert header.partition_leader_epoch == 3
        producer_id = None
        if header.is_control:
            assert read_marker(batch) == EndMarker(commit=False, coordinator_epoch=-1)
            producer_id = header.producer_id, header.producer_epoch
        else:
            assert header.record_count == 0
        found.append((header.base_offset, header.last_offset, producer_id))
    assert [last for last, _ in made] == [last for _, last, _ in found]
    return found


def test_one_batch_covers_all():
    assert filled(5, 9) == [(5, 9, None)]
    assert filled(5, 4) == []


def test_markers_stand_where_they_were():
    assert filled(5, 9, LostMarker(7, 1, 2)) == [(5, 6, None), (7, 7, (1, 2)), (8, 9, None)]
    assert filled(5, 6, LostMarker(5, 1, 0), LostMarker(6, 2, 0)) == [
        (5, 5, (1, 0)),
        (6, 6, (2, 0)),
    ]


def test_each_offset_gets_the_epoch_that_it_had():
    epochs = EpochSpans([EpochEntry(2, 6), EpochEntry(5, 8)])
    made = fill(4, 9, epochs, [LostMarker(8, 1, 2)])
    found = [header for _, batch in made for _, header in headers(memoryview(batch))]
    assert [(one.base_offset, one.last_offset, one.partition_leader_epoch) for one in found] == [
        (4, 5, 2), (6, 7, 2), (8, 8, 5), (9, 9, 5),
    ]  # fmt: skip
