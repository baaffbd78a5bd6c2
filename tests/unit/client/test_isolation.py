"""Which batches a reader sees."""

import pytest

from barnabas.client.isolation import visible
from barnabas.wire.batch import TRANSACTIONAL, Producer, Record, build, headers, stamp
from barnabas.wire.control_batch import EndMarker, build_marker
from barnabas.wire.messages.fetch import AbortedTransaction


def log(*entries):
    """Bytes of a log: (producer, 'w') wrote two records, (producer, 'c' or 'a') ended its transaction, (None, 'w') has none."""
    data, offset = bytearray(), 0
    for producer, what in entries:
        if what == "w":
            fields = Producer() if producer is None else Producer(producer, 0, 0)
            attributes = 0 if producer is None else TRANSACTIONAL
            records = [Record(each, 0, None, b"v") for each in range(2)]
            batch = build(records, producer=fields, attributes=attributes)
        else:
            batch = bytearray(build_marker(EndMarker(what == "c", 0), producer, 0, 0)[0])
        stamp(memoryview(batch), offset, 0)
        data += batch
        offset += 2 if what == "w" else 1
    return memoryview(data)


def seen(data, aborted):
    return [header.base_offset for _, header in visible(data, list(headers(data)), aborted)]


def gone(producer, first):
    return AbortedTransaction(producer_id=producer, first_offset=first)


def test_control_batches_are_never_seen():
    data = log((1, "w"), (1, "c"), (None, "w"))
    assert seen(data, None) == [0, 3]
    assert seen(data, []) == [0, 3]


def test_aborted_transactions_are_not_seen_up_to_their_marker():
    data = log((1, "w"), (2, "w"), (None, "w"), (1, "a"), (1, "w"), (1, "c"), (2, "c"))
    assert seen(data, [gone(1, 0)]) == [2, 4, 7]
    assert seen(data, None) == [0, 2, 4, 7]


def test_a_commit_of_another_transaction_does_not_bring_it_back():
    data = log((1, "w"), (1, "c"), (1, "w"), (1, "w"), (1, "a"), (1, "w"), (1, "c"))
    assert seen(data, [gone(1, 3)]) == [0, 8]


def test_several_at_once_in_any_order():
    data = log((1, "w"), (2, "w"), (2, "a"), (2, "w"), (1, "a"), (2, "a"), (1, "w"), (1, "c"))
    assert seen(data, [gone(2, 5), gone(1, 0), gone(2, 2)]) == [9]


@pytest.mark.parametrize("first", [0, 1])
def test_one_that_began_before_what_was_read(first):
    data = log((1, "w"), (1, "a"), (1, "w"), (1, "c"))
    assert seen(data, [gone(1, first - 100)]) == [3]
