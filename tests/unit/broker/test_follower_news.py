"""A follower's fetch looks at what it names and what changed; at all of it when that may not be enough."""

import pytest
from fuzz import good_request
from fuzz_world import FuzzLink
from member_kit import ask, new_store, put_topic, start_member

from barnabas.broker.follower_news import Followers
from barnabas.broker.outcomes import CloseLink
from barnabas.core.changes import Changes
from barnabas.core.fetch_session import Wanted
from barnabas.model.errors import ErrorCode
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState

SESSION = 7
NOW_MS, NEXT_MS = 1_000, 1_500


def partition(index):
    return Wanted((b"id", index), "t", b"id", index)


def started():
    """Give the changes and the news of a follower that was told all of three partitions."""
    changes = Changes()
    followers = Followers(changes)
    link, partitions = object(), [partition(index) for index in range(3)]
    news = followers.of(link)
    news.start_over(SESSION, partitions, NEXT_MS, changes)
    assert news.take() == partitions
    return changes, followers, link, news, partitions


def test_all_is_looked_at_first_and_then_what_changed():
    changes, _followers, _link, news, partitions = started()
    assert news.take() == []
    changes.on_change(("t", 2))
    assert news.take() == [partitions[2]]
    assert news.take() == []


def test_what_had_to_wait_comes_before_what_is_named_next():
    _changes, _followers, _link, news, partitions = started()
    news.put_back([partitions[1]])
    news.put_back([partitions[0]])
    assert news.take() == [partitions[1], partitions[0]]


def test_what_is_known_is_enough_for_the_session_until_its_time_is_over():
    _changes, _followers, _link, news, partitions = started()
    assert news.is_current(SESSION, partitions[:1], NOW_MS)
    assert not news.is_current(SESSION + 1, partitions[:1], NOW_MS), "another session"
    assert not news.is_current(SESSION, [partition(3)], NOW_MS), "one more partition"
    assert not news.is_current(SESSION, partitions[:1], NEXT_MS)


def test_without_a_session_all_is_looked_at():
    changes = Changes()
    news = Followers(changes).of(object())
    news.start_over(0, [partition(0)], NEXT_MS, changes)
    assert not news.is_current(0, [], NOW_MS)


def test_a_partition_that_is_pulled_no_more_is_not_looked_at():
    changes, _followers, _link, news, partitions = started()
    changes.on_change(("t", 0))
    news.start_over(SESSION, partitions[1:], NEXT_MS, changes)
    assert news.take() == partitions[1:]
    changes.on_change(("t", 0))
    assert news.take() == []


def test_a_follower_whose_link_is_closed_is_forgotten():
    changes, followers, link, news, _partitions = started()
    assert followers.of(link) is news
    followers.forget(link)
    followers.forget(link)
    assert list(changes.on_change(("t", 0))) == []
    assert followers.of(link) is not news


def test_a_follower_that_went_while_its_request_was_decoded_is_not_remembered():
    store = new_store()
    put_topic(store, "t", (1, 2), (1, 2))
    node, link = start_member(store).node, FuzzLink()
    request = FetchRequest(
        replica_state=ReplicaState(replica_id=2, replica_epoch=-1), max_wait_ms=500, min_bytes=1,
        max_bytes=1 << 20, session_id=0, session_epoch=0, topics=[],
    )  # fmt: skip
    link.close()
    with pytest.raises(CloseLink):
        node.on_request(link, memoryview(bytearray(good_request(request, 17, 1))))
    assert not node.members.followers._by_link


def test_of_topics_that_are_not_known_here_each_is_told():
    """They have no name yet. Taken for one topic, only the last one was told; the others were pulled when the session ended."""
    store = new_store()
    put_topic(store, "t", (1, 2), (1, 2))
    member = start_member(store)
    known = member.node.topics.by_name["t"].id
    epoch = member.node.replicas.get("t", 0).state.leader_epoch
    unknown = [bytes([number]) * 16 for number in range(1, 4)]
    topics = [
        FetchTopic(
            topic_id=topic_id,
            partitions=[
                FetchPartition(
                    partition=0, fetch_offset=0, partition_max_bytes=1000,
                    current_leader_epoch=epoch, last_fetched_epoch=epoch,
                )
            ],
        )
        for topic_id in (known, *unknown)
    ]  # fmt: skip
    request = FetchRequest(
        replica_state=ReplicaState(replica_id=2, replica_epoch=-1), max_wait_ms=0, min_bytes=1,
        max_bytes=1 << 20, session_id=0, session_epoch=0, topics=topics,
    )  # fmt: skip
    answer = ask(member, request, 17)
    codes = {topic.topic_id: topic.partitions[0].error_code for topic in answer.responses}
    assert codes == {known: 0} | dict.fromkeys(unknown, ErrorCode.UNKNOWN_TOPIC_ID)
