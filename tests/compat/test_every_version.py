"""Every advertised version of every API of a single node answers, with what Kafka answers.

Stock clients pick one version each; these tests ask in all of them, from the oldest that Kafka 4 serves.
"""

import struct

import pytest
from compat.wire_client import WireClient

from barnabas.wire import batch
from barnabas.wire.messages import (
    alter_configs,
    api_versions,
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_log_dirs,
    describe_topic_partitions,
    fetch,
    incremental_alter_configs,
    init_producer_id,
    list_offsets,
    metadata,
    offset_for_leader_epoch,
    produce,
)

NO_ERROR, OFFSET_OUT_OF_RANGE, UNKNOWN_TOPIC_OR_PARTITION = 0, 1, 3
UNSUPPORTED_VERSION, UNKNOWN_TOPIC_ID = 35, 100
TOPIC_RESOURCE = 2
TIMESTAMP_MS = 1_600_000_000_000
TIMEOUT_MS = 10_000
# Below these, clients are told a version that is there only for librdkafka's sake (Produce), or none at all.
SERVED_FROM = {0: 3}


@pytest.fixture
def client(bootstrap):
    connection = WireClient(bootstrap)
    yield connection
    connection.close()


@pytest.fixture
def versions(client):
    """The versions the broker advertises of an API, as far as our messages know them."""
    advertised = {
        api.api_key: range(
            max(api.min_version, SERVED_FROM.get(api.api_key, 0)), api.max_version + 1
        )
        for api in client.ask(api_versions.ApiVersionsRequest(), 0).api_keys
    }

    def of(request_type):
        known = range(request_type.MIN_VERSION, request_type.MAX_VERSION + 1)
        found = [v for v in advertised[request_type.API_KEY] if v in known]
        assert found
        return found

    return of


def create(client, name, version=7, partitions=2):
    topic = create_topics.CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    request = create_topics.CreateTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_MS)
    (result,) = client.ask(request, version).topics
    assert (result.name, result.error_code) == (name, NO_ERROR)
    # Creation is answered before the broker leads the partitions, as in Kafka.
    while describe(client, name).error_code != NO_ERROR:
        pass
    for index in range(partitions):
        while client.ask(offsets(name, -1, index), 5).topics[0].partitions[0].error_code:
            pass
    return result


def describe(client, name, version=12):
    topics = [metadata.MetadataRequestTopic(name=name)]
    request = metadata.MetadataRequest(topics=topics, allow_auto_topic_creation=version < 4)
    return client.ask(request, version).topics[0]


@pytest.fixture
def topic(client, topic_name):
    create(client, topic_name)
    return topic_name


def records(count=3):
    made = [batch.Record(i, TIMESTAMP_MS + i, b"k", b"v%d" % i, ()) for i in range(count)]
    return bytes(batch.build(made))


def write(client, name, version=11, topic_id=bytes(16), acks=-1):
    data = produce.PartitionProduceData(index=0, records=records())
    topic = produce.TopicProduceData(partition_data=[data])
    if version >= 13:
        topic.topic_id = topic_id
    else:
        topic.name = name
    return produce.ProduceRequest(acks=acks, timeout_ms=TIMEOUT_MS, topic_data=[topic])


def test_api_versions(client, versions):
    asked = api_versions.ApiVersionsRequest(
        client_software_name="tests", client_software_version="1"
    )
    served = versions(api_versions.ApiVersionsRequest)
    first = client.ask(asked, served[0])
    for version in served:
        answer = client.ask(asked, version)
        assert answer.error_code == NO_ERROR
        assert answer.api_keys == first.api_keys


def test_api_versions_of_the_future(client):
    """The refusal is in version 0 and says which versions there are, so that a newer client can try again."""
    client.socket.sendall(struct.pack(">ihhihb", 11, 18, 99, 7, -1, 0))
    data = client.receive()
    assert data[:4] == struct.pack(">i", 7)
    answer = api_versions.ApiVersionsResponse.decode(data, 0, 4)
    assert answer.error_code == UNSUPPORTED_VERSION
    (own,) = [api for api in answer.api_keys if api.api_key == 18]
    assert own.max_version >= 3
    assert client.ask(api_versions.ApiVersionsRequest(), 0).error_code == NO_ERROR


def test_metadata(client, versions, topic, bootstrap):
    for version in versions(metadata.MetadataRequest):
        found = describe(client, topic, version)
        assert (found.error_code, found.name, len(found.partitions)) == (NO_ERROR, topic, 2)
        everything = metadata.MetadataRequest(topics=[] if version == 0 else None)
        answer = client.ask(everything, version)
        assert topic in [each.name for each in answer.topics]
        (node,) = answer.brokers
        assert f"{node.host}:{node.port}" == bootstrap
        if version >= 1:
            assert client.ask(metadata.MetadataRequest(topics=[]), version).topics == []


def test_metadata_of_an_unknown_topic(client, versions, topic_name):
    for version in versions(metadata.MetadataRequest):
        if version >= 4:  # before, asking was creating
            assert describe(client, topic_name, version).error_code == UNKNOWN_TOPIC_OR_PARTITION
        if version >= 12:
            by_id = metadata.MetadataRequestTopic(topic_id=b"\x05" * 16, name=None)
            (found,) = client.ask(metadata.MetadataRequest(topics=[by_id]), version).topics
            assert (found.error_code, found.name) == (UNKNOWN_TOPIC_ID, None)


def test_produce(client, versions, topic):
    topic_id = describe(client, topic).topic_id
    for count, version in enumerate(versions(produce.ProduceRequest)):
        answer = client.ask(write(client, topic, version, topic_id), version)
        (part,) = answer.responses[0].partition_responses
        assert (part.error_code, part.base_offset, part.log_append_time_ms) == (0, 3 * count, -1)


def test_produce_without_acks_has_no_answer(client, versions, topic):
    topic_id = describe(client, topic).topic_id
    for version in versions(produce.ProduceRequest):
        client.send(write(client, topic, version, topic_id, acks=0), version)
        # The next answer on the connection is that of the next request.
        assert client.ask(api_versions.ApiVersionsRequest(), 0).error_code == NO_ERROR


def test_produce_to_what_is_not_there(client, versions, topic_name):
    for version in versions(produce.ProduceRequest):
        answer = client.ask(write(client, topic_name, version, b"\x05" * 16), version)
        (part,) = answer.responses[0].partition_responses
        expected = UNKNOWN_TOPIC_ID if version >= 13 else UNKNOWN_TOPIC_OR_PARTITION
        assert (part.error_code, part.base_offset) == (expected, -1)


def read(topic, topic_id, version, offset):
    part = fetch.FetchPartition(
        partition=0, fetch_offset=offset, partition_max_bytes=10**6, log_start_offset=-1
    )
    wanted = fetch.FetchTopic(partitions=[part])
    if version >= 13:
        wanted.topic_id = topic_id
    else:
        wanted.topic = topic
    return fetch.FetchRequest(
        max_wait_ms=10, min_bytes=1, max_bytes=10**6, session_epoch=-1, topics=[wanted]
    )


def test_fetch(client, versions, topic):
    topic_id = describe(client, topic).topic_id
    client.ask(write(client, topic), 11)
    for version in versions(fetch.FetchRequest):
        for offset in (0, 1, 2):  # inside the batch as well: it comes whole
            answer = client.ask(read(topic, topic_id, version, offset), version)
            (part,) = answer.responses[0].partitions
            assert (part.error_code, part.high_watermark) == (NO_ERROR, 3)
            found = batch.read_records(memoryview(part.records), 10**6)
            assert [r.value for r in found] == [b"v0", b"v1", b"v2"]
            assert found[0].offset == 0
            assert part.aborted_transactions is None  # asked for by read_committed only
        committed = read(topic, topic_id, version, 0)
        committed.isolation_level = 1
        (part,) = client.ask(committed, version).responses[0].partitions
        assert (part.error_code, part.aborted_transactions) == (NO_ERROR, [])
        (part,) = client.ask(read(topic, topic_id, version, 3), version).responses[0].partitions
        assert (part.error_code, part.high_watermark, bytes(part.records or b"")) == (0, 3, b"")
        (part,) = client.ask(read(topic, topic_id, version, 9), version).responses[0].partitions
        assert (part.error_code, part.high_watermark) == (OFFSET_OUT_OF_RANGE, -1)


def test_fetch_of_what_is_not_there(client, versions, topic_name):
    for version in versions(fetch.FetchRequest):
        answer = client.ask(read(topic_name, b"\x05" * 16, version, 0), version)
        (part,) = answer.responses[0].partitions
        expected = UNKNOWN_TOPIC_ID if version >= 13 else UNKNOWN_TOPIC_OR_PARTITION
        assert part.error_code == expected


def test_fetch_session(client, versions, topic):
    """A session remembers its partitions, and says only what changed."""
    topic_id = describe(client, topic).topic_id
    for version in [v for v in versions(fetch.FetchRequest) if v >= 7]:
        first = read(topic, topic_id, version, 0)
        first.session_epoch = 0
        opened = client.ask(first, version)
        assert (opened.error_code, len(opened.responses)) == (NO_ERROR, 1)
        assert opened.session_id > 0
        again = fetch.FetchRequest(
            max_wait_ms=10,
            min_bytes=1,
            max_bytes=10**6,
            session_id=opened.session_id,
            session_epoch=1,
        )
        before = describe_end(client, topic)
        # Everything that is already there is due once more: the position has not moved.
        assert len(client.ask(again, version).responses) == (1 if before else 0)
        client.ask(write(client, topic), 11)
        again.session_epoch = 2
        (changed,) = client.ask(again, version).responses
        assert changed.partitions[0].high_watermark == before + 3
        again.session_epoch = 7
        assert client.ask(again, version).error_code == 71  # INVALID_FETCH_SESSION_EPOCH
        again.session_id += 1
        assert client.ask(again, version).error_code == 70  # FETCH_SESSION_ID_NOT_FOUND


def describe_end(client, topic):
    (part,) = client.ask(offsets(topic, -1), 5).topics[0].partitions
    return part.offset


def offsets(topic, timestamp, index=0):
    part = list_offsets.ListOffsetsPartition(partition_index=index, timestamp=timestamp)
    wanted = list_offsets.ListOffsetsTopic(name=topic, partitions=[part])
    return list_offsets.ListOffsetsRequest(replica_id=-1, topics=[wanted])


def test_list_offsets(client, versions, topic):
    client.ask(write(client, topic), 11)
    specials = {
        7: [(-3, 2, TIMESTAMP_MS + 2)],
        8: [(-4, 0, -1)],
        9: [(-5, -1, -1)],
        11: [(-6, -1, -1)],
    }
    for version in versions(list_offsets.ListOffsetsRequest):
        cases = [(-2, 0, -1), (-1, 3, -1), (TIMESTAMP_MS + 1, 1, TIMESTAMP_MS + 1)]
        cases += [(TIMESTAMP_MS + 99, -1, -1), (0, 0, TIMESTAMP_MS)]
        cases += [case for since, more in specials.items() if version >= since for case in more]
        for asked, offset, timestamp in cases:
            (part,) = client.ask(offsets(topic, asked), version).topics[0].partitions
            assert (version, asked, part.error_code, part.offset, part.timestamp) == (
                (version, asked, NO_ERROR, offset, timestamp)
            )


def test_create_and_delete_topics(client, versions, topic_name):
    for version in versions(create_topics.CreateTopicsRequest):
        name = f"{topic_name}-{version}"
        result = create(client, name, version)
        if version >= 5:
            assert (result.num_partitions, result.replication_factor) == (2, 1)
            assert "cleanup.policy" in [config.name for config in result.configs]
        if version >= 7:
            assert result.topic_id == describe(client, name).topic_id
    for version in versions(delete_topics.DeleteTopicsRequest):
        name = f"{topic_name}-d{version}"
        create(client, name)
        request = delete_topics.DeleteTopicsRequest(timeout_ms=TIMEOUT_MS)
        if version >= 6:
            request.topics = [delete_topics.DeleteTopicState(name=name)]
        else:
            request.topic_names = [name]
        (result,) = client.ask(request, version).responses
        assert (result.name, result.error_code) == (name, NO_ERROR)


def test_create_partitions(client, versions, topic):
    for total, version in enumerate(versions(create_partitions.CreatePartitionsRequest), 3):
        wanted = create_partitions.CreatePartitionsTopic(name=topic, count=total, assignments=None)
        request = create_partitions.CreatePartitionsRequest(topics=[wanted], timeout_ms=TIMEOUT_MS)
        (result,) = client.ask(request, version).results
        assert (result.name, result.error_code) == (topic, NO_ERROR)
        while len(describe(client, topic).partitions) != total:
            pass


def test_delete_records(client, versions, topic):
    client.ask(write(client, topic), 11)
    for offset, version in enumerate(versions(delete_records.DeleteRecordsRequest), 1):
        part = delete_records.DeleteRecordsPartition(partition_index=0, offset=offset)
        wanted = delete_records.DeleteRecordsTopic(name=topic, partitions=[part])
        request = delete_records.DeleteRecordsRequest(topics=[wanted], timeout_ms=TIMEOUT_MS)
        (result,) = client.ask(request, version).topics[0].partitions
        assert (result.error_code, result.low_watermark) == (NO_ERROR, offset)


def configs(client, topic, version, name="retention.ms"):
    wanted = describe_configs.DescribeConfigsResource(
        resource_type=TOPIC_RESOURCE, resource_name=topic, configuration_keys=[name]
    )
    request = describe_configs.DescribeConfigsRequest(resources=[wanted])
    if version >= 1:
        request.include_synonyms = True
    if version >= 3:
        request.include_documentation = True
    (result,) = client.ask(request, version).results
    assert result.error_code == NO_ERROR
    (config,) = result.configs
    return config


def test_configs(client, versions, topic):
    for version in versions(describe_configs.DescribeConfigsRequest):
        assert configs(client, topic, version).value == "604800000"
        config = configs(client, topic, version, "max.message.bytes")
        assert (config.name, config.value) == ("max.message.bytes", "1048588")
        if version >= 1:
            assert config.config_source == 5  # the default
            assert [s.name for s in config.synonyms] == ["message.max.bytes"]
        if version >= 3:
            assert (config.config_type, bool(config.documentation)) == (3, True)  # INT
    for version in versions(alter_configs.AlterConfigsRequest):
        value = str(5000 + version)
        change = alter_configs.AlterableConfig(name="retention.ms", value=value)
        resource = alter_configs.AlterConfigsResource(
            resource_type=TOPIC_RESOURCE, resource_name=topic, configs=[change]
        )
        request = alter_configs.AlterConfigsRequest(resources=[resource])
        (result,) = client.ask(request, version).responses
        assert (result.error_code, result.resource_name) == (NO_ERROR, topic)
        while configs(client, topic, 4).value != value:
            pass
    for version in versions(incremental_alter_configs.IncrementalAlterConfigsRequest):
        value = str(6000 + version)
        change = incremental_alter_configs.AlterableConfig(
            name="retention.ms", config_operation=0, value=value
        )
        resource = incremental_alter_configs.AlterConfigsResource(
            resource_type=TOPIC_RESOURCE, resource_name=topic, configs=[change]
        )
        request = incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[resource])
        (result,) = client.ask(request, version).responses
        assert (result.error_code, result.resource_name) == (NO_ERROR, topic)
        while configs(client, topic, 4).value != value:
            pass


def test_describe_cluster_and_log_dirs(client, versions, topic, bootstrap):
    for version in versions(describe_cluster.DescribeClusterRequest):
        answer = client.ask(describe_cluster.DescribeClusterRequest(), version)
        (node,) = answer.brokers
        assert (answer.error_code, f"{node.host}:{node.port}") == (NO_ERROR, bootstrap)
    for version in versions(describe_log_dirs.DescribeLogDirsRequest):
        wanted = describe_log_dirs.DescribableLogDirTopic(topic=topic, partitions=[1])
        answer = client.ask(describe_log_dirs.DescribeLogDirsRequest(topics=[wanted]), version)
        (result,) = answer.results
        assert result.error_code == NO_ERROR
        assert [(t.name, [p.partition_index for p in t.partitions]) for t in result.topics] == [
            (topic, [1])
        ]
    for version in versions(describe_topic_partitions.DescribeTopicPartitionsRequest):
        wanted = describe_topic_partitions.TopicRequest(name=topic)
        request = describe_topic_partitions.DescribeTopicPartitionsRequest(topics=[wanted])
        (found,) = client.ask(request, version).topics
        assert (found.error_code, len(found.partitions)) == (NO_ERROR, 2)


def test_offset_for_leader_epoch(client, versions, topic):
    client.ask(write(client, topic), 11)
    for version in versions(offset_for_leader_epoch.OffsetForLeaderEpochRequest):
        part = offset_for_leader_epoch.OffsetForLeaderPartition(partition=0, leader_epoch=0)
        wanted = offset_for_leader_epoch.OffsetForLeaderTopic(topic=topic, partitions=[part])
        request = offset_for_leader_epoch.OffsetForLeaderEpochRequest(topics=[wanted])
        if version >= 3:
            request.replica_id = -1
        (found,) = client.ask(request, version).topics[0].partitions
        assert (found.error_code, found.leader_epoch, found.end_offset) == (NO_ERROR, 0, 3)


def test_init_producer_id(client, versions):
    seen = set()
    for version in versions(init_producer_id.InitProducerIdRequest):
        request = init_producer_id.InitProducerIdRequest(
            transactional_id=None, transaction_timeout_ms=60_000
        )
        answer = client.ask(request, version)
        assert (answer.error_code, answer.producer_epoch) == (NO_ERROR, 0)
        seen.add(answer.producer_id)
    assert len(seen) == len(versions(init_producer_id.InitProducerIdRequest))
