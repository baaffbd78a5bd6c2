"""DescribeTopicPartitions: page by page everything is told once, in order of names."""

import pytest
from node_kit import NodeKit

from barnabas.model.errors import ErrorCode
from barnabas.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)


def page(kit, *names, limit=2000, cursor=None):
    topics = [TopicRequest(name=name) for name in names]
    return kit.ask(
        DescribeTopicPartitionsRequest(
            topics=topics, response_partition_limit=limit, cursor=cursor
        ),
        0,
    )


def told(answer):
    return [(topic.name, p.partition_index) for topic in answer.topics for p in topic.partitions]


@pytest.fixture(scope="module")
def kit():
    kit = NodeKit(max_request_partition_size_limit="7")
    for name, count in (("b", 3), ("a", 4), ("c", 2)):
        kit.create(name, partitions=count)
    return kit


ALL = [("a", i) for i in range(4)] + [("b", i) for i in range(3)] + [("c", i) for i in range(2)]


@pytest.mark.parametrize("limit", [-1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 1000])
@pytest.mark.parametrize("names", [(), ("c", "a", "b")])
def test_page_by_page_all_is_told_once(kit, limit, names):
    found, cursor = [], None
    while True:
        answer = page(kit, *names, limit=limit, cursor=cursor)
        assert 0 < len(told(answer)) <= max(1, min(limit, 7))
        found += told(answer)
        cursor = answer.next_cursor
        if cursor is None:
            break
    assert found == ALL


def test_unknown_topics_are_told_if_named(kit):
    answer = page(kit, "nosuch", "a b", "a")
    codes = {topic.name: topic.error_code for topic in answer.topics}
    assert codes == {
        "a": ErrorCode.NONE,
        "a b": ErrorCode.INVALID_TOPIC_EXCEPTION,
        "nosuch": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }


@pytest.mark.parametrize("cursor", [("b", -1), ("x", 0)])
def test_a_cursor_that_cannot_be(kit, cursor):
    name, index = cursor
    answer = page(kit, "a", "b", cursor=Cursor(topic_name=name, partition_index=index))
    assert [topic.error_code for topic in answer.topics] == [ErrorCode.INVALID_REQUEST] * 2


def test_a_cursor_past_the_partitions_goes_on_with_the_next_topic(kit):
    answer = page(kit, limit=3, cursor=Cursor(topic_name="a", partition_index=99))
    assert told(answer) == [("b", 0), ("b", 1), ("b", 2)]
