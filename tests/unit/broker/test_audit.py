"""The audit log tells of every administrative change, once, and never a value."""

import logging

import pytest
from acl_kit import AclKit, audited
from node_kit import NodeKit

from barnabas.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    OpData,
    RequestEntryData,
)
from barnabas.wire.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
)
from barnabas.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from barnabas.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest
from barnabas.wire.messages.incremental_alter_configs import (
    AlterableConfig as IncrementalConfig,
)
from barnabas.wire.messages.incremental_alter_configs import (
    AlterConfigsResource as IncrementalResource,
)
from barnabas.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from barnabas.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

SECRET = "12345678901"


@pytest.fixture(params=[NodeKit, AclKit])
def kit(request, caplog):
    caplog.set_level(logging.INFO, "barnabas.audit")
    return request.param()


def told(caplog):
    return [(line["action"], line["resource"]) for line in audited(caplog, "changed")]


def grow(*, validate_only=False):
    topic = CreatePartitionsTopic(name="t", count=2, assignments=None)
    return CreatePartitionsRequest(topics=[topic], timeout_ms=1000, validate_only=validate_only)


def test_the_life_of_a_topic(kit, caplog):
    kit.create("t")
    kit.produce("t")
    kit.ask(grow(validate_only=True), 3)
    kit.ask(grow(), 3)
    kit.ask(grow(), 3)  # refused: it has as many
    part = DeleteRecordsPartition(partition_index=0, offset=1)
    topic = DeleteRecordsTopic(name="t", partitions=[part])
    kit.ask(DeleteRecordsRequest(topics=[topic], timeout_ms=1000), 2)
    kit.ask(DeleteTopicsRequest(topic_names=["t", "nowhere"], timeout_ms=1000), 5)
    assert told(caplog) == [
        ("create", "Topic:t"),
        ("alter", "Topic:t"),
        ("delete-records", "Partition:t-0"),
        ("delete", "Topic:t"),
    ]


def test_topics_that_are_made_by_asking_for_them(kit, caplog):
    topics = [MetadataRequestTopic(name="t")]
    for _ in range(2):
        kit.ask(MetadataRequest(topics=topics, allow_auto_topic_creation=True), 9)
    assert told(caplog) == [("create", "Topic:t")]


def test_settings_are_named_and_not_told(kit, caplog):
    kit.create("t")
    caplog.clear()
    config = AlterableConfig(name="retention.ms", value=SECRET)
    one = AlterConfigsResource(resource_type=2, resource_name="t", configs=[config])
    for validate_only in (True, False):
        kit.ask(AlterConfigsRequest(resources=[one], validate_only=validate_only), 2)
    config = IncrementalConfig(name="log.retention.ms", config_operation=0, value=SECRET)
    one = IncrementalResource(resource_type=4, resource_name="", configs=[config])
    kit.ask(IncrementalAlterConfigsRequest(resources=[one]), 1)
    assert told(caplog) == [("alter", "TopicConfigs:t"), ("alter", "BrokerConfigs:")]
    lines = [r.getMessage() for r in caplog.records if r.name == "barnabas.audit"]
    assert '"settings": ["retention.ms"]' in lines[0]
    assert not any(SECRET in line for line in lines)


def test_quotas(kit, caplog):
    entry = RequestEntryData(
        entity=[EntityData(entity_type="user", entity_name=None)],
        ops=[OpData(key="producer_byte_rate", value=1.0)],
    )
    kit.ask(AlterClientQuotasRequest(entries=[entry]), 1)
    assert told(caplog) == [("alter", "ClientQuotas:user=<default>")]
