from __future__ import annotations

import pytest

from barnabas.core.epochs import EpochEntry, LeaderEpochs


def epochs(*entries: tuple[int, int]) -> LeaderEpochs:
    return LeaderEpochs(EpochEntry(*entry) for entry in entries)


def test_empty_knows_nothing() -> None:
    history = epochs()
    assert history.latest == -1
    assert history.entries == []
    assert history.epoch_at(0) == -1
    assert history.end_offset_for(0, 10) == (-1, -1)
    assert history.end_offset_for(-1, 10) == (-1, -1)


def test_assign_says_whether_anything_changed() -> None:
    history = epochs()
    assert history.assign(2, 10)
    assert not history.assign(2, 10)
    assert not history.assign(2, 25)
    assert history.assign(3, 30)
    assert history.entries == [EpochEntry(2, 10), EpochEntry(3, 30)]
    assert history.latest == 3


def test_same_epoch_at_a_lower_offset_moves_its_start() -> None:
    history = epochs((1, 0), (2, 10))
    assert history.assign(2, 5)
    assert history.entries == [EpochEntry(1, 0), EpochEntry(2, 5)]


def test_contradicted_entries_are_cut() -> None:
    history = epochs((1, 0), (2, 10), (3, 20), (5, 30))
    assert history.assign(4, 20)
    assert history.entries == [EpochEntry(1, 0), EpochEntry(2, 10), EpochEntry(4, 20)]
    assert history.assign(1, 40)
    assert history.entries == [EpochEntry(1, 40)]


@pytest.mark.parametrize("entry", [(-1, 0), (0, -1)])
def test_negative_entry_is_refused(entry: tuple[int, int]) -> None:
    history = epochs()
    with pytest.raises(ValueError, match="cannot start at offset"):
        history.assign(*entry)
    assert history.entries == []


@pytest.mark.parametrize(
    ("epoch", "answer"),
    [
        (-1, (-1, -1)),
        (0, (0, 11)),  # before all that is known: the first known start
        (2, (2, 14)),
        (3, (2, 14)),  # never had records here: the one before it
        (4, (4, 20)),
        (6, (6, 50)),  # the current one: the end of the log
        (7, (-1, -1)),
    ],
)
def test_end_offset_for(epoch: int, answer: tuple[int, int]) -> None:
    history = epochs((2, 11), (4, 14), (6, 20))
    assert history.end_offset_for(epoch, log_end_offset=50) == answer


def test_epoch_at() -> None:
    history = epochs((2, 11), (4, 14))
    assert [history.epoch_at(offset) for offset in (10, 11, 13, 14, 99)] == [-1, 2, 2, 4, 4]


@pytest.mark.parametrize(
    ("end", "left", "changed"),
    [(21, 3, False), (20, 2, True), (19, 2, True), (11, 0, True), (0, 0, True), (-1, 3, False)],
)
def test_truncate_from_end(end: int, left: int, changed: bool) -> None:
    history = epochs((2, 11), (4, 14), (6, 20))
    before = history.entries
    assert history.truncate_from_end(end) is changed
    assert history.entries == before[:left]
    assert history.latest == (before[left - 1].epoch if left else -1)


@pytest.mark.parametrize(
    ("start", "left"),
    [
        (10, [(2, 11), (4, 14), (6, 20)]),
        (11, [(2, 11), (4, 14), (6, 20)]),
        (12, [(2, 12), (4, 14), (6, 20)]),
        (14, [(4, 14), (6, 20)]),
        (17, [(4, 17), (6, 20)]),
        (99, [(6, 99)]),
    ],
)
def test_truncate_from_start(start: int, left: list[tuple[int, int]]) -> None:
    history = epochs((2, 11), (4, 14), (6, 20))
    before = history.entries
    changed = history.truncate_from_start(start)
    assert history.entries == left
    assert changed is (history.entries != before)
    assert history.latest == 6


def test_truncating_nothing() -> None:
    assert not epochs().truncate_from_end(0)
    assert not epochs().truncate_from_start(5)


def test_clear() -> None:
    history = epochs((2, 11))
    assert history.clear()
    assert not history.clear()
    assert history.latest == -1
