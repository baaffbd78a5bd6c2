"""AlterClientQuotas and DescribeClientQuotas: in force at once, there after a restart, and found by Kafka's filters."""

import pytest
from node_kit import NodeKit

from barnabas.core.quota_table import DEFAULT, Entity
from barnabas.model.errors import ErrorCode
from barnabas.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    OpData,
    RequestEntryData,
)
from barnabas.wire.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
)

EXACT, BY_DEFAULT, ANY = 0, 1, 2


@pytest.fixture
def kit():
    return NodeKit()


def entry(entity, **changes):
    return RequestEntryData(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
        ops=[
            OpData(key=key, value=value or 0.0, remove=value is None)
            for key, value in changes.items()
        ],
    )


def alter(kit, *entries, validate_only=False):
    request = AlterClientQuotasRequest(entries=list(entries), validate_only=validate_only)
    return [(ErrorCode(one.error_code), one.error_message) for one in kit.ask(request, 1).entries]


def set_(kit, *entity, **changes):
    assert alter(kit, entry(entity, **changes)) == [(ErrorCode.NONE, None)]


def describe(kit, *components, strict=False):
    request = DescribeClientQuotasRequest(
        components=[
            ComponentData(entity_type=kind, match_type=how, match=name)
            for kind, how, name in components
        ],
        strict=strict,
    )
    return kit.ask(request, 1)


def found(answer):
    assert answer.error_code == 0, answer
    return {
        tuple((part.entity_type, part.entity_name) for part in one.entity): {
            value.key: value.value for value in one.values
        }
        for one in answer.entries
    }


def test_a_quota_is_in_force_at_once_and_after_a_restart(kit):
    set_(
        kit, ("user", "alice"), ("client-id", None), producer_byte_rate=1024, request_percentage=2.5
    )
    expected = {"producer_byte_rate": 1024, "request_percentage": 2.5}
    for _ in range(2):
        assert dict(kit.node.quotas.table.items()) == {Entity("alice", DEFAULT): expected}
        assert kit.node.quotas.is_on
        assert found(describe(kit)) == {(("user", "alice"), ("client-id", None)): expected}
        kit.restart()


def test_a_key_that_is_removed_leaves_the_others(kit):
    set_(kit, ("client-id", "c"), producer_byte_rate=1, consumer_byte_rate=2)
    set_(kit, ("client-id", "c"), producer_byte_rate=None)
    assert found(describe(kit)) == {(("client-id", "c"),): {"consumer_byte_rate": 2}}
    set_(kit, ("client-id", "c"), consumer_byte_rate=None)
    assert found(describe(kit)) == {}
    assert not kit.node.quotas.is_on
    kit.restart()
    assert found(describe(kit)) == {}


def test_checking_only_changes_nothing(kit):
    assert alter(kit, entry([("user", "u")], producer_byte_rate=1), validate_only=True) == [
        (ErrorCode.NONE, None)
    ]
    assert found(describe(kit)) == {}


@pytest.mark.parametrize(
    ("entity", "changes", "why"),
    [
        ([], {"producer_byte_rate": 1}, "empty client quota entity"),
        ([("user", "")], {"producer_byte_rate": 1}, "Empty user"),
        ([("group", "g")], {"producer_byte_rate": 1}, "Unhandled"),
        ([("user", "a"), ("user", "b")], {"producer_byte_rate": 1}, "Duplicate"),
        ([("user", "a"), ("ip", "1.2.3.4")], {"connection_creation_rate": 1}, "combination"),
        ([("ip", "nowhere")], {"connection_creation_rate": 1}, "not a valid IP"),
        ([("user", "a")], {"connection_creation_rate": 1}, "Invalid configuration key"),
        ([("ip", "1.2.3.4")], {"producer_byte_rate": 1}, "Invalid configuration key"),
        ([("user", "a")], {"producer_byte_rate": 1.5}, "whole number"),
        ([("user", "a")], {"producer_byte_rate": -1}, "greater than 0"),
        ([("user", "a")], {"request_percentage": float("nan")}, "greater than 0"),
        ([("user", "a")], {"request_percentage": float("inf")}, "greater than 0"),
        ([("ip", None)], {"connection_creation_rate": 2**31}, "too large"),
    ],
)
def test_what_cannot_be_meant_is_refused(kit, entity, changes, why):
    ((code, message),) = alter(kit, entry(entity, **changes))
    assert code == ErrorCode.INVALID_REQUEST
    assert why in message
    assert found(describe(kit)) == {}


def test_one_that_is_refused_does_not_keep_the_others(kit):
    good = entry([("user", "a")], producer_byte_rate=1)
    codes = [code for code, _ in alter(kit, good, entry([("user", "")]), good)]
    assert codes == [ErrorCode.NONE, ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST]
    twice = entry([("user", "b")], producer_byte_rate=1)
    twice.ops.append(OpData(key="producer_byte_rate", value=2.0))
    assert alter(kit, twice)[0][0] == ErrorCode.INVALID_REQUEST
    assert found(describe(kit)) == {(("user", "a"),): {"producer_byte_rate": 1}}


ALICE, ANYBODY = (("user", "alice"),), (("user", None),)
ALICE_C = (("user", "alice"), ("client-id", "c"))
C, ADDRESS = (("client-id", "c"),), (("ip", "1.2.3.4"),)


@pytest.mark.parametrize(
    ("components", "strict", "expected"),
    [
        ([], False, [ALICE, ANYBODY, ALICE_C, C, ADDRESS]),
        ([], True, []),
        ([("user", EXACT, "alice")], False, [ALICE, ALICE_C]),
        ([("user", EXACT, "alice")], True, [ALICE]),
        ([("user", BY_DEFAULT, None)], False, [ANYBODY]),
        ([("user", ANY, None)], True, [ALICE, ANYBODY]),
        ([("user", ANY, None), ("client-id", ANY, None)], True, [ALICE_C]),
        ([("client-id", EXACT, "c")], False, [C, ALICE_C]),
        ([("client-id", EXACT, "other")], False, []),
        ([("ip", ANY, None)], False, [ADDRESS]),
        ([("ip", EXACT, "1.2.3.4")], True, [ADDRESS]),
        ([("ip", BY_DEFAULT, None)], True, []),
    ],
)
def test_filters_choose_as_kafkas_do(kit, components, strict, expected):
    for entity in (ALICE, ANYBODY, ALICE_C, C):
        set_(kit, *entity, producer_byte_rate=1)
    set_(kit, *ADDRESS, connection_creation_rate=1)
    assert set(found(describe(kit, *components, strict=strict))) == set(expected)


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([("", ANY, None)], ErrorCode.INVALID_REQUEST),
        ([("group", ANY, None)], ErrorCode.UNSUPPORTED_VERSION),
        ([("user", ANY, None), ("user", ANY, None)], ErrorCode.INVALID_REQUEST),
        ([("user", ANY, None), ("ip", ANY, None)], ErrorCode.INVALID_REQUEST),
        ([("user", EXACT, None)], ErrorCode.INVALID_REQUEST),
        ([("user", 7, None)], ErrorCode.INVALID_REQUEST),
    ],
)
def test_filters_that_cannot_be_meant_are_refused(kit, components, code):
    answer = describe(kit, *components)
    assert answer.error_code == code
    assert answer.entries is None
