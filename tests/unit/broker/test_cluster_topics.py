"""Changes of topics that wait: by then another topic may have the same name."""

import pytest
from member_kit import new_store, put_topic, start_member

from barnabas.broker import cluster_znodes
from barnabas.broker.tasks import drive
from barnabas.model.cluster import Partition, Topic
from barnabas.model.errors import ErrorCode, KafkaError

PATIENCE_MS = 60_000


@pytest.fixture
def store():
    store = new_store()
    put_topic(store, "t", (1,), (1,))
    return store


@pytest.fixture
def member(store):
    return start_member(store)


@pytest.fixture
def before():
    """A topic of the same name that was there when the request was looked at."""
    return Topic("t", bytes(range(16)), [Partition((1,), 1)])


def outcome(member, task):
    answers = []
    drive(task, lambda *answer: answers.append(answer))
    for _ in range(20):
        member.events.advance(10)
    ((_result, problem),) = answers
    return problem


def test_a_deletion_does_not_take_the_next_topic_of_that_name(member, store, before):
    problem = outcome(member, member.node.members.topics.delete(before, PATIENCE_MS))
    assert isinstance(problem, KafkaError)
    assert problem.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert cluster_znodes.wish_path("t") not in store.tree
    assert "t" in member.node.topics.by_name


def test_the_topic_that_is_meant_is_deleted(member, store):
    topic = member.node.topics.by_name["t"]
    assert outcome(member, member.node.members.topics.delete(topic, PATIENCE_MS)) is None
    assert cluster_znodes.topic_path("t") not in store.tree


def test_the_next_topic_of_that_name_is_not_grown(member, store, before):
    problem = outcome(member, member.node.members.topics.add_partitions(before, [(1,)]))
    assert isinstance(problem, KafkaError)
    assert problem.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    stored = cluster_znodes.read_topic(store.tree[cluster_znodes.topic_path("t")])
    assert list(stored.replicas) == [0]
