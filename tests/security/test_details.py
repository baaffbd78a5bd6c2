"""What the matrix does not show: what is told beside a denial, what is left out, requests that are long, and what would be created."""

from __future__ import annotations

import pytest
from acl_kit import AclKit, creation

from barnabas.broker.node import DECODED_AT_ONCE
from barnabas.model.acl import CLUSTER_NAME, OPERATIONS, Operation, Permission, ResourceType
from barnabas.model.errors import ErrorCode
from barnabas.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from barnabas.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.wire.messages.describe_cluster import DescribeClusterRequest
from barnabas.wire.messages.describe_groups import DescribeGroupsRequest
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest
from barnabas.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from barnabas.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup

DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
CLUSTER, GROUP = ResourceType.CLUSTER, ResourceType.GROUP


@pytest.fixture
def kit():
    made = AclKit()
    made.create("t")
    return made


def metadata(*names, **fields):
    topics = [MetadataRequestTopic(name=name) for name in names]
    return MetadataRequest(topics=topics, **fields)


# What would be created


@pytest.mark.parametrize(
    ("rules", "code"),
    [
        ([], DENIED),
        ([creation(Operation.DESCRIBE, name="new")], DENIED),
        ([creation(Operation.CREATE, name="new")], DENIED),
        ([creation(Operation.DESCRIBE, name="new"), creation(Operation.CREATE, name="new")], 0),
        ([creation(Operation.DESCRIBE, name="new"), creation(Operation.CREATE, CLUSTER, CLUSTER_NAME)], 0),
    ],
)  # fmt: skip
def test_topics_are_made_by_asking_for_them_only_for_those_who_may(kit, rules, code):
    if rules:
        kit.allow(*rules)
    (topic,) = kit.new_user("alice").ask(metadata("new", allow_auto_topic_creation=True), 12).topics
    assert topic.error_code == code
    assert ("new" in kit.node.topics.by_name) == (code == 0)


def test_who_may_not_see_settings_is_not_told_those_of_a_new_topic(kit):
    kit.allow(creation(Operation.CREATE, name="a"), creation(Operation.CREATE, name="b"))
    kit.allow(creation(Operation.DESCRIBE_CONFIGS, name="b"))
    topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in "abc"]
    request = CreateTopicsRequest(topics=topics, timeout_ms=1000)
    told = {one.name: one for one in kit.new_user("alice").ask(request, 7).topics}
    assert told["a"].error_code == 0
    assert (told["a"].topic_config_error_code, told["a"].num_partitions, told["a"].configs) == (
        DENIED,
        -1,
        None,
    )
    assert told["b"].topic_config_error_code == 0
    assert told["b"].configs
    assert told["c"].error_code == DENIED
    assert "c" not in kit.node.topics.by_name


# What a client may do, told to it


def bits(*operations):
    return sum(1 << one for one in operations)


def test_operations_that_are_allowed(kit):
    kit.allow(
        creation(Operation.READ),
        creation(Operation.ALTER_CONFIGS),
        creation(Operation.WRITE, permission=Permission.DENY),
        creation(Operation.DESCRIBE, CLUSTER, CLUSTER_NAME),
        creation(Operation.READ, GROUP, "g"),
    )
    asked = {"include_topic_authorized_operations": True}
    alice = kit.new_user("alice")
    (topic,) = alice.ask(metadata("t", **asked), 12).topics
    assert topic.topic_authorized_operations == bits(
        Operation.READ, Operation.DESCRIBE, Operation.ALTER_CONFIGS, Operation.DESCRIBE_CONFIGS
    )
    cluster = DescribeClusterRequest(include_cluster_authorized_operations=True)
    assert alice.ask(cluster, 0).cluster_authorized_operations == bits(Operation.DESCRIBE)
    assert kit.new_user("bob").ask(cluster, 0).cluster_authorized_operations == 0
    assert kit.ask(cluster, 0).cluster_authorized_operations == bits(*OPERATIONS[CLUSTER])
    (topic,) = kit.ask(metadata("t", **asked), 12).topics
    assert topic.topic_authorized_operations == bits(*OPERATIONS[ResourceType.TOPIC])


# What is left out


def committed(kit, *names):
    for name in names:
        if name not in kit.node.topics.by_name:
            kit.create(name)
    kit.allow(creation(Operation.ALL, GROUP, "g", "User:*"))
    partition = [OffsetCommitRequestPartition(partition_index=0, committed_offset=1)]
    request = OffsetCommitRequest(
        group_id="g",
        generation_id_or_member_epoch=-1,
        topics=[OffsetCommitRequestTopic(name=name, partitions=partition) for name in names],
    )
    find = FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])
    for _ in range(100):
        answer = kit.ask(find, 4)
        if not answer.coordinators[0].error_code:
            codes = [
                one.error_code for topic in kit.ask(request, 8).topics for one in topic.partitions
            ]
            if not any(codes):
                return
        kit.advance(100)
    raise AssertionError(answer)


def test_all_offsets_of_a_group_are_those_of_topics_that_may_be_seen(kit):
    committed(kit, "t", "u")
    kit.allow(creation(Operation.DESCRIBE))
    alice = kit.new_user("alice")
    group = OffsetFetchRequestGroup(group_id="g", topics=None)
    (told,) = alice.ask(OffsetFetchRequest(groups=[group]), 8).groups
    assert [topic.name for topic in told.topics] == ["t"]
    told = alice.ask(OffsetFetchRequest(group_id="g", topics=None), 7)
    assert [topic.name for topic in told.topics] == ["t"]


def test_patterns_find_only_topics_that_may_be_seen(kit):
    committed(kit, "t", "u")
    kit.allow(creation(Operation.READ, GROUP, "new"), creation(Operation.DESCRIBE))
    alice = kit.new_user("alice")
    beat = ConsumerGroupHeartbeatRequest(
        group_id="new", member_id="m" * 22, member_epoch=0, rebalance_timeout_ms=1000,
        subscribed_topic_regex="[tu]", topic_partitions=[],
    )  # fmt: skip
    answer = alice.ask(beat, 1)
    assert answer.error_code == 0, answer
    kit.advance(100)
    beat.member_epoch = 0
    answer = alice.ask(beat, 1)
    found = [bytes(one.topic_id) for one in answer.assignment.topic_partitions]
    assert found == [kit.node.topics.by_name["t"].id]


# Requests that are long are judged beside the loop, and answered whole


def test_long_requests_are_judged_too(kit):
    names = [f"{'x' * 100}-{number}" for number in range(2 * DECODED_AT_ONCE // 100)]
    kit.allow(creation(Operation.DESCRIBE, GROUP, names[7]))
    answer = kit.new_user("alice").ask(DescribeGroupsRequest(groups=names), 5)
    codes = {one.group_id: one.error_code for one in answer.groups}
    assert sorted(codes) == sorted(names)
    allowed = [name for name, code in codes.items() if code != ErrorCode.GROUP_AUTHORIZATION_FAILED]
    assert allowed == [names[7]]


def test_long_requests_without_a_right_to_anything(kit):
    parts = [ListOffsetsPartition(partition_index=index, timestamp=-1) for index in range(20_000)]
    request = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=parts)]
    )
    (topic,) = kit.new_user("alice").ask(request, 7).topics
    assert {one.error_code for one in topic.partitions} == {DENIED}
    assert len(topic.partitions) == len(parts)
