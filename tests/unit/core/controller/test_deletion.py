"""Deletions: who must be told, and when a topic is gone."""

from __future__ import annotations

from barnabas.core.controller.assignment import Assignment
from barnabas.core.controller.deletion import is_gone, stops_of
from barnabas.core.controller.effects import EPOCH_DURING_DELETE, Stop
from barnabas.core.controller.settings import ControllerSettings
from barnabas.core.controller.view import (
    ClusterView,
    Leadership,
    PartitionView,
    TopicView,
)
from barnabas.model.cluster import LiveBroker
from barnabas.model.ids import TopicPartition

T0 = TopicPartition("t", 0)


def cluster_with(partition, live=(1, 2, 3), deleting=True):
    cluster = ClusterView(ControllerSettings())
    cluster.brokers = {broker: LiveBroker(broker, 1) for broker in live}
    cluster.topics["t"] = TopicView("t", b"id", 0, {0: partition})
    cluster.deleting = {"t": None} if deleting else {}
    return cluster


def test_every_replica_that_can_be_reached_is_told():
    partition = PartitionView(T0, Assignment((1, 2, 3, 4)), stopped={1}, offline={2}, fenced={3})
    stops = list(stops_of(partition, cluster_with(partition)))
    assert stops == [Stop(3, T0, EPOCH_DURING_DELETE, delete=True)]


def test_a_move_deletes_only_what_it_leaves_behind():
    moving = Assignment((3, 1, 2), adding=(3,), removing=(1, 2))
    state = Leadership(3, 7, (3,), 1)
    partition = PartitionView(T0, moving, state, settling=Assignment((3,)))
    cluster = cluster_with(partition, deleting=False)
    assert list(stops_of(partition, cluster)) == [Stop(1, T0, 7, True), Stop(2, T0, 7, True)]
    assert not list(stops_of(PartitionView(T0, moving, state), cluster))


def test_a_topic_is_gone_when_no_replica_has_it():
    partition = PartitionView(T0, Assignment((1, 2)), stopped={1})
    topic = TopicView("t", b"id", 0, {0: partition})
    assert not is_gone(topic)
    partition.stopped.add(2)
    assert is_gone(topic)
    assert is_gone(TopicView("empty", b"id", 0))
