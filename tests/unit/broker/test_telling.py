"""What a controller tells the brokers of topics that its view does not have any more."""

import pytest
from member_kit import config_data, new_store, put, put_topic, start_member

from barnabas.broker import cluster_znodes
from barnabas.broker.edge import Contained
from barnabas.model.ids import TopicId, topic_id_text
from barnabas.ports import Create, Delete
from barnabas.wire.messages.stop_replica import StopReplicaRequest
from barnabas.wire.messages.update_metadata import UpdateMetadataRequest


@pytest.fixture
def store():
    store = new_store()
    put_topic(store, "t", (1,), (1,))
    return store


@pytest.fixture
def member(store):
    """The only broker, and its controller."""
    return start_member(store)


def topic_data(topic_id):
    text = topic_id_text(TopicId(topic_id))
    return cluster_znodes.topic_data(cluster_znodes.StoredTopic(text, {0: (1,)}, {}, {}))


def settle(member):
    for _ in range(5):
        member.events.advance(100)


def make(store, member, name, topic_id=b"of the first one"):
    settings = Create(f"/config/topics/{name}", config_data({}))
    put(store, Create(f"/brokers/topics/{name}", topic_data(topic_id)), settings)
    settle(member)


def test_a_topic_that_somebody_took_out_of_the_store_is_told_as_gone(store, member):
    """The controller has forgotten it when its turn comes to be told."""
    make(store, member, "u")
    assert sorted(member.node.topics.by_name) == ["t", "u"]
    put(store, Delete("/brokers/topics/u"), Delete("/config/topics/u"))
    settle(member)
    assert sorted(member.node.topics.by_name) == ["t"]


def test_a_deletion_is_told_once(store, member):
    make(store, member, "u")
    told = member.node.metrics.requests
    before = told[UpdateMetadataRequest.API_KEY]
    put(store, Create(cluster_znodes.wish_path("u")))
    settle(member)
    assert sorted(member.node.topics.by_name) == ["t"]
    assert "/brokers/topics/u" not in store.tree
    assert told[UpdateMetadataRequest.API_KEY] == before + 1
    make(store, member, "u", b"of the second...")
    assert sorted(member.node.topics.by_name) == ["t", "u"]


class PlantedFault(Exception):
    """Nobody foresaw it."""


def fail_once(monkeypatch, message, is_it):
    """Let the next request of this kind be one that cannot be made."""
    encode, failed = message.encode, []

    def plant(request, version):
        if is_it(request) and not failed:
            failed.append(request)
            raise PlantedFault
        return encode(request, version)

    monkeypatch.setattr(message, "encode", plant)
    return failed


def settle_over_a_fault(member):
    with pytest.raises(Contained):
        settle(member)
    member.events.advance(1000)
    settle(member)


def test_what_is_to_be_given_up_is_told_again_after_a_fault(store, member, monkeypatch):
    make(store, member, "u")
    failed = fail_once(monkeypatch, StopReplicaRequest, lambda _request: True)
    put(store, Create(cluster_znodes.wish_path("u")))
    settle_over_a_fault(member)
    assert failed
    assert "/brokers/topics/u" not in store.tree
    assert [str(replica.key) for replica in member.node.replicas] == ["t-0"]


def test_topics_that_are_gone_are_told_again_after_a_fault(store, member, monkeypatch):
    make(store, member, "u")

    def is_it(request):
        return any(topic.topic_name == "u" for topic in request.topic_states)

    failed = fail_once(monkeypatch, UpdateMetadataRequest, is_it)
    put(store, Delete("/brokers/topics/u"), Delete("/config/topics/u"))
    settle_over_a_fault(member)
    assert failed
    assert sorted(member.node.topics.by_name) == ["t"]


def test_an_order_that_a_broker_could_not_carry_out_is_told_again(store, member):
    """It answers UNKNOWN_SERVER_ERROR for the whole of it."""
    told = member.node.metrics.requests
    before = told[UpdateMetadataRequest.API_KEY]
    failed = []

    def fail():
        failed.append(1)
        if len(failed) == 2:  # the first time it is only asked
            raise PlantedFault
        return len(failed) > 2

    heard = []
    deadline_ms = member.node.world.clock.monotonic_ms() + 100_000
    member.node.members.orders.told(fail, deadline_ms)(lambda *answer: heard.append(answer))
    put(store, Create("/brokers/topics/u", topic_data(b"of the first one")))
    settle(member)
    assert told[UpdateMetadataRequest.API_KEY] == before + 1
    member.events.advance(1000)
    settle(member)
    assert told[UpdateMetadataRequest.API_KEY] == before + 2
    assert heard == [(True, None)]
