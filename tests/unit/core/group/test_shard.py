"""One shard: requests go to the machine whose they are, and what concerns groups of any kind."""

import pytest
from group_kit import Machine, uuids

from barnabas.core.group.classic.requests import (
    HeartbeatRequest,
    JoinRequest,
    LeaveRequest,
    LeavingMember,
    SyncRequest,
)
from barnabas.core.group.consumer.context import EmbeddedAssignment, EmbeddedSubscription
from barnabas.core.group.consumer.requests import ConsumerHeartbeatRequest
from barnabas.core.group.offset_requests import (
    CommitPartition,
    CommitRequest,
    CommitTopic,
    DeleteRequest,
    FetchRequest,
)
from barnabas.core.group.settings import NO_OVERRIDES, GroupSettings
from barnabas.core.group.shard import EXPIRED_AT_ONCE, GroupShard, ListRequest
from barnabas.core.group.topic_view import TopicInfo
from barnabas.model.errors import ErrorCode

ID = bytes(15) + b"\x01"
DAY_MS = 86_400_000


class View:
    """One topic of two partitions."""

    def by_name(self, name):
        return TopicInfo(ID, "t", 2) if name == "t" else None

    def by_id(self, topic_id):
        return TopicInfo(ID, "t", 2) if topic_id == ID else None

    def names(self):
        return ["t"]


class Embedded:
    """A protocol of consumers in plain text."""

    def read_subscription(self, metadata):
        return EmbeddedSubscription(tuple(metadata.decode().split()), {})

    def read_assignment(self, _assignment):
        return EmbeddedAssignment({"t": (0, 1)})

    def write_assignment(self, partitions, _metadata):
        return repr(dict(partitions)).encode()


def new_shard(**settings):
    return GroupShard(
        GroupSettings(initial_rebalance_delay_ms=0, consumer_assignment_interval_ms=0, **settings),
        topics=View(),
        new_uuid=uuids(),
        read_topics=lambda metadata: metadata.decode().split(),
        embedded=Embedded(),
        overrides=lambda _group_id: NO_OVERRIDES,
    )


class Kit(Machine):
    def __init__(self, **settings):
        super().__init__(new_shard(**settings))
        self.machine.on_loaded(self.now_ms, self.wall_ms)

    def _call(self, entry_point, ticket, request):
        if entry_point in (
            "list_groups",
            "delete",
            "delete_offsets",
            "describe",
            "consumer_describe",
        ):
            return getattr(self.machine, entry_point)(ticket, request)
        return super()._call(entry_point, ticket, request)

    def commit(self, offset=5, group="g", **fields):
        topic = CommitTopic("t", ID, [CommitPartition(0, offset, -1, "")])
        return self.answer("commit", CommitRequest(group, [topic], **fields)).error_code

    def offset(self, group="g"):
        reply = self.answer("fetch", FetchRequest(group))
        return reply.topics[0][1][0].offset if reply.topics else None

    def join_classic(self, group="g"):
        request = JoinRequest(
            group, "", None, "consumer", (("range", b"t"),), 10_000, 20_000, "c", "/h",
            requires_known_member_id=False,
        )  # fmt: skip
        ticket = self.ask("join", request)
        self.advance(1)
        return self.replies[ticket]

    def sync_classic(self, member_id, generation=1, group="g"):
        request = SyncRequest(group, generation, member_id, assignments=((member_id, b"all"),))
        return self.answer("sync", request)

    def join_consumer(self, group="g", member_id="m", epoch=0):
        request = ConsumerHeartbeatRequest(
            group, member_id, epoch, rebalance_timeout_ms=20_000,
            subscribed_topic_names=["t"], topic_partitions={},
        )  # fmt: skip
        return self.answer("consumer_heartbeat", request)

    def listed(self, **filters):
        found = self.answer("list_groups", ListRequest(list(self.machine.groups), **filters))
        return sorted((one.group_id, one.group_state, one.group_type) for one in found)

    def kinds(self):
        return [type(record).__name__ for record in self.log]


@pytest.fixture
def kit():
    return Kit()


def test_three_ways_to_be_a_group(kit):
    kit.commit(group="simple")
    kit.join_classic("classic")
    kit.join_consumer("consumer")
    assert kit.listed() == [
        ("classic", "CompletingRebalance", "classic"),
        ("consumer", "Stable", "consumer"),
        ("simple", "Empty", "classic"),
    ]
    assert kit.listed(states=[" stable "]) == [("consumer", "Stable", "consumer")]
    assert kit.listed(types=["CONSUMER"]) == [("consumer", "Stable", "consumer")]
    assert kit.listed(states=["Empty"], types=["consumer"]) == []
    assert kit.listed(types=["nonsense"]) == []


def test_a_group_is_described_by_its_own_kind_only(kit):
    kit.join_classic("classic")
    kit.join_consumer("consumer")
    assert kit.answer("describe", "classic").group_state == "CompletingRebalance"
    assert kit.answer("describe", "consumer").error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert kit.answer("consumer_describe", "consumer").group_state == "Stable"
    assert kit.answer("consumer_describe", "classic").error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_members_commit_by_the_rules_of_their_kind(kit):
    joined = kit.join_classic()
    member = {"member_id": joined.member_id, "generation_id_or_member_epoch": 1}
    assert kit.commit(**member) == ErrorCode.REBALANCE_IN_PROGRESS
    kit.sync_classic(joined.member_id)
    assert kit.commit(**member) == ErrorCode.NONE
    assert kit.commit() == ErrorCode.UNKNOWN_MEMBER_ID
    reply = kit.join_consumer("h")
    epoch = {"group": "h", "member_id": "m", "generation_id_or_member_epoch": reply.member_epoch}
    assert kit.commit(**epoch) == ErrorCode.NONE
    assert kit.commit(**{**epoch, "generation_id_or_member_epoch": 99}) == (
        ErrorCode.STALE_MEMBER_EPOCH
    )
    assert kit.commit(group="h") == ErrorCode.UNKNOWN_MEMBER_ID


def test_offsets_stay_when_a_simple_group_gets_members(kit):
    kit.commit(7, group="g")
    kit.join_consumer("g")
    assert (kit.offset(), kit.listed()) == (7, [("g", "Stable", "consumer")])
    kit.commit(8, group="h")
    kit.join_classic("h")
    assert kit.offset("h") == 8


def test_a_classic_member_is_served_in_a_consumer_group(kit):
    kit.join_consumer()
    joined = kit.join_classic()
    assert joined.error_code == ErrorCode.NONE
    assert kit.listed()[0][2] == "consumer"
    beat = HeartbeatRequest("g", joined.generation_id, joined.member_id)
    assert kit.answer("heartbeat", beat).error_code in (
        ErrorCode.NONE,
        ErrorCode.REBALANCE_IN_PROGRESS,
    )
    request = SyncRequest("g", joined.generation_id, joined.member_id, None, "consumer", "range")
    assert kit.answer("sync", request).error_code == ErrorCode.NONE
    left = kit.answer("leave", LeaveRequest("g", (LeavingMember(joined.member_id),)))
    assert [one.error_code for one in left.members] == [ErrorCode.NONE]


def test_requests_of_the_classic_protocol_to_nobody(kit):
    beat = HeartbeatRequest("none", 1, "m")
    assert kit.answer("heartbeat", beat).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert kit.answer("sync", SyncRequest("none", 1, "m")).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    left = kit.answer("leave", LeaveRequest("none", (LeavingMember("m"),)))
    assert left.members[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_only_groups_without_members_are_deleted(kit):
    kit.commit(group="simple")
    joined = kit.join_classic("classic")
    kit.join_consumer("consumer")
    codes = {name: kit.answer("delete", name) for name in ("simple", "classic", "consumer", "none")}
    assert codes == {
        "simple": ErrorCode.NONE,
        "classic": ErrorCode.NON_EMPTY_GROUP,
        "consumer": ErrorCode.NON_EMPTY_GROUP,
        "none": ErrorCode.GROUP_ID_NOT_FOUND,
    }
    kit.answer("leave", LeaveRequest("classic", (LeavingMember(joined.member_id),)))
    kit.join_consumer("consumer", epoch=-1)
    assert kit.answer("delete", "classic") == kit.answer("delete", "consumer") == ErrorCode.NONE
    assert kit.listed() == []


def test_positions_in_what_members_read_are_not_deleted(kit):
    kit.commit()
    kit.join_consumer()
    request = DeleteRequest("g", [("t", [0])])
    reply = kit.answer("delete_offsets", request)
    assert reply.topics == [("t", [(0, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)])]
    kit.join_consumer(epoch=-1)
    assert kit.answer("delete_offsets", request).topics == [("t", [(0, ErrorCode.NONE)])]
    assert kit.offset() is None


def test_what_expires_takes_the_empty_group_along():
    kit = Kit(offsets_retention_ms=DAY_MS, offsets_retention_check_interval_ms=3_600_000)
    kit.commit(group="simple")
    kit.commit(group="consumer")
    kit.join_consumer("consumer")
    kit.join_consumer("consumer", epoch=-1)
    kit.advance(DAY_MS // 2)
    assert [name for name, *_ in kit.listed()] == ["consumer", "simple"]
    kit.advance(DAY_MS)
    assert kit.listed() == []


def test_many_groups_expire_some_at_a_time():
    kit = Kit(offsets_retention_ms=DAY_MS, offsets_retention_check_interval_ms=DAY_MS)
    for number in range(EXPIRED_AT_ONCE + 1):
        kit.commit(group=f"g{number}")
    kit.now_ms += DAY_MS
    kit.wall_ms += DAY_MS
    for expected in (EXPIRED_AT_ONCE, 1):
        assert kit.machine.next_deadline_ms() <= kit.now_ms
        assert len(kit.machine.on_time(kit.now_ms, kit.wall_ms)) == expected
    assert kit.machine.next_deadline_ms() == kit.now_ms + DAY_MS


def test_offsets_go_with_their_topic(kit):
    kit.commit()
    for result in kit.machine.on_topic_deleted("t", ID):
        kit.apply(result)
    assert kit.offset() is None
    assert kit.kinds() == ["OffsetCommitted", "OffsetRemoved"]


def test_a_commit_that_cannot_be_written_changes_nothing(kit):
    kit.commit(1)
    kit.fail_appends_with = ErrorCode.COORDINATOR_NOT_AVAILABLE
    topic = CommitTopic("t", ID, [CommitPartition(0, 9, -1, "")])
    assert kit.answer("commit", CommitRequest("g", [topic])) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert kit.answer("delete", "g") == ErrorCode.COORDINATOR_NOT_AVAILABLE
    kit.fail_appends_with = None
    assert kit.offset() == 1


def test_members_that_cannot_be_written_are_not_there(kit):
    kit.fail_appends_with = ErrorCode.NOT_ENOUGH_REPLICAS
    assert kit.join_consumer("c").error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert kit.join_classic("k").error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    kit.fail_appends_with = None
    assert kit.listed() == []


def test_a_shard_is_what_its_log_says(kit):
    kit.commit(3, group="simple")
    joined = kit.join_classic("classic")
    kit.sync_classic(joined.member_id, group="classic")
    kit.join_consumer("consumer")
    before = kit.listed()
    kit.restart(new_shard())
    assert kit.listed() == before
    assert kit.offset("simple") == 3
    beat = HeartbeatRequest("classic", 1, joined.member_id)
    assert kit.answer("heartbeat", beat).error_code == ErrorCode.NONE
    kit.advance(60_000)
    assert kit.listed()[0] == ("classic", "Empty", "classic"), "nobody was heard of"
    assert ("consumer", "Empty", "consumer") in kit.listed()


def test_who_waits_is_told_when_the_shard_goes(kit):
    joined = kit.join_classic()
    request = JoinRequest(
        "g",
        "",
        None,
        "consumer",
        (("range", b"t"),),
        10_000,
        20_000,
        requires_known_member_id=False,
    )
    ticket = kit.ask("join", request)
    assert kit.waits(ticket)
    kit.restart(new_shard())
    assert kit.replies[ticket].error_code == ErrorCode.NOT_COORDINATOR
    assert joined.error_code == ErrorCode.NONE


def test_the_topics_that_groups_read_are_known():
    kit = Kit()
    kit.commit(group="simple")
    joined = kit.join_classic("classic")
    kit.sync_classic(joined.member_id, group="classic")
    assert dict(kit.machine.topics_read()) == {"t": None}
    request = ConsumerHeartbeatRequest(
        "consumer", "m", 0, rebalance_timeout_ms=20_000, subscribed_topic_names=["x"],
        topic_partitions={},
    )  # fmt: skip
    assert kit.answer("consumer_heartbeat", request).error_code == ErrorCode.NONE
    assert list(kit.machine.topics_read()) == ["t", "x"]
    assert not kit.machine.has_regexes
    request.group_id, request.subscribed_topic_regex = "regex", "y.*"
    assert kit.answer("consumer_heartbeat", request).error_code == ErrorCode.NONE
    assert kit.machine.has_regexes
