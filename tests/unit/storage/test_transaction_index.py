from __future__ import annotations

import random

from barnabas.sim.disk import SimDisk
from barnabas.storage.transaction_index import AbortedTransaction, TransactionIndex, encode_index

PATH = "/data/t-0/00000000000000000100.txnindex"


def aborted(first: int, last: int, stable: int, producer_id: int = 1) -> AbortedTransaction:
    return AbortedTransaction(first, producer_id, last, stable)


def new_index() -> tuple[SimDisk, TransactionIndex]:
    disk = SimDisk(random.Random(1))
    disk.make_dir("/data/t-0")
    return disk, TransactionIndex(disk, PATH)


def test_the_file_is_made_with_the_first_entry() -> None:
    disk, index = new_index()
    assert index.find(0, 1000, nowait=True) == ([], False)
    assert not disk.exists(PATH)
    index.add(aborted(100, 110, 111))
    assert disk.read_file(PATH) == encode_index([aborted(100, 110, 111)])
    index.drop_last()
    assert disk.read_file(PATH) == b""
    assert len(index) == 0


def test_finding_goes_by_what_touches_the_range() -> None:
    _, index = new_index()
    entries = [aborted(100, 110, 105), aborted(105, 120, 121), aborted(130, 140, 141)]
    for entry in entries:
        index.add(entry)
    assert index.find(100, 102, nowait=False) == (entries[:1], True)
    assert index.find(111, 120, nowait=False) == (entries[1:2], True)
    assert index.find(111, 122, nowait=False) == (entries[1:2], True)
    assert index.find(111, 131, nowait=False) == (entries[1:], True)
    assert index.find(121, 200, nowait=False) == (entries[2:], False)
    assert index.find(141, 200, nowait=False) == ([], False)


def test_long_indexes_are_read_in_pieces() -> None:
    _, index = new_index()
    entries = [aborted(at, at + 5, at + 6) for at in range(100, 10_000, 10)]
    for entry in entries:
        index.add(entry)
    found, complete = index.find(2000, 9000, nowait=False)
    assert found == [one for one in entries if one.last_offset >= 2000 and one.first_offset < 9000]
    assert complete


def test_loading_tells_what_does_not_look_right() -> None:
    disk, index = new_index()
    assert index.load(100)
    index.add(aborted(90, 110, 111))
    index.add(aborted(112, 120, 121))
    whole = disk.read_file(PATH)
    again = TransactionIndex(disk, PATH)
    assert again.load(100)
    assert len(again) == 2
    for content in (whole[:-1], whole[34:] + whole[:34], b"\0\1" + whole[2:], bytes(34)):
        disk.write_file_atomically(PATH, content)
        assert not TransactionIndex(disk, PATH).load(100)


def test_a_reset_leaves_no_file() -> None:
    disk, index = new_index()
    index.add(aborted(100, 110, 111))
    index.reset()
    assert not disk.exists(PATH)
    assert len(index) == 0
    index.add(aborted(100, 112, 113))
    assert disk.read_file(PATH) == encode_index([aborted(100, 112, 113)])
