"""Seeds of clusters: every promise holds; and nodes that break one are found."""

from pathlib import Path

import pytest
from digest_kit import is_same_everywhere

from barnabas.broker import cluster_view, follower, members
from barnabas.broker.comparison import Comparison
from barnabas.broker.in_sync import InSyncKeeper
from barnabas.broker.orders import Orders
from barnabas.broker.replicas import Replica
from barnabas.core.controller.view import ClusterView
from barnabas.core.partition import PartitionState
from barnabas.model.errors import ErrorCode
from barnabas.sim import cluster_faults
from barnabas.sim.cluster_run import run_cluster

SEEDS_PER_PUSH = 200
SEEDS_TO_FIND = 40
DIGEST_SEEDS = (3, 11, 42)


def kept_seeds():
    lines = (Path(__file__).parent / "cluster_seeds.txt").read_text().splitlines()
    return [int(line.split()[0]) for line in lines if line.strip() and not line.startswith("#")]


@pytest.mark.parametrize(
    "seed",
    [*range(SEEDS_PER_PUSH), *(seed for seed in kept_seeds() if seed >= SEEDS_PER_PUSH)],
)
def test_every_promise_holds(seed):
    verdict = run_cluster(seed)
    assert verdict.violation is None, (
        f"{verdict.violation}\nreplay with: python -m barnabas.sim --cluster --seed {seed} --trace"
    )


def test_a_seed_gives_one_trace():
    for seed in DIGEST_SEEDS:
        assert run_cluster(seed).digest == run_cluster(seed).digest


def test_the_run_does_not_depend_on_the_process():
    assert is_same_everywhere(run_cluster, DIGEST_SEEDS)


def first_violation(*promises, start=0):
    """One of the first seeds must find it; `start` saves the time for those that are known to miss it."""
    for seed in range(start, start + SEEDS_TO_FIND):
        verdict = run_cluster(seed)
        if verdict.violation is not None:
            assert verdict.violation.checker in promises, verdict.violation
            return
    pytest.fail(f"{SEEDS_TO_FIND} seeds and nothing found")


LOST = (
    "lost-write",
    "unseen",
    "inconsistent-offsets",
    "acknowledged is kept",
    "good fetches are taken",
    "replicas agree below the high watermark",
    "the high watermark never falls",
)


def test_an_acknowledgement_before_followers_have_it_is_found(monkeypatch):
    def at_once(self, _end_offset, _leader_epoch, _min_in_sync):
        return ErrorCode.NONE if self.is_leader else ErrorCode.NOT_LEADER_OR_FOLLOWER

    monkeypatch.setattr(PartitionState, "decide_acknowledged", at_once)
    first_violation(*LOST)


def test_a_restart_that_the_next_controller_does_not_see_is_found(monkeypatch):
    monkeypatch.setattr(ClusterView, "restarted_since", lambda *_: set())
    first_violation("one leader per epoch")


def test_a_high_watermark_ahead_of_followers_is_found(monkeypatch):
    monkeypatch.setattr(PartitionState, "_is_waited_for", lambda *_: False)
    first_violation(*LOST)


def test_an_in_sync_set_that_counts_before_it_is_written_is_found(monkeypatch):
    def at_once(self, replica):
        planned = replica.state.plan_in_sync(self._node.world.clock.monotonic_ms(), (1, 2, 3, 4, 5))
        if planned is not None:
            replica.state.in_sync = planned
            replica.state._advance()
            replica.on_high_watermark()

    monkeypatch.setattr(InSyncKeeper, "consider", at_once)
    first_violation(*LOST, "work gets done", "the node lives")


def test_a_log_that_is_cut_too_far_is_found(monkeypatch):
    monkeypatch.setattr(follower, "plan_truncation", lambda _epochs, end, _leader: end // 2)
    first_violation(*LOST, "the node lives")


def test_a_follower_that_tells_of_what_it_has_not_synced_is_found(monkeypatch):
    monkeypatch.setattr(follower.Fetcher, "_unsynced", lambda *_: [])
    monkeypatch.setattr(Replica, "flush_in_background", lambda _self: None)
    first_violation(*LOST, start=160)


def test_an_unclean_election_is_found(monkeypatch):
    monkeypatch.setattr(ClusterView, "allows_unclean", lambda *_: True)
    first_violation(*LOST, "poll-skip", start=5)


def test_a_broker_that_tells_of_no_brokers_is_found(monkeypatch):
    """One that the controller has not spoken to yet: librdkafka forgets whom it knows, and is stuck."""

    def at_once(self, link):
        return [self.address_of(broker_id, link) for broker_id in self.live_ids()]

    monkeypatch.setattr(cluster_view.ClusterView, "addresses", at_once)
    first_violation("a cluster has brokers")


def test_a_broker_that_does_not_register_again_is_found(monkeypatch):
    def forget(self, session_id, *, is_new):
        self.session_id = session_id

    monkeypatch.setattr(members.Members, "on_connected", forget)
    first_violation("work gets done")


def test_a_broker_that_leads_on_after_its_session_is_found(monkeypatch):
    monkeypatch.setattr(Orders, "lay_down", lambda _self: None)
    first_violation("who leads is registered")


def test_a_broker_that_does_not_look_what_went_while_it_was_away_is_found(monkeypatch):
    monkeypatch.setattr(Comparison, "on_order", lambda *_: None)
    first_violation("work gets done", start=50)


def test_an_order_of_a_store_that_was_put_back_is_found_where_it_is_obeyed(monkeypatch):
    """As Apache Kafka does, which compares epochs of what it was told since it started, and no more."""
    monkeypatch.setattr(cluster_faults, "PUT_BACK_LIKELIHOOD", 1.0)
    monkeypatch.setattr(Orders, "on_gone_back", lambda _self: None)
    monkeypatch.setattr(
        Orders, "_is_past", lambda _self, had, told: told.leader_epoch < had.state.leader_epoch
    )
    first_violation("work gets done", "one leader per epoch", *LOST)


def test_a_fault_that_is_contained_ends_a_run_all_the_same(monkeypatch):
    """A real broker pauses that partition, tells of it and goes on: no seed may hide it behind that."""
    append = Replica.append_as_follower

    def fail_now_and_then(replica, records, high_watermark, log_start_offset):
        if records and replica.log.log_end_offset % 7 == 3:
            raise TypeError("planted")
        return append(replica, records, high_watermark, log_start_offset)

    monkeypatch.setattr(Replica, "append_as_follower", fail_now_and_then)
    first_violation("the node lives")
