"""Committed offsets alone: who may commit is said by a small group that stands in for both kinds."""

from dataclasses import dataclass, field

import pytest
from group_kit import NOW_MS, WALL_MS

from barnabas.core.group.offset_requests import (
    CommitPartition,
    CommitRequest,
    CommitTopic,
    DeleteRequest,
    FetchRequest,
    FetchTopic,
)
from barnabas.core.group.offsets import Offsets
from barnabas.core.group.records import OffsetCommitted, OffsetRemoved
from barnabas.core.group.settings import GroupSettings
from barnabas.model.errors import ErrorCode

DAY_MS = 86_400_000
ID, OTHER_ID, NO_ID = bytes(15) + b"\x01", bytes(15) + b"\x02", bytes(16)


@dataclass
class Group:
    """Answers as it is told to."""

    commit: ErrorCode = ErrorCode.NONE
    partition_commit: ErrorCode = ErrorCode.NONE
    fetch: ErrorCode = ErrorCode.NONE
    delete: ErrorCode = ErrorCode.NONE
    subscribed: tuple = ()
    expiry_base_ms: int | None = None
    heard: list = field(default_factory=list)

    def validate_offset_commit(self, *_):
        return self.commit

    def validate_partition_commit(self, _member_id, _epoch, _topic_id, partition):
        return self.partition_commit if partition == 1 else ErrorCode.NONE

    def on_offset_commit(self, member_id, now_ms):
        self.heard.append((member_id, now_ms))

    def validate_offset_fetch(self, *_):
        return self.fetch

    def validate_offset_delete(self):
        return self.delete

    def is_subscribed_to(self, topic):
        return topic in self.subscribed

    def offsets_expiry_base(self, commit_timestamp_ms):
        return commit_timestamp_ms if self.expiry_base_ms is None else self.expiry_base_ms


class Kit:
    def __init__(self, **settings):
        self.groups = {}
        self.offsets = Offsets(
            GroupSettings(**settings),
            self.groups,
            lambda group_id: self.groups.setdefault(group_id, Group()),
        )
        self.place = 0

    def apply(self, result):
        for record in result.records:
            self.offsets.replay(record, self.place)
            self.place += 1
        return [reply for _ticket, reply in result.replies]

    def commit(self, partitions, topic="t", group="g", topic_id=NO_ID, **fields):
        asked = CommitTopic(topic, topic_id, [CommitPartition(*one) for one in partitions])
        request = CommitRequest(group, [asked], **fields)
        return self.apply(self.offsets.commit("ticket", request, NOW_MS, WALL_MS))[0]

    def fetch(self, indexes=(0,), topic="t", group="g", topic_id=NO_ID, **fields):
        topics = None if indexes is None else [FetchTopic(topic, topic_id, list(indexes))]
        return self.offsets.fetch(FetchRequest(group, topics, **fields), NOW_MS)

    def kept(self, group="g"):
        return {(one.topic, one.partition): one.offset for one in self.offsets.committed(group)}


@pytest.fixture
def kit():
    return Kit()


def test_what_is_committed_is_fetched_with_its_note_and_epoch(kit):
    reply = kit.commit([(0, 5, 3, "note"), (1, 6, -1, None)])
    assert (reply.error_code, reply.topics) == (0, [("t", [(0, 0), (1, 0)])])
    ((topic, found),) = kit.fetch([0, 1, 2]).topics
    assert topic == "t"
    assert [(one.partition, one.offset, one.leader_epoch, one.metadata) for one in found] == [
        (0, 5, 3, "note"),
        (1, 6, -1, ""),
        (2, -1, -1, ""),
    ]
    assert len(kit.offsets) == 2


def test_all_topics_are_told_when_none_is_named(kit):
    kit.commit([(0, 5, -1, "")])
    kit.commit([(1, 6, -1, "")], topic="u")
    told = {name: [one.offset for one in found] for name, found in kit.fetch(None).topics}
    assert told == {"t": [5], "u": [6]}
    assert kit.fetch(None, group="other").topics == []


def test_a_commit_from_outside_makes_a_simple_group(kit):
    kit.commit([(0, 5, -1, "")])
    assert list(kit.groups) == ["g"]


@pytest.mark.parametrize(
    ("knows", "code"),
    [(True, ErrorCode.GROUP_ID_NOT_FOUND), (False, ErrorCode.ILLEGAL_GENERATION)],
)
def test_a_member_of_an_unknown_group_is_told_so_if_it_understands(kit, knows, code):
    reply = kit.commit([(0, 5, -1, "")], generation_id_or_member_epoch=3, knows_member_epochs=knows)
    assert (reply.error_code, kit.groups, kit.kept()) == (code, {}, {})


def test_the_group_decides_who_may_commit(kit):
    kit.groups["g"] = Group(commit=ErrorCode.ILLEGAL_GENERATION)
    assert kit.commit([(0, 5, -1, "")]).error_code == ErrorCode.ILLEGAL_GENERATION
    kit.groups["g"] = Group(partition_commit=ErrorCode.STALE_MEMBER_EPOCH)
    assert kit.commit([(0, 5, -1, ""), (1, 5, -1, "")]).error_code == ErrorCode.STALE_MEMBER_EPOCH
    assert kit.kept() == {}


def test_a_commit_is_a_sign_of_life(kit):
    kit.groups["g"] = Group()
    kit.commit([(0, 5, -1, "")], member_id="m")
    assert kit.groups["g"].heard == [("m", NOW_MS)]


@pytest.mark.parametrize(
    ("metadata", "fits"),
    [("x" * 10, True), ("x" * 11, False), ("\U0001f642" * 5, True), ("\U0001f642" * 6, False)],
)
def test_a_note_has_a_length_counted_as_java_counts(metadata, fits):
    kit = Kit(offset_metadata_max_bytes=10)
    reply = kit.commit([(0, 5, -1, metadata), (1, 6, -1, "")])
    code = ErrorCode.NONE if fits else ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert reply.topics == [("t", [(0, code), (1, ErrorCode.NONE)])]
    assert set(kit.kept()) == ({("t", 0), ("t", 1)} if fits else {("t", 1)})


def test_offsets_of_a_topic_that_was_made_again_are_not_told(kit):
    kit.commit([(0, 5, -1, "")], topic_id=ID)
    assert kit.fetch(topic_id=ID).topics[0][1][0].offset == 5
    assert kit.fetch(topic_id=NO_ID).topics[0][1][0].offset == 5
    assert kit.fetch(topic_id=OTHER_ID).topics[0][1][0].offset == -1


def test_the_group_decides_who_may_fetch(kit):
    kit.commit([(0, 5, -1, "")])
    kit.groups["g"] = Group(fetch=ErrorCode.STALE_MEMBER_EPOCH)
    assert kit.fetch().error_code == ErrorCode.STALE_MEMBER_EPOCH
    kit.groups["g"] = Group(fetch=ErrorCode.GROUP_ID_NOT_FOUND)
    assert kit.fetch().topics[0][1][0].offset == -1


def test_delete_forgets_what_nobody_reads(kit):
    kit.commit([(0, 5, -1, ""), (1, 6, -1, "")])
    kit.commit([(0, 7, -1, "")], topic="read")
    kit.groups["g"].subscribed = ("read",)
    request = DeleteRequest("g", [("t", [0, 0, 9]), ("read", [0])])
    (reply,) = kit.apply(kit.offsets.delete("ticket", request))
    refused = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    assert reply.topics == [("t", [(0, 0), (0, 0), (9, 0)]), ("read", [(0, refused)])]
    assert kit.kept() == {("t", 1): 6, ("read", 0): 7}


def test_delete_is_refused_as_a_whole_for_no_group_or_one_that_minds(kit):
    request = DeleteRequest("g", [("t", [0])])
    (reply,) = kit.apply(kit.offsets.delete("ticket", request))
    assert reply.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    kit.groups["g"] = Group(delete=ErrorCode.NON_EMPTY_GROUP)
    (reply,) = kit.apply(kit.offsets.delete("ticket", request))
    assert reply.error_code == ErrorCode.NON_EMPTY_GROUP


def expire(kit, at_ms, group="g"):
    records, nothing_left = kit.offsets.expire(group, at_ms)
    return sorted((one.topic, one.partition) for one in records), nothing_left


def test_offsets_outlive_their_retention_only(kit):
    kit.commit([(0, 5, -1, "")])
    retention_ms = GroupSettings().offsets_retention_ms
    assert expire(kit, WALL_MS + retention_ms - 1) == ([], False)
    assert expire(kit, WALL_MS + retention_ms) == ([("t", 0)], True)
    assert kit.kept() == {("t", 0): 5}, "only replay changes anything"


def test_what_is_read_does_not_expire(kit):
    kit.commit([(0, 5, -1, "")])
    kit.groups["g"].subscribed = ("t",)
    assert expire(kit, WALL_MS + 100 * DAY_MS) == ([], False)


def test_the_group_says_from_when_retention_counts(kit):
    kit.commit([(0, 5, -1, "")])
    kit.groups["g"].expiry_base_ms = WALL_MS + 100 * DAY_MS
    assert expire(kit, WALL_MS + 100 * DAY_MS) == ([], False)
    kit.groups["g"].offsets_expiry_base = lambda _timestamp: None
    assert expire(kit, WALL_MS + 1000 * DAY_MS) == ([], False)


def test_an_expiry_of_its_own_goes_first(kit):
    kit.commit([(0, 5, -1, "")], retention_time_ms=1000)
    assert expire(kit, WALL_MS + 999) == ([], False)
    assert expire(kit, WALL_MS + 1000) == ([("t", 0)], True)


def test_a_group_without_offsets_has_nothing_left(kit):
    assert expire(kit, WALL_MS) == ([], True)


def test_offsets_of_a_deleted_topic_go_with_it(kit):
    kit.commit([(0, 5, -1, "")], topic_id=ID)
    kit.commit([(1, 5, -1, "")], topic_id=OTHER_ID)
    kit.commit([(2, 5, -1, "")])
    kit.commit([(0, 5, -1, "")], topic="u", group="h")
    (result,) = kit.offsets.on_topic_deleted("t", ID)
    assert [one.partition for one in result.records] == [0, 2]
    kit.apply(result)
    assert kit.kept() == {("t", 1): 5}
    assert list(kit.offsets.on_topic_deleted("t", ID)) == []


def test_offsets_without_an_id_stay_where_another_topic_may_have_the_name(kit):
    kit.commit([(0, 5, -1, "")], topic_id=ID)
    kit.commit([(1, 6, -1, "")], topic_id=OTHER_ID)
    kit.commit([(2, 7, -1, "")])
    (result,) = kit.offsets.on_topic_deleted("t", ID, with_unnamed=False)
    kit.apply(result)
    assert kit.kept() == {("t", 1): 6, ("t", 2): 7}


def test_the_ids_of_topics_with_offsets_are_known_also_within_transactions(kit):
    kit.commit([(0, 5, -1, "")], topic_id=ID)
    kit.commit([(1, 5, -1, "")])
    kit.commit([(0, 5, -1, "")], topic="u", group="h")
    kit.offsets.replay(OffsetCommitted("h", "t", 0, 9, -1, "", WALL_MS, -1, OTHER_ID), 9, 7)
    found = {name: list(ids) for name, ids in kit.offsets.topic_ids().items()}
    assert found == {"t": [ID, OTHER_ID], "u": []}


def pending(kit, offset, producer_id=7, place=100):
    record = OffsetCommitted("g", "t", 0, offset, -1, "", WALL_MS)
    kit.offsets.replay(record, place, producer_id)


def test_offsets_of_a_transaction_count_when_it_commits(kit):
    kit.commit([(0, 5, -1, "")])
    pending(kit, 9)
    assert kit.fetch().topics[0][1][0].offset == 5
    assert kit.fetch(require_stable=True).topics[0][1][0].error_code == (
        ErrorCode.UNSTABLE_OFFSET_COMMIT
    )
    kit.offsets.replay_end_marker(7, is_commit=True)
    assert kit.fetch(require_stable=True).topics[0][1][0].offset == 9


def test_offsets_of_a_transaction_that_aborts_never_count(kit):
    pending(kit, 9)
    kit.offsets.replay_end_marker(7, is_commit=False)
    kit.offsets.replay_end_marker(7, is_commit=True)
    assert kit.fetch().topics[0][1][0].offset == -1


def test_a_plain_commit_written_later_wins(kit):
    pending(kit, 9, place=0)
    kit.place = 1
    kit.commit([(0, 5, -1, "")])
    kit.offsets.replay_end_marker(7, is_commit=True)
    assert kit.kept() == {("t", 0): 5}


def test_an_open_transaction_keeps_a_group_and_its_offsets(kit):
    kit.commit([(0, 5, -1, "")])
    pending(kit, 9)
    assert expire(kit, WALL_MS + 100 * DAY_MS) == ([], False)
    kit.offsets.replay(OffsetRemoved("g", "t", 0))
    assert not kit.offsets.has_pending("g", "t", 0), "a removal takes pending offsets too"


def test_everything_of_a_group_can_be_removed(kit):
    kit.commit([(0, 5, -1, ""), (1, 6, -1, "")])
    pending(kit, 9)
    kit.offsets.replay(OffsetCommitted("g", "t", 2, 1, -1, "", WALL_MS), 101, 7)
    records = kit.offsets.removal_records("g")
    assert [(one.topic, one.partition) for one in records] == [("t", 0), ("t", 1), ("t", 2)]
    for record in records:
        kit.offsets.replay(record)
    assert (kit.kept(), len(kit.offsets)) == ({}, 0)
