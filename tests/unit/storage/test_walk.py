import pytest
from log_kit import batch_of, new_disk

from barnabas.storage import walk
from barnabas.storage.walk import Damaged, LogWalk, Whole
from barnabas.wire.batch import Record, build, read_header
from barnabas.wire.compression import Codec

PATH = "/data/topic-0/x.log"


def batches(count, *, codec=Codec.NONE, size=20):
    """Batches of two records each, from offset 0 on."""
    made = []
    for number in range(count):
        records = [Record(number * 2 + i, 5, b"k", bytes([65 + number]) * size) for i in range(2)]
        made.append(bytes(build(records, codec=codec)))
    return made


def pieces(*parts, **bounds):
    disk = new_disk()
    file = disk.open(PATH, create=True)
    file.write(0, (b"".join(parts),))
    return list(LogWalk(file, **bounds).pieces())


def shape(found):
    """Offsets of good batches, (position, size) of bad bytes."""
    return [
        one.header.base_offset if isinstance(one, Whole) else (one.position, one.size)
        for one in found
    ]


@pytest.mark.parametrize("codec", Codec)
def test_good_batches_come_whole(codec):
    assert shape(pieces(*batches(4, codec=codec))) == [0, 2, 4, 6]


def test_an_empty_file_has_nothing():
    assert pieces() == []


def test_a_flipped_bit_costs_one_batch():
    first, second, third = batches(3)
    bad = bytearray(second)
    bad[70] ^= 1
    found = pieces(first, bad, third)
    assert shape(found) == [0, (len(first), len(second)), 4]
    assert "checksum" in found[1].reason


def test_a_length_that_lies_costs_one_batch():
    first, second, third = batches(3)
    bad = bytearray(second)
    bad[11] ^= 0x40
    assert shape(pieces(first, bad, third)) == [0, (len(first), len(second)), 4]


def test_zeros_are_passed_over():
    first, second, third = batches(3)
    found = pieces(first, bytes(500), second, third)
    assert shape(found) == [0, (len(first), 500), 2, 4]
    assert found[1].reason == "zeros instead of a batch"
    assert not found[1].is_torn


@pytest.mark.parametrize("left", [1, 30, 61, 80])
def test_a_torn_end_is_told_from_other_damage(left):
    first, second = batches(2)
    found = pieces(first, second[:left])
    assert shape(found) == [0, (len(first), left)]
    assert found[1].is_torn


def test_zeros_at_the_end_are_torn():
    (first,) = batches(1)
    assert pieces(first, bytes(100))[1].is_torn


def test_a_bad_checksum_at_the_end_is_no_torn_end():
    bad = bytearray(batches(1)[0])
    bad[-1] ^= 1
    assert not pieces(bad)[0].is_torn


def test_offsets_must_rise_and_stay_within_bounds():
    first, second, third = batches(3)
    assert shape(pieces(second, first, third)) == [2, (len(second), len(first)), 4]
    assert shape(pieces(first, second, third, first_offset=2)) == [(0, len(first)), 2, 4]
    assert shape(pieces(first, second, third, end_offset=4)) == [0, 2, (len(first) * 2, len(third))]


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("offset", [0, 1, 3, 5, 9, 1 << 40])
def test_a_wrong_base_offset_in_a_log_without_gaps(number, offset):
    """No checksum covers it: those around it tell."""
    made = batches(4)
    if offset == 2 * number:
        return
    size = len(made[0])
    made[number] = offset.to_bytes(8, "big") + made[number][8:]
    expected = [0, 2, 4, 6]
    expected[number] = (number * size, size)
    assert shape(pieces(*made, end_offset=8, may_have_gaps=False)) == expected


def test_records_that_are_missing_in_a_log_without_gaps():
    first, _, third, fourth = batches(4)
    assert shape(pieces(first, third, fourth, end_offset=8, may_have_gaps=False)) == [0, 4, 6]
    assert shape(pieces(first, fourth, end_offset=8, may_have_gaps=False)) == [0, 6]
    assert shape(pieces(third, fourth, end_offset=8, may_have_gaps=False)) == [4, 6]


def test_a_batch_inside_a_value_is_not_taken_for_one():
    inner = bytes(build([Record(1, 5, None, b"inner")]))
    outer = bytearray(build([Record(0, 5, None, inner), Record(1, 5, None, b"x")]))
    outer[-1] ^= 1
    after = bytes(build([Record(2, 5, None, b"after")]))
    assert shape(pieces(outer, after)) == [(0, len(outer)), 2]


def test_damage_larger_than_the_window_is_searched_through(monkeypatch):
    monkeypatch.setattr(walk, "WINDOW_BYTES", 128)
    first, second = batches(2)
    noise = bytes([2, 7, 0, 9]) * 300
    assert shape(pieces(first, noise, second)) == [0, (len(first), len(noise)), 2]


def test_a_batch_too_large_to_hold_is_checked_in_pieces(monkeypatch):
    monkeypatch.setattr(walk, "WHOLE_BATCH_BYTES", 100)
    monkeypatch.setattr(walk, "WINDOW_BYTES", 128)
    large = batches(2, size=400)
    assert shape(pieces(*large)) == [0, 2]
    bad = bytearray(large[0])
    bad[500] ^= 1
    assert shape(pieces(bad, large[1])) == [(0, len(bad)), 2]


def test_records_must_be_there_as_counted():
    def problem(batch, **changes):
        header = read_header(batch)._replace(**changes)
        return walk.records_problem(memoryview(batch), header)

    plain, packed = batch_of(3), batch_of(3, codec=Codec.ZSTD)
    assert problem(plain) is problem(packed) is None
    assert "do not fill" in problem(plain, record_count=2)
    assert "counts" in problem(plain, record_count=4)
    assert "counts" in problem(packed, record_count=-1)
    assert "records it counts" in problem(packed, record_count=2)
    assert "codec 7" in problem(packed, attributes=7)
    assert "does not unpack" in problem(packed, attributes=Codec.GZIP)
    assert "empty batch" in problem(plain, record_count=0)


def test_the_content_is_looked_at_only_when_asked():
    batch = bytearray(batch_of(2))
    batch[60] = 1  # one record fewer than there are
    batch[17:21] = walk.crc32c(memoryview(batch)[21:]).to_bytes(4, "big")
    assert isinstance(pieces(batch)[0], Damaged)
    assert shape(pieces(batch, deep=False)) == [0]


def test_the_bytes_of_a_batch_can_be_had():
    disk, made = new_disk(), batches(2)
    file = disk.open(PATH, create=True)
    file.write(0, (b"".join(made),))
    found = LogWalk(file)
    assert [bytes(found.read(piece)) for piece in found.pieces()] == made
