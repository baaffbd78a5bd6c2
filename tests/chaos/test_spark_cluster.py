"""A query copies a topic of a cluster while its brokers are killed and come back: leaders and coordinators change, and the copy is exact."""

import logging
import os
import random
import threading

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed (extra spark)")

from chaos.spark_copy_kit import BATCH_S, Copy, Feed, assert_copied
from cluster_kit import ROUNDS, Cluster, only_in_make_chaos, wait_until

log = logging.getLogger(__name__)

BROKERS = (1, 2, 3)
#: Everything has three replicas, and a batch is written to two of them before it counts.
SETTINGS = (
    "offsets.topic.replication.factor=3",
    "transaction.state.log.replication.factor=3",
    "transaction.state.log.min.isr=2",
    "transaction.state.log.num.partitions=5",
    "min.insync.replicas=2",
)
REPLICAS = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]


@only_in_make_chaos
@pytest.mark.java
@pytest.mark.timeout(0)
def test_a_copy_is_exact_whoever_leads(tmp_path, zookeeper):
    seed = int(os.environ.get("CHAOS_SEED") or random.SystemRandom().randrange(1 << 32))
    log.warning("CHAOS_SEED=%d", seed)
    rng = random.Random(seed)
    with Cluster(tmp_path, zookeeper, settings=SETTINGS) as cluster:
        for topic in ("source", "target"):
            cluster.create(topic, REPLICAS, retention_ms=-1)
        copy, feed = Copy(tmp_path, cluster.bootstrap, "local[2]", []), Feed(cluster.bootstrap)
        feed.start()
        copy.start()
        try:
            for each in range(ROUNDS):
                copy.wait_for_a_batch()
                threading.Event().wait(rng.uniform(0, BATCH_S))
                victim = rng.choice(BROKERS)
                log.warning("round %d, batch %d: %d", each, copy.finished_batches(), victim)
                change_leaders(cluster, victim, is_killed=rng.random() < 0.7)
            feed.end()
            copy.kill()
            copy.start("to the end")
            copy.finish()
            assert_copied(cluster.bootstrap)
        finally:
            copy.close()


def change_leaders(cluster, victim, *, is_killed):
    """Let others lead what one led, and have it back in sync."""
    if is_killed:
        cluster.kill(victim)
        wait_until(lambda: victim not in cluster.leaders("target"), "others lead")
    else:
        cluster.stop(victim)
    cluster.start(victim)
    for topic in ("source", "target"):
        cluster.wait_healthy(topic)
