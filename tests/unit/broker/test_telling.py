"""What a controller tells the brokers of topics that its view does not have any more."""

import pytest
from member_kit import config_data, new_store, put, put_topic, start_member

from barnabas.broker import cluster_znodes
from barnabas.model.ids import TopicId, topic_id_text
from barnabas.ports import Create, Delete
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
