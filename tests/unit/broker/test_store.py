"""While the store cannot be written, changes are refused one by one, and nothing is half done."""

import pytest
from node_kit import NodeKit

from barnabas.model.errors import ErrorCode
from barnabas.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from barnabas.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest
from barnabas.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)


def grow(count):
    topic = CreatePartitionsTopic(name="t", count=count, assignments=None)
    return CreatePartitionsRequest(topics=[topic], timeout_ms=1000)


def alter(kind, name, key):
    change = AlterableConfig(name=key, config_operation=0, value="1000")
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=[change])
    return IncrementalAlterConfigsRequest(resources=[resource])


REQUESTS = [
    (
        CreateTopicsRequest(
            topics=[CreatableTopic(name="n", num_partitions=1, replication_factor=1)]
        ),
        7,
    ),
    (DeleteTopicsRequest(topic_names=["t"]), 5),
    (grow(3), 3),
    (alter(2, "t", "retention.ms"), 1),
    (alter(4, "1", "log.retention.ms"), 1),
]


def error_of(answer):
    (lists,) = [
        getattr(answer, name)
        for name in ("topics", "responses", "results")
        if hasattr(answer, name)
    ]
    return ErrorCode(lists[0].error_code)


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda one: type(one[0]).__name__)
def test_refused_while_it_lasts_and_done_afterwards(request_):
    kit = NodeKit()
    kit.create("t")
    kit.machine.store.out_of_order = True
    assert error_of(kit.ask(*request_)) == ErrorCode.KAFKA_STORAGE_ERROR
    assert kit.produce("t").error_code == 0
    assert len(kit.node.replicas) == 1
    kit.machine.store.out_of_order = False
    assert error_of(kit.ask(*request_)) == ErrorCode.NONE
