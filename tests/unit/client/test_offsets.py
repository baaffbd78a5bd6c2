"""Offsets of many partitions and of groups, while leaders and coordinators move."""

import pytest
from talk_kit import World

from barnabas.client.errors import Refused, Unreachable
from barnabas.client.offsets import LATEST, commit, committed, list_offsets
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import TopicPartition
from barnabas.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from barnabas.wire.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from barnabas.wire.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)

PLACES = [TopicPartition("t", each) for each in range(4)]


def answering(world):
    """Leaders answer offset 100 + partition, others that they do not lead."""

    def answer(request, address):
        topics = []
        for topic in request.topics:
            parts = []
            for each in topic.partitions:
                leader = world.brokers[world.topics[topic.name][each.partition_index]]
                code = 0 if leader == address else int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
                part = ListOffsetsPartitionResponse(
                    partition_index=each.partition_index,
                    error_code=code,
                    offset=100 + each.partition_index,
                )
                parts.append(part)
            topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=parts))
        return ListOffsetsResponse(topics=topics)

    return answer


def test_each_leader_is_asked_once_for_all_its_partitions():
    world = World({"t": [1, 2, 1, 2]})
    world.on["ListOffsets"] = answering(world)
    found = world.run(list_offsets(world.cluster, dict.fromkeys(PLACES, LATEST), "read_committed"))
    assert {place: each.offset for place, each in found.items()} == {
        place: 100 + place.partition for place in PLACES
    }
    first, second = world.requests("ListOffsets")
    assert first.isolation_level == 1
    assert [each.partition_index for each in first.topics[0].partitions] == [0, 2]
    assert [each.partition_index for each in second.topics[0].partitions] == [1, 3]
    # Both were asked before either answered.
    assert world.names() == ["Metadata", "ListOffsets", "ListOffsets"]


def test_only_what_moved_is_asked_for_again():
    world = World({"t": [1, 2, 1, 2]})
    world.on["ListOffsets"] = answering(world)
    world.run(world.cluster.locate(PLACES))
    world.topics["t"] = [1, 1, 1, 2]
    found = world.run(list_offsets(world.cluster, dict.fromkeys(PLACES, LATEST)))
    assert len(found) == 4
    last = world.requests("ListOffsets")[-1]
    assert [each.partition_index for each in last.topics[0].partitions] == [1]


def test_a_broker_that_is_gone_is_waited_for():
    world = World({"t": [1, 2, 1, 2]}, api_timeout_ms=2000)
    world.on["ListOffsets"] = answering(world)
    world.down = {("broker-2", 9092)}
    with pytest.raises(Unreachable):
        world.run(list_offsets(world.cluster, dict.fromkeys(PLACES, LATEST)))
    world.topics["t"] = [1, 1, 1, 1]
    assert len(world.run(list_offsets(world.cluster, dict.fromkeys(PLACES, LATEST)))) == 4


def test_a_refusal_is_not_tried_again():
    world = World({"t": [1]})
    part = ListOffsetsPartitionResponse(partition_index=0, error_code=29)
    world.on["ListOffsets"] = lambda *_: ListOffsetsResponse(
        topics=[ListOffsetsTopicResponse(name="t", partitions=[part])]
    )
    with pytest.raises(Refused) as raised:
        world.run(list_offsets(world.cluster, {PLACES[0]: LATEST}))
    assert raised.value.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert len(world.requests("ListOffsets")) == 1


def test_an_answer_without_an_answer_is_tried_again():
    world = World({"t": [1]}, api_timeout_ms=1000)
    world.on["ListOffsets"] = lambda *_: ListOffsetsResponse(topics=[])
    with pytest.raises(Unreachable, match="no answer about t-0"):
        world.run(list_offsets(world.cluster, {PLACES[0]: LATEST}))


# -- groups --------------------------------------------------------------------------------------


def commit_answer(code):
    part = OffsetCommitResponsePartition(partition_index=0, error_code=code)
    return OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="t", partitions=[part])])


def test_commits_follow_the_coordinator():
    world = World({"t": [1]})
    codes = [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NONE]
    world.on["OffsetCommit"] = lambda *_: commit_answer(int(codes.pop(0)))
    world.run(commit(world.cluster, "g", {PLACES[0]: 5}))
    assert world.names() == [
        "FindCoordinator", "OffsetCommit", "FindCoordinator", "OffsetCommit", "OffsetCommit",
    ]  # fmt: skip
    request = world.requests("OffsetCommit")[0]
    assert (request.group_id, request.member_id) == ("g", "")
    assert request.topics[0].partitions[0].committed_offset == 5


def test_a_group_with_members_refuses():
    world = World({"t": [1]})
    world.on["OffsetCommit"] = lambda *_: commit_answer(int(ErrorCode.UNKNOWN_MEMBER_ID))
    with pytest.raises(Refused, match="it has members of its own"):
        world.run(commit(world.cluster, "g", {PLACES[0]: 5}))


def fetched(code=0, group_code=0):
    parts = [
        OffsetFetchResponsePartitions(partition_index=0, committed_offset=7, error_code=code),
        OffsetFetchResponsePartitions(partition_index=1, committed_offset=-1),
    ]
    topic = OffsetFetchResponseTopics(name="t", partitions=parts)
    group = OffsetFetchResponseGroup(group_id="g", topics=[topic], error_code=group_code)
    return OffsetFetchResponse(groups=[group])


def test_committed_offsets_are_stable_ones():
    world = World({"t": [1]})
    answers = [fetched(int(ErrorCode.UNSTABLE_OFFSET_COMMIT)), fetched(), fetched()]
    world.on["OffsetFetch"] = lambda *_: answers.pop(0)
    assert world.run(committed(world.cluster, "g", PLACES[:2])) == {PLACES[0]: 7}
    first = world.requests("OffsetFetch")[0]
    assert first.require_stable
    assert first.groups[0].topics[0].partition_indexes == [0, 1]
    assert world.run(committed(world.cluster, "g")) == {PLACES[0]: 7}
    assert world.requests("OffsetFetch")[-1].groups[0].topics is None


def test_a_group_that_we_may_not_see():
    world = World()
    world.on["OffsetFetch"] = lambda *_: fetched(
        group_code=int(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    )
    with pytest.raises(Refused, match="group 'g'"):
        world.run(committed(world.cluster, "g"))
