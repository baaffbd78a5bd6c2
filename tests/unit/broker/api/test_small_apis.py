"""ApiVersions, InitProducerId, ListOffsets, Metadata and CreateTopics: what Kafka's clients rely on first."""

import pytest
from node_kit import NodeKit

from barnabas.broker import dispatch
from barnabas.model.errors import ErrorCode
from barnabas.sim.world import START_MS
from barnabas.wire.messages.api_versions import ApiVersionsRequest
from barnabas.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest
from barnabas.wire.messages.metadata import MetadataRequest, MetadataRequestTopic


@pytest.fixture
def kit():
    return NodeKit()


def software(name="test", version="1.0"):
    return ApiVersionsRequest(client_software_name=name, client_software_version=version)


@pytest.mark.parametrize("version", range(5))
def test_what_is_served_is_told(kit, version):
    answer = kit.ask(software(), version)
    told = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
    assert answer.error_code == 0
    assert told == {key: (low, high) for key, low, high in dispatch.advertised()}
    assert told[0][0] == 0, "librdkafka 2.0 to 2.6 need to see Produce from 0 on"


@pytest.mark.parametrize("name", ["", "-x", "x y", "é"])
def test_clients_must_have_a_proper_name(kit, name):
    assert kit.ask(software(name), 3).error_code == ErrorCode.INVALID_REQUEST


def test_a_newer_client_is_told_which_versions_to_try(kit):
    kit.client.sent.append((18, 0))
    kit.client.connection.send(b"\x00\x12\x00\x63\x00\x00\x00\x01\xff\xff\x00anything at all")
    kit.run(lambda: kit.client.answers)
    answer = kit.client.answers[0]
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(a.api_key, a.min_version, a.max_version) for a in answer.api_keys] == [(18, 0, 5)]


def test_producer_ids_are_never_given_twice(kit):
    request = InitProducerIdRequest(transactional_id=None)
    given = [kit.ask(request, 4).producer_id for _ in range(3)]
    kit.restart()
    given.append(kit.ask(request, 4).producer_id)
    kit.crash()
    given.append(kit.ask(request, 4).producer_id)
    assert len(set(given)) == 5
    assert min(given) >= 0


def test_transactional_ids_are_refused(kit):
    for transactional_id in ("", "tx"):
        answer = kit.ask(InitProducerIdRequest(transactional_id=transactional_id), 4)
        assert answer.error_code != 0
        assert answer.producer_id == -1


def test_offsets_by_time(kit):
    kit.create("t")
    for number in range(5):
        kit.produce("t", timestamp=START_MS + 10 * number)
    assert kit.offset("t", START_MS + 15) == 2
    assert kit.offset("t", START_MS) == 0
    assert kit.offset("t", START_MS + 41) == -1
    assert kit.offset("t", -3) == 4
    assert (kit.offset("t", -2), kit.offset("t", -1)) == (0, 5)


def topics(answer):
    return {topic.name: topic for topic in answer.topics}


def test_metadata_of_all_topics_and_of_some(kit):
    ids = {name: kit.create(name, partitions=2) for name in ("a", "b")}
    every = kit.ask(MetadataRequest(topics=None, allow_auto_topic_creation=False), 12)
    assert {name: topic.topic_id for name, topic in topics(every).items()} == ids
    assert [b.node_id for b in every.brokers] == [every.controller_id] == [1]
    assert every.cluster_id == kit.node.cluster_id
    asked = [MetadataRequestTopic(name="b"), MetadataRequestTopic(name="nosuch")]
    some = topics(kit.ask(MetadataRequest(topics=asked, allow_auto_topic_creation=False), 12))
    assert [p.leader_id for p in some["b"].partitions] == [1, 1]
    assert some["nosuch"].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    none = kit.ask(MetadataRequest(topics=[], allow_auto_topic_creation=False), 12)
    assert none.topics == []


def test_metadata_creates_a_topic_if_it_may(kit):
    asked = MetadataRequest(
        topics=[MetadataRequestTopic(name="new")], allow_auto_topic_creation=True
    )
    answer = topics(kit.ask(asked, 12))["new"]
    assert (answer.error_code, len(answer.partitions)) == (0, 1)
    assert kit.produce("new").error_code == 0


def test_metadata_does_not_create_if_the_broker_says_no():
    kit = NodeKit(auto_create_topics_enable="false")
    asked = MetadataRequest(
        topics=[MetadataRequestTopic(name="new")], allow_auto_topic_creation=True
    )
    assert topics(kit.ask(asked, 12))["new"].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_two_clients_that_create_the_same_topic_get_one(kit):
    asked = MetadataRequest(
        topics=[MetadataRequestTopic(name="new")], allow_auto_topic_creation=True
    )
    other = kit.new_client()
    for client in (kit.client, other):
        client.send(asked, 12)
    kit.run(lambda: kit.client.answers and other.answers)
    codes = {client.answers[0].topics[0].error_code for client in (kit.client, other)}
    assert codes <= {ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE}
    assert list(kit.node.topics.by_name) == ["new"]


def create(kit, *wanted, validate_only=False):
    request = CreateTopicsRequest(topics=list(wanted), timeout_ms=1000, validate_only=validate_only)
    return [ErrorCode(topic.error_code) for topic in kit.ask(request, 7).topics]


def topic(name, partitions=1, replicas=1, **fields):
    return CreatableTopic(
        name=name, num_partitions=partitions, replication_factor=replicas, **fields
    )


def assignment(*brokers):
    return [
        CreatableReplicaAssignment(partition_index=index, broker_ids=list(ids))
        for index, ids in enumerate(brokers)
    ]


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (topic("ok"), ErrorCode.NONE),
        (topic("defaults", -1, -1), ErrorCode.NONE),
        (topic("assigned", -1, -1, assignments=assignment([1], [1])), ErrorCode.NONE),
        (topic("../x"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("x" * 250), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("none", 0), ErrorCode.INVALID_PARTITIONS),
        (topic("many", 1, 3), ErrorCode.INVALID_REPLICATION_FACTOR),
        (topic("zero", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (topic("huge", 10_001), ErrorCode.POLICY_VIOLATION),
        (topic("both", 2, 1, assignments=assignment([1])), ErrorCode.INVALID_REQUEST),
        (topic("who", -1, -1, assignments=assignment([7])), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic("twice", -1, -1, assignments=assignment([1, 1])), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic("bad", configs=[CreatableTopicConfig(name="retention.ms", value="soon")]), ErrorCode.INVALID_CONFIG),
        (topic("odd", configs=[CreatableTopicConfig(name="no.such", value="1")]), ErrorCode.INVALID_CONFIG),
    ],
    ids=lambda value: getattr(value, "name", None),
)  # fmt: skip
def test_what_may_be_created(kit, wanted, code):
    assert create(kit, wanted, validate_only=True) == [code]
    assert not kit.node.topics.by_name
    assert create(kit, wanted) == [code]
    assert (wanted.name in kit.node.topics.by_name) == (code == ErrorCode.NONE)


def test_a_refused_topic_does_not_hold_up_the_others(kit):
    assert create(kit, topic("a"), topic("."), topic("b")) == [
        ErrorCode.NONE,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.NONE,
    ]
    assert create(kit, topic("a")) == [ErrorCode.TOPIC_ALREADY_EXISTS]


def test_names_that_metrics_could_not_tell_apart_collide(kit):
    assert create(kit, topic("a.b"), topic("a_b")) == [
        ErrorCode.NONE,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
    ]


def test_a_disk_without_room_leaves_no_topic(kit):
    kit.disk.capacity_bytes = kit.disk.used_bytes
    assert create(kit, topic("t")) == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert not kit.node.topics.by_name
    kit.disk.capacity_bytes = 1 << 30
    assert create(kit, topic("t")) == [ErrorCode.NONE]
