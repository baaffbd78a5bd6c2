"""A request that waits is answered once, whoever carries it: one that is dropped is found at the end of the turn, a second reply is not sent."""

import pytest
from fuzz import good_request
from fuzz_world import START_MS, FuzzLink
from member_kit import new_store, put_topic, start_member

from barnabas.broker.envelope_link import EnvelopeLink
from barnabas.model.errors import ErrorCode
from barnabas.model.principal import ANONYMOUS
from barnabas.wire import batch, frame
from barnabas.wire.batch import Record
from barnabas.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)

E = ErrorCode


@pytest.fixture
def member():
    """Of two brokers the only one that is there; both should have what acks=all waits for."""
    store = new_store()
    put_topic(store, "t", (1, 2), (1, 2))
    put_topic(store, "__consumer_offsets", (1, 2), (1,))
    member = start_member(store)
    state = member.node.replicas.get("t", 0).state
    state.in_sync = (1, 2)
    return member


def send(member, request, version):
    """Hand a request over that has to wait; its link."""
    link = FuzzLink()
    data = memoryview(bytearray(good_request(request, version, 1)))
    assert member.node.on_request(link, data) is None
    assert not link.answers
    return link


def read(link, request, version):
    (answer,) = link.answers
    header = frame.response_header(1, request.API_KEY, version)
    _, kind = frame.message_types(request.API_KEY)
    return kind.decode(answer, version, 4 + len(header))


def fetch():
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    return FetchRequest(
        max_wait_ms=5000, min_bytes=1, max_bytes=1000, session_epoch=-1,
        topics=[FetchTopic(topic="t", partitions=[partition])],
    )  # fmt: skip


def produce():
    records = bytes(batch.build([Record(0, START_MS, None, b"v")]))
    data = PartitionProduceData(index=0, records=records)
    topics = [TopicProduceData(name="t", partition_data=[data])]
    return ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=topics)


def join():
    protocol = JoinGroupRequestProtocol(name="range", metadata=b"\0\0\0\0\0\0\xff\xff\xff\xff")
    return JoinGroupRequest(
        group_id="g", session_timeout_ms=10_000, rebalance_timeout_ms=20_000,
        protocol_type="consumer", protocols=[protocol],
    )  # fmt: skip


def create():
    topic = CreatableTopic(name="new", num_partitions=1, replication_factor=1)
    return CreateTopicsRequest(topics=[topic], timeout_ms=5000)


def drop_fetch(node):
    (waiter,) = node.waiters.values()
    node.replicas.waiting.remove(waiter)
    waiter.owner.abandon()
    node.waiters.clear()


def drop_produce(node):
    awaited = node.replicas.get("t", 0).commitment._awaited
    awaited.popleft()._done = None  # its timer knows it, too


def drop_join(node):
    (waiting,) = node.coordinators.find("g").shard.groups["g"].members.values()
    waiting.join_ticket = None  # its deadline knows it, too


CARRIERS = [
    pytest.param(fetch, 12, drop_fetch, id="a wait for bytes"),
    pytest.param(produce, 9, drop_produce, id="a wait for a high watermark"),
    pytest.param(join, 3, drop_join, id="a member of a group"),
]


def error_of(answer):
    for name in ("error_code", "responses", "partitions", "partition_responses"):
        found = getattr(answer, name, None)
        if isinstance(found, list) and found:
            return error_of(found[0])
        if isinstance(found, int) and found:
            return found
    return 0


@pytest.mark.parametrize(("make", "version", "drop"), CARRIERS)
def test_a_request_that_is_dropped_is_answered_so_that_its_client_tries_again(
    member, make, version, drop, caplog
):
    request = make()
    link = send(member, request, version)
    drop(member.node)
    assert not link.answers, "not in the middle of whatever dropped it"
    member.node.on_turn_end()
    excuses = {0: E.REQUEST_TIMED_OUT, 1: E.UNKNOWN_SERVER_ERROR, 11: E.NOT_COORDINATOR}
    assert error_of(read(link, request, version)) == excuses[request.API_KEY]
    assert member.node.replies_amiss == 1
    assert "nobody holds a request that waits (correlation id 1)" in caplog.text
    member.events.advance(60_000)
    assert len(link.answers) == 1


@pytest.mark.parametrize(("make", "version", "drop"), CARRIERS)
def test_a_request_whose_client_has_gone_is_owed_nothing(member, make, version, drop):
    link = send(member, make(), version)
    link.close()
    drop(member.node)
    member.node.on_turn_end()
    assert (link.answers, member.node.replies_amiss) == ([], 0)


@pytest.mark.parametrize(("make", "version", "_drop"), CARRIERS)
def test_a_request_that_waits_for_its_time_is_answered_once(member, make, version, _drop):
    link = send(member, make(), version)
    member.node.on_turn_end()
    member.events.advance(60_000)
    member.node.on_turn_end()
    assert (len(link.answers), member.node.replies_amiss) == (1, 0)


def test_a_task_that_is_dropped_answers_too(member):
    """What holds a task is its next answer: here the store's."""
    request = create()
    link = send(member, request, 7)
    member.events._later.clear()
    member.node.on_turn_end()
    answer = read(link, request, 7)
    assert answer.topics[0].error_code == E.UNKNOWN_SERVER_ERROR
    assert member.node.replies_amiss == 1


def test_a_second_reply_is_not_sent(member, caplog):
    link = send(member, join(), 3)
    (waiting,) = member.node.coordinators.find("g").shard.groups["g"].members.values()
    ticket = waiting.join_ticket
    ticket.answer(E.REBALANCE_IN_PROGRESS)
    ticket.answer(E.NOT_COORDINATOR)
    assert len(link.answers) == 1
    assert member.node.replies_amiss == 1
    assert "a second reply to one request" in caplog.text


class BrokenLane:
    """One whose answers cannot be made for a reason that nobody foresaw."""

    target = "t"
    api_key = 0

    def write(self, run, now_ms):
        return run

    def answer(self, correlation_id, item, outcome):
        raise ValueError("planted")


def test_staged_requests_that_cannot_be_answered_are_not_left_waiting(member):
    staging = member.node.staging
    links = [FuzzLink(), FuzzLink()]
    for number, link in enumerate(links):
        link.has_staged = True
        staging.staged.append((link, BrokenLane(), number, None))
    with pytest.raises(ValueError, match="planted"):
        staging.write()
    assert [(link.is_open, link.has_staged) for link in links] == [(False, False)] * 2
    staging.write()


def test_who_unpacked_a_forwarded_request_hears_of_it_once():
    outer, ends = FuzzLink(), []
    link = EnvelopeLink(outer, ANONYMOUS, "127.0.0.1", lambda *end: ends.append(end))
    assert link.is_open
    link.reply([b"answer"])
    assert not link.is_open
    link.close()
    link.reply([b"again"])
    assert ends == [([b"answer"], None)]
    gone = EnvelopeLink(outer, ANONYMOUS, "127.0.0.1", lambda *end: ends.append(end))
    outer.close()
    assert not gone.is_open
