"""A coordinator that moved to a broker which has not been told of all topics: what it does not know is not gone."""

import pytest
from member_kit import ask, new_store, put, put_topic, start_member

from barnabas.broker import cluster_znodes, znodes
from barnabas.broker.coordinators import TOPIC
from barnabas.broker.java_hash import java_hash
from barnabas.broker.known_topics import PATIENCE_MS
from barnabas.broker.tasks import drive
from barnabas.model.cluster import Partition, Topic
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import TopicPartition
from barnabas.ports import Create, Delete, SetData
from barnabas.wire.messages import (
    consumer_group_heartbeat,
    find_coordinator,
    offset_commit,
    offset_fetch,
    update_metadata,
)
from barnabas.wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)

LOADING = 14
#: The id of a topic that had the name before.
OLDER = b"older-----------"


def topic_id(name):
    """As `put_topic` gives it."""
    return name.encode().ljust(16, b"-")[:16]


@pytest.fixture
def store():
    store = new_store()
    put_topic(store, TOPIC, (1, 2), (1,))
    put_topic(store, "t", (1, 2), (1,))
    put_topic(store, "u", (1, 2), (1,))
    return store


@pytest.fixture
def member(store):
    return start_member(store)


def commit(member, topic, offset):
    request = offset_commit.OffsetCommitRequest(
        group_id="g",
        topics=[
            offset_commit.OffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    offset_commit.OffsetCommitRequestPartition(
                        partition_index=0, committed_offset=offset
                    )
                ],
            )
        ],
    )
    return ask(member, request, 8).topics[0].partitions[0].error_code


def committed(member):
    asked = offset_fetch.OffsetFetchRequestGroup(group_id="g", topics=None)
    (group,) = ask(member, offset_fetch.OffsetFetchRequest(groups=[asked]), 8).groups
    if group.error_code:
        return group.error_code
    return {topic.name: topic.partitions[0].committed_offset for topic in group.topics}


def lead(member, leader, by):
    """Have the one partition of the offsets topic led by this broker, `by` epochs later."""
    replica = member.node.replicas.get(TOPIC, 0)
    state = LeaderAndIsrPartitionState(
        partition_index=0, leader=leader, leader_epoch=replica.state.leader_epoch + by,
        isr=[leader], partition_epoch=50 + replica.state.leader_epoch, replicas=[1, 2],
    )  # fmt: skip
    told = LeaderAndIsrTopicState(
        topic_name=TOPIC, topic_id=topic_id(TOPIC), partition_states=[state]
    )
    request = LeaderAndIsrRequest(
        controller_id=1, controller_epoch=9, broker_epoch=-1, topic_states=[told]
    )
    answers = []
    drive(member.node.members.orders.lead_and_follow(request, 0), lambda *one: answers.append(one))
    member.events.settle()
    assert answers == [({TopicPartition(TOPIC, 0): 0}, None)]


def move_away_and_back(member):
    lead(member, 2, 1)
    lead(member, 1, 1)


def tell(member, name, *, id_=None, leader=1, indexes=(0,)):
    """What the controller says in UpdateMetadata; -2 is the leader of what is deleted."""
    states = [
        update_metadata.UpdateMetadataPartitionState(
            partition_index=index, leader=leader, leader_epoch=0, isr=[1], replicas=[1, 2]
        )
        for index in indexes
    ]
    request = update_metadata.UpdateMetadataRequest(
        controller_id=1, controller_epoch=9, broker_epoch=-1,
        live_brokers=[update_metadata.UpdateMetadataBroker(id_=1)],
        topic_states=[
            update_metadata.UpdateMetadataTopicState(
                topic_name=name, topic_id=id_ or topic_id(name), partition_states=states
            )
        ],
    )  # fmt: skip
    drive(member.node.members.orders.update_metadata(request, 0), lambda *_: None)
    member.events.settle()


def forget(member, name):
    """Let it be a broker that was not told of this topic."""
    member.node.topics.drop(member.node.topics.by_name[name])


def wait(member, duration_ms=10_000):
    for _ in range(duration_ms // 100):
        member.events.advance(100)


def test_offsets_of_a_topic_that_is_not_known_here_stay(member):
    assert commit(member, "t", 42) == 0
    forget(member, "t")
    move_away_and_back(member)
    wait(member)
    assert committed(member) == {"t": 42}


def test_offsets_stay_where_a_topic_is_known_by_the_id_of_the_one_before(member):
    assert commit(member, "t", 42) == 0
    member.node.topics.put(Topic("t", OLDER, [Partition((1, 2), 1)]))
    move_away_and_back(member)
    wait(member)
    assert committed(member) == {"t": 42}


def test_offsets_of_a_topic_that_the_store_does_not_have_go(member, store):
    assert commit(member, "t", 42) == 0
    assert commit(member, "u", 7) == 0
    forget(member, "t")
    put(store, Delete(cluster_znodes.topic_path("t")))
    move_away_and_back(member)
    wait(member)
    assert committed(member) == {"u": 7}


def test_offsets_of_a_topic_that_was_made_again_go(member):
    member.node.topics.put(Topic("t", OLDER, [Partition((1, 2), 1)]))
    assert commit(member, "t", 42) == 0
    assert commit(member, "u", 7) == 0
    tell(member, "t")
    move_away_and_back(member)
    wait(member)
    assert committed(member) == {"u": 7}
    assert commit(member, "t", 43) == 0
    move_away_and_back(member)
    wait(member)
    assert committed(member) == {"t": 43, "u": 7}


def test_a_deletion_that_is_under_way_is_waited_for(member, store):
    assert commit(member, "t", 42) == 0
    forget(member, "t")
    put(store, Create(cluster_znodes.wish_path("t")))
    move_away_and_back(member)
    assert committed(member) == {"t": 42}, "nobody is told of it any more"
    put(store, Delete(cluster_znodes.topic_path("t")), Delete(cluster_znodes.wish_path("t")))
    wait(member)
    assert committed(member) == {}


def test_as_long_as_the_store_cannot_be_asked_nothing_is_gone(member, store):
    assert commit(member, "t", 42) == 0
    forget(member, "t")
    put(store, Delete(cluster_znodes.topic_path("t")))
    member.events.is_cut_off = True
    move_away_and_back(member)
    wait(member)
    assert committed(member) == {"t": 42}
    member.events.is_cut_off = False
    wait(member)
    assert committed(member) == {}


def test_the_word_that_a_topic_is_deleted_counts_also_where_it_is_not_known(member):
    assert commit(member, "t", 42) == 0
    forget(member, "t")
    tell(member, "t", leader=-2)
    assert committed(member) == {}


def test_the_word_that_the_topic_before_is_deleted_takes_nothing_of_the_one_after(member):
    assert commit(member, "t", 42) == 0
    tell(member, "t", id_=OLDER, leader=-2)
    assert committed(member) == {"t": 42}


def beat(member, epoch, **fields):
    request = consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
        group_id="k", member_id="m", member_epoch=epoch, **fields
    )
    return ask(member, request, 1)


@pytest.mark.parametrize(
    "wanted", [{"subscribed_topic_names": ["t", "u"]}, {"subscribed_topic_regex": "[tu]"}]
)
def test_members_keep_partitions_of_topics_that_are_not_known_here_yet(member, wanted):
    reply = beat(member, 0, rebalance_timeout_ms=60_000, topic_partitions=[], **wanted)
    assert reply.error_code == 0
    wait(member, 1000)
    reply = beat(member, reply.member_epoch)
    epoch = reply.member_epoch
    wait(member, 1000)
    reply = beat(member, epoch)
    assert (reply.error_code, reply.member_epoch) == (0, epoch)
    forget(member, "t")
    move_away_and_back(member)
    wait(member, 1000)
    assert beat(member, epoch).error_code == LOADING
    member.node.topics.put(Topic("t", topic_id("t"), []))
    tell(member, "t")
    wait(member, 1000)
    for _ in range(3):
        reply = beat(member, epoch)
        assert (reply.error_code, reply.member_epoch, reply.assignment) == (0, epoch, None)
        wait(member, 1000)


def test_a_topic_that_makes_no_sense_in_the_store_keeps_no_group_from_being_loaded(member, store):
    assert commit(member, "t", 42) == 0
    assert commit(member, "u", 7) == 0
    wanted = {"subscribed_topic_regex": "[tu]"}
    assert (
        beat(member, 0, rebalance_timeout_ms=60_000, topic_partitions=[], **wanted).error_code == 0
    )
    forget(member, "t")
    forget(member, "u")
    put(store, SetData(cluster_znodes.topic_path("t"), b"[]"))
    put(store, Delete(cluster_znodes.topic_path("u")))
    move_away_and_back(member)
    wait(member)
    assert committed(member) == {"t": 42}


def test_offsets_go_when_another_topic_has_the_name(member):
    member.node.topics.put(Topic("t", OLDER, [Partition((1, 2), 1)]))
    assert commit(member, "t", 42) == 0
    tell(member, "t")
    assert committed(member) == {}


def test_markers_of_partitions_are_needless_only_if_the_store_says_so(member, store):
    put_topic(store, "v", (1, 2), (1,))
    put_topic(store, "x", (1, 2), (1,))
    put(store, SetData(cluster_znodes.topic_path("x"), b'{"topic_id": "", "partitions": [1]}'))
    put(store, Create(cluster_znodes.wish_path("u")))
    partitions = [TopicPartition(name, index) for name in "tuvwx" for index in (0, 1)]
    answers = []
    for is_cut_off in (False, True):
        member.events.is_cut_off = is_cut_off
        task = member.node.members.topics.find_gone(partitions)
        drive(task, lambda *one: answers.append(one))
        member.events.settle()
    there = {TopicPartition("t", 0), TopicPartition("v", 0)}
    there |= {TopicPartition("x", 0), TopicPartition("x", 1)}  # it makes no sense
    assert answers == [(set(partitions) - there, None), (set(), None)]


def test_a_topic_that_nobody_tells_of_is_waited_for_for_a_while_only(member):
    wanted = {"subscribed_topic_names": ["t", "u"]}
    reply = beat(member, 0, rebalance_timeout_ms=60_000, topic_partitions=[], **wanted)
    assert reply.error_code == 0
    forget(member, "t")
    move_away_and_back(member)
    wait(member, PATIENCE_MS - 100)
    assert beat(member, reply.member_epoch).error_code == LOADING
    wait(member, 200)
    assert beat(member, reply.member_epoch).error_code == 0


# How many partitions the offsets topic has: the controller may tell of them one after another


def put_offsets_topic(store, partition_count):
    topic = Topic(TOPIC, topic_id(TOPIC), [Partition((1, 2), 1)] * partition_count)
    states = [
        Create(cluster_znodes.state_path(TOPIC, index), cluster_znodes.state_data(1, 3, (1,), 1))
        for index in range(partition_count)
    ]
    put(store, *znodes.new_topic_operations(topic), *states)


@pytest.fixture
def newcomer():
    """A broker that has not been told of the offsets topic, which has five partitions."""
    store = new_store()
    put_offsets_topic(store, 5)
    put_topic(store, "t", (1, 2), (1,))
    member = start_member(store)
    known = member.node.topics.by_name[TOPIC]
    forget(member, TOPIC)
    member.node.coordinators.on_topic_deleted(known)
    return member


def find(member, group):
    request = find_coordinator.FindCoordinatorRequest(coordinator_keys=[group])
    (found,) = ask(member, request, 4).coordinators
    return ErrorCode(found.error_code), found.node_id


def test_groups_are_where_they_belong_from_the_first_piece_of_metadata_on(newcomer):
    # With one partition every group would be on it; with five, these are on partitions 0 and 2.
    by_place = {
        index: next(f"g{n}" for n in range(99) if java_hash(f"g{n}") % 5 == index)
        for index in range(5)
    }
    tell(newcomer, TOPIC, indexes=(0,))
    assert find(newcomer, by_place[0]) == (0, 1)
    assert find(newcomer, by_place[2]) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)
    tell(newcomer, TOPIC, indexes=(1, 2, 3, 4))
    assert find(newcomer, by_place[2]) == (0, 1)
    assert newcomer.node.coordinators.partition_for(by_place[2]) == 2


def test_until_the_store_has_said_how_many_partitions_there_are_nobody_is_found(newcomer):
    newcomer.events.is_cut_off = True
    tell(newcomer, TOPIC, indexes=(0,))
    assert find(newcomer, "g") == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)
    assert commit(newcomer, "t", 42) == ErrorCode.NOT_COORDINATOR
    assert newcomer.node.coordinators.leader_for("g") == -1
    newcomer.events.is_cut_off = False
    wait(newcomer, 2000)
    tell(newcomer, TOPIC, indexes=(0, 1, 2, 3, 4))
    assert find(newcomer, "g") == (0, 1)
