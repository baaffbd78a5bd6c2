"""Group shards on a node: where groups are, what survives a restart, and what happens when writing fails."""

import errno

import pytest
from node_kit import DATA, NodeKit

from barnabas.broker.coordinators import TOPIC
from barnabas.broker.java_hash import java_hash
from barnabas.model.config.types import ConfigProblem
from barnabas.wire.batch import Producer, Record, build, read_header
from barnabas.wire.messages import (
    consumer_group_heartbeat,
    delete_groups,
    delete_topics,
    describe_configs,
    describe_groups,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    join_group,
    leave_group,
    list_groups,
    offset_commit,
    offset_fetch,
    sync_group,
)
from barnabas.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

NOT_COORDINATOR, LOADING, UNKNOWN_MEMBER, MEMBER_ID_REQUIRED = 16, 14, 25, 79
UNKNOWN_SERVER_ERROR = -1
GROUP = 32


@pytest.mark.parametrize(
    ("text", "value"),
    # As Java's String.hashCode gives them, without the sign.
    [
        ("", 0),
        ("a", 97),
        ("hello", 99_162_322),
        ("Aa", 2112),
        ("é", 233),
        ("\U0001f642", 1_772_965),
        ("polygenelubricants", 0x80000000),
    ],
)
def test_groups_are_placed_by_javas_hash(text, value):
    assert java_hash(text) == value


@pytest.fixture
def kit():
    kit = NodeKit(group_initial_rebalance_delay_ms="0", offsets_topic_num_partitions="5")
    kit.create("t", partitions=2)
    return kit


def find(kit, group="g"):
    request = find_coordinator.FindCoordinatorRequest(coordinator_keys=[group])
    (found,) = kit.ask(request, 4).coordinators
    return found


def commit_request(offsets, group="g", topic="t"):
    return offset_commit.OffsetCommitRequest(
        group_id=group,
        topics=[
            offset_commit.OffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    offset_commit.OffsetCommitRequestPartition(
                        partition_index=index, committed_offset=offset, committed_metadata=""
                    )
                    for index, offset in offsets.items()
                ],
            )
        ],
    )


def commit(kit, offsets, **names):
    answer = kit.ask(commit_request(offsets, **names), 9)
    return {p.partition_index: p.error_code for p in answer.topics[0].partitions}


def committed(kit, group="g"):
    asked = offset_fetch.OffsetFetchRequestGroup(group_id=group, topics=None)
    (answer,) = kit.ask(offset_fetch.OffsetFetchRequest(groups=[asked]), 9).groups
    assert not answer.error_code, answer
    return {
        (topic.name, p.partition_index): p.committed_offset
        for topic in answer.topics
        for p in topic.partitions
    }


def join_request(member_id="", group="g", instance=None):
    protocol = join_group.JoinGroupRequestProtocol(
        name="range", metadata=b"\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff"
    )
    return join_group.JoinGroupRequest(
        group_id=group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=20_000,
        member_id=member_id,
        group_instance_id=instance,
        protocol_type="consumer",
        protocols=[protocol],
    )


def join(kit, client=None, group="g"):
    """One member that is alone in its group, and synced."""
    client = client or kit.client
    member_id = client.ask(join_request(group=group), 9).member_id
    joined = client.ask(join_request(member_id, group=group), 9)
    assert (joined.error_code, joined.leader) == (0, member_id)
    given = sync_group.SyncGroupRequestAssignment(member_id=member_id, assignment=b"all")
    request = sync_group.SyncGroupRequest(
        group_id=group,
        generation_id=joined.generation_id,
        member_id=member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[given],
    )
    assert client.ask(request, 5).error_code == 0
    return member_id


@pytest.mark.parametrize("version", [5, 9])
def test_a_name_that_no_member_id_can_be_made_of_is_refused_and_leaves_nothing(kit, version):
    find(kit)
    answer = kit.ask(join_request(instance="n" * 32_731), version)
    assert (answer.error_code, answer.member_id) == (UNKNOWN_SERVER_ERROR, "")
    assert kit.ask(list_groups.ListGroupsRequest(), 5).groups == []
    fitting = kit.ask(join_request(instance="n" * 32_730), version)
    assert (fitting.error_code, len(fitting.member_id)) == (0, 32_767)


def test_an_answer_that_cannot_be_encoded_is_an_error_to_the_client(kit):
    find(kit)
    commit(kit, {0: 5})
    replica = kit.node.coordinators.find("g")
    replica.shard.groups["g"].protocol_type = "p" * 40_000
    assert described(kit).error_code == UNKNOWN_SERVER_ERROR


def beat(kit, member_id, generation=1, group="g"):
    request = heartbeat.HeartbeatRequest(
        group_id=group, generation_id=generation, member_id=member_id
    )
    return kit.ask(request, 4).error_code


def described(kit, group="g"):
    (found,) = kit.ask(describe_groups.DescribeGroupsRequest(groups=[group]), 5).groups
    return found


# The offsets topic


def test_the_topic_is_made_when_a_coordinator_is_first_asked_for(kit):
    assert commit(kit, {0: 5}) == {0: NOT_COORDINATOR}
    found = find(kit)
    assert (found.error_code, found.node_id) == (0, 1)
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)])
    (topic,) = kit.ask(asked, 12).topics
    assert (topic.is_internal, len(topic.partitions)) == (True, 5)
    resource = describe_configs.DescribeConfigsResource(resource_type=2, resource_name=TOPIC)
    request = describe_configs.DescribeConfigsRequest(resources=[resource])
    told = {
        one.name: one.value
        for one in kit.ask(request, 4).results[0].configs
        if one.config_source == 1
    }
    assert told == {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": "104857600",
    }
    assert commit(kit, {0: 5}) == {0: 0}


def test_clients_that_come_together_wait_for_one_topic(kit):
    clients = [kit.new_client() for _ in range(3)]
    request = find_coordinator.FindCoordinatorRequest(coordinator_keys=["g"])
    for client in clients:
        client.send(request, 4)
    kit.run(lambda: all(client.answers for client in clients))
    assert [client.answers[0].coordinators[0].error_code for client in clients] == [0, 0, 0]


# What survives


@pytest.mark.parametrize("way", ["restart", "crash"])
def test_offsets_and_groups_survive(kit, way):
    find(kit)
    for offset in range(5):
        commit(kit, {0: offset, 1: offset + 1})
    commit(kit, {0: 7}, group="other")
    if way == "crash":  # of the process: the page cache stays
        from barnabas.sim.machine import Crash

        kit.crash(Crash.PROCESS)
    else:
        kit.restart()
    assert find(kit).error_code == 0
    kit.run(lambda: all(one.is_loaded for one in kit.node.coordinators._hosted.values()))
    assert committed(kit) == {("t", 0): 4, ("t", 1): 5}
    assert committed(kit, "other") == {("t", 0): 7}
    listed = kit.ask(list_groups.ListGroupsRequest(), 5).groups
    assert sorted((one.group_id, one.group_state, one.group_type) for one in listed) == [
        ("g", "Empty", "classic"),
        ("other", "Empty", "classic"),
    ]


def test_a_member_goes_on_after_a_restart_and_is_dropped_if_it_does_not(kit):
    find(kit)
    member_id = join(kit)
    kit.restart()
    kit.run(lambda: all(one.is_loaded for one in kit.node.coordinators._hosted.values()))
    assert beat(kit, member_id) == 0
    assert described(kit).group_state == "Stable"
    kit.advance(9000)
    assert beat(kit, member_id) == 0
    kit.advance(10_500)
    assert beat(kit, member_id) == UNKNOWN_MEMBER
    assert described(kit).group_state == "Empty"


def test_loading_is_told_and_over_soon():
    kit = NodeKit(offsets_topic_num_partitions="1", offsets_load_buffer_size="200")
    kit.create("t", partitions=2)
    find(kit)
    for offset in range(50):
        commit(kit, {0: offset})
    seen = []
    kit.machine.stop_cleanly(1000)
    kit.run(lambda: not kit.machine.is_up)
    kit.run(lambda: kit.machine.is_up)
    client = kit.new_client()
    while not seen or seen[-1] == LOADING:
        answer = client.ask(commit_request({0: 99}), 9)
        seen.append(answer.topics[0].partitions[0].error_code)
    assert seen[-1] == 0
    kit.client = client
    assert committed(kit) == {("t", 0): 99}


def test_a_heartbeat_while_loading_is_fine(kit):
    find(kit)
    member_id = join(kit)
    hosted = kit.node.coordinators.find("g")
    hosted.is_loaded = False
    assert beat(kit, member_id) == 0
    assert commit(kit, {0: 1}) == {0: LOADING}
    assert kit.ask(list_groups.ListGroupsRequest(), 5).error_code == LOADING
    hosted.is_loaded = True


def test_transactional_offsets_of_apache_kafkas_log_count_by_their_markers():
    kit = NodeKit(offsets_topic_num_partitions="1")
    kit.create("t", partitions=2)
    find(kit)
    commit(kit, {0: 1, 1: 1})
    replica = kit.node.replicas.get(TOPIC, 0)
    from barnabas.broker import group_records
    from barnabas.core.group.records import OffsetCommitted
    from barnabas.wire import batch

    def append(records, attributes, producer_id):
        data = memoryview(
            build(
                records,
                attributes=attributes,
                producer=Producer(producer_id, 0, 0 if not attributes & batch.CONTROL else -1),
            )
        )
        assert isinstance(replica.append(data, batch.read_header(data), 0), int)

    for producer_id, index, kind in ((7, 0, 1), (8, 1, 0)):
        record = OffsetCommitted("g", "t", index, 50, -1, "", 1000)
        append([Record(0, 0, *group_records.encode(record))], batch.TRANSACTIONAL, producer_id)
        marker = Record(0, 0, bytes((0, 0, 0, kind)), bytes(6))
        append([marker], batch.TRANSACTIONAL | batch.CONTROL, producer_id)
    kit.restart()
    kit.run(lambda: all(one.is_loaded for one in kit.node.coordinators._hosted.values()))
    assert committed(kit) == {("t", 0): 50, ("t", 1): 1}


def test_a_partition_that_cannot_be_read_leaves_the_others(kit):
    """As in Apache Kafka: its groups have no coordinator here, and the list goes without them."""
    find(kit)
    commit(kit, {0: 5})
    coordinators = kit.node.coordinators
    names = (f"other-{number}" for number in range(99))
    elsewhere = next(
        name
        for name in names
        if coordinators.partition_for(name) != coordinators.partition_for("g")
    )
    commit(kit, {0: 7}, group=elsewhere)
    replica = coordinators.find("g").replica
    bad = memoryview(build([Record(0, 0, b"\0\1\0\5cut", b"\0\4")]))
    replica.append(bad, read_header(bad), 0)
    kit.restart()

    def list_():
        return kit.ask(list_groups.ListGroupsRequest(), 5)

    kit.run(lambda: list_().error_code != LOADING)
    assert [one.group_id for one in list_().groups] == [elsewhere]
    assert commit(kit, {0: 6}) == {0: NOT_COORDINATOR}
    assert committed(kit, elsewhere) == {("t", 0): 7}


def test_groups_that_are_deleted_stay_deleted(kit):
    find(kit)
    commit(kit, {0: 5})
    request = delete_groups.DeleteGroupsRequest(groups_names=["g", "none"])
    results = {one.group_id: one.error_code for one in kit.ask(request, 2).results}
    assert results == {"g": 0, "none": 69}
    assert committed(kit) == {}
    kit.restart()
    kit.run(lambda: all(one.is_loaded for one in kit.node.coordinators._hosted.values()))
    assert committed(kit) == {}
    assert kit.ask(list_groups.ListGroupsRequest(), 5).groups == []


# Waiting


def test_a_join_waits_for_the_others_and_is_answered_when_the_node_stops(kit):
    find(kit)
    join(kit)
    second = kit.new_client()
    member_id = second.ask(join_request(), 9).member_id
    second.send(join_request(member_id), 9)
    kit.advance(100)
    assert len(second.answers) == 1, "the first member has not come back"
    kit.machine.stop_cleanly(1000)
    kit.run(lambda: len(second.answers) == 2 or second.is_closed)
    assert second.answers[1].error_code == NOT_COORDINATOR


def test_who_has_gone_away_keeps_nobody_waiting(kit):
    find(kit)
    second = kit.new_client()
    gone = second.ask(join_request(), 9).member_id
    second.send(join_request(gone), 9)
    kit.advance(1)
    second.connection.close()
    leave = leave_group.LeaveGroupRequest(
        group_id="g", members=[leave_group.MemberIdentity(member_id=gone)]
    )
    kit.ask(leave, 5)
    assert beat(kit, join(kit), generation=described_generation(kit)) == 0


def described_generation(kit):
    (group,) = [
        one.shard.groups["g"]
        for one in kit.node.coordinators._hosted.values()
        if "g" in one.shard.groups
    ]
    return group.generation


# Topics


def test_offsets_of_a_deleted_topic_are_forgotten(kit):
    kit.create("u")
    find(kit)
    commit(kit, {0: 5})
    commit(kit, {0: 6}, topic="u")
    kit.ask(delete_topics.DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000), 5)
    assert committed(kit) == {("u", 0): 6}


def test_a_topic_deleted_while_groups_are_loaded_takes_its_offsets_along(kit):
    kit.create("u")
    find(kit)
    commit(kit, {0: 5})
    commit(kit, {0: 6}, topic="u")
    kit.restart()
    request = delete_topics.DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000)
    assert not all(one.is_loaded for one in kit.node.coordinators._hosted.values())
    kit.ask(request, 5)
    kit.run(lambda: all(one.is_loaded for one in kit.node.coordinators._hosted.values()))
    kit.create("t", partitions=2)
    assert committed(kit) == {("u", 0): 6}, "and the new topic of that name is read from its start"


def test_with_the_offsets_topic_all_groups_are_gone(kit):
    find(kit)
    commit(kit, {0: 5})
    kit.ask(delete_topics.DeleteTopicsRequest(topic_names=[TOPIC], timeout_ms=1000), 5)
    assert commit(kit, {0: 5}) == {0: NOT_COORDINATOR}
    assert find(kit).error_code == 0
    assert committed(kit) == {}


# When writing fails


def test_a_disk_that_fails_takes_the_coordinator_with_it_and_nothing_is_promised(kit):
    find(kit)
    commit(kit, {0: 5})
    replica = kit.node.replicas.get(TOPIC, kit.node.coordinators.partition_for("g"))
    kit.disk.fail_path(f"{DATA}/{replica.key}/00000000000000000000.log", errno.EIO)
    assert commit(kit, {0: 6}) == {0: NOT_COORDINATOR}
    assert replica.offline
    assert commit(kit, {0: 6}) == {0: NOT_COORDINATOR}
    assert find(kit).error_code == 15
    kit.disk.heal()
    kit.restart()
    kit.run(lambda: commit(kit, {1: 1}) != {1: LOADING})
    assert committed(kit) == {("t", 0): 5, ("t", 1): 1}


def lose_a_replica(kit):
    """Ask for two in sync where one of two is."""
    change = incremental_alter_configs.AlterableConfig(
        name="min.insync.replicas", config_operation=0, value="2"
    )
    resource = incremental_alter_configs.AlterConfigsResource(
        resource_type=2, resource_name=TOPIC, configs=[change]
    )
    request = incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[resource])
    assert kit.ask(request, 1).responses[0].error_code == 0
    for partition in range(len(kit.node.topics.by_name[TOPIC].partitions)):
        kit.node.replicas.get(TOPIC, partition).state.replicas = (1, 2)


def test_too_few_replicas_in_sync_refuse_a_commit(kit):
    find(kit)
    commit(kit, {0: 5})
    lose_a_replica(kit)
    assert commit(kit, {0: 6}) == {0: 15}
    assert committed(kit) == {("t", 0): 5}
    assert kit.ask(join_request(group="new"), 9).error_code == 15
    assert described(kit, "new").group_state == "Dead", "what could not be written is not there"


def test_with_offsets_commit_required_acks_1_nobody_else_need_be_in_sync():
    kit = NodeKit(offsets_commit_required_acks="1", offsets_topic_num_partitions="5")
    kit.create("t", partitions=2)
    find(kit)
    lose_a_replica(kit)
    assert commit(kit, {0: 6}) == {0: 0}
    assert committed(kit) == {("t", 0): 6}


@pytest.mark.parametrize("acks", ["0", "2", "-2"])
def test_other_numbers_of_acks_for_commits_are_refused(acks):
    with pytest.raises(ConfigProblem, match=r"offsets\.commit\.required\.acks"):
        NodeKit(offsets_commit_required_acks=acks)


def test_answers_wait_for_a_sync_where_settings_ask_for_it():
    kit = NodeKit(log_flush_interval_messages="1")
    kit.create("t", partitions=2)
    find(kit)
    assert commit(kit, {0: 5}) == {0: 0}
    from barnabas.sim.machine import Crash

    kit.crash(Crash.POWER)
    kit.run(lambda: all(one.is_loaded for one in kit.node.coordinators._hosted.values()))
    assert committed(kit) == {("t", 0): 5}


def test_questions_that_wait_for_a_sync_that_fails_are_told_so():
    kit = NodeKit(log_flush_interval_messages="1")
    kit.create("t", partitions=2)
    find(kit)
    commit(kit, {0: 5})
    replica = kit.node.replicas.get(TOPIC, kit.node.coordinators.partition_for("g"))
    kit.machine.slow_down(1_000_000)
    writer = kit.new_client()
    writer.send(commit_request({0: 6}), 9)
    kit.run(lambda: replica.log.unflushed_records)
    group = offset_fetch.OffsetFetchRequestGroup(group_id="g", topics=None)
    questions = [
        (offset_fetch.OffsetFetchRequest(groups=[group]), 9),
        (offset_fetch.OffsetFetchRequest(group_id="g", topics=None), 7),
        (describe_groups.DescribeGroupsRequest(groups=["g"]), 5),
        (list_groups.ListGroupsRequest(), 5),
        (delete_groups.DeleteGroupsRequest(groups_names=["g"]), 2),
    ]
    askers = [kit.new_client() for _ in questions]
    for asker, (request, version) in zip(askers, questions, strict=True):
        asker.send(request, version)
    kit.advance(20)
    kit.disk.fail_path(f"{DATA}/{replica.key}", errno.EIO)
    kit.run(lambda: writer.answers and all(asker.answers for asker in askers))
    many, one, described, listed, deleted = [asker.answers[0] for asker in askers]
    codes = [
        writer.answers[0].topics[0].partitions[0].error_code,
        many.groups[0].error_code,
        one.error_code,
        described.groups[0].error_code,
        listed.error_code,
        deleted.results[0].error_code,
    ]
    assert codes == [NOT_COORDINATOR] * len(codes)
    assert kit.node.metrics.failures == 0


# Time


def test_offsets_nobody_came_back_for_are_forgotten_with_their_group():
    kit = NodeKit(offsets_retention_minutes="1", offsets_retention_check_interval_ms="10000")
    kit.create("t", partitions=2)
    find(kit)
    commit(kit, {0: 5})
    kit.advance(50_000)
    assert committed(kit) == {("t", 0): 5}
    kit.advance(25_000)
    assert committed(kit) == {}
    assert kit.ask(list_groups.ListGroupsRequest(), 5).groups == []


# Settings of groups


def alter_group(kit, group, value, name="consumer.session.timeout.ms"):
    change = incremental_alter_configs.AlterableConfig(
        name=name, config_operation=0 if value else 1, value=value
    )
    resource = incremental_alter_configs.AlterConfigsResource(
        resource_type=GROUP, resource_name=group, configs=[change]
    )
    request = incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[resource])
    return kit.ask(request, 1).responses[0].error_code


def test_a_groups_own_settings_hold_at_once_and_after_a_restart(kit):
    group = "g/ö.%"
    find(kit)
    assert alter_group(kit, group, "7000", "consumer.heartbeat.interval.ms") == 0
    assert alter_group(kit, group, "x") == 40
    assert alter_group(kit, "", "50000") == 42
    interval = lambda: kit.ask(  # noqa: E731
        consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id="m",
            rebalance_timeout_ms=1000,
            subscribed_topic_names=["t"],
            topic_partitions=[],
        ),
        1,
    )
    assert interval().heartbeat_interval_ms == 7000
    kit.restart()
    kit.run(lambda: all(one.is_loaded for one in kit.node.coordinators._hosted.values()))
    assert interval().heartbeat_interval_ms == 7000
    assert alter_group(kit, group, None, "consumer.heartbeat.interval.ms") == 0
    assert interval().heartbeat_interval_ms == 5000


# Bad input


def consumer_request(names, epoch=0):
    return consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        member_epoch=epoch,
        rebalance_timeout_ms=30_000,
        subscribed_topic_names=names,
        topic_partitions=[],
    )


def test_a_subscription_to_ten_thousand_topics_is_one_like_others(kit):
    find(kit)
    names = [f"topic-{number}" for number in range(10_000)]
    answer = kit.ask(consumer_request([*names, "t"]), 1)
    assert answer.error_code == 0
    assert [one.partitions for one in answer.assignment.topic_partitions] == [[0, 1]]
    kit.restart()
    kit.run(lambda: kit.ask(list_groups.ListGroupsRequest(), 5).error_code != LOADING)
    again = kit.ask(consumer_request([*names, "t"], answer.member_epoch), 1)
    assert (again.error_code, again.member_epoch) == (0, answer.member_epoch)


@pytest.mark.parametrize("length", [120, 249])
def test_a_subscription_that_no_record_can_hold_is_refused_and_changes_nothing(kit, length):
    find(kit)
    names = [f"{number:0{length}}" for number in range(10_000)]
    assert kit.ask(consumer_request(names), 1).error_code == UNKNOWN_SERVER_ERROR
    assert kit.ask(list_groups.ListGroupsRequest(), 5).groups == []
    assert kit.ask(consumer_request(["t"]), 1).error_code == 0
