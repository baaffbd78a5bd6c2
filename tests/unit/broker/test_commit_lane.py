"""When a lane for commits is opened, what it takes, and what closes it."""

import pytest
from fuzz_world import FuzzLink
from property.test_commit_lane import MARK, GroupPeer
from property.test_produce_lane import frame

from barnabas.broker.commit_lane import OFFSET_COMMIT
from barnabas.broker.repeats import PREFIX_BYTES_MAX
from barnabas.model.errors import ErrorCode
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.wire.messages.heartbeat import HeartbeatRequest
from barnabas.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from barnabas.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from barnabas.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
)

VERSION = 8
FETCH_VERSION = 5


def commit(correlation_id, offset, *, group="simple", member=None, metadata="", partitions=(0,)):
    parts = [
        OffsetCommitRequestPartition(
            partition_index=index, committed_offset=offset + index, committed_metadata=metadata
        )
        for index in partitions
    ]
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=-1 if member is None else 1,
        member_id=member or "",
        topics=[OffsetCommitRequestTopic(name="plain", partitions=parts)],
    )
    return frame(request, VERSION, correlation_id)


def take(peer, *frames, link=None):
    """How many bytes of the frames go a lane."""
    stream = b"".join(frames)
    lanes = (link or peer.link).lanes
    return lanes.take(memoryview(bytearray(stream)), 0, len(stream)) if lanes else 0


def codes(peer):
    """What is answered to what was taken: correlation id and error code."""
    peer.replies = b""
    peer.write()
    found = []
    while peer.replies:
        size = int.from_bytes(peer.replies[:4]) + 4
        reply, peer.replies = peer.replies[:size], peer.replies[size:]
        answer = OffsetCommitResponse.decode(reply, VERSION, 9)
        answered = {one.error_code for topic in answer.topics for one in topic.partitions}
        found.append((int.from_bytes(reply[4:8]), *map(ErrorCode, answered)))
    return found


def kept(peer, group="simple"):
    """Ask on another connection which offsets are kept."""
    request = OffsetFetchRequest(group_id=group, topics=None)
    parts = peer.host.node.on_request(
        FuzzLink(), memoryview(bytearray(frame(request, FETCH_VERSION, 0)))[4:]
    )
    answer = OffsetFetchResponse.decode(b"".join(parts), FETCH_VERSION, 8)
    return [
        (topic.name, one.partition_index, one.committed_offset)
        for topic in answer.topics
        for one in topic.partitions
    ]


@pytest.fixture
def peer():
    peer = GroupPeer()
    peer.general(commit(1, 5))
    return peer


def test_the_first_commit_opens_the_lane_and_the_next_ones_take_it(peer):
    frames = commit(2, 6), commit(3, 7)
    assert take(peer, *frames) == len(b"".join(frames))
    assert codes(peer) == [(2, ErrorCode.NONE), (3, ErrorCode.NONE)]
    assert kept(peer) == [("plain", 0, 7)]


def test_commits_of_several_partitions_take_one(peer):
    peer.general(commit(2, 10, partitions=(0, 1, 2)))
    assert take(peer, commit(3, 20, partitions=(0, 1, 2)))
    assert codes(peer) == [(3, ErrorCode.NONE)]
    assert kept(peer) == [("plain", 0, 20), ("plain", 1, 21), ("plain", 2, 22)]


def test_other_partitions_metadata_and_groups_do_not(peer):
    assert not take(peer, commit(2, 6, partitions=(1,)))
    assert not take(peer, commit(2, 6, metadata="x"))
    assert not take(peer, commit(2, 6, group="others"))


def test_what_was_staged_is_written_before_another_request_reaches_the_shard(peer):
    assert take(peer, commit(2, 6))
    assert kept(peer) == [("plain", 0, 6)]


def test_a_member_that_left_is_told_so_the_general_way():
    peer = GroupPeer()
    of_member = {"group": "joined", "member": peer.member_id}
    peer.general(commit(1, 5, **of_member))
    assert take(peer, commit(2, 6, **of_member))
    assert codes(peer) == [(2, ErrorCode.NONE)]
    leave = LeaveGroupRequest(group_id="joined", members=[MemberIdentity(member_id=peer.member_id)])
    peer.general(frame(leave, 3, 3))
    assert not take(peer, commit(4, 7, **of_member))


def test_a_commit_that_repeats_is_a_sign_of_life():
    peer = GroupPeer()
    of_member = {"group": "joined", "member": peer.member_id}
    peer.general(commit(1, 5, **of_member))
    for number in range(5):
        peer.host.events.advance(20_000)  # of a session of 30 s
        assert take(peer, commit(number, 6, **of_member))
        assert codes(peer) == [(number, ErrorCode.NONE)]
    alive = HeartbeatRequest(group_id="joined", generation_id=1, member_id=peer.member_id)
    peer.replies = b""
    peer.general(frame(alive, 0, 9))
    assert peer.replies[8:] == bytes(2)


def test_offsets_of_a_topic_that_is_deleted_meanwhile_are_not_kept(peer):
    assert take(peer, commit(2, 6))
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name="plain")], timeout_ms=1000)
    peer.general(frame(request, 6, 3))
    assert kept(peer) == []
    assert not take(peer, commit(4, 7))


def test_nor_where_the_coordinator_has_no_replica_of_the_topic(peer):
    """Then nothing else writes what was staged before the topic's offsets are forgotten."""
    node = peer.host.node
    topic = node.topics.by_name["plain"]
    assert take(peer, commit(2, 6))
    node.topics.drop(topic)
    node.coordinators.on_topic_deleted(topic)
    node.staging.write()
    assert kept(peer) == []


def test_a_disk_that_fails_is_told_and_nothing_is_kept(peer):
    assert take(peer, commit(2, 6))
    for replica in peer.host.node.replicas.of_topic("__consumer_offsets"):
        replica.lose()
    assert codes(peer) == [(2, ErrorCode.NOT_COORDINATOR)]
    assert not take(peer, commit(3, 7))


def test_a_name_that_looks_like_a_mark_opens_none(peer):
    peer.general(commit(2, 6, group=MARK))
    assert not take(peer, commit(3, 7, group=MARK))


def test_long_requests_open_none(peer):
    peer.general(commit(2, 6, metadata="x" * PREFIX_BYTES_MAX))
    assert not take(peer, commit(3, 7, metadata="x" * PREFIX_BYTES_MAX))


def test_a_second_connection_of_the_same_client_finds_the_lane(peer):
    link = FuzzLink()
    peer.host.node.on_request(link, memoryview(bytearray(commit(2, 6)))[4:])
    assert take(peer, commit(3, 7), link=link)
    assert len(peer.host.node.staging.lanes((OFFSET_COMMIT << 16) + VERSION)) == 1


def test_none_is_opened_where_a_commit_waits_for_the_disk_or_is_compressed():
    for settings in (
        {"log.flush.interval.messages": "1"},
        {"offsets.topic.compression.codec": "1"},
    ):
        peer = GroupPeer(settings)
        peer.general(commit(1, 5))
        assert not take(peer, commit(2, 6))
