"""Seeds of transactions on three brokers: every promise holds; and a coordinator that forgets other brokers is found."""

import pytest

from barnabas.broker.marker_sending import MarkerSending
from barnabas.model.errors import ErrorCode
from barnabas.sim.cluster_transaction_run import run_cluster_transactions

SEEDS_PER_PUSH = 8
SEEDS_TO_FIND = 10
#: Failed once: 61 kept an error whose traceback held a follower's records, which were only lent.
#: 107: a leader that was controller as well lost power; the next controller did not know, and had it lead on in the same epoch. It wrote
#: other records at offsets that followers had.
#: 1144: what a controller had given up to tell arrived after what it told since: a broker took the old leader for the coordinator for ever.
KEPT_SEEDS = [61, 107, 1144]


@pytest.mark.parametrize("seed", [*range(SEEDS_PER_PUSH), *KEPT_SEEDS])
def test_every_promise_holds(seed):
    verdict = run_cluster_transactions(seed)
    assert verdict.violation is None, verdict.violation


def test_a_seed_gives_one_trace():
    assert run_cluster_transactions(1).digest == run_cluster_transactions(1).digest


def test_a_coordinator_that_does_not_tell_other_brokers_is_found(monkeypatch):
    bring = MarkerSending._bring

    def lazy(self, leader, end, is_wanted):
        if leader != self._node.broker_id:
            return [(one, ErrorCode.NONE) for one in end.partitions]
        return (yield from bring(self, leader, end, is_wanted))

    monkeypatch.setattr(MarkerSending, "_bring", lazy)
    for seed in range(SEEDS_TO_FIND):
        violation = run_cluster_transactions(seed).violation
        if violation is not None:
            assert violation.checker in ("no transaction hangs", "work gets done"), violation
            return
    pytest.fail(f"{SEEDS_TO_FIND} seeds and nothing found")
