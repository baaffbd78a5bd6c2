"""Changes of the in-sync set that wait for the store: by then the partition may be another topic's."""

import pytest
from member_kit import make_topic_again, new_store, put_topic, start_member

from barnabas.broker import cluster_znodes
from barnabas.model.cluster import LiveBroker
from barnabas.model.ids import TopicPartition

T0 = TopicPartition("t", 0)
PATH = cluster_znodes.state_path(*T0)


@pytest.fixture
def store():
    store = new_store()
    put_topic(store, "t", (1, 2), (1, 2))
    return store


@pytest.fixture
def member(store):
    """The only one of two brokers that is there, and leads; the other one comes back and is not in sync yet."""
    member = start_member(store)
    member.node.cluster.brokers = {1: LiveBroker(1), 2: LiveBroker(2)}
    return member


@pytest.fixture
def replica(member):
    """It leads, and the other one has all that it has."""
    replica = member.node.replicas.get(*T0)
    assert (replica.state.is_leader, replica.state.in_sync) == (True, (1,))
    replica.state.on_follower_fetch(2, 0, 0, member.node.world.clock.monotonic_ms())
    return replica


def stored(store):
    return cluster_znodes.read_state(store.tree[PATH])


def test_who_has_caught_up_comes_in(member, store, replica):
    member.node.members.in_sync.consider(replica)
    member.events.settle()
    assert stored(store).in_sync == replica.state.in_sync == (1, 2)


def test_nothing_reaches_another_topic_of_the_same_name(member, store, replica):
    """As the connection to the store was lost: what waited for it was written when it was back."""
    members, session_id = member.node.members, member.node.members.session_id
    version, epoch = replica.state.partition_epoch, replica.state.leader_epoch
    members.on_suspended()
    members.in_sync.consider(replica)
    make_topic_again(store, "t", epoch=epoch, version=version)
    assert stored(store).version == version
    member.node.replicas.drop(T0)
    before = store.tree[PATH]
    members.on_connected(session_id, is_new=False)
    member.events.settle()
    assert store.tree[PATH] == before


def test_a_change_that_could_not_be_written_is_written_later(member, store, replica):
    members, session_id = member.node.members, member.node.members.session_id
    members.on_suspended()
    members.in_sync.consider(replica)
    member.events.settle()
    assert stored(store).in_sync == (1,)
    members.on_connected(session_id, is_new=False)
    members.in_sync.consider(replica)
    member.events.settle()
    assert stored(store).in_sync == (1, 2)


def test_the_answer_of_another_epoch_is_not_taken(member, store, replica):
    """The store did not take it, and is asked what it holds; meanwhile the replica leads in another epoch."""
    state = replica.state
    store.out_of_order = True
    member.node.members.in_sync.consider(replica)
    member.events._later.popleft()()  # refused
    store.out_of_order = False
    replica.lead(
        leader_epoch=state.leader_epoch + 1, partition_epoch=state.partition_epoch + 5,
        replicas=(1, 2), in_sync=(1,), now_ms=0,
    )  # fmt: skip
    now = (state.leader_epoch, state.partition_epoch)
    member.events.settle()
    assert (state.leader_epoch, state.partition_epoch) == now
    assert state.in_sync == (1,)
