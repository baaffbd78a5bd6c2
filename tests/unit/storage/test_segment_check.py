"""One segment by itself; test_verify.py has whole folders."""

from log_kit import DIRECTORY, NOW, new_disk

from barnabas.storage.names import LOG, TXN_INDEX, file_name
from barnabas.storage.segment_check import Place, check_segment
from barnabas.storage.transaction_index import AbortedTransaction, encode_index
from barnabas.storage.transaction_walk import Transactions
from barnabas.wire.batch import CONTROL, TRANSACTIONAL, Producer, Record, build
from barnabas.wire.control_batch import EndMarker, build_marker


def check(*batches, aborted=(), **place):
    disk = new_disk()
    if aborted:
        path = f"{DIRECTORY}/{file_name(0, TXN_INDEX)}"
        disk.write_file_atomically(path, encode_index(aborted))
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


def test_the_transaction_index_is_missed():
    producer = Producer(7, 0, 0)
    data = records(0, 2, attributes=TRANSACTIONAL, producer=producer)
    marker = bytearray(build_marker(EndMarker(False, 0), 7, 0, NOW)[0])
    marker[:8] = (2).to_bytes(8, "big")
    report = check(data, marker)
    assert report.index_problems[TXN_INDEX] == "the transaction aborted at offset 2 is not in it"


def aborted_log():
    data = records(0, 2, attributes=TRANSACTIONAL, producer=Producer(7, 0, 0))
    marker = bytearray(build_marker(EndMarker(False, 0), 7, 0, NOW)[0])
    marker[:8] = (2).to_bytes(8, "big")
    return data, marker


def test_a_transaction_index_that_is_right():
    report = check(*aborted_log(), aborted=[AbortedTransaction(0, 7, 2, 3)])
    assert TXN_INDEX not in report.index_problems


def test_a_transaction_that_is_another_in_the_index():
    for entry in (AbortedTransaction(1, 7, 2, 3), AbortedTransaction(0, 7, 2, 9)):
        report = check(*aborted_log(), aborted=[entry])
        assert "is another in it" in report.index_problems[TXN_INDEX]


def test_a_lost_marker_is_known_from_the_index():
    data, marker = aborted_log()
    marker[-1] ^= 1
    entry = AbortedTransaction(0, 7, 2, 3)
    report = check(data, marker, records(3), aborted=[entry])
    (hole,) = report.holes
    assert [(one.offset, one.producer_id) for one in hole.markers] == [(2, 7)]
    assert report.aborted == [entry]
    assert TXN_INDEX not in report.index_problems
