from __future__ import annotations

import pytest

from barnabas.core.txn import transaction
from barnabas.core.txn.states import BY_TITLE, TransactionState


def test_states_have_kafkas_names():
    assert list(BY_TITLE) == [
        "Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead", "PrepareEpochFence",
    ]  # fmt: skip


def test_moves_that_do_not_exist_are_refused():
    empty = transaction.first("t", 1, 100, 0)
    with pytest.raises(AssertionError, match="no way"):
        transaction.prepared(empty, 0, is_commit=True, version=2)
    with pytest.raises(AssertionError):
        transaction.completed(empty, 0)
    ended = transaction.prepared(empty, 5, is_commit=False, version=2)
    assert ended.state is TransactionState.PREPARE_ABORT
    with pytest.raises(AssertionError, match="no way"):
        transaction.with_partitions(ended, (), 2, 0)
