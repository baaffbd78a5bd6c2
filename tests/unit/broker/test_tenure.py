"""A replica's tenure, and the one place through which its role, epoch, settings, hosting and end change."""

import ast
import struct
from pathlib import Path

import pytest
from fuzz import good_request
from fuzz_world import START_MS, FuzzLink
from member_kit import new_store, put_topic, start_member

import barnabas.broker
from barnabas.broker.tenure import TenureOver
from barnabas.core.divergence import EpochEnd, find_divergence
from barnabas.core.epochs import EpochEntry
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import TopicPartition
from barnabas.wire import batch
from barnabas.wire.batch import Record
from barnabas.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)

T0 = TopicPartition("t", 0)
VERSION = 12
BOTH = (1, 2)


@pytest.fixture
def member():
    """The only one of two brokers that is there, and leads."""
    store = new_store()
    put_topic(store, "t", BOTH, BOTH)
    return start_member(store)


@pytest.fixture
def replica(member):
    return member.node.replicas.get(*T0)


def lead(replica, *, leader_epoch=None, partition_epoch=None):
    state = replica.state
    return replica.lead(
        leader_epoch=state.leader_epoch + 1 if leader_epoch is None else leader_epoch,
        partition_epoch=state.partition_epoch + 1, replicas=BOTH, in_sync=[1], now_ms=0,
    )  # fmt: skip


def follow(replica):
    state = replica.state
    return replica.follow(
        leader=2, leader_epoch=state.leader_epoch + 1, partition_epoch=state.partition_epoch + 1,
        replicas=BOTH, in_sync=BOTH,
    )  # fmt: skip


def produce(number):
    records = bytes(batch.build([Record(0, START_MS, None, b"v" * 10)]))
    data = PartitionProduceData(index=0, records=records)
    topic = TopicProduceData(name="t", partition_data=[data])
    request = ProduceRequest(acks=1, timeout_ms=1000, topic_data=[topic])
    return good_request(request, VERSION, number)


def stage_one(member):
    """One record is in the log, and another one staged by a connection whose requests repeat."""
    link = FuzzLink()
    for number in range(2):
        member.node.on_request(link, memoryview(bytearray(produce(number))))
    frame = produce(9)
    stream = bytearray(struct.pack(">i", len(frame)) + frame)
    assert link.lanes.take(memoryview(stream), 0, len(stream)) == len(stream)
    assert len(member.node.staging.staged) == 1
    return link


def epochs_in(log):
    """Which epoch each batch says that it is of."""
    found = log.read(0, 1 << 20, end_offset=log.log_end_offset, min_one=True, nowait=False)
    return [header.partition_leader_epoch for _, header in batch.headers(memoryview(found.read()))]


# The tenure


def test_a_tenure_ends_with_the_epoch_and_with_the_role(replica):
    first = replica.tenure
    assert (first.topic_id, first.is_leader) == (replica.topic.id, True)
    first.check()
    assert lead(replica)
    second = replica.tenure
    assert first.is_over
    with pytest.raises(TenureOver):
        first.check()
    assert (second.leader_epoch, second.is_leader) == (first.leader_epoch + 1, True)
    assert follow(replica)
    third = replica.tenure
    assert second.is_over
    assert (third.leader_epoch, third.is_leader, third.is_over) == (
        second.leader_epoch + 1,
        False,
        False,
    )


def test_what_is_no_news_and_who_is_in_sync_end_no_tenure(replica):
    tenure, epoch = replica.tenure, replica.state.leader_epoch
    assert lead(replica, leader_epoch=epoch)  # a later version of the same epoch
    assert not lead(replica, leader_epoch=epoch - 1)
    assert replica.tenure is tenure
    assert not tenure.is_over


@pytest.mark.parametrize("end", ["drop", "drop_topic", "lose"])
def test_who_is_gone_or_lost_has_a_tenure_that_is_over(member, replica, end):
    tenure, replicas = replica.tenure, member.node.replicas
    if end == "drop":
        replicas.drop(T0)
    elif end == "drop_topic":
        replicas.drop_topic("t")
    else:
        replica.lose()
    assert tenure.is_over
    assert replica.tenure.is_over
    follow(replica)  # it was lost: whatever the controller says of it, nobody works on it
    assert replica.tenure.is_over


@pytest.mark.parametrize("end", ["drop", "drop_topic", "lose"])
def test_who_waits_for_the_high_watermark_of_one_that_is_gone_or_lost_hears_of_it(
    member, replica, end
):
    codes, replicas = [], member.node.replicas
    wait = replica.commitment.until(9, replica.state.leader_epoch, None, member.node.world)
    wait(lambda code, _error: codes.append(code))
    if end == "drop":
        replicas.drop(T0)
    elif end == "drop_topic":
        replicas.drop_topic("t")
    else:
        replica.lose()
    assert codes == [
        ErrorCode.KAFKA_STORAGE_ERROR if end == "lose" else ErrorCode.NOT_LEADER_OR_FOLLOWER
    ]


# Staged requests


def test_a_staged_batch_is_written_before_the_next_epoch_begins(member, replica):
    """As it was judged: assigned after it, the next epoch would be cut out of the history again."""
    link = stage_one(member)
    old = replica.state.leader_epoch
    assert lead(replica)
    assert replica.log.log_end_offset == 3
    assert len(link.answers) == 1
    assert replica.log.epochs.entries == [EpochEntry(old, 0), EpochEntry(old + 1, 3)]
    member.node.on_request(link, memoryview(bytearray(produce(10))))
    assert epochs_in(replica.log) == [old, old, old, old + 1]
    # A follower with more records of the old epoch hears where they end.
    assert find_divergence(replica.leader_epochs, 4, old, 4) == EpochEnd(old, 3)


@pytest.mark.parametrize("change", [follow, "drop", "drop_topic", "configure"])
def test_a_staged_batch_is_written_before_every_other_change(member, replica, change):
    link = stage_one(member)
    tenure = replica.tenure
    if change == "configure":
        replica.configure(member.node.log_config({"retention.ms": "1"}))
    elif change == "drop":
        member.node.replicas.drop(T0)
    elif change == "drop_topic":
        member.node.replicas.drop_topic("t")
    else:
        change(replica)
    assert not member.node.staging.staged
    assert len(link.answers) == 1
    assert replica.log.log_end_offset == 3
    assert tenure.is_over == (change != "configure")


def test_a_staged_batch_is_refused_once_the_log_is_lost(member, replica):
    stage_one(member)
    replica.lose()
    member.node.staging.write()
    assert replica.log.log_end_offset == 2


def test_lanes_close_with_the_role(member, replica):
    stage_one(member)
    lanes = member.node.staging.lanes(VERSION)
    assert [lane.target for lane in lanes.values()] == [replica]
    lead(replica, leader_epoch=replica.state.leader_epoch)  # others may be in sync: answers differ
    assert not lanes


# The choke point

#: What changes a role, an epoch or a log's end, and where it may stand besides `replicas.py`.
CHOKED = {
    "become_leader": (),
    "become_follower": (),
    "assign_epoch": ("log_opening.py",),  # before there is a replica
    "plan_truncation": ("follower.py",),  # of `core.divergence`, which computes an offset
    "plan_start_over": (),
    "configure": ("config_changes.py",),
}
#: What else only `replicas.py` sets.
OWNED = ("offline", "tenure", "is_over")


def test_nothing_goes_around_the_one_place():
    for path in sorted(Path(barnabas.broker.__file__).parent.rglob("*.py")):
        if path.name in ("replicas.py", "tenure.py"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                name = getattr(node.func, "attr", getattr(node.func, "id", ""))
                assert name not in CHOKED or path.name in CHOKED[name], f"{path.name}: {name}"
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                assert node.attr not in OWNED, f"{path.name}: {node.attr}"
