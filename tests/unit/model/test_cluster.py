"""The table of topics."""

from barnabas.model.cluster import Partition, Topic, Topics


def topic(name, number):
    return Topic(name, bytes([number]) * 16, [Partition((1,), 1)])


def test_topics_are_found_by_name_and_id():
    topics = Topics()
    a = topic("a", 1)
    topics.put(a)
    assert topics.by_name["a"] is topics.by_id[bytes([1]) * 16] is a
    topics.drop(a)
    assert not topics.by_name
    assert not topics.by_id


def test_a_topic_made_again_has_only_its_new_id():
    topics = Topics()
    topics.put(topic("a", 1))
    topics.put(topic("a", 2))
    assert list(topics.by_id) == [bytes([2]) * 16]


def test_names_that_metrics_could_not_tell_apart_are_found():
    topics = Topics()
    a = topic("a.b", 1)
    topics.put(a)
    assert topics.collides_with("a_b") == "a.b"
    assert topics.collides_with("a-b") is None
    topics.drop(a)
    assert topics.collides_with("a_b") is None


def test_internal_topics_are_known():
    assert topic("__consumer_offsets", 1).is_internal
    assert not topic("orders", 1).is_internal


def test_an_id_that_another_topic_was_given_stays_with_that_one():
    topics = Topics()
    first, second = topic("a", 1), topic("b", 1)
    topics.put(first)
    topics.put(second)
    topics.put(topic("a", 2))
    assert topics.by_id[bytes([1]) * 16] is second
    topics.put(first)
    topics.drop(second)
    assert topics.by_id[bytes([1]) * 16] is first
