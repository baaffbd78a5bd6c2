"""Access rules in the store: Kafka 3.9's paths and bytes, both ways."""

import json

import pytest

from barnabas.broker import acl_znodes
from barnabas.model.acl import (
    AclEntry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from barnabas.ports import Create, Delete, SetData, ZNode

ENTRY = AclEntry("User:alice", "*", Operation.DESCRIBE_CONFIGS, Permission.ALLOW)
LITERAL = ResourcePattern(ResourceType.TRANSACTIONAL_ID, "x")
PREFIXED = ResourcePattern(ResourceType.TOPIC, "ord", PatternType.PREFIXED)
#: As Kafka writes it.
DATA = (
    b'{"version":1,"acls":[{"principal":"User:alice","permissionType":"Allow",'
    b'"operation":"DescribeConfigs","host":"*"}]}'
)


def test_paths():
    assert acl_znodes.path_of(LITERAL) == "/kafka-acl/TransactionalId/x"
    assert acl_znodes.path_of(PREFIXED) == "/kafka-acl-extended/prefixed/Topic/ord"


def test_what_is_written_is_what_kafka_writes_and_reads():
    created = acl_znodes.write(LITERAL, [ENTRY], None)
    assert created == Create("/kafka-acl/TransactionalId/x", created.data)
    assert json.loads(created.data) == json.loads(DATA)
    assert acl_znodes.read(ZNode(DATA, 0)) == [ENTRY]
    there = ZNode(DATA, 7)
    assert acl_znodes.write(LITERAL, [ENTRY], there) == SetData(created.path, created.data, 7)
    assert acl_znodes.write(LITERAL, [], there) == Delete(created.path, 7)
    assert acl_znodes.write(LITERAL, [], None) is None


def test_all_rules_are_read_and_places_without_any_are_not():
    tree = {
        "/kafka-acl": ZNode(b"", 0),
        "/kafka-acl/Topic": ZNode(b"", 0),
        "/kafka-acl/Topic/empty": ZNode(b"", 0),
        "/kafka-acl/TransactionalId/x": ZNode(DATA, 0),
        "/kafka-acl-extended/prefixed/Topic/ord": ZNode(DATA, 0),
        "/kafka-acl-changes/acl_changes_0000000000": ZNode(b"TOPIC:t", 0),
    }
    assert acl_znodes.read_all(tree) == {LITERAL: [ENTRY], PREFIXED: [ENTRY]}


def test_words_of_later_versions_match_nothing():
    data = DATA.replace(b"DescribeConfigs", b"Teleport")
    (entry,) = acl_znodes.read(ZNode(data, 0))
    assert entry.operation is Operation.UNKNOWN
    assert acl_znodes.read(None) == []


@pytest.mark.parametrize(
    ("resource", "data"),
    [
        (LITERAL, b"TRANSACTIONAL_ID:x"),
        (ResourcePattern(ResourceType.GROUP, "a:b"), b"GROUP:a:b"),
        (PREFIXED, b'{"version":1,"resourceType":"TOPIC","name":"ord","patternType":"PREFIXED"}'),
    ],
)
def test_notices(resource, data):
    notice = acl_znodes.notice(resource)
    assert notice.sequential
    assert notice.data == data
    assert acl_znodes.read_notice(ZNode(data, 0)) == resource


def test_notices_of_old_versions():
    assert acl_znodes.read_notice(ZNode(b"Topic:t", 0)) == ResourcePattern(ResourceType.TOPIC, "t")


@pytest.mark.parametrize("name", ["a/b", ".", "..", "/"])
def test_names_that_are_no_part_of_a_path(name):
    assert "cannot be stored" in acl_znodes.name_problem(name)
    assert acl_znodes.name_problem("a.b*") is None
