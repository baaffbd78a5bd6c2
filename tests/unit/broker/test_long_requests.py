"""Requests about tens of thousands of things hold the loop no longer than those about some hundred, and are answered right."""

import pytest
from node_kit import NodeKit
from stretch_kit import Stretches

from barnabas.broker import fetch_wanted
from barnabas.broker.pieces import PIECE
from barnabas.model.errors import ErrorCode
from barnabas.wire.messages import add_partitions_to_txn as add
from barnabas.wire.messages import (
    alter_configs,
    create_partitions,
    delete_records,
    describe_log_dirs,
    fetch,
    find_coordinator,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    offset_delete,
    offset_fetch,
)
from barnabas.wire.messages import offset_commit as commit
from barnabas.wire.messages import offset_for_leader_epoch as epochs
from barnabas.wire.messages import txn_offset_commit as txn_commit

#: More than fit into one batch of `__consumer_offsets`, and many pieces.
COUNT = 60 * PIECE
#: A request takes some calls for each thing that it is about, and others for itself.
CALLS_MAX = 20 * PIECE
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.fixture
def kit():
    kit = NodeKit(offsets_topic_num_partitions="2", transaction_state_log_num_partitions="2")
    kit.create("t", partitions=3)
    for key_type in (0, 1):
        request = find_coordinator.FindCoordinatorRequest(key_type=key_type, coordinator_keys=["x"])
        kit.run(lambda r=request: kit.ask(r, 4).coordinators[0].error_code == 0)
    asked = init_producer_id.InitProducerIdRequest(
        transactional_id="x", transaction_timeout_ms=60_000
    )
    kit.producer = kit.ask(asked, 4)
    assert kit.producer.error_code == 0
    kit.stretches = Stretches(kit)
    return kit


def test_the_measure_sees_a_loop_that_is_held(kit):
    kit.machine.enter(lambda: [len("") for _ in range(CALLS_MAX)])
    assert kit.stretches.longest > CALLS_MAX


# OffsetCommit


def offsets(count, index=lambda number: number % 3):
    return [
        commit.OffsetCommitRequestPartition(partition_index=index(number), committed_offset=number)
        for number in range(count)
    ]


def commit_request(*topics, **fields):
    named = [commit.OffsetCommitRequestTopic(name=name, partitions=p) for name, p in topics]
    return commit.OffsetCommitRequest(group_id="x", topics=named, **fields)


def codes(answer):
    return [
        (topic.name, [(one.partition_index, one.error_code) for one in topic.partitions])
        for topic in answer.topics
    ]


def kept(kit):
    group = offset_fetch.OffsetFetchRequestGroup(group_id="x", topics=None)
    (group,) = kit.ask(offset_fetch.OffsetFetchRequest(groups=[group]), 9).groups
    return {one.partition_index: one.committed_offset for t in group.topics for one in t.partitions}


def test_offsets_that_fit_into_no_batch_are_refused_without_encoding_them(kit):
    answer = kit.ask(commit_request(("t", offsets(COUNT))), 9)
    code = ErrorCode.UNKNOWN_SERVER_ERROR
    assert codes(answer) == [("t", [(number % 3, code) for number in range(COUNT)])]
    assert kit.stretches.longest < CALLS_MAX
    assert kept(kit) == {}


def test_whether_the_member_may_commit_is_told_first(kit):
    request = commit_request(
        ("t", offsets(COUNT)), member_id="nobody", generation_id_or_member_epoch=5
    )
    ((_, told),) = codes(kit.ask(request, 9))
    assert {code for _, code in told} == {ErrorCode.GROUP_ID_NOT_FOUND}


def test_offsets_of_many_partitions_that_are_not_there(kit):
    partitions = offsets(COUNT, index=lambda number: number)
    answer = kit.ask(commit_request(("t", partitions), ("none", offsets(COUNT))), 9)
    in_t = [*((number, UNKNOWN) for number in range(3, COUNT)), (0, 0), (1, 0), (2, 0)]
    in_none = [(number % 3, UNKNOWN) for number in range(COUNT)]
    assert codes(answer) == [("t", in_t), ("none", in_none)]
    assert kit.stretches.longest < CALLS_MAX
    assert kept(kit) == {0: 0, 1: 1, 2: 2}


def test_many_offsets_that_fit_are_kept(kit):
    count = 10_000
    answer = kit.ask(commit_request(("t", offsets(count)), ("t", offsets(2))), 9)
    assert codes(answer) == [
        ("t", [(number % 3, 0) for number in range(count)]),
        ("t", [(0, 0), (1, 0)]),
    ]
    assert kept(kit) == {0: 0, 1: 1, 2: count - 2}


# TxnOffsetCommit


def test_offsets_of_a_transaction_that_fit_into_no_batch(kit):
    partitions = [
        txn_commit.TxnOffsetCommitRequestPartition(partition_index=number, committed_offset=1)
        for number in [0, 1, 2] * (COUNT // 3)
    ]
    partitions[7].partition_index = 7
    request = txn_commit.TxnOffsetCommitRequest(
        transactional_id="x",
        group_id="x",
        producer_id=kit.producer.producer_id,
        producer_epoch=kit.producer.producer_epoch,
        topics=[txn_commit.TxnOffsetCommitRequestTopic(name="t", partitions=partitions)],
    )
    answer = kit.ask(request, 5)
    code = ErrorCode.UNKNOWN_SERVER_ERROR
    assert [(name, dict(told)) for name, told in codes(answer)] == [
        ("t", {0: code, 1: code, 2: code, 7: UNKNOWN})
    ]
    assert kit.stretches.longest < CALLS_MAX


# AddPartitionsToTxn


def add_request(kit, indexes):
    return add.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="x",
        v3_and_below_producer_id=kit.producer.producer_id,
        v3_and_below_producer_epoch=kit.producer.producer_epoch,
        v3_and_below_topics=[add.AddPartitionsToTxnTopic(name="t", partitions=indexes)],
    )


def added(answer):
    (topic,) = answer.results_by_topic_v3_and_below
    return [(one.partition_index, one.partition_error_code) for one in topic.results_by_partition]


def test_many_partitions_of_which_most_are_not_there(kit):
    answer = kit.ask(add_request(kit, list(range(COUNT))), 3)
    not_tried = ErrorCode.OPERATION_NOT_ATTEMPTED
    assert added(answer) == [
        *((index, not_tried) for index in range(3)),
        *((index, UNKNOWN) for index in range(3, COUNT)),
    ]
    assert kit.stretches.longest < CALLS_MAX


def test_the_same_partitions_again_and_again(kit):
    indexes = [0, 1, 2] * (COUNT // 3)
    assert added(kit.ask(add_request(kit, indexes), 3)) == [(index, 0) for index in indexes]
    assert kit.stretches.longest < CALLS_MAX


# Fetch

#: Counting the bytes of an answer takes one call for each partition, and next to no time.
FETCH_CALLS_MAX = CALLS_MAX + COUNT


def fetch_request(names=("t",), **fields):
    partitions = [
        fetch.FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20)
        for index in range(COUNT)
    ]
    topics = [fetch.FetchTopic(topic=name, partitions=partitions) for name in names]
    return fetch.FetchRequest(max_bytes=1 << 20, min_bytes=1, topics=topics, **fields)


def fetched(answer):
    return [
        (topic.topic, one.partition_index, one.error_code, one.high_watermark)
        for topic in answer.responses
        for one in topic.partitions
    ]


def test_many_partitions_are_fetched(kit):
    kit.produce("t", 1)
    answer = kit.ask(fetch_request(names=("t", "none"), session_epoch=-1), 12)
    in_t = [("t", index, 0, int(index == 1)) for index in range(3)]
    in_t += [("t", index, UNKNOWN, -1) for index in range(3, COUNT)]
    in_none = [("none", index, UNKNOWN, -1) for index in range(COUNT)]
    assert fetched(answer) == in_t + in_none
    assert kit.stretches.longest < FETCH_CALLS_MAX


@pytest.fixture
def _sessions_of_any_size(monkeypatch):
    monkeypatch.setattr(fetch_wanted, "STRAY_MAX", COUNT)


@pytest.mark.usefixtures("_sessions_of_any_size")
def test_a_small_request_about_many_partitions_of_a_session(kit):
    first = kit.ask(fetch_request(session_epoch=0), 12)
    assert first.session_id
    assert len(fetched(first)) == COUNT
    kit.produce("t", 1)
    kit.stretches.longest = 0
    changed = fetch.FetchPartition(partition=2, fetch_offset=9, partition_max_bytes=1)
    again = fetch.FetchRequest(
        max_bytes=1 << 20,
        min_bytes=1,
        session_id=first.session_id,
        session_epoch=1,
        topics=[fetch.FetchTopic(topic="t", partitions=[changed])],
    )
    answer = kit.ask(again, 12)
    out_of_range = ("t", 2, ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    told = fetched(answer)
    assert told[:2] == [("t", 1, 0, 1), out_of_range]
    assert told[2:] == [("t", index, UNKNOWN, -1) for index in range(3, COUNT)]
    assert kit.stretches.longest < FETCH_CALLS_MAX


@pytest.mark.usefixtures("_sessions_of_any_size")
def test_many_partitions_are_added_to_a_session_that_remembers_what_it_told(kit):
    one = fetch.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topics = [fetch.FetchTopic(topic="t", partitions=[one])]
    request = fetch.FetchRequest(max_bytes=1 << 20, min_bytes=0, session_epoch=0, topics=topics)
    first = kit.ask(request, 12)
    assert fetched(first) == [("t", 0, 0, 0)]
    fields = {"session_id": first.session_id, "session_epoch": 1}
    told = fetched(kit.ask(fetch_request(**fields), 12))
    assert told[:2] == [("t", 1, 0, 0), ("t", 2, 0, 0)], "of the first there is no news"
    assert len(told) == COUNT - 1


def test_a_follower_that_cannot_be_is_refused_for_all_it_names(kit):
    answer = kit.ask(fetch_request(replica_id=5, session_epoch=-1), 12)
    assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert len(fetched(answer)) == COUNT
    assert kit.stretches.longest < FETCH_CALLS_MAX


# Settings, epochs


@pytest.mark.parametrize("module", [alter_configs, incremental_alter_configs])
def test_settings_of_many_topics_that_are_not_there(kit, module):
    names = [f"none-{number}" for number in range(8 * PIECE)]
    resources = [
        module.AlterConfigsResource(resource_type=2, resource_name=name, configs=[])
        for name in [*names, "t"]
    ]
    request = getattr(module, module.__name__.split(".")[-1].title().replace("_", "") + "Request")
    answer = kit.ask(request(resources=resources), 1)
    assert [one.resource_name for one in answer.responses] == [*names, "t"]
    assert [one.error_code for one in answer.responses] == [UNKNOWN] * len(names) + [0]
    assert kit.stretches.longest < 100 * PIECE, "changing one takes more than most things do"


def test_epochs_of_many_partitions(kit):
    asked = [
        epochs.OffsetForLeaderPartition(partition=index, leader_epoch=0) for index in range(COUNT)
    ]
    topic = epochs.OffsetForLeaderTopic(topic="t", partitions=asked)
    answer = kit.ask(epochs.OffsetForLeaderEpochRequest(topics=[topic]), 4)
    (found,) = answer.topics
    codes = [(one.partition, one.error_code) for one in found.partitions]
    assert codes == [(index, 0 if index < 3 else UNKNOWN) for index in range(COUNT)]
    assert kit.stretches.longest < CALLS_MAX


# Groups


def test_many_who_leave_a_group(kit):
    joined = join_group.JoinGroupRequest(
        group_id="x",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[join_group.JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    member = kit.ask(joined, 3).member_id
    assert member
    kit.stretches.longest = 0
    names = [f"nobody-{number}" for number in range(COUNT)]
    leaving = [leave_group.MemberIdentity(member_id=name) for name in [*names, member]]
    answer = kit.ask(leave_group.LeaveGroupRequest(group_id="x", members=leaving), 5)
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    assert answer.error_code == 0
    assert [(one.member_id, one.error_code) for one in answer.members] == [
        *((name, unknown) for name in names),
        (member, 0),
    ]
    assert kit.stretches.longest < CALLS_MAX


@pytest.mark.parametrize("whole", [True, False], ids=["one topic", "a topic for each"])
def test_many_offsets_are_deleted(kit, whole):
    count = 2 * COUNT  # a partition is four bytes here, and few of those are decoded on the loop
    kit.ask(commit_request(("t", offsets(3))), 9)
    kit.stretches.longest = 0
    partitions = [
        offset_delete.OffsetDeleteRequestPartition(partition_index=index) for index in range(count)
    ]
    topics = [
        offset_delete.OffsetDeleteRequestTopic(name="t", partitions=some)
        for some in ([partitions] if whole else ([one] for one in partitions))
    ]
    answer = kit.ask(offset_delete.OffsetDeleteRequest(group_id="x", topics=topics), 0)
    assert answer.error_code == 0
    assert codes(answer) == [
        ("t", [*((index, UNKNOWN) for index in range(3, count)), (0, 0), (1, 0), (2, 0)])
    ]
    assert kept(kit) == {}
    assert kit.stretches.longest < CALLS_MAX


# Topics and logs


def test_many_topics_that_are_not_there_cannot_grow(kit):
    names = [f"none-{number}" for number in range(COUNT)]
    topics = [
        create_partitions.CreatePartitionsTopic(name=name, count=4, assignments=None)
        for name in [*names, "t"]
    ]
    request = create_partitions.CreatePartitionsRequest(topics=topics, timeout_ms=1000)
    answer = kit.ask(request, 3)
    told = [(one.name, one.error_code) for one in answer.results]
    assert told == [*((name, UNKNOWN) for name in names), ("t", 0)]
    assert kit.stretches.longest < CALLS_MAX


def test_a_topic_grows_by_no_more_partitions_than_one_request_may_make(kit):
    to_one = create_partitions.CreatePartitionsAssignment(broker_ids=[kit.node.broker_id])
    topic = create_partitions.CreatePartitionsTopic(
        name="t", count=COUNT + 3, assignments=[to_one] * COUNT
    )
    request = create_partitions.CreatePartitionsRequest(topics=[topic], timeout_ms=1000)
    (told,) = kit.ask(request, 3).results
    assert told.error_code == ErrorCode.POLICY_VIOLATION
    assert "at most 10000 are taken" in told.error_message


@pytest.mark.parametrize("indexes", [range(COUNT), [0, 1, 2] * (COUNT // 3)], ids=["new", "same"])
def test_records_of_many_partitions_are_deleted(kit, indexes):
    kit.produce("t", 1)
    kit.stretches.longest = 0
    asked = [
        delete_records.DeleteRecordsPartition(partition_index=index, offset=-1) for index in indexes
    ]
    topic = delete_records.DeleteRecordsTopic(name="t", partitions=asked)
    answer = kit.ask(delete_records.DeleteRecordsRequest(topics=[topic], timeout_ms=1000), 2)
    (found,) = answer.topics
    told = [(one.partition_index, one.error_code, one.low_watermark) for one in found.partitions]
    starts = {0: 0, 1: 1, 2: 0}
    assert told == [
        (index, 0, starts[index]) if index in starts else (index, UNKNOWN, -1) for index in indexes
    ]
    assert kit.stretches.longest < 2 * CALLS_MAX, "moving a start takes more than most things do"


def test_directories_with_many_partitions_that_are_not_there(kit):
    topic = describe_log_dirs.DescribableLogDirTopic(topic="t", partitions=list(range(1, COUNT)))
    answer = kit.ask(describe_log_dirs.DescribeLogDirsRequest(topics=[topic]), 4)
    (directory,) = answer.results
    (found,) = directory.topics
    assert [one.partition_index for one in found.partitions] == [1, 2]
    assert kit.stretches.longest < CALLS_MAX
