"""OffsetCommit requests that repeat are kept and answered as if each had come the general way."""

from hypothesis import given, settings
from hypothesis import strategies as st
from property.test_produce_lane import Peer, frame

from barnabas.wire.messages.delete_groups import DeleteGroupsRequest
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest
from barnabas.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from barnabas.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from barnabas.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.wire.messages.offset_fetch import OffsetFetchRequest
from barnabas.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

VERSIONS = [2, 4, 5, 6, 7, 8, 9, 10]
JOIN_VERSION = 3
MARK = "z{|}\0\0\0\0"


class GroupPeer(Peer):
    """A node that coordinates, a group with one member, and connections to it."""

    def __init__(self, settings=None):
        quick = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "2"}
        super().__init__({**quick, **(settings or {})})
        self.general(frame(FindCoordinatorRequest(key="any"), 2, 0))
        self.replies = b""
        protocol = JoinGroupRequestProtocol(name="range", metadata=b"")
        join = JoinGroupRequest(
            group_id="joined",
            session_timeout_ms=30_000,
            rebalance_timeout_ms=30_000,
            protocol_type="consumer",
            protocols=[protocol],
        )
        self.general(frame(join, JOIN_VERSION, 0))
        self.host.events.advance(10)
        self.take_answers()
        self.member_id = JoinGroupResponse.decode(self.replies, JOIN_VERSION, 8).member_id
        given_out = SyncGroupRequestAssignment(member_id=self.member_id, assignment=b"")
        sync = SyncGroupRequest(
            group_id="joined", generation_id=1, member_id=self.member_id, assignments=[given_out]
        )
        self.general(frame(sync, 2, 0))
        self.replies = b""

    def topic_id(self, name):
        return self.host.node.topics.by_name[name].id

    def counters(self):
        found = self.host.node.metrics.by_topic["__consumer_offsets"]
        requests = dict(self.host.node.metrics.requests)
        return requests, {
            name: getattr(found, name) for name in dir(found) if not name.startswith("_")
        }


OFFSETS = st.lists(st.integers(0, 2**40), min_size=4, max_size=4)


@st.composite
def commits(draw):
    """A commit that is like the others, but for one now and then: what to fill a request with."""
    group = draw(st.sampled_from(["joined"] * 4 + ["simple"] * 3 + [MARK, MARK + "\1"]))
    generation = draw(st.sampled_from([1] * 8 + [-1, 2])) if group == "joined" else -1
    topics = draw(
        st.sampled_from([["plain"]] * 6 + [["plain", "other-plain"], ["synced"], ["missing"]])
    )
    partitions = draw(st.sampled_from([[0]] * 6 + [[0, 1], [1, 0], [0, 0], [2, 9]]))
    metadata = draw(st.sampled_from([""] * 8 + [None, "here", MARK, "x" * 5000]))
    offsets = draw(OFFSETS)
    retention_ms = draw(st.sampled_from([-1] * 9 + [60_000]))
    return group, generation, topics, partitions, metadata, offsets, retention_ms


USUAL = st.builds(
    lambda topics, partitions, offsets: ("joined", 1, topics, partitions, "", offsets, -1),
    st.sampled_from([["plain"], ["plain"], ["plain", "other-plain"]]),
    st.sampled_from([[0], [0], [0, 1]]),
    OFFSETS,
)


def commit_request(peer, version, commit):
    group, generation, topics, partitions, metadata, offsets, retention_ms = commit
    left = list(offsets)
    asked = []
    for name in topics:
        named = {"name": name}
        if version >= 10:
            named = {"topic_id": bytes(15) + b"?" if name == "missing" else peer.topic_id(name)}
        parts = [
            OffsetCommitRequestPartition(
                partition_index=index, committed_offset=left.pop(), committed_metadata=metadata
            )
            for index in partitions
        ]
        asked.append(OffsetCommitRequestTopic(**named, partitions=parts))
    kept_for = {"retention_time_ms": retention_ms} if version <= 4 else {}
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=peer.member_id if generation >= 0 else "",
        topics=asked,
        **kept_for,
    )


def other_request(peer, kind):
    """Requests that come in between and look at groups, or change them."""
    return {
        "fetch": lambda: (OffsetFetchRequest(group_id="simple", topics=None), 5),
        "delete": lambda: (DeleteGroupsRequest(groups_names=["simple"]), 2),
        "leave": lambda: (
            LeaveGroupRequest(
                group_id="joined", members=[MemberIdentity(member_id=peer.member_id)]
            ),
            3,
        ),
    }[kind]()


OTHERS = st.sampled_from(["fetch", "fetch", "delete", "leave"])


@settings(max_examples=150)
@given(
    version=st.sampled_from(VERSIONS),
    reads=st.lists(
        st.lists(USUAL | USUAL | USUAL | USUAL | commits() | OTHERS, min_size=3, max_size=8),
        min_size=2,
        max_size=6,
    ),
)
def test_repeated_commits_are_handled_as_the_general_way_does(version, reads):
    lane, general = GroupPeer(), GroupPeer()
    number = 0
    for read in reads:
        streams = {lane: [], general: []}
        for what in read:
            number += 1
            for peer, frames in streams.items():
                if isinstance(what, str):
                    frames.append(frame(*other_request(peer, what), number))
                else:
                    frames.append(frame(commit_request(peer, version, what), version, number))
        assert streams[lane] == streams[general]
        lane.stream(b"".join(streams[lane]))
        for one in streams[general]:
            general.general(one)
        assert lane.replies == general.replies
    assert lane.contents() == general.contents()
    assert lane.counters() == general.counters()
