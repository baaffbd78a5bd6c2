"""Which leader epoch each offset was written in."""

from barnabas.core.epochs import EpochEntry
from barnabas.storage.epoch_spans import NO_EPOCHS, UNKNOWN, EpochSpans

SPANS = EpochSpans([EpochEntry(2, 10), EpochEntry(5, 20)])


def test_each_offset_is_of_the_epoch_that_began_before_it():
    assert SPANS.at(9) == (UNKNOWN, 10)
    assert SPANS.at(10) == SPANS.at(19) == (2, 20)
    assert SPANS.at(20) == SPANS.at(10**9) == (5, 2**63 - 1)
    assert NO_EPOCHS.at(0) == (UNKNOWN, 2**63 - 1)


def test_a_range_is_cut_where_epochs_begin():
    assert list(SPANS.split(5, 25)) == [(5, 9, 2), (10, 19, 2), (20, 25, 5)]
    assert list(SPANS.split(12, 15)) == [(12, 15, 2)]
    assert list(SPANS.split(5, 4)) == []


def test_from_its_end_on_nobody_knows():
    spans = EpochSpans([EpochEntry(2, 10), EpochEntry(5, 20)], 25)
    assert spans.at(24) == (5, 25)
    assert spans.at(25) == (UNKNOWN, 2**63 - 1)
    assert list(spans.split(24, 30)) == [(24, 24, 5), (25, 30, 5)]
    assert EpochSpans([EpochEntry(2, 10), EpochEntry(5, 20)], 15).at(12) == (2, 15)


def test_what_is_known():
    assert SPANS
    assert SPANS.start == 10
    assert not NO_EPOCHS
    assert NO_EPOCHS.start is None
