"""Requests that ask for much: others are served in between, and the answer is as if they had been done at once."""

import struct

import pytest
from node_kit import NodeKit

from barnabas.broker.coordinators import TOPIC
from barnabas.broker.node import DECODED_AT_ONCE
from barnabas.broker.pieces import PIECE, Pauses, Pieces
from barnabas.wire.messages import (
    consumer_group_describe,
    create_topics,
    delete_groups,
    delete_topics,
    describe_configs,
    describe_groups,
    find_coordinator,
    join_group,
    list_groups,
    list_offsets,
    metadata,
    offset_commit,
    offset_fetch,
)

GROUP_ID_NOT_FOUND, UNKNOWN_TOPIC_ID = 69, 100
UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC, TOPIC_ALREADY_EXISTS = 3, 17, 36
MANY = [f"group-{number}" for number in range(3 * PIECE + 1)]


@pytest.fixture
def kit():
    kit = NodeKit(offsets_topic_num_partitions="2")
    kit.topic_id = kit.create("t", partitions=3)
    kit.ask(find_coordinator.FindCoordinatorRequest(key="g"), 0)
    return kit


def commit(kit, group="g", offsets=(7, 8, 9)):
    partitions = [
        offset_commit.OffsetCommitRequestPartition(partition_index=index, committed_offset=offset)
        for index, offset in enumerate(offsets)
    ]
    topic = offset_commit.OffsetCommitRequestTopic(name="t", partitions=partitions)
    answer = kit.ask(offset_commit.OffsetCommitRequest(group_id=group, topics=[topic]), 9)
    assert not any(one.error_code for one in answer.topics[0].partitions)


def ask_in_pieces(kit, request, version):
    """Ask; the node must have gone through more than one turn for it."""
    turns = 0
    end_turn = kit.node.on_turn_end

    def count():
        nonlocal turns
        turns += 1
        end_turn()

    kit.node.on_turn_end = count
    answer = kit.ask(request, version)
    assert turns > 3
    return answer


def wanted(indexes, **topic):
    return offset_fetch.OffsetFetchRequestTopics(partition_indexes=indexes, **topic)


def fetch_request(*groups):
    return offset_fetch.OffsetFetchRequest(
        groups=[
            offset_fetch.OffsetFetchRequestGroup(group_id=group_id, topics=topics)
            for group_id, topics in groups
        ]
    )


def told(topic):
    return [(one.partition_index, one.committed_offset) for one in topic.partitions]


def test_offsets_of_many_groups(kit):
    commit(kit, "group-0")
    commit(kit, MANY[-1], (4,))
    answer = ask_in_pieces(kit, fetch_request(*((one, None) for one in MANY)), 9)
    assert [group.group_id for group in answer.groups] == MANY
    assert [told(topic) for topic in answer.groups[0].topics] == [[(0, 7), (1, 8), (2, 9)]]
    assert [told(topic) for topic in answer.groups[-1].topics] == [[(0, 4)]]
    assert not any(group.topics for group in answer.groups[1:-1])


def test_many_offsets_of_one_group_come_as_they_were_asked_for(kit):
    commit(kit)
    many = [0, 1, 2] * PIECE
    topics = [
        wanted([], name="t"),
        wanted([1], name="t"),
        wanted(many, name="t"),
        wanted([0], name="u"),
    ]
    answer = ask_in_pieces(kit, fetch_request(("g", topics)), 9)
    assert [(topic.name, told(topic)) for topic in answer.groups[0].topics] == [
        ("t", []),
        ("t", [(1, 8)]),
        ("t", [(0, 7), (1, 8), (2, 9)] * PIECE),
        ("u", [(0, -1)]),
    ]


def test_many_offsets_by_the_ids_of_topics(kit):
    commit(kit)
    strange = bytes(15) + b"\1"
    topics = [wanted([0] * 4 * PIECE, topic_id=kit.topic_id), wanted([5], topic_id=strange)]
    answer = ask_in_pieces(kit, fetch_request(("g", topics)), 10)
    known, refused = answer.groups[0].topics
    assert (known.topic_id, told(known)) == (kit.topic_id, [(0, 7)] * 4 * PIECE)
    assert refused.topic_id == strange
    assert refused.partitions[0].error_code == UNKNOWN_TOPIC_ID


def test_many_offsets_for_an_old_client(kit):
    commit(kit)
    topic = offset_fetch.OffsetFetchRequestTopic(name="t", partition_indexes=[2] * 4 * PIECE)
    request = offset_fetch.OffsetFetchRequest(group_id="g", topics=[topic])
    answer = ask_in_pieces(kit, request, 7)
    assert told(answer.topics[0]) == [(2, 9)] * 4 * PIECE


def test_coordinators_of_many_groups(kit):
    request = find_coordinator.FindCoordinatorRequest(coordinator_keys=MANY)
    answer = ask_in_pieces(kit, request, 4)
    assert [one.key for one in answer.coordinators] == MANY
    assert {(one.error_code, one.node_id) for one in answer.coordinators} == {(0, 1)}


def test_many_groups_are_listed(kit):
    for group in MANY:
        commit(kit, group, (1,))
    answer = ask_in_pieces(kit, list_groups.ListGroupsRequest(), 5)
    assert sorted(one.group_id for one in answer.groups) == sorted(MANY)


def test_a_list_goes_on_when_its_groups_are_deleted_meanwhile(kit):
    for group in MANY:
        commit(kit, group, (1,))
    kit.client.send(list_groups.ListGroupsRequest(), 5)
    kit.new_client().ask(delete_topics.DeleteTopicsRequest(topic_names=[TOPIC], timeout_ms=1000), 5)
    kit.run(lambda: len(kit.client.answers) == len(kit.client.sent))
    assert kit.client.answers[-1].error_code == 0


def test_many_groups_forget_a_topic(kit):
    for group in MANY:
        commit(kit, group, (1,))
    request = delete_topics.DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000)
    ask_in_pieces(kit, request, 5)
    kit.advance(100)
    answer = kit.ask(fetch_request(*((one, None) for one in MANY)), 9)
    assert not any(group.topics for group in answer.groups)


def test_what_is_committed_for_a_new_topic_of_the_name_stays(kit):
    for group in MANY:
        commit(kit, group, (1,))
    other = kit.new_client()
    other.send(delete_topics.DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000), 5)
    kit.run(lambda: "t" not in kit.node.topics.by_name)
    kit.create("t")
    commit(kit, MANY[-1], (2,))
    kit.advance(100)
    answer = kit.ask(fetch_request(*((one, None) for one in MANY)), 9)
    assert [told(topic) for topic in answer.groups[-1].topics] == [[(0, 2)]]
    assert not any(group.topics for group in answer.groups[:-1])


def test_many_groups_are_described(kit):
    commit(kit, "group-1")
    request = describe_groups.DescribeGroupsRequest(groups=MANY)
    answer = ask_in_pieces(kit, request, 6)
    assert [one.group_id for one in answer.groups] == MANY
    codes = [one.error_code for one in answer.groups]
    assert codes == [GROUP_ID_NOT_FOUND, 0] + [GROUP_ID_NOT_FOUND] * (len(MANY) - 2)


def test_many_consumer_groups_are_described(kit):
    request = consumer_group_describe.ConsumerGroupDescribeRequest(group_ids=MANY)
    answer = ask_in_pieces(kit, request, 1)
    assert [one.group_id for one in answer.groups] == MANY
    assert {one.error_code for one in answer.groups} == {GROUP_ID_NOT_FOUND}


def test_many_groups_are_deleted(kit):
    for group in MANY:
        commit(kit, group, (1,))
    request = delete_groups.DeleteGroupsRequest(groups_names=[*MANY, "none", MANY[0]])
    answer = ask_in_pieces(kit, request, 2)
    codes = [(one.group_id, one.error_code) for one in answer.results]
    assert codes == [*((group, 0) for group in MANY), ("none", GROUP_ID_NOT_FOUND)]
    assert kit.ask(list_groups.ListGroupsRequest(), 5).groups == []


# Many at once


def test_of_all_that_is_paused_one_piece_is_done_in_a_turn(kit, monkeypatch):
    clients = [kit.new_client() for _ in range(10)]
    topics = [metadata.MetadataRequestTopic(name=f"{number}") for number in range(4 * PIECE)]
    request = metadata.MetadataRequest(topics=topics, allow_auto_topic_creation=False)
    for client in clients:
        client.send(request, 9)
    done = []
    go_on = Pieces._go_on
    monkeypatch.setattr(Pieces, "_go_on", lambda *args: (done.append(1), go_on(*args)))
    at_once = []
    call_at = kit.node.world.timers.call_at

    def call_counted(deadline_ms, call):
        def counted():
            before = len(done)
            call()
            at_once.append(len(done) - before)

        return call_at(deadline_ms, counted)

    monkeypatch.setattr(kit.node.world.timers, "call_at", call_counted)
    kit.run(lambda: all(client.answers for client in clients))
    assert sum(at_once) == len(done) == 10 * 4
    assert max(at_once) == 1
    assert {len(client.answers[0].topics) for client in clients} == {4 * PIECE}


# Clients that go


def hang_up(kit):
    """Close the newest link at the node's end: nothing else happens before that."""
    list(kit.machine.links)[-1].close()


def test_a_question_whose_client_has_gone_is_dropped(kit, monkeypatch):
    client = kit.new_client()
    topics = [metadata.MetadataRequestTopic(name=f"{number}") for number in range(20 * PIECE)]
    request = metadata.MetadataRequest(topics=topics, allow_auto_topic_creation=False)
    client.send(request, 9)
    kit.run(lambda: bool(kit.node.pauses.questions))
    pauses = []
    monkeypatch.setattr(Pieces, "pause", lambda *_: pauses.append(1))
    hang_up(kit)
    kit.advance(100)
    assert pauses == []
    assert kit.node.pauses.questions == {}
    assert kit.node.metrics.failures == 0


def test_a_change_whose_client_has_gone_is_finished(kit):
    for group in MANY:
        commit(kit, group, (1,))
    client = kit.new_client()
    client.send(delete_groups.DeleteGroupsRequest(groups_names=MANY), 2)
    groups = kit.node.coordinators.find("group-0").shard.groups
    kit.run(lambda: "group-0" not in groups)
    hang_up(kit)
    assert MANY[-1] in kit.node.coordinators.find(MANY[-1]).shard.groups
    kit.advance(100)
    assert kit.ask(list_groups.ListGroupsRequest(), 5).groups == []


# Requests that take long to read


def test_large_requests_are_read_off_the_loop(kit):
    commit(kit)
    names = [f"{number:0100}" for number in range(2000)]
    topics = [wanted([0], name=name) for name in names]
    answer = ask_in_pieces(kit, fetch_request(("g", topics)), 9)
    assert [topic.name for topic in answer.groups[0].topics] == names


def test_a_large_request_may_wait_for_others(kit):
    def request(member_id):
        return join_group.JoinGroupRequest(
            group_id="g",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            member_id=member_id,
            protocol_type="consumer",
            protocols=[
                join_group.JoinGroupRequestProtocol(name="p", metadata=bytes(DECODED_AT_ONCE))
            ],
        )

    member_id = kit.ask(request(""), 9).member_id
    joined = kit.ask(request(member_id), 9)
    assert (joined.error_code, joined.leader) == (0, member_id)


def test_a_large_request_that_is_none_ends_its_link_only(kit):
    client = kit.new_client()
    head = struct.pack(">hhih", find_coordinator.FindCoordinatorRequest.API_KEY, 4, 1, -1)
    client.connection.send(head + b"\0" + b"\0\xff\xff\xff\x7f" + bytes(DECODED_AT_ONCE))
    kit.run(lambda: client.is_closed)
    assert kit.ask(list_groups.ListGroupsRequest(), 5).error_code == 0
    assert kit.node.metrics.failures == 0


# Topics and settings


def test_metadata_of_many_names(kit):
    names = [*MANY, "t", "t", "group-0"]
    topics = [metadata.MetadataRequestTopic(name=name) for name in names]
    request = metadata.MetadataRequest(topics=topics, allow_auto_topic_creation=False)
    answer = ask_in_pieces(kit, request, 9)
    assert [one.name for one in answer.topics] == [*MANY, "t"]
    assert {one.error_code for one in answer.topics[:-1]} == {UNKNOWN_TOPIC_OR_PARTITION}
    assert len(answer.topics[-1].partitions) == 3


def test_metadata_of_all_topics(kit):
    kit.create("wide", partitions=3 * PIECE)
    names = [name for name in kit.node.topics.by_name if name != "wide"]
    kit.create("last")
    answer = ask_in_pieces(kit, metadata.MetadataRequest(topics=None), 9)
    assert [one.name for one in answer.topics] == [*names, "wide", "last"]
    assert len(answer.topics[-2].partitions) == 3 * PIECE


def test_metadata_does_not_tell_of_topics_that_go_meanwhile(kit):
    for name in ("x", "y", "z"):
        kit.create(name, partitions=PIECE)
    topics = kit.node.topics
    gone = topics.by_name["z"]

    class Dropping(Pauses):
        """Drops the topic in the first pause."""

        def add(self, done):
            if "z" in topics.by_name:
                topics.drop(gone)
            super().add(done)

    kit.node.pauses = Dropping(kit.node.world)
    answer = kit.ask(metadata.MetadataRequest(topics=None), 9)
    assert [one.name for one in answer.topics][-2:] == ["x", "y"]


def test_settings_of_a_broker_many_times(kit):
    broker = describe_configs.DescribeConfigsResource(resource_type=4, resource_name="1")
    nobody = describe_configs.DescribeConfigsResource(resource_type=2, resource_name="nobody")
    request = describe_configs.DescribeConfigsRequest(resources=[broker, nobody] * 20)
    answer = ask_in_pieces(kit, request, 4)
    alone = kit.ask(describe_configs.DescribeConfigsRequest(resources=[broker, nobody]), 4)
    assert answer.results == alone.results * 20


def test_offsets_of_many_partitions(kit):
    kit.produce("t", 1)
    asked = [
        list_offsets.ListOffsetsPartition(partition_index=index, timestamp=-1)
        for index in range(3 * PIECE)
    ]
    topic = list_offsets.ListOffsetsTopic(name="t", partitions=asked)
    found = ask_in_pieces(kit, list_offsets.ListOffsetsRequest(topics=[topic]), 7).topics[0]
    assert [one.offset for one in found.partitions[:3]] == [0, 1, 0]
    assert {one.error_code for one in found.partitions[3:]} == {UNKNOWN_TOPIC_OR_PARTITION}


def test_topics_that_are_checked_made_and_deleted_by_the_hundred(kit):
    names = [f"new-{number}" for number in range(PIECE // 2)]
    topics = [
        create_topics.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
        for name in [*names, "bad name", "t"]
    ]
    request = create_topics.CreateTopicsRequest(topics=topics, validate_only=True)
    outcomes = [0] * len(names) + [INVALID_TOPIC, TOPIC_ALREADY_EXISTS]
    assert [one.error_code for one in ask_in_pieces(kit, request, 7).topics] == outcomes
    assert not any(name in kit.node.topics.by_name for name in names)
    request.validate_only = False
    assert [one.error_code for one in ask_in_pieces(kit, request, 7).topics] == outcomes
    assert all(name in kit.node.topics.by_name for name in names)
    deleted = delete_topics.DeleteTopicsRequest(topic_names=[*MANY, *names])
    answer = ask_in_pieces(kit, deleted, 5)
    codes = [UNKNOWN_TOPIC_OR_PARTITION] * len(MANY) + [0] * len(names)
    assert [one.error_code for one in answer.responses] == codes
    assert not any(name in kit.node.topics.by_name for name in names)
