"""Access rules as people write them."""

import click
import pytest

from barnabas.cli.acl_words import (
    for_consumer,
    for_producer,
    operation_of,
    principal_of,
    resource_of,
    shown,
)
from barnabas.model.acl import Operation, PatternType, ResourcePattern, ResourceType


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("alice", "User:alice"),
        ("User:alice", "User:alice"),
        ("*", "User:*"),
        ("Group:g", "Group:g"),
    ],
)
def test_principals(text, expected):
    assert principal_of(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("topic:orders", ResourcePattern(ResourceType.TOPIC, "orders")),
        ("topic:*", ResourcePattern(ResourceType.TOPIC, "*")),
        ("topic:orders-*", ResourcePattern(ResourceType.TOPIC, "orders-", PatternType.PREFIXED)),
        ("group:a:b", ResourcePattern(ResourceType.GROUP, "a:b")),
        ("transactional-id:x", ResourcePattern(ResourceType.TRANSACTIONAL_ID, "x")),
        ("user:User:bob", ResourcePattern(ResourceType.USER, "User:bob")),
        ("cluster", ResourcePattern(ResourceType.CLUSTER, "kafka-cluster")),
    ],
)
def test_resources_read_and_written(text, expected):
    assert resource_of(text) == expected
    assert shown(expected) == text


def test_a_star_that_is_part_of_a_name():
    assert resource_of("group:g*", is_literal=True) == ResourcePattern(ResourceType.GROUP, "g*")


@pytest.mark.parametrize("text", ["orders", "topic:", "topic", "any:x", "table:x", "cluster:other"])
def test_what_is_no_resource(text):
    with pytest.raises(click.UsageError, match="is no resource"):
        resource_of(text)


def test_operations():
    assert operation_of("describe-configs") is Operation.DESCRIBE_CONFIGS
    with pytest.raises(click.UsageError, match="there are: Any, All, Read"):
        operation_of("peek")
    with pytest.raises(click.UsageError, match="cannot be about"):
        operation_of("any")
    with pytest.raises(click.UsageError, match="no principal"):
        principal_of(":x")


def test_wizards_give_what_kafka_acls_gives():
    def told(bindings):
        return [f"{entry.operation.title} {shown(resource)}" for resource, entry in bindings]

    assert told(for_producer("User:a", "*", ["t"], ["x"])) == [
        "Write topic:t", "Describe topic:t", "Create topic:t",
        "Write transactional-id:x", "Describe transactional-id:x",
    ]  # fmt: skip
    assert told(for_consumer("User:a", "*", ["t"], ["g"])) == [
        "Read topic:t", "Describe topic:t", "Read group:g",
    ]  # fmt: skip
