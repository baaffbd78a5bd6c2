"""Seeds of transactions: every promise holds; and nodes that break one are found."""

import pytest

from barnabas.broker import markers
from barnabas.broker.replicas import Replica
from barnabas.core.group.offsets import Offsets
from barnabas.core.txn import end_rules
from barnabas.core.txn.shard import TransactionShard
from barnabas.core.txn.states import TransactionState
from barnabas.model.errors import ErrorCode
from barnabas.sim.teller import TOPIC
from barnabas.sim.transaction_run import run_transactions
from barnabas.storage.transaction_index import TransactionIndex

SEEDS_PER_PUSH = 30
SEEDS_TO_FIND = 60
#: Seeds that failed once.
KEPT_SEEDS = (41,)


@pytest.mark.parametrize("seed", [*range(SEEDS_PER_PUSH), *KEPT_SEEDS])
def test_every_promise_holds(seed):
    verdict = run_transactions(seed)
    assert verdict.violation is None, verdict.violation


def test_a_seed_gives_one_trace():
    assert run_transactions(3).digest == run_transactions(3).digest


def first_violation(*promises):
    """One of the first seeds must find it."""
    for seed in range(SEEDS_TO_FIND):
        verdict = run_transactions(seed)
        if verdict.violation is not None:
            assert verdict.violation.checker in promises, verdict.violation
            return
    pytest.fail(f"{SEEDS_TO_FIND} seeds and nothing found")


def test_a_marker_that_is_not_written_is_found(monkeypatch):
    write = markers._write_one

    def forgetful(node, end, partition, taken):
        if partition == (TOPIC, 1) and end.producer.epoch % 5 == 4:
            return ErrorCode.NONE
        return write(node, end, partition, taken)

    monkeypatch.setattr(markers, "_write_one", forgetful)
    first_violation("no transaction hangs", "transactions are whole", "told is true")


def test_an_acknowledgement_before_the_sync_is_found(monkeypatch):
    monkeypatch.setattr(Replica, "flush", lambda _self, done: done(None, None))
    first_violation(
        "told is true",
        "transactions are whole",
        "no transaction hangs",
        "offsets are part of transactions",
        "work gets done",
    )


def test_a_late_end_that_is_taken_is_found(monkeypatch):
    decide = end_rules._decide_rising

    def lenient(now, request):
        code = decide(now, request)
        is_open = now.state is TransactionState.ONGOING
        return None if code is ErrorCode.PRODUCER_FENCED and is_open else code

    monkeypatch.setattr(end_rules, "_decide_rising", lenient)
    first_violation("told is true", "transactions are whole", "no transaction hangs")


def test_offsets_that_do_not_count_after_all_are_found(monkeypatch):
    replay = Offsets.replay_end_marker

    def forgetful(self, producer_id, *, is_commit):
        replay(self, producer_id, is_commit=is_commit and producer_id % 2 == 0)

    monkeypatch.setattr(Offsets, "replay_end_marker", forgetful)
    first_violation("offsets are part of transactions")


def test_an_index_that_lacks_an_aborted_transaction_is_found(monkeypatch):
    add = TransactionIndex.add

    def forgetful(self, entry):
        if len(self) != 3:
            add(self, entry)

    monkeypatch.setattr(TransactionIndex, "add", forgetful)
    first_violation("aborted ones are named")


def test_decided_ends_that_are_forgotten_at_a_restart_are_found(monkeypatch):
    monkeypatch.setattr(TransactionShard, "on_loaded", lambda *_arguments: [])
    first_violation("work gets done", "no transaction hangs")
