"""What W13 sets up: equal clusters, replicas spread evenly."""

import os
from collections import Counter

import bench.clusters
from bench.clusters import SESSION_MS, SIZE, KafkaCluster
from bench.measure import Watch, cpu_seconds
from bench.workloads.replication import SPREAD, w13


def test_every_broker_leads_and_follows_about_the_same():
    assert all(sorted(replicas) == [1, 2, 3] for replicas in SPREAD)
    led = Counter(replicas[0] for replicas in SPREAD)
    assert max(led.values()) - min(led.values()) <= 1


def test_every_node_of_a_cluster_names_all_voters_and_bears_its_own_number(tmp_path):
    nodes = KafkaCluster(tmp_path).make()
    assert [node.settings["node.id"] for node in nodes] == ["1", "2", "3"]
    voters = {node.settings["controller.quorum.voters"] for node in nodes}
    assert len(voters) == 1
    assert len({node.cluster_id for node in nodes}) == 1
    for number, node in enumerate(nodes, 1):
        assert f"{number}@127.0.0.1:{node.other_port}" in voters.copy().pop().split(",")
        assert node.settings["broker.session.timeout.ms"] == str(SESSION_MS)
    assert len(nodes) == SIZE
    assert set(bench.clusters.CLUSTERS) == {"barnabas", "kafka"}


def test_the_figures_with_targets_are_those_of_the_issue():
    judged = {
        figure.key for step in w13(1.5) for figure in step.figures if figure.target is not None
    }
    assert {"w13.produce", "w13.produce-cpu", "w13.steady.p99"} <= judged


def test_a_watch_sums_up_what_it_watches():
    own = os.getpid()
    with Watch(own, own) as both:
        before = cpu_seconds(own)
        sum(range(100_000))
        used = cpu_seconds(own) - before
    assert both.cpu_s >= 2 * used > 0
