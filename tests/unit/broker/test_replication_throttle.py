"""Replicas that catch up are held to a rate; those in sync, and those that nobody named, never."""

import pytest
from node_kit import NodeKit

from barnabas.broker.replication_throttle import FOLLOWER, LEADER, ReplicationThrottle

BEHIND = 2
IN_SYNC = 1


def throttled(side, named, rate="1000"):
    settings = {} if rate is None else {f"{side}_replication_throttled_rate": rate}
    kit = NodeKit(**settings)
    kit.create("t", **{f"{side}_replication_throttled_replicas": named})
    return kit, ReplicationThrottle(kit.node, side), kit.node.replicas.get("t", 0)


@pytest.mark.parametrize("side", [LEADER, FOLLOWER])
@pytest.mark.parametrize("named", ["*", "0:1", "3:9,0:1"])
def test_above_the_rate_it_waits_until_the_rate_has_fallen(side, named):
    kit, throttle, replica = throttled(side, named)
    assert not throttle.holds(replica, BEHIND)
    throttle.count(replica, BEHIND, 20_000)
    assert throttle.holds(replica, BEHIND)
    kit.advance(60_000)
    assert not throttle.holds(replica, BEHIND)


def test_below_the_rate_nothing_waits():
    _, throttle, replica = throttled(LEADER, "*")
    throttle.count(replica, BEHIND, 900)
    assert not throttle.holds(replica, BEHIND)


def test_who_is_in_sync_is_neither_held_nor_counted():
    _, throttle, replica = throttled(LEADER, "*")
    throttle.count(replica, IN_SYNC, 1 << 30)
    assert not throttle.holds(replica, BEHIND)
    throttle.count(replica, BEHIND, 1 << 30)
    assert throttle.holds(replica, BEHIND)
    assert not throttle.holds(replica, IN_SYNC)


@pytest.mark.parametrize("named", ["", "1:1", "0:2"])
def test_a_replica_that_is_not_named_is_free(named):
    _, throttle, replica = throttled(LEADER, named)
    throttle.count(replica, BEHIND, 1 << 30)
    assert not throttle.holds(replica, BEHIND)


def test_without_a_rate_nothing_is_held():
    _, throttle, replica = throttled(LEADER, "*", rate=None)
    throttle.count(replica, BEHIND, 1 << 40)
    assert not throttle.holds(replica, BEHIND)
