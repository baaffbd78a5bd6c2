"""Transactions of Kafka's Java clients on three brokers: the same steps as on one, with coordinators and partitions apart."""

import base64
import uuid

import pytest
from cluster_kit import Cluster

STEPS = ["commit_and_abort", "many", "zombie", "copy", "fenced_consumer", "timeout", "admin"]
SETTINGS = (
    "group.initial.rebalance.delay.ms=0",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms=500",
    "transaction.state.log.num.partitions=6",
    "offsets.topic.num.partitions=6",
    "default.replication.factor=3",
    "min.insync.replicas=2",
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory, zookeeper_server):
    root = f"{zookeeper_server}/transactions-{uuid.uuid4().hex[:12]}"
    with Cluster(tmp_path_factory.mktemp("cluster"), root, settings=SETTINGS) as running:
        yield running


@pytest.fixture(scope="module")
def outcomes(java, cluster):
    """Step -> outcome of one release; all steps of a release share one JVM."""
    known = {}

    def of(release):
        if release not in known:
            prefix = f"java-{release}-{uuid.uuid4().hex[:8]}"
            done = java.run(release, cluster.bootstrap, prefix, *STEPS, program="Transactions")
            assert done.returncode == 0, done.stderr
            known[release] = dict(line.split("\t") for line in done.stdout.splitlines())
        return known[release]

    return of


@pytest.mark.java
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("release", ["4.4.0", "3.9.2"])
def test_java(outcomes, release, step):
    outcome = outcomes(release)[step]
    if outcome != "ok":
        pytest.fail(base64.b64decode(outcome).decode(), pytrace=False)
