"""The only member of a cluster, in memory: what tests of a member's parts share."""

from random import Random

from fuzz_world import FuzzNode

from barnabas.broker import cluster_znodes, znodes
from barnabas.model.cluster import Partition, Topic
from barnabas.ports import Create
from barnabas.sim.store import SimStore

MEMBER = {"zookeeper.connect": "zookeeper:2181", "node.id": "1"}


def new_store():
    """A store with a session, for what is there before the member starts."""
    store = SimStore()
    store.open_session("before")
    return store


def put(store, *operations):
    _paths, problem = store.commit(operations, store.open_session("test"))
    assert problem is None


def put_topic(store, name, replicas, in_sync):
    """A topic with one partition, led by the first that is in sync."""
    topic = Topic(name, name.encode().ljust(16, b"-"), [Partition(replicas, in_sync[0])])
    state = cluster_znodes.state_data(in_sync[0], 3, in_sync, 1)
    path = cluster_znodes.state_path(name, 0)
    put(store, *znodes.new_topic_operations(topic), Create(path, state))


def start_member(store, **settings):
    return FuzzNode(Random(1), {**MEMBER, **settings}, store)
