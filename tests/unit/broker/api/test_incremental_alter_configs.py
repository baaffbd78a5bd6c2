"""IncrementalAlterConfigs: in force at once and after a restart, and no change undoes another."""

import pytest
from node_kit import NodeKit

from barnabas.model.errors import ErrorCode
from barnabas.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

TOPIC, BROKER = 2, 4
SET, DELETE, APPEND = 0, 1, 2


def request(kind, name, *changes, validate_only=False):
    configs = [
        AlterableConfig(name=key, config_operation=operation, value=value)
        for key, operation, value in changes
    ]
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    return IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)


def code(answer):
    return ErrorCode(answer.responses[0].error_code)


@pytest.fixture
def kit():
    kit = NodeKit()
    kit.create("t", partitions=2)
    kit.create("other", retention_ms="5")
    return kit


def retention(kit, name="t"):
    return {replica.config.retention_ms for replica in kit.node.replicas.of_topic(name)}


def test_a_topics_setting_is_in_force_at_once_and_after_a_restart(kit):
    answer = kit.ask(request(TOPIC, "t", ("max.message.bytes", SET, "50")), 1)
    assert code(answer) == ErrorCode.NONE
    assert kit.produce("t").error_code == ErrorCode.MESSAGE_TOO_LARGE
    kit.restart()
    assert kit.produce("t").error_code == ErrorCode.MESSAGE_TOO_LARGE
    kit.ask(request(TOPIC, "t", ("max.message.bytes", DELETE, None)), 1)
    assert kit.produce("t").error_code == 0


def test_a_brokers_setting_reaches_the_topics_that_do_not_say_otherwise(kit):
    assert code(kit.ask(request(BROKER, "", ("log.retention.ms", SET, "1000")), 1)) == 0
    assert (retention(kit), retention(kit, "other")) == ({1000}, {5})
    assert code(kit.ask(request(BROKER, "1", ("log.retention.ms", SET, "2000")), 1)) == 0
    assert retention(kit) == {2000}
    kit.create("new")
    assert retention(kit, "new") == {2000}
    kit.restart()
    assert (retention(kit), retention(kit, "other")) == ({2000}, {5})
    kit.ask(request(BROKER, "1", ("log.retention.ms", DELETE, None)), 1)
    assert retention(kit) == {1000}


def test_validate_only_changes_nothing(kit):
    change = ("retention.ms", SET, "1000")
    assert code(kit.ask(request(TOPIC, "t", change, validate_only=True), 1)) == ErrorCode.NONE
    change = ("log.retention.ms", SET, "1000")
    assert code(kit.ask(request(BROKER, "", change, validate_only=True), 1)) == ErrorCode.NONE
    assert retention(kit) == {604_800_000}


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ((TOPIC, "t", ("no.such", SET, "1")), ErrorCode.INVALID_CONFIG),
        ((TOPIC, "t", ("retention.ms", SET, "x")), ErrorCode.INVALID_CONFIG),
        ((TOPIC, "t", ("retention.ms", APPEND, "1")), ErrorCode.INVALID_CONFIG),
        ((TOPIC, "t", ("retention.ms", SET, None)), ErrorCode.INVALID_REQUEST),
        ((TOPIC, "t", ("retention.ms", 7, "1")), ErrorCode.INVALID_REQUEST),
        ((TOPIC, "nosuch", ("retention.ms", SET, "1")), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ((TOPIC, "a b", ("retention.ms", SET, "1")), ErrorCode.INVALID_TOPIC_EXCEPTION),
        ((TOPIC, "", ("retention.ms", SET, "1")), ErrorCode.INVALID_REQUEST),
        ((BROKER, "1", ("num.partitions", SET, "3")), ErrorCode.INVALID_REQUEST),
        ((BROKER, "7", ("log.retention.ms", SET, "3")), ErrorCode.INVALID_REQUEST),
        ((BROKER, "one", ("log.retention.ms", SET, "3")), ErrorCode.INVALID_REQUEST),
        ((8, "1", ("root", SET, "INFO")), ErrorCode.INVALID_REQUEST),
        ((99, "x"), ErrorCode.INVALID_REQUEST),
    ],
)
def test_refused(kit, asked, expected):
    answer = kit.ask(request(*asked), 1)
    assert code(answer) == expected
    assert answer.responses[0].error_message
    assert retention(kit) == {604_800_000}


def test_one_resource_twice_is_refused_both_times(kit):
    asked = request(TOPIC, "t", ("retention.ms", SET, "1"))
    asked.resources *= 2
    answer = kit.ask(asked, 1)
    assert [one.error_code for one in answer.responses] == [ErrorCode.INVALID_REQUEST] * 2


def test_changes_at_the_same_time_all_count():
    changes = [("retention.ms", "1000"), ("segment.ms", "2000"), ("max.message.bytes", "3000")]
    for seed in range(10):
        kit = NodeKit(seed)
        kit.create("t")
        clients = [kit.new_client() for _ in changes]
        for client, (name, value) in zip(clients, changes, strict=True):
            client.send(request(TOPIC, "t", (name, SET, value)), 1)
        kit.run(lambda clients=clients: all(client.answers for client in clients))
        assert kit.node.topics.by_name["t"].overrides == dict(changes)
        kit.restart()
        assert kit.node.topics.by_name["t"].overrides == dict(changes)
