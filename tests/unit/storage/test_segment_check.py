"""One segment by itself; test_verify.py has whole folders."""

from log_kit import DIRECTORY, NOW, new_disk

from barnabas.storage.names import LOG, TXN_INDEX, file_name
from barnabas.storage.segment_check import Place, Transactions, check_segment
from barnabas.storage.transaction_index import AbortedTransaction
from barnabas.wire.batch import CONTROL, TRANSACTIONAL, Producer, Record, build, read_header
from barnabas.wire.control_batch import EndMarker, build_marker


def check(*batches, **place):
    disk = new_disk()
    file = disk.open(f"{DIRECTORY}/{file_name(0, LOG)}", create=True)
    file.write(0, (b"".join(bytes(batch) for batch in batches),))
    where = Place(DIRECTORY, 0, place.pop("end_offset", None), compacted=False, **place)
    return check_segment(disk, where, Transactions(), lambda _size: None)


def records(offset, count=1, *, epoch=0, attributes=0, producer=None):
    made = [Record(offset + n, NOW, None, b"x") for n in range(count)]
    return build(made, attributes=attributes, producer=producer or Producer(), leader_epoch=epoch)


def test_what_is_counted():
    report = check(records(0, 3), records(3, 2, epoch=1), records(5, epoch=1))
    assert (report.batch_count, report.record_count, report.end_offset) == (3, 6, 6)
    assert report.epochs == [(0, 0), (1, 3)]
    assert report.holes == []
    assert sorted(report.index_problems) == [".index", ".timeindex"]  # there are none


def test_a_gap_up_to_the_next_segment():
    (hole,) = check(records(0, 3), end_offset=10).holes
    assert (hole.size, hole.first_offset, hole.last_offset) == (0, 3, 9)


def test_an_end_that_is_known_to_have_been_further():
    batch = records(0, 3)
    (hole,) = check(records(0, 3), batch[:-1], known_end=8).holes
    assert (hole.first_offset, hole.last_offset) == (3, 7)
    (hole,) = check(records(0, 3), batch[:-1], known_end=2).holes
    assert hole.last_offset < hole.first_offset


def test_control_batches_that_end_no_transaction():
    other = build([Record(0, NOW, b"\0\0\0\2", b"")], attributes=CONTROL)
    broken = build([Record(1, NOW, b"", b"")], attributes=CONTROL)
    report = check(other, broken)
    assert (report.batch_count, report.aborted) == (2, [])


def test_transactions_that_overlap():
    def batch(offset, producer_id):
        return read_header(
            records(offset, attributes=TRANSACTIONAL, producer=Producer(producer_id, 0, 0))
        )

    def marker(offset, producer_id, *, commit):
        _, header = build_marker(EndMarker(commit, 0), producer_id, 0, NOW)
        return header._replace(base_offset=offset)

    open_ones = Transactions()
    open_ones.on_records(read_header(records(0)))
    open_ones.on_records(batch(1, 7))
    open_ones.on_records(batch(2, 8))
    open_ones.on_records(batch(3, 7))
    aborted = open_ones.on_marker(marker(4, 7, commit=False), commit=False)
    assert aborted == AbortedTransaction(1, 7, 4, 2)
    assert open_ones.on_marker(marker(5, 8, commit=True), commit=True) is None
    assert open_ones.on_marker(marker(6, 8, commit=False), commit=False) is None


def test_the_transaction_index_is_missed():
    producer = Producer(7, 0, 0)
    data = records(0, 2, attributes=TRANSACTIONAL, producer=producer)
    marker = bytearray(build_marker(EndMarker(False, 0), 7, 0, NOW)[0])
    marker[:8] = (2).to_bytes(8, "big")
    report = check(data, marker)
    assert report.index_problems[TXN_INDEX] == "the transaction aborted at offset 2 is not in it"
