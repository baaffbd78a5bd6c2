from __future__ import annotations

from barnabas.core.open_transactions import CompletedTransaction, OpenTransactions


def test_nothing_open_means_the_high_watermark() -> None:
    assert OpenTransactions().first_unstable(42) == 42


def test_the_first_open_one_counts() -> None:
    transactions = OpenTransactions()
    transactions.begin(10, 1)
    transactions.begin(20, 2)
    assert transactions.first_unstable(100) == 10
    assert transactions.first_unstable(5) == 5
    transactions.complete(CompletedTransaction(1, 10, 30, aborted=False))
    assert transactions.first_unstable(100) == 20
    assert transactions.oldest_producer_id() == 2


def test_a_marker_counts_once_it_is_below_the_high_watermark() -> None:
    transactions = OpenTransactions()
    transactions.begin(10, 1)
    transactions.complete(CompletedTransaction(1, 10, 30, aborted=True))
    assert transactions.first_unstable(30) == 10
    assert transactions.first_unstable(31) == 31
    assert len(transactions) == 0


def test_stable_after_an_end_that_is_yet_to_come() -> None:
    transactions = OpenTransactions()
    transactions.begin(10, 1)
    assert transactions.stable_after(CompletedTransaction(1, 10, 30, aborted=True)) == 31
    transactions.begin(20, 2)
    assert transactions.stable_after(CompletedTransaction(1, 10, 30, aborted=True)) == 20
    assert transactions.stable_after(CompletedTransaction(2, 20, 31, aborted=True)) == 10
