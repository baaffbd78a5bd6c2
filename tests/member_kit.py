"""The only member of a cluster, in memory: what tests of a member's parts share."""

import json
from random import Random

from fuzz import good_request
from fuzz_world import FuzzLink, FuzzNode

from barnabas.broker import cluster_znodes, znodes
from barnabas.model.cluster import Partition, Topic
from barnabas.ports import Create, Delete, SetData
from barnabas.sim.store import SimStore
from barnabas.wire import frame

MEMBER = {"zookeeper.connect": "zookeeper:2181", "node.id": "1"}


def new_store():
    """A store with a session, for what is there before the member starts."""
    store = SimStore()
    store.open_session("before")
    return store


def put(store, *operations):
    _paths, problem = store.commit(operations, store.open_session("test"))
    assert problem is None


def config_data(texts):
    """Settings as they stand below /config."""
    return json.dumps({"version": 1, "config": texts}).encode()


def put_topic(store, name, replicas, in_sync):
    """A topic with one partition, led by the first that is in sync."""
    topic = Topic(name, name.encode().ljust(16, b"-")[:16], [Partition(replicas, in_sync[0])])
    state = cluster_znodes.state_data(in_sync[0], 3, in_sync, 1)
    path = cluster_znodes.state_path(name, 0)
    put(store, *znodes.new_topic_operations(topic), Create(path, state))


def make_topic_again(store, name, *, epoch=0, version=0):
    """Another topic of the same name, led by broker 1; its state has changed so often."""
    old = (cluster_znodes.topic_path(name), f"{znodes.TOPIC_CONFIGS}/{name}")
    put(store, *(Delete(path) for path in old if path in store.tree))
    topic = Topic(name, name.encode().ljust(16, b"+"), [Partition((1, 2), 1)])
    path, state = (
        cluster_znodes.state_path(name, 0),
        cluster_znodes.state_data(1, epoch, (1, 2), 1),
    )
    put(store, *znodes.new_topic_operations(topic), Create(path, state))
    for _ in range(version):
        put(store, SetData(path, state))
    return topic


def start_member(store, **settings):
    return FuzzNode(Random(1), {**MEMBER, **settings}, store)


def ask(member, request, version):
    """Send it a request; its answer."""
    link = FuzzLink()
    parts = member.node.on_request(link, memoryview(bytearray(good_request(request, version, 1))))
    member.events.settle()
    [answer] = [b"".join(map(bytes, parts))] if parts is not None else link.answers
    header = frame.response_header(1, request.API_KEY, version)
    assert answer[4 : 4 + len(header)] == header
    _, kind = frame.message_types(request.API_KEY)
    return kind.decode(answer, version, 4 + len(header))
