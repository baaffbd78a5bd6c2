"""Transactions as their batches go by."""

from log_kit import NOW

from barnabas.storage.filler import LostMarker
from barnabas.storage.transaction_index import AbortedTransaction
from barnabas.storage.transaction_walk import Transactions
from barnabas.wire.batch import TRANSACTIONAL, Producer, Record, build, read_header
from barnabas.wire.control_batch import EndMarker, build_marker


def show(open_ones, offset, producer_id=None, epoch=0):
    """Show a batch of records, in a transaction if it has a producer."""
    producer = Producer() if producer_id is None else Producer(producer_id, epoch, 0)
    attributes = 0 if producer_id is None else TRANSACTIONAL
    batch = build([Record(offset, NOW, None, b"x")], attributes=attributes, producer=producer)
    return open_ones.on_batch(read_header(batch), memoryview(batch))


def end(open_ones, offset, producer_id, *, commit):
    batch, header = build_marker(EndMarker(commit, 0), producer_id, 0, NOW)
    return open_ones.on_batch(header._replace(base_offset=offset), batch)


def test_transactions_that_overlap():
    open_ones = Transactions()
    assert show(open_ones, 0) is None
    show(open_ones, 1, 7)
    show(open_ones, 2, 8)
    show(open_ones, 3, 7)
    assert end(open_ones, 4, 7, commit=False) == AbortedTransaction(1, 7, 4, 2)
    assert end(open_ones, 5, 8, commit=True) is None
    assert end(open_ones, 6, 8, commit=False) is None


def test_a_hole_ends_what_the_index_says():
    open_ones = Transactions()
    show(open_ones, 0, 7, epoch=5)
    index = [AbortedTransaction(0, 7, 3, 4), AbortedTransaction(20, 7, 30, 31)]
    assert open_ones.lost_markers(index, 1, 9) == [LostMarker(3, 7, 5)]
    show(open_ones, 10, 7)
    assert end(open_ones, 11, 7, commit=False) == AbortedTransaction(10, 7, 11, 12)
