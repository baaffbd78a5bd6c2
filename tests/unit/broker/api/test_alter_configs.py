"""AlterConfigs: what it names takes the place of everything set before."""

from node_kit import NodeKit

from barnabas.model.errors import ErrorCode
from barnabas.wire.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
)

TOPIC, BROKER = 2, 4


def request(kind, name, validate_only=False, **configs):
    texts = [
        AlterableConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()
    ]
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=texts)
    return AlterConfigsRequest(resources=[resource], validate_only=validate_only)


def code(answer):
    return ErrorCode(answer.responses[0].error_code)


def test_all_settings_of_a_topic_are_replaced():
    kit = NodeKit()
    kit.create("t", retention_ms="5", segment_ms="7")
    assert code(kit.ask(request(TOPIC, "t", retention_ms="9"), 2)) == ErrorCode.NONE
    assert kit.node.topics.by_name["t"].overrides == {"retention.ms": "9"}
    config = kit.node.replicas.get("t", 0).config
    assert (config.retention_ms, config.segment_ms) == (9, 604_800_000)
    assert kit.node.replicas.get("t", 0).log.config is config


def test_refused_or_only_checked_changes_nothing():
    kit = NodeKit()
    kit.create("t", retention_ms="5")
    assert code(kit.ask(request(TOPIC, "t", retention_ms="x"), 2)) == ErrorCode.INVALID_CONFIG
    assert code(kit.ask(request(TOPIC, "t", retention_ms=None), 2)) == ErrorCode.INVALID_REQUEST
    assert code(kit.ask(request(TOPIC, "t", True, retention_ms="9"), 2)) == ErrorCode.NONE
    assert code(kit.ask(request(BROKER, "1", node_id="9"), 2)) == ErrorCode.INVALID_REQUEST
    assert kit.node.topics.by_name["t"].overrides == {"retention.ms": "5"}


def test_all_dynamic_settings_of_a_broker_are_replaced():
    kit = NodeKit()
    kit.ask(request(BROKER, "", log_retention_ms="10", log_roll_ms="20"), 2)
    kit.ask(request(BROKER, "", log_roll_ms="30"), 2)
    assert dict(kit.node.config.dynamic_default) == {"log.roll.ms": "30"}
    kit.restart()
    assert dict(kit.node.config.dynamic_default) == {"log.roll.ms": "30"}
