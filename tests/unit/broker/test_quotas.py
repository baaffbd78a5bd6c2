"""Throttling: answers come at once and say for how long, then the link rests; a quota is shared by all who have the same."""

import struct

import pytest
from node_kit import Client, NodeKit

from barnabas.broker import quotas
from barnabas.core.quota_table import DEFAULT, FETCH, MUTATION, PRODUCE, REQUEST, Entity
from barnabas.model.errors import ErrorCode
from barnabas.model.principal import Principal
from barnabas.sim.world import START_MS
from barnabas.wire import batch
from barnabas.wire.batch import Record
from barnabas.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from barnabas.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

VALUE = bytes(10_000)


class Named(Client):
    """A client that says who it is."""

    def __init__(self, kit, client_id, user=None):
        self.client_id = client_id.encode()
        super().__init__(kit, f"{client_id}-{kit.scheduler.now_us}")
        if user is not None:
            kit.machine.link_of(self.connection).principal = Principal("User", user)

    def send(self, request, version):
        number = len(self.sent) + 1
        self.sent.append((request.API_KEY, version))
        head = struct.pack(">hhih", request.API_KEY, version, number, len(self.client_id))
        tags = b"\0" if version >= request.FLEXIBLE_FROM else b""
        body = b"".join(bytes(part) for part in request.encode(version))
        self.connection.send(head + self.client_id + tags + body)

    def produce(self, value=VALUE, acks=1):
        return self.ask(produce_request(value, acks), 9)

    def fetch(self, offset=0, **fields):
        return self.ask(fetch_request(offset, **fields), 11)


def produce_request(value=VALUE, acks=1):
    records = batch.build([Record(0, START_MS, b"k", value, ())])
    topic = TopicProduceData(
        name="t", partition_data=[PartitionProduceData(index=0, records=records)]
    )
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[topic])


def fetch_request(offset=0, **fields):
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    topics = [FetchTopic(topic="t", partitions=[partition])]
    return FetchRequest(
        **{"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20, "topics": topics, **fields}
    )


@pytest.fixture
def kit():
    kit = NodeKit()
    kit.create("t")
    return kit


def limit(kit, *entity, **limits):
    kit.node.quotas.put(Entity(*entity), limits)


def test_a_producer_is_told_and_then_not_read(kit):
    limit(kit, None, "greedy", producer_byte_rate=1000)
    client = Named(kit, "greedy")
    answer = client.produce()
    assert answer.responses[0].partition_responses[0].error_code == 0
    assert 0 < answer.throttle_time_ms < 1000  # ten seconds' worth and a little
    started_us = kit.scheduler.now_us
    assert client.produce().throttle_time_ms > 10_000
    assert kit.scheduler.now_us - started_us >= answer.throttle_time_ms * 1000
    assert kit.offset("t", -1) == 2


def test_requests_that_want_no_answer_are_throttled_as_well(kit):
    limit(kit, None, "greedy", producer_byte_rate=1000)
    client = Named(kit, "greedy")
    client.connection.send(encoded(client, produce_request(bytes(20_000), acks=0)))
    started_us = kit.scheduler.now_us
    kit.run(lambda: kit.offset("t", -1) == 1)
    client.ask(MetadataRequest(topics=[]), 9)
    assert kit.scheduler.now_us - started_us >= 9_000_000


def encoded(client, request):
    head = struct.pack(">hhih", request.API_KEY, 9, 0, len(client.client_id))
    return head + client.client_id + b"\0" + b"".join(bytes(p) for p in request.encode(9))


def test_all_connections_of_a_client_id_share_one_quota_and_others_none(kit):
    limit(kit, None, "greedy", producer_byte_rate=1000)
    first, second, quiet = Named(kit, "greedy"), Named(kit, "greedy"), Named(kit, "quiet")
    first.produce(bytes(9000))
    assert second.produce(bytes(9000)).throttle_time_ms > 0
    assert quiet.produce(bytes(90_000)).throttle_time_ms == 0


def test_a_default_is_for_each_alone(kit):
    limit(kit, None, DEFAULT, producer_byte_rate=1000)
    assert Named(kit, "a").produce(bytes(9000)).throttle_time_ms == 0
    assert Named(kit, "b").produce(bytes(9000)).throttle_time_ms == 0
    assert Named(kit, "a").produce(bytes(9000)).throttle_time_ms > 0


def test_a_users_quota_is_shared_by_its_client_ids(kit):
    limit(kit, "alice", producer_byte_rate=1000)
    Named(kit, "a", "alice").produce(bytes(9000))
    assert Named(kit, "b", "alice").produce(bytes(9000)).throttle_time_ms > 0
    assert Named(kit, "a", "bob").produce(bytes(90_000)).throttle_time_ms == 0


def test_requests_that_repeat_are_counted_from_the_moment_there_is_a_quota(kit):
    client = Named(kit, "greedy")
    for _ in range(5):
        client.produce()  # the later ones go a lane
    limit(kit, None, "greedy", producer_byte_rate=1000)
    client.produce()
    assert client.produce().throttle_time_ms > 0
    limit(kit, None, "greedy")
    kit.advance(60_000)
    assert client.produce().throttle_time_ms == 0


def test_a_change_of_the_limit_keeps_what_was_counted(kit):
    limit(kit, None, "greedy", producer_byte_rate=1_000_000)
    client = Named(kit, "greedy")
    assert client.produce(bytes(50_000)).throttle_time_ms == 0
    limit(kit, None, "greedy", producer_byte_rate=1000)
    assert client.produce(b"").throttle_time_ms > 30_000


def fill(kit, count=20):
    client = Named(kit, "filler")
    for _ in range(count):
        client.produce()


def found(answer):
    return sum(len(p.records or b"") for topic in answer.responses for p in topic.partitions)


def test_a_consumer_gets_nothing_and_is_told_then_it_goes_on(kit):
    fill(kit)
    limit(kit, None, "greedy", consumer_byte_rate=2000)
    client = Named(kit, "greedy")
    first = client.fetch(0)
    assert first.throttle_time_ms == 0
    assert 10_000 < found(first) <= 20_000  # no more than ten windows' worth at once
    second = client.fetch(1)
    assert second.throttle_time_ms > 0
    assert (second.error_code, second.responses, second.session_id) == (0, [], 0)
    kit.advance(30_000)
    third = client.fetch(1)
    assert (third.throttle_time_ms, found(third) > 0) == (0, True)


def test_a_batch_larger_than_its_quota_comes_through_at_last(kit):
    Named(kit, "filler").produce(bytes(100_000))
    limit(kit, None, "slow", consumer_byte_rate=10)
    client = Named(kit, "slow")
    assert found(client.fetch(0)) > 100_000
    assert client.fetch(0).throttle_time_ms > 0


def test_a_throttled_fetch_leaves_its_session_as_it_was(kit):
    fill(kit)
    limit(kit, None, "greedy", consumer_byte_rate=2000)
    client = Named(kit, "greedy")
    opened = client.fetch(0, session_epoch=0)
    assert opened.session_id != 0
    throttled = client.fetch(1, session_id=opened.session_id, session_epoch=1)
    assert throttled.throttle_time_ms > 0
    assert (throttled.session_id, throttled.responses) == (opened.session_id, [])
    kit.advance(30_000)
    later = client.fetch(1, session_id=opened.session_id, session_epoch=2)
    assert (later.error_code, found(later) > 0) == (0, True)


def test_a_throttled_full_fetch_opens_no_session(kit):
    fill(kit)
    limit(kit, None, "greedy", consumer_byte_rate=2000)
    client = Named(kit, "greedy")
    client.fetch(0)
    assert client.fetch(1, session_epoch=0).session_id == 0


def test_min_bytes_above_what_a_quota_gives_do_not_wait_for_ever(kit):
    fill(kit)
    limit(kit, None, "greedy", consumer_byte_rate=1000)
    client = Named(kit, "greedy")
    started_us = kit.scheduler.now_us
    assert found(client.fetch(0, min_bytes=1 << 19, max_wait_ms=60_000)) > 0
    assert kit.scheduler.now_us - started_us < 10_000_000


def test_time_is_billed_and_the_wait_is_no_longer_than_a_window(kit, monkeypatch):
    limit(kit, None, "greedy", request_percentage=1)
    clock = kit.node.world.clock
    spent = iter(range(0, 10**15, 10**9))
    monkeypatch.setattr(clock, "monotonic_ns", lambda: next(spent), raising=False)
    client = Named(kit, "greedy")
    assert client.ask(MetadataRequest(topics=[]), 9).throttle_time_ms == 1000
    assert Named(kit, "quiet").ask(MetadataRequest(topics=[]), 9).throttle_time_ms == 0


def test_a_request_that_waits_is_not_billed_for_waiting(kit):
    limit(kit, None, "patient", request_percentage=0.001)
    client = Named(kit, "patient")
    assert client.fetch(0, max_wait_ms=5000).throttle_time_ms == 0


def create(client, *names, partitions=1, version=7):
    topics = [
        CreatableTopic(name=name, num_partitions=partitions, replication_factor=1) for name in names
    ]
    return client.ask(CreateTopicsRequest(topics=topics, timeout_ms=1000), version)


def codes(answer):
    return [ErrorCode(topic.error_code) for topic in answer.topics]


def test_changes_of_topics_are_refused_once_their_permits_are_used_up(kit):
    limit(kit, None, "busy", controller_mutation_rate=1)
    client = Named(kit, "busy")
    answer = create(client, "a", "b", "c", partitions=10)
    assert codes(answer) == [ErrorCode.NONE] * 2 + [ErrorCode.THROTTLING_QUOTA_EXCEEDED]
    assert answer.throttle_time_ms == pytest.approx(9000, abs=20)
    assert sorted(kit.node.topics.by_name) == ["a", "b", "t"]
    answer = create(client, "c", partitions=10)  # after the wait that it was told
    assert codes(answer) == [ErrorCode.NONE]


def test_old_clients_are_never_refused_but_wait(kit):
    limit(kit, None, "busy", controller_mutation_rate=1)
    answer = create(Named(kit, "busy"), "a", "b", "c", partitions=10, version=5)
    assert codes(answer) == [ErrorCode.NONE] * 3
    assert answer.throttle_time_ms == pytest.approx(19_000, abs=50)


def test_partitions_and_deletions_take_permits_too(kit):
    client = Named(kit, "busy")
    create(client, "a", "b", partitions=20)
    limit(kit, None, "busy", controller_mutation_rate=1)
    grow = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name="a", count=60, assignments=None)], timeout_ms=1000
    )
    assert client.ask(grow, 3).results[0].error_code == 0
    delete = DeleteTopicsRequest(topics=[DeleteTopicState(name="b")], timeout_ms=1000)
    other = Named(kit, "busy")
    answer = other.ask(delete, 6)
    assert answer.responses[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert answer.throttle_time_ms > 0
    assert "b" in kit.node.topics.by_name


def test_topics_made_by_asking_for_them_take_permits_too(kit):
    limit(kit, None, "busy", controller_mutation_rate=1)
    client = Named(kit, "busy")

    def ask(*names):
        topics = [MetadataRequestTopic(name=name) for name in names]
        return client.ask(MetadataRequest(topics=topics, allow_auto_topic_creation=True), 9)

    assert ask(*[f"new-{number}" for number in range(11)]).throttle_time_ms == 0
    assert ask("new-0", "new-1").throttle_time_ms == 0  # they are there
    answer = ask("one", "more")
    assert [topic.error_code for topic in answer.topics] == [0, 0]
    assert answer.throttle_time_ms > 0
    request = CreateTopicsRequest(
        topics=[CreatableTopic(name="last", num_partitions=1, replication_factor=1)], timeout_ms=1
    )
    (refused,) = Named(kit, "busy").ask(request, 7).topics
    assert refused.error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED


def test_checking_only_takes_no_permits(kit):
    limit(kit, None, "busy", controller_mutation_rate=1)
    client = Named(kit, "busy")
    topics = [CreatableTopic(name="a", num_partitions=500, replication_factor=1)]
    for _ in range(3):
        request = CreateTopicsRequest(topics=topics, timeout_ms=1000, validate_only=True)
        assert client.ask(request, 7).throttle_time_ms == 0


def test_what_is_remembered_of_clients_is_bounded(kit, monkeypatch):
    monkeypatch.setattr(quotas, "REMEMBERED_MAX", 5)
    limit(kit, None, DEFAULT, producer_byte_rate=1000)
    for number in range(20):
        Named(kit, f"c{number}").produce(b"")
    assert 0 < len(list(kit.node.quotas.counted())) <= 5


def test_long_client_ids_are_remembered_in_part(kit):
    limit(kit, None, DEFAULT, producer_byte_rate=1000)
    Named(kit, f"a{'x' * 30_000}").produce(b"")
    Named(kit, f"b{'x' * 30_000}").produce(b"")
    found = [client_id for _, _, client_id, _ in kit.node.quotas.counted()]
    assert [client_id[0] for client_id in found] == ["a", "b"]
    assert max(map(len, found)) <= quotas.CLIENT_ID_MAX


def test_those_who_share_a_quota_share_it_also_after_much_was_forgotten(kit, monkeypatch):
    monkeypatch.setattr(quotas, "REMEMBERED_MAX", 4)
    limit(kit, "alice", producer_byte_rate=1000)
    limit(kit, None, DEFAULT, producer_byte_rate=1000)
    first, second = Named(kit, "a", "alice"), Named(kit, "b", "alice")
    first.produce(b"")
    second.produce(b"")
    for number in range(20):
        Named(kit, f"c{number}").produce(b"")
    first.produce(bytes(9000))
    assert second.produce(bytes(9000)).throttle_time_ms > 0


def test_without_a_quota_for_it_a_client_has_no_bill(kit):
    limit(kit, None, "greedy", producer_byte_rate=1)
    assert Named(kit, "quiet").produce().throttle_time_ms == 0
    assert list(kit.node.quotas.counted()) == []


@pytest.mark.parametrize("key", [PRODUCE, FETCH, REQUEST, MUTATION])
def test_each_kind_is_counted_under_its_key(kit, key):
    limit(kit, None, "c", **{key: 10})
    Named(kit, "c").produce()
    assert [(k, user, client) for k, user, client, _ in kit.node.quotas.counted()] == [
        (key, None, "c")
    ]
