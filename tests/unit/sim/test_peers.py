"""Connections between simulated brokers: what gets through, what does not, and what a process that stands still hears."""

import pytest

from barnabas.broker.node import Node
from barnabas.sim.cluster import Cluster
from barnabas.sim.machine import Crash
from barnabas.sim.network import Barrier
from barnabas.sim.world import SECOND, Scheduler
from barnabas.wire import frame
from barnabas.wire.messages.api_versions import ApiVersionsRequest


class Ear:
    """Keeps what it is told."""

    def __init__(self):
        self.told = []

    def on_connected(self):
        self.told.append("connected")

    def on_frame(self, reply):
        self.told.append(bytes(reply[:4]))

    def on_closed(self, _reason):
        self.told.append("closed")


@pytest.fixture(params=range(3))
def cluster(request):
    cluster = Cluster(Scheduler(request.param), 3, Node, {})
    for machine in cluster.machines.values():
        machine.start()
    assert run(cluster, lambda: len(registered(cluster)) == 3)
    return cluster


def registered(cluster):
    return [path for path in cluster.store.tree if path.startswith("/brokers/ids/")]


def run(cluster, until, seconds=20):
    return cluster.scheduler.run(until, cluster.scheduler.now_us + seconds * SECOND)


def connect(cluster, asking, asked):
    ear = Ear()
    return ear, cluster.machines[asking].node.world.peers.connect(f"b{asked}", 9092, ear)


def ask(peer, number):
    header = frame.request_header(18, 0, number, "test")
    peer.send(frame.finish(ApiVersionsRequest().encode(0), header))


def connected(cluster, asking=1, asked=2):
    ear, peer = connect(cluster, asking, asked)
    assert ear.told == []
    assert run(cluster, lambda: ear.told)
    assert ear.told.pop() == "connected"
    return ear, peer


def test_replies_come_in_the_order_of_the_requests(cluster):
    ear, peer = connected(cluster)
    for number in range(1, 6):
        ask(peer, number)
    assert run(cluster, lambda: len(ear.told) == 5)
    assert ear.told == [number.to_bytes(4) for number in range(1, 6)]


def test_nothing_is_told_after_a_close(cluster):
    ear, peer = connected(cluster)
    ask(peer, 1)
    peer.close()
    run(cluster, lambda: False, seconds=5)
    assert ear.told == []


def test_nobody_listens_on_a_machine_that_is_off(cluster):
    cluster.machines[2].crash(Crash.PROCESS, 10 * SECOND)
    ear, _peer = connect(cluster, 1, 2)
    assert run(cluster, lambda: ear.told)
    assert ear.told == ["closed"]


@pytest.mark.parametrize("barrier", [Barrier.DEAF, Barrier.MUTE])
def test_what_is_lost_stays_lost_and_nobody_is_told(cluster, barrier):
    ear, peer = connected(cluster)
    network = cluster.networks[2]
    network.raise_barrier("b1", barrier, cluster.scheduler.now_us + SECOND)
    ask(peer, 1)
    run(cluster, lambda: False, seconds=5)
    assert ear.told == []


def test_what_is_late_arrives_when_the_way_is_free(cluster):
    ear, peer = connected(cluster)
    end_us = cluster.scheduler.now_us + 2 * SECOND
    cluster.networks[2].raise_barrier("b1", Barrier.LATE, end_us)
    ask(peer, 1)
    assert run(cluster, lambda: ear.told)
    assert ear.told == [(1).to_bytes(4)]
    assert cluster.scheduler.now_us >= end_us


def test_a_barrier_stands_between_two_only(cluster):
    cluster.networks[2].raise_barrier("b1", Barrier.CUT, cluster.scheduler.now_us + 5 * SECOND)
    ear, peer = connected(cluster, 3, 2)
    ask(peer, 1)
    assert run(cluster, lambda: ear.told)
    refused, _peer = connect(cluster, 1, 2)
    assert run(cluster, lambda: refused.told)
    assert refused.told == ["closed"]


def test_a_process_that_stands_still_hears_all_of_it_later_and_loses_its_session(cluster):
    ear, peer = connected(cluster)
    ask(peer, 1)
    cluster.machines[1].pause()
    assert run(cluster, lambda: "/brokers/ids/1" not in cluster.store.tree)
    assert ear.told == []
    cluster.machines[1].unpause()
    assert ear.told == [(1).to_bytes(4)]
    assert run(cluster, lambda: "/brokers/ids/1" in cluster.store.tree)


def test_a_process_that_dies_closes_what_it_had_open(cluster):
    ear, _peer = connected(cluster)
    cluster.machines[1].crash(Crash.PROCESS, 10 * SECOND)
    run(cluster, lambda: False, seconds=2)
    assert ear.told == []
    assert not [link for link in cluster.machines[2].links if link.peer_host == "b1"]


def test_a_clean_stop_hands_over_and_comes_back(cluster):
    machine = cluster.machines[1]
    life = machine.life.number
    machine.stop_cleanly(SECOND)
    assert run(cluster, lambda: "/brokers/ids/1" not in cluster.store.tree)
    assert run(cluster, lambda: machine.life.number > life and len(registered(cluster)) == 3)
