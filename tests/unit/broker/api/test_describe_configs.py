"""DescribeConfigs: values with their sources; what is not asked for is left out."""

import pytest
from node_kit import NodeKit

from barnabas.model.errors import ErrorCode
from barnabas.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

TOPIC, BROKER = 2, 4
TOPIC_SOURCE, STATIC_SOURCE, DEFAULT_SOURCE = 1, 4, 5


def describe(kit, kind, name, keys=None, **fields):
    resource = DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=keys
    )
    return kit.ask(DescribeConfigsRequest(resources=[resource], **fields), 4).results[0]


@pytest.fixture
def kit():
    kit = NodeKit(num_partitions="3")
    kit.create("t", retention_ms="5")
    return kit


def test_a_topic(kit):
    found = {one.name: one for one in describe(kit, TOPIC, "t").configs}
    assert (found["retention.ms"].value, found["retention.ms"].config_source) == ("5", TOPIC_SOURCE)
    assert found["segment.ms"].config_source == DEFAULT_SOURCE
    assert not found["retention.ms"].synonyms
    assert found["retention.ms"].documentation is None


def test_only_what_is_asked_for_and_all_about_it(kit):
    told = {"include_synonyms": True, "include_documentation": True}
    (one,) = describe(kit, TOPIC, "t", ["retention.ms", "no.such"], **told).configs
    assert [synonym.name for synonym in one.synonyms] == ["retention.ms", "log.retention.ms"][
        : len(one.synonyms)
    ]
    assert one.documentation


def test_this_broker_and_all_brokers(kit):
    (one,) = describe(kit, BROKER, "1", ["num.partitions"]).configs
    assert (one.value, one.config_source, one.read_only) == ("3", STATIC_SOURCE, True)
    assert describe(kit, BROKER, "").configs == []


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "nosuch", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "7", ErrorCode.INVALID_REQUEST),
        (BROKER, "x", ErrorCode.INVALID_REQUEST),
        (8, "1", ErrorCode.INVALID_REQUEST),
        (32, "", ErrorCode.INVALID_REQUEST),
        (3, "x", ErrorCode.INVALID_REQUEST),
    ],
)
def test_refused(kit, kind, name, code):
    result = describe(kit, kind, name)
    assert result.error_code == code
    assert result.error_message
    assert result.configs == []
