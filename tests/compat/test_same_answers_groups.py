"""Every group API with the same requests to Apache Kafka and to us: the answers agree, field by field.

Good requests, and above all bad ones: unknown members, old generations, empty ids, oversized notes. See two_brokers.py for what may
differ; member ids are compared by whose they are. BARNABAS_TEST_KAFKA=HOST:PORT takes an Apache Kafka that runs already (with
group.initial.rebalance.delay.ms=0).
"""

import struct

import pytest
from compat.apache_kafka import shared_kafka
from compat.conftest import running_broker
from compat.two_brokers import NO_ID, TwoBrokers

from barnabas.wire.messages import (
    alter_configs,
    consumer_group_describe,
    consumer_group_heartbeat,
    delete_groups,
    describe_configs,
    describe_groups,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    join_group,
    leave_group,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
    sync_group,
)

pytestmark = pytest.mark.java

SETTINGS = ("group.initial.rebalance.delay.ms=0",)
OTHER_ID = bytes(range(16))
SESSION_MS = 30_000
MEMBER = "member"


@pytest.fixture(scope="module")
def kafka_address(tmp_path_factory):
    with shared_kafka(tmp_path_factory.mktemp("kafka"), *SETTINGS) as address:
        yield address


@pytest.fixture(scope="module")
def our_address(tmp_path_factory):
    with running_broker(tmp_path_factory.mktemp("broker"), *SETTINGS) as address:
        yield address


@pytest.fixture
def both(our_address, kafka_address):
    brokers = TwoBrokers(our_address, kafka_address)
    for side in brokers.sides:
        request = find_coordinator.FindCoordinatorRequest(coordinator_keys=["any"])
        side.ask_until(request, 4, lambda answer: answer.coordinators[0].error_code == 0)
        ready = heartbeat.HeartbeatRequest(group_id="any", member_id="x", generation_id=1)
        side.ask_until(ready, 4, lambda answer: answer.error_code == 25)
    yield brokers
    for side in brokers.sides:
        side.client.close()
    assert not brokers.differences, "\n".join(brokers.differences)
    assert brokers.asked


@pytest.fixture
def topic(both, topic_name):
    both.create(topic_name, partitions=2)
    return topic_name


@pytest.fixture
def group(topic_name):
    return f"group-{topic_name}"


# Membership


def join_request(
    group, side=None, *, instance=None, protocols=("range",), type_="consumer", **more
):
    member_id = "" if side is None else side.ids.get(MEMBER, "")
    metadata = subscription(*more.pop("topics", ("some-topic",)))
    return join_group.JoinGroupRequest(
        group_id=group,
        session_timeout_ms=more.pop("session_timeout_ms", SESSION_MS),
        rebalance_timeout_ms=more.pop("rebalance_timeout_ms", SESSION_MS),
        member_id=more.pop("member_id", member_id),
        group_instance_id=instance,
        protocol_type=type_,
        protocols=[
            join_group.JoinGroupRequestProtocol(name=name, metadata=metadata) for name in protocols
        ],
        **more,
    )


def subscription(*topics):
    """The consumer protocol's bytes. (Others keep Apache Kafka busy for minutes: it takes text for a length.)"""
    names = b"".join(struct.pack(">h", len(name)) + name.encode() for name in topics)
    return struct.pack(">hi", 0, len(topics)) + names + struct.pack(">i", -1)


def sync_request(group, side, generation=1, assignment=b"share", **more):
    member_id = more.pop("member_id", side.ids.get(MEMBER, ""))
    return sync_group.SyncGroupRequest(
        group_id=group,
        generation_id=generation,
        member_id=member_id,
        group_instance_id=more.pop("instance", None),
        protocol_type=more.pop("protocol_type", "consumer"),
        protocol_name=more.pop("protocol_name", "range"),
        assignments=[
            sync_group.SyncGroupRequestAssignment(member_id=member_id, assignment=assignment)
        ],
    )


def join(both, group, version=9, **more):
    """One member on each side, known as MEMBER from now on."""
    first = dict(more)
    differing = ("member_id", "leader")
    both.ask(lambda side: join_request(group, side, **first), version, allowed=differing)
    for side in both.sides:
        assert side.last.member_id
        side.ids[MEMBER] = side.last.member_id
    if more.get("instance") is None and version >= 4:
        both.ask(lambda side: join_request(group, side, **more), version)


def join_and_sync(both, group, **more):
    join(both, group, **more)
    instance = more.get("instance")
    type_ = more.get("type_", "consumer")
    both.ask(lambda side: sync_request(group, side, instance=instance, protocol_type=type_), 5)


def beat(group, side, generation=1, **more):
    return heartbeat.HeartbeatRequest(
        group_id=group,
        generation_id=generation,
        member_id=more.pop("member_id", side.ids.get(MEMBER, "")),
        group_instance_id=more.pop("instance", None),
    )


@pytest.mark.parametrize("version", range(10))
def test_one_member_joins_syncs_beats_and_leaves(both, group, version):
    if version < 4:
        both.ask(
            lambda side: join_request(group), version, allowed=("member_id", "leader", "members")
        )
        for side in both.sides:
            side.ids[MEMBER] = side.last.member_id
            (member,) = side.last.members
            assert side.last.leader == side.last.member_id == member.member_id
            assert bytes(member.metadata) == subscription("some-topic")
    else:
        join(both, group, version)
    both.ask_all(lambda side: sync_request(group, side))
    both.ask_all(lambda side: beat(group, side))
    both.ask_all(describe_groups.DescribeGroupsRequest(groups=[group]), allowed=("client_host",))
    leave = leave_group.LeaveGroupRequest
    member = leave_group.MemberIdentity
    both.ask(lambda side: leave(group_id=group, members=[member(member_id=side.ids[MEMBER])]), 5)
    both.ask_all(describe_groups.DescribeGroupsRequest(groups=[group]))


def test_join_refused(both, group):
    both.ask_all(join_request(""))
    both.ask_all(join_request(group, session_timeout_ms=1))
    both.ask_all(join_request(group, session_timeout_ms=10_000_000))
    both.ask_all(join_request(group, member_id="nobody"))
    both.ask_all(join_request(group, protocols=()))
    both.ask_all(join_request(group, type_=""))
    both.ask(join_request(group, member_id="nobody", instance="i"), 9)
    join_and_sync(both, group)
    both.ask_all(join_request(group, member_id="nobody"))
    both.ask_all(join_request(group, protocols=("other",)))
    both.ask_all(join_request(group, type_="connect"))
    both.ask(join_request(group, member_id="nobody", instance="i"), 9)


def test_join_with_a_name_too_long_for_a_member_id(both, group):
    for version in (5, 9):
        both.ask(join_request(f"{group}-{version}", instance="n" * 32_760), version)
    assert both.last.error_code == -1


def test_sync_again_when_stable(both, group):
    join(both, group)
    for _ in range(2):
        both.ask(lambda side: sync_request(group, side), 5)
    assert both.last.assignment == b"share"


def test_sync_refused(both, group):
    both.ask_all(lambda side: sync_request("", side))
    both.ask_all(lambda side: sync_request(group, side))
    join(both, group)
    both.ask_all(lambda side: sync_request(group, side, generation=0))
    both.ask_all(lambda side: sync_request(group, side, generation=9))
    both.ask_all(lambda side: sync_request(group, side, member_id="nobody"))
    both.ask(lambda side: sync_request(group, side, instance="unknown"), 5)
    both.ask(lambda side: sync_request(group, side, protocol_name="other"), 5)
    both.ask(lambda side: sync_request(group, side, protocol_type="other"), 5)
    both.ask(lambda side: sync_request(group, side, protocol_type=None), 5)
    both.ask(lambda side: sync_request(group, side, protocol_name=None), 5)
    both.ask_all(lambda side: beat(group, side))
    both.ask_all(lambda side: sync_request(group, side))


def test_heartbeat_refused(both, group):
    both.ask_all(lambda side: beat("", side))
    both.ask_all(lambda side: beat(group, side))
    join_and_sync(both, group)
    both.ask_all(lambda side: beat(group, side, generation=0))
    both.ask_all(lambda side: beat(group, side, generation=2))
    both.ask_all(lambda side: beat(group, side, generation=-1))
    both.ask_all(lambda side: beat(group, side, member_id="nobody"))
    both.ask_all(lambda side: beat(group, side, member_id=""))
    both.ask(lambda side: beat(group, side, instance="unknown"), 4)


def test_static_members(both, group):
    join_and_sync(both, group, instance="static")
    old = {side: side.ids[MEMBER] for side in both.sides}
    both.ask_all(lambda side: beat(group, side, instance="static"), since=3)
    # The same instance again: the old member is replaced without a rebalance, and fenced.
    both.ask(
        lambda side: join_request(group, instance="static"),
        9,
        allowed=("member_id", "leader", "members"),
    )
    for side in both.sides:
        side.ids[MEMBER] = side.last.member_id
    both.ask(lambda side: beat(group, side, member_id=old[side], instance="static"), 4)
    both.ask(lambda side: sync_request(group, side, member_id=old[side], instance="static"), 5)
    both.ask(lambda side: beat(group, side, instance="static"), 4)
    both.ask(lambda side: sync_request(group, side, instance="static"), 5)
    both.ask(
        lambda side: commit_request(
            group, {}, side=side, generation=1, member_id=old[side], instance="static"
        ),
        9,
    )
    both.ask_all(describe_groups.DescribeGroupsRequest(groups=[group]), allowed=("client_host",))
    identity = leave_group.MemberIdentity
    leave = leave_group.LeaveGroupRequest
    both.ask(
        lambda side: leave(
            group_id=group,
            members=[identity(member_id=old[side], group_instance_id="static")],
        ),
        5,
        allowed=("member_id",),
    )
    both.ask(leave(group_id=group, members=[identity(group_instance_id="unknown")]), 5)
    both.ask(leave(group_id=group, members=[identity(group_instance_id="static")]), 5)
    both.ask_all(describe_groups.DescribeGroupsRequest(groups=[group]))


def test_leave_refused(both, group):
    leave, identity = leave_group.LeaveGroupRequest, leave_group.MemberIdentity
    both.ask_all(leave(group_id=""), until=2)
    both.ask_all(leave(group_id="", members=[identity(member_id="x")]), since=3)
    both.ask_all(leave(group_id=group, member_id="x"), until=2)
    both.ask_all(leave(group_id=group, members=[identity(member_id="x")]), since=3)
    both.ask_all(leave(group_id=group, members=[]), since=3)
    join_and_sync(both, group)
    both.ask_all(leave(group_id=group, member_id="x"), until=2)
    members = [identity(member_id="x"), identity(member_id="y", group_instance_id="z"), identity()]
    both.ask_all(leave(group_id=group, members=members), since=3)


# Offsets


def commit_request(group, topics, *, side=None, generation=-1, metadata="", epoch=-1, **more):
    """`topics`: name -> partition -> offset."""
    member_id = more.pop("member_id", None)
    if member_id is None:
        member_id = "" if generation < 0 else side.ids.get(MEMBER, "")
    by_id = more.pop("by_id", False)
    return offset_commit.OffsetCommitRequest(
        group_id=group,
        member_id=member_id,
        group_instance_id=more.pop("instance", None),
        generation_id_or_member_epoch=generation,
        retention_time_ms=more.pop("retention_time_ms", -1),
        topics=[
            offset_commit.OffsetCommitRequestTopic(
                name="" if by_id else name,
                topic_id=side.ids.get(name, OTHER_ID) if by_id else NO_ID,
                partitions=[
                    offset_commit.OffsetCommitRequestPartition(
                        partition_index=index,
                        committed_offset=offset,
                        committed_metadata=metadata,
                        committed_leader_epoch=epoch,
                    )
                    for index, offset in partitions.items()
                ],
            )
            for name, partitions in topics.items()
        ],
    )


def fetch_request(group, topics, *, require_stable=False, **member):
    """`topics`: name -> partitions; None for all."""
    return offset_fetch.OffsetFetchRequest(
        groups=[
            offset_fetch.OffsetFetchRequestGroup(
                group_id=group,
                topics=topics
                and [
                    offset_fetch.OffsetFetchRequestTopics(name=name, partition_indexes=indexes)
                    for name, indexes in topics.items()
                ],
                **member,
            )
        ],
        require_stable=require_stable,
    )


def old_fetch_request(group, topics, require_stable=False):
    return offset_fetch.OffsetFetchRequest(
        group_id=group,
        topics=topics
        and [
            offset_fetch.OffsetFetchRequestTopic(name=name, partition_indexes=indexes)
            for name, indexes in topics.items()
        ],
        require_stable=require_stable,
    )


def fetch_by_id(group, side, names):
    topics = [
        offset_fetch.OffsetFetchRequestTopics(
            topic_id=side.ids.get(name, OTHER_ID), partition_indexes=[0, 1]
        )
        for name in names
    ]
    asked = offset_fetch.OffsetFetchRequestGroup(group_id=group, topics=topics)
    return offset_fetch.OffsetFetchRequest(groups=[asked])


def test_offsets_of_a_simple_consumer(both, topic, group):
    both.ask_all(old_fetch_request(group, {topic: [0, 1]}), until=7)
    both.ask_all(old_fetch_request(group, None), since=2, until=7)
    both.ask_all(fetch_request(group, {topic: [0, 1]}), since=8, until=9)
    both.ask_all(fetch_request(group, None), since=8)
    both.ask_all(commit_request(group, {topic: {0: 5}}, metadata="a note"), until=9)
    both.ask(
        lambda side: commit_request(group, {topic: {1: 7}}, side=side, by_id=True, epoch=0), 10
    )
    both.ask_all(old_fetch_request(group, {topic: [0, 1, 2]}), until=7)
    both.ask_all(old_fetch_request(group, None), since=2, until=7)
    both.ask_all(fetch_request(group, {topic: [0, 1]}), since=8, until=9)
    both.ask_all(fetch_request(group, None), since=8)
    both.ask_all(fetch_request(group, {topic: [1]}, require_stable=True), since=8, until=9)
    both.ask(lambda side: fetch_by_id(group, side, [topic, "unknown"]), 10)
    both.ask_all(describe_groups.DescribeGroupsRequest(groups=[group]))


def test_commit_refused(both, topic, group):
    good = {topic: {0: 5}}
    both.ask_all(commit_request(group, good, generation=3, member_id="x"), until=9)
    both.ask_all(commit_request(group, {"no-such-topic": {0: 1}}), until=9)
    both.ask_all(commit_request(group, {topic: {0: 1, 7: 1, -1: 1}}), until=9)
    both.ask(lambda side: commit_request(group, {"unknown": {0: 1}}, side=side, by_id=True), 10)
    both.ask(lambda side: commit_request(group, {topic: {9: 1}}, side=side, by_id=True), 10)
    both.ask_all(commit_request(group, good, metadata="x" * 5000), until=9)
    both.ask_all(commit_request(group, good, metadata="x" * 4096), until=9)
    both.ask_all(commit_request(group, good, metadata="é" * 4096), until=9)
    both.ask_all(commit_request(group, {topic: {0: -1}}), until=9)
    both.ask_all(commit_request(group, {topic: {0: -5}}), until=9)
    both.ask_all(commit_request(group, {}), until=9)
    both.ask_all(commit_request("", good), until=9)
    both.ask(commit_request(group, good, metadata=None), 9)
    both.ask(fetch_request(group, None), 9)
    join_and_sync(both, group)
    both.ask_all(commit_request(group, good), until=9)
    both.ask_all(commit_request(group, good, generation=1, member_id="x"), until=9)
    both.ask_all(lambda side: commit_request(group, good, side=side, generation=0), until=9)
    both.ask_all(lambda side: commit_request(group, good, side=side, generation=2), until=9)
    both.ask(lambda side: commit_request(group, good, side=side, generation=1, instance="i"), 9)
    both.ask_all(lambda side: commit_request(group, good, side=side, generation=1), until=9)
    both.ask(fetch_request(group, None), 9)


def test_commit_while_rebalancing(both, topic, group):
    join(both, group)
    both.ask(lambda side: commit_request(group, {topic: {0: 5}}, side=side, generation=1), 9)


def test_fetch_for_many_groups(both, topic, group):
    both.ask(commit_request(group, {topic: {0: 5}}), 9)
    asked = [
        offset_fetch.OffsetFetchRequestGroup(group_id=name, topics=None)
        for name in (group, "not-there", f"{group}-other")
    ]
    both.ask_all(offset_fetch.OffsetFetchRequest(groups=asked), since=8)
    both.ask_all(offset_fetch.OffsetFetchRequest(groups=[]), since=8)
    both.ask_all(fetch_request(group, {}), since=8, until=9)
    both.ask(fetch_request(group, None, member_id="x", member_epoch=3), 9)
    both.ask(fetch_request("not-there", None, member_id="x", member_epoch=3), 9)


def delete_offsets_request(group, topics):
    return offset_delete.OffsetDeleteRequest(
        group_id=group,
        topics=[
            offset_delete.OffsetDeleteRequestTopic(
                name=name,
                partitions=[
                    offset_delete.OffsetDeleteRequestPartition(partition_index=index)
                    for index in indexes
                ],
            )
            for name, indexes in topics.items()
        ],
    )


def test_delete_offsets(both, topic, group):
    both.ask(delete_offsets_request(group, {topic: [0]}), 0)
    both.ask(commit_request(group, {topic: {0: 5, 1: 6}}), 9)
    both.ask(delete_offsets_request("", {topic: [0]}), 0)
    both.ask(delete_offsets_request(group, {}), 0)
    both.ask(delete_offsets_request(group, {"no-such-topic": [0]}), 0)
    both.ask(delete_offsets_request(group, {topic: [0, 7]}), 0)
    both.ask(fetch_request(group, None), 9)
    both.ask(delete_offsets_request(group, {topic: [0]}), 0)
    join_and_sync(both, group)
    both.ask(delete_offsets_request(group, {topic: [1]}), 0)
    both.ask(fetch_request(group, None), 9)


def test_delete_offsets_of_what_is_read(both, topic, group):
    both.ask(commit_request(group, {topic: {0: 5, 1: 6}}), 9)
    join_and_sync(both, group, topics=(topic,))
    both.ask(delete_offsets_request(group, {topic: [0, 1, 7]}), 0)
    both.ask(fetch_request(group, None), 9)


def test_delete_offsets_of_a_group_that_is_no_consumers(both, topic, group):
    both.ask(commit_request(group, {topic: {0: 5}}), 9)
    join_and_sync(both, group, type_="connect")
    both.ask(delete_offsets_request(group, {topic: [0]}), 0)


# Groups


def test_find_coordinator(both, group):
    find = find_coordinator.FindCoordinatorRequest
    both.ask_all(find(key=group), until=3)
    both.ask_all(find(key=""), until=3)
    both.ask_all(find(coordinator_keys=[group, "other"]), since=4)
    both.ask_all(find(coordinator_keys=[]), since=4)
    both.ask_all(find(key_type=2, coordinator_keys=[group]), since=4, until=5)


def test_list_groups(both, topic, group):
    both.ask(commit_request(group, {topic: {0: 5}}), 9)
    join_and_sync(both, f"{group}-stable")

    def ask(version, **filters):
        mine = []
        for side in both.sides:
            answer = side.ask(list_groups.ListGroupsRequest(**filters), version)
            listed = [one for one in answer.groups if group in one.group_id]
            mine.append((answer.error_code, sorted(listed, key=lambda one: one.group_id)))
        assert mine[0] == mine[1], (version, filters)
        both.asked += 1

    for version in range(6):
        ask(version)
    for states in (["Stable"], ["Empty"], ["stable", "EMPTY"], ["Dead"], ["nonsense"], [""]):
        ask(4, states_filter=states)
        ask(5, states_filter=states)
    for types in (["classic"], ["Classic", "consumer"], ["consumer"], ["nonsense"], [""]):
        ask(5, types_filter=types)
    ask(5, states_filter=["Stable"], types_filter=["classic"])


def test_describe_groups(both, group):
    request = describe_groups.DescribeGroupsRequest
    both.ask_all(request(groups=[]))
    both.ask_all(request(groups=[group]))
    both.ask_all(request(groups=[""]))
    both.ask_all(request(groups=[group, group]))
    both.ask_all(request(groups=[group], include_authorized_operations=True), since=3)
    join(both, group)
    both.ask_all(request(groups=[group]), allowed=("client_host",))
    both.ask_all(lambda side: sync_request(group, side))
    both.ask_all(
        request(groups=[group], include_authorized_operations=True),
        since=3,
        allowed=("client_host",),
    )


def test_delete_groups(both, topic, group):
    request = delete_groups.DeleteGroupsRequest
    both.ask_all(request(groups_names=[group]))
    both.ask_all(request(groups_names=[]))
    both.ask_all(request(groups_names=[""]))
    both.ask(commit_request(group, {topic: {0: 5}}), 9)
    both.ask(request(groups_names=[group, "not-there", group]), 2)
    both.ask(fetch_request(group, None), 9)
    both.ask(describe_groups.DescribeGroupsRequest(groups=[group]), 6)
    join_and_sync(both, group)
    both.ask_all(request(groups_names=[group]))
    both.ask(commit_request(group, {topic: {0: 5}}, generation=-1), 9)


# Consumer groups (KIP-848)


def consumer_beat(group, side=None, epoch=0, **fields):
    request = consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
        group_id=group, member_id="member-1", member_epoch=epoch
    )
    if epoch == 0:
        request.rebalance_timeout_ms = 30_000
        request.subscribed_topic_names = []
        request.topic_partitions = []
    for name, value in fields.items():
        setattr(request, name, value)
    return request


@pytest.fixture
def shared_topic(both, topic, group):
    """A topic that both coordinators know of: Kafka's learns of it later than its metadata tells."""
    probe = f"probe-{group}"
    for side in both.sides:
        side.ask_until(
            consumer_beat(probe, subscribed_topic_names=[topic]),
            1,
            lambda answer: answer.assignment is not None and answer.assignment.topic_partitions,
        )
        side.ask(consumer_beat(probe, epoch=-1), 1)
    return topic


def owned(side, topic, partitions):
    structure = consumer_group_heartbeat.TopicPartitions
    return [structure(topic_id=side.ids[topic], partitions=partitions)] if partitions else []


def test_one_consumer_joins_stays_and_leaves(both, shared_topic, group):
    topic = shared_topic
    names = [topic]
    describe = consumer_group_describe.ConsumerGroupDescribeRequest(group_ids=[group])
    both.ask(consumer_beat(group, subscribed_topic_names=names), 1)
    both.ask_all(describe, allowed=("client_host",))
    both.ask(consumer_beat(group, epoch=1), 1)
    both.ask(
        lambda side: consumer_beat(group, epoch=1, topic_partitions=owned(side, topic, [0, 1])), 1
    )
    both.ask_all(describe, allowed=("client_host",))
    both.ask(consumer_beat(group, epoch=1, subscribed_topic_names=[]), 1)
    both.ask(lambda side: consumer_beat(group, epoch=1, topic_partitions=[]), 1)
    both.ask_all(describe, allowed=("client_host",))
    both.ask(consumer_beat(group, epoch=-1), 1)
    both.ask_all(describe)
    both.ask_all(describe_groups.DescribeGroupsRequest(groups=[group]))
    both.ask(delete_groups.DeleteGroupsRequest(groups_names=[group]), 2)


def test_consumer_heartbeat_refused(both, shared_topic, group):
    topic = shared_topic
    both.ask_all(consumer_beat(""))
    both.ask_all(consumer_beat(" "))
    both.ask_all(consumer_beat(group, epoch=5))
    both.ask_all(consumer_beat(group, epoch=-1))
    both.ask_all(consumer_beat(group, epoch=-2))
    both.ask_all(consumer_beat(group, epoch=-2, instance_id="i"))
    both.ask_all(consumer_beat(group, epoch=-3))
    both.ask_all(consumer_beat(group, epoch=1, member_id=""))
    both.ask(consumer_beat(group, member_id=""), 1)
    both.ask_all(consumer_beat(group, rebalance_timeout_ms=-1))
    both.ask_all(consumer_beat(group, topic_partitions=None))
    both.ask_all(consumer_beat(group, subscribed_topic_names=None))
    both.ask_all(consumer_beat(group, instance_id=""))
    both.ask_all(consumer_beat(group, rack_id=""))
    both.ask_all(consumer_beat(group, server_assignor="other"))
    both.ask(consumer_beat(group, subscribed_topic_names=None, subscribed_topic_regex="[a"), 1)
    both.ask(consumer_beat(group, subscribed_topic_names=[topic]), 1)
    both.ask_all(consumer_beat(group, epoch=7))
    both.ask_all(consumer_beat(group, epoch=1, member_id="nobody"))
    both.ask_all(consumer_beat(group, epoch=1, server_assignor="other"))
    both.ask(consumer_beat(group, epoch=1, subscribed_topic_regex="(?<x"), 1)


def test_static_consumers(both, shared_topic, group):
    static = {"instance_id": "i", "subscribed_topic_names": [shared_topic]}
    both.ask(consumer_beat(group, **static), 1)
    both.ask(consumer_beat(group, member_id="member-2", **static), 1)
    both.ask(consumer_beat(group, epoch=-2, instance_id="i"), 1)
    both.ask(consumer_beat(group, member_id="member-2", **static), 1)
    both.ask(consumer_beat(group, epoch=1, instance_id="i"), 1)
    both.ask(consumer_beat(group, epoch=1, member_id="member-2", instance_id="i"), 1)
    both.ask(consumer_beat(group, epoch=-1, member_id="member-2", instance_id="other"), 1)
    describe = consumer_group_describe.ConsumerGroupDescribeRequest(group_ids=[group])
    both.ask_all(describe, allowed=("client_host",))


def test_racks_of_members(both, shared_topic, group):
    said = {"subscribed_topic_names": [shared_topic], "server_assignor": "range"}
    both.ask(consumer_beat(group, rack_id="north", **said), 1)
    both.ask(consumer_beat(group, member_id="member-2", rack_id="south", **said), 1)
    both.ask(consumer_beat(group, epoch=1, rack_id="west"), 1)
    describe = consumer_group_describe.ConsumerGroupDescribeRequest(group_ids=[group])
    both.ask_all(describe, allowed=("client_host",))


def test_consumer_group_describe(both, shared_topic, group):
    topic = shared_topic
    request = consumer_group_describe.ConsumerGroupDescribeRequest
    both.ask_all(request(group_ids=[]))
    both.ask_all(request(group_ids=["", group]))
    both.ask(commit_request(group, {topic: {0: 5}}), 9)
    both.ask_all(request(group_ids=[group, group], include_authorized_operations=True))
    other = f"{group}-other"
    both.ask(consumer_beat(other, subscribed_topic_names=[topic]), 1)
    both.ask_all(
        request(group_ids=[other], include_authorized_operations=True), allowed=("client_host",)
    )


def test_offsets_of_consumers(both, shared_topic, group):
    topic = shared_topic
    good = {topic: {0: 5}}
    member = {"generation": 1, "member_id": "member-1"}
    both.ask(consumer_beat(group, subscribed_topic_names=[topic]), 1)
    both.ask(commit_request(group, good, **member), 9)
    both.ask(lambda side: commit_request(group, good, side=side, by_id=True, **member), 10)
    both.ask_all(commit_request(group, good, **member), until=8)
    both.ask(commit_request(group, good), 9)
    both.ask(commit_request(group, good, generation=0, member_id="member-1"), 9)
    both.ask(commit_request(group, good, generation=2, member_id="member-1"), 9)
    both.ask(commit_request(group, good, generation=1, member_id="nobody"), 9)
    both.ask(fetch_request(group, None, member_id="member-1", member_epoch=1), 9)
    both.ask(fetch_request(group, None, member_id="member-1", member_epoch=2), 9)
    both.ask(fetch_request(group, None, member_id="member-1", member_epoch=0), 9)
    both.ask(fetch_request(group, None, member_id="nobody", member_epoch=1), 9)
    both.ask(fetch_request(group, None), 9)
    both.ask(delete_offsets_request(group, {topic: [0]}), 0)
    both.ask(delete_groups.DeleteGroupsRequest(groups_names=[group]), 2)


def test_classic_requests_to_a_consumer_group(both, shared_topic, group):
    topic = shared_topic
    both.ask(consumer_beat(group, subscribed_topic_names=[topic]), 1)
    both.ask(lambda side: beat(group, side, member_id="member-1"), 4)
    both.ask(lambda side: beat(group, side, member_id="nobody"), 4)
    both.ask(lambda side: sync_request(group, side, member_id="nobody"), 5)
    both.ask(join_request(group, type_="connect"), 9)
    both.ask(join_request(group, member_id="nobody"), 9)
    leave, identity = leave_group.LeaveGroupRequest, leave_group.MemberIdentity
    both.ask(leave(group_id=group, members=[identity(member_id="nobody")]), 5)
    both.ask(leave(group_id=group, members=[identity(member_id="member-1")]), 5)
    both.ask(
        consumer_group_describe.ConsumerGroupDescribeRequest(group_ids=[group]),
        1,
        allowed=("client_host",),
    )


# Settings of groups


CONSUMER_SETTINGS = [
    "consumer.session.timeout.ms",
    "consumer.heartbeat.interval.ms",
    "consumer.assignment.interval.ms",
]


def test_settings_of_a_group(both, group):
    def describe():
        resource = describe_configs.DescribeConfigsResource(
            resource_type=32, resource_name=group, configuration_keys=CONSUMER_SETTINGS
        )
        request = describe_configs.DescribeConfigsRequest(
            resources=[resource], include_synonyms=True
        )
        for side in both.sides:
            side.ask_until(request, 4, lambda answer: len(answer.results[0].configs) == 3)
        both.ask_all(request, since=1)

    def change(name, value, operation=0, resource_name=group):
        config = incremental_alter_configs.AlterableConfig(
            name=name, value=value, config_operation=operation
        )
        resource = incremental_alter_configs.AlterConfigsResource(
            resource_type=32, resource_name=resource_name, configs=[config]
        )
        both.ask(incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[resource]), 1)

    describe()
    for value in ("44999", "60001", "x", "", "-1"):
        change("consumer.session.timeout.ms", value)
    change("consumer.session.timeout.ms", "50000", resource_name="")
    change("no.such", "1")
    change("consumer.session.timeout.ms", "50000", operation=2)
    change("consumer.heartbeat.interval.ms", "16000")
    change("consumer.session.timeout.ms", None, operation=1)
    config = alter_configs.AlterableConfig(name="no.such", value="1")
    resource = alter_configs.AlterConfigsResource(
        resource_type=32, resource_name=group, configs=[config]
    )
    both.ask(alter_configs.AlterConfigsRequest(resources=[resource]), 2)
    describe()
