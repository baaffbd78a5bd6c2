"""Transactions over three brokers: coordinators, groups and partitions are on different ones, and move when one dies."""

import pytest
from chaos.transaction_workers import Copier, Teller, check, read_committed, send_inputs
from cluster_kit import Cluster, wait_until

from barnabas.wire.messages.list_transactions import ListTransactionsRequest

PER_STEP = 10
INPUTS = 200
SETTINGS = (
    "transaction.abort.timed.out.transaction.cleanup.interval.ms=500",
    "group.initial.rebalance.delay.ms=0",
    # Few, so that they are soon made; more than brokers, so that each has some.
    "transaction.state.log.num.partitions=6",
    "offsets.topic.num.partitions=6",
)
UNFINISHED = ["Ongoing", "PrepareCommit", "PrepareAbort"]


@pytest.fixture
def cluster(tmp_path, zookeeper):
    with Cluster(tmp_path, zookeeper, settings=SETTINGS) as running:
        yield running


def open_transactions(cluster):
    request = ListTransactionsRequest(state_filters=UNFINISHED)
    answers = [cluster.ask(request, 1, broker_id) for broker_id in cluster.brokers]
    assert not any(answer.error_code for answer in answers)
    return [one for answer in answers for one in answer.transaction_states]


def wait_for_more(tellers):
    goals = [teller.done + PER_STEP for teller in tellers]
    wait_until(
        lambda: all(teller.done >= goal for teller, goal in zip(tellers, goals, strict=True)),
        "more transactions are done",
    )


def test_transactions_outlive_any_broker(cluster):
    cluster.create("accounts", [[1, 2, 3], [2, 3, 1]], min_insync_replicas=2)
    cluster.create("in", [[3, 1, 2]], min_insync_replicas=2)
    cluster.create("out", [[2, 1, 3]], min_insync_replicas=2)
    send_inputs(cluster.bootstrap, INPUTS)
    tellers = [Teller(cluster.bootstrap, name) for name in ("anna", "bob", "carl")]
    copier = Copier(cluster.bootstrap, "copier")
    for worker in (*tellers, copier):
        worker.start()
    for broker_id, way in ((1, "kill"), (2, "stop"), (3, "kill")):
        wait_for_more(tellers)
        getattr(cluster, way)(broker_id)
        wait_for_more(tellers)
        cluster.start(broker_id)
        for topic in ("accounts", "__transaction_state", "__consumer_offsets"):
            cluster.wait_healthy(topic)
    wait_until(lambda: len(read_committed(cluster.bootstrap, "out", 0)) >= INPUTS, "copies")
    for worker in (*tellers, copier):
        worker.finish()
    wait_until(lambda: not open_transactions(cluster), "every transaction ends")
    check(cluster.bootstrap, tellers, INPUTS)
