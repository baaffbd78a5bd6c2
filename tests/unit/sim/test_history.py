"""Each anomaly is named when it is there, and only then."""

import pytest

from barnabas.sim.history import History, Outcome, Poll, Seek, Send

KEY, OTHER = ("t", 0), ("t", 1)


def kinds(history, *, all_was_read=True):
    return sorted({anomaly.kind for anomaly in history.anomalies(all_was_read=all_was_read)})


def poll(*records, key=KEY):
    return Poll(key, tuple((offset, value.encode()) for offset, value in records))


def send(value, offset=None, key=KEY):
    return Send(key, value.encode(), offset)


def test_a_good_history_has_none():
    history = History()
    history.add("p", send("a", 0))
    history.add("p", send("b", 1))
    history.add("p", send("c"), outcome=Outcome.INFO)
    history.add("p", send("d"), outcome=Outcome.FAIL)
    history.add("c", poll((0, "a"), (1, "b")))
    history.add("c", poll((2, "c")))
    assert kinds(history) == []


def test_no_history_has_none():
    assert kinds(History()) == []


@pytest.mark.parametrize(
    ("operations", "expected"),
    [
        ([("p", send("a", 0)), ("c", poll((0, "b"), (1, "a")))], ["duplicate", "inconsistent-offsets"]),
        ([("p", send("a", 0)), ("c", poll((1, "b")))], ["lost-write"]),
        ([("p", send("a", 1)), ("c", poll((0, "b")))], ["unseen"]),
        ([("p", send("a")), ("c", poll((0, "b")))], ["unseen"]),
        ([("c", poll((0, "a"), (1, "b"), (2, "c"))), ("d", poll((0, "a"), (2, "c")))], ["int-poll-skip"]),
        ([("c", poll((0, "a"), (1, "b"), (2, "c"))), ("d", poll((0, "a"))), ("d", poll((2, "c")))], ["poll-skip"]),
        ([("c", poll((1, "b"), (0, "a")))], ["int-nonmonotonic-poll"]),
        ([("c", poll((1, "b"))), ("c", poll((0, "a")))], ["nonmonotonic-poll"]),
        ([("p", send("b", 1)), ("p", send("a", 0)), ("c", poll((0, "a"), (1, "b")))], ["nonmonotonic-send"]),
        ([("p", send("b", 1), send("a", 0)), ("c", poll((0, "a"), (1, "b")))], ["int-nonmonotonic-send"]),
        ([("x", send("a", 0), poll((0, "a")))], ["precommitted-read"]),
    ],
)  # fmt: skip
def test_each_anomaly_is_named(operations, expected):
    history = History()
    for process, *steps in operations:
        history.add(process, *steps)
    assert kinds(history) == expected


def test_what_failed_must_not_be_read():
    history = History()
    history.add("p", send("a"), outcome=Outcome.FAIL)
    history.add("c", poll((0, "a")))
    assert kinds(history) == ["G1a"]


def test_who_reads_each_other_is_in_a_circle():
    history = History()
    history.add("x", send("a", 0), poll((0, "b"), key=OTHER))
    history.add("y", send("b", 0, key=OTHER), poll((0, "a")))
    history.add("z", poll((0, "a")))
    assert kinds(history) == ["G1c"]


def test_reading_what_another_wrote_is_no_circle():
    history = History()
    history.add("x", send("a", 0))
    history.add("y", poll((0, "a")), send("b", 0, key=OTHER))
    history.add("z", poll((0, "b"), key=OTHER))
    assert kinds(history) == []


def test_a_gap_that_nobody_wrote_into_is_none():
    history = History()
    history.add("c", poll((0, "a"), (3, "b")))
    assert kinds(history) == []


def test_a_seek_allows_to_go_back_and_ahead():
    history = History()
    history.add("c", poll((0, "a"), (1, "b"), (2, "c")))
    history.add("c", Seek(KEY))
    history.add("c", poll((0, "a")))
    history.add("c", Seek(KEY))
    history.add("c", poll((2, "c")))
    assert kinds(history) == []


def test_partitions_are_apart():
    history = History()
    history.add("p", send("a", 5))
    history.add("p", send("b", 0, key=OTHER))
    history.add("c", poll((5, "a")))
    history.add("c", poll((0, "b"), key=OTHER))
    assert kinds(history) == []


def test_not_read_is_no_loss_before_all_was_read():
    history = History()
    history.add("p", send("a", 0))
    assert kinds(history, all_was_read=False) == []
    assert kinds(history) == ["unseen"]
