"""Access rules: what each combination of rules answers, and that what is kept is what was given."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.core.acl import Acls, Why
from barnabas.model.acl import (
    AclBinding,
    AclEntry,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
    named,
)

TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
ALICE, HOST = "User:alice", "10.0.0.1"


def rules(*given_rules: tuple[ResourcePattern, AclEntry], **settings: bool) -> Acls:
    acls = Acls(frozenset({"User:root"}), open_without_rules=settings.get("open", False))
    for resource, _entry in given_rules:
        acls.replace(resource, [entry for one, entry in given_rules if one == resource])
    return acls


def literal(name: str) -> ResourcePattern:
    return ResourcePattern(TOPIC, name)


def prefixed(name: str) -> ResourcePattern:
    return ResourcePattern(TOPIC, name, PatternType.PREFIXED)


def allow(operation: Operation, principal: str = ALICE, host: str = "*") -> AclEntry:
    return AclEntry(principal, host, operation, Permission.ALLOW)


def deny(operation: Operation, principal: str = ALICE, host: str = "*") -> AclEntry:
    return AclEntry(principal, host, operation, Permission.DENY)


def reads(acls: Acls, name: str = "orders", principal: str = ALICE, host: str = HOST) -> bool:
    return acls.decide(principal, host, Operation.READ, TOPIC, name).is_allowed


def test_nobody_may_anything_without_rules() -> None:
    assert acls_why(rules()) is Why.NO_RULE
    assert not reads(rules())


def acls_why(acls: Acls) -> Why:
    return acls.decide(ALICE, HOST, Operation.READ, TOPIC, "orders").why


def test_open_without_rules_is_about_resources_without_any() -> None:
    acls = rules((literal("orders"), allow(Operation.WRITE, "User:bob")), open=True)
    assert not reads(acls)  # it has a rule, if not one about her
    assert reads(acls, "others")


def test_super_users_need_no_rule_and_no_rule_binds_them() -> None:
    acls = rules((literal("orders"), deny(Operation.ALL, "User:*")))
    assert reads(acls, principal="User:root")
    assert not reads(acls)


@pytest.mark.parametrize(
    "resource", [literal("orders"), literal("*"), prefixed("ord"), prefixed("orders")]
)
def test_rules_hold_by_name_by_wildcard_and_by_prefix(resource: ResourcePattern) -> None:
    acls = rules((resource, allow(Operation.READ)))
    assert reads(acls)
    assert acls.decide(ALICE, HOST, Operation.READ, TOPIC, "orders").rule == AclBinding(
        resource, allow(Operation.READ)
    )
    assert not acls.decide(ALICE, HOST, Operation.READ, GROUP, "orders").is_allowed


@pytest.mark.parametrize(
    "resource", [literal("order"), literal("ordersx"), prefixed("ordersx"), prefixed("x")]
)
def test_other_names_are_others(resource: ResourcePattern) -> None:
    assert not reads(rules((resource, allow(Operation.READ))))


@pytest.mark.parametrize("denied", [literal("orders"), literal("*"), prefixed("o")])
@pytest.mark.parametrize("operation", [Operation.READ, Operation.ALL])
def test_deny_wins(denied: ResourcePattern, operation: Operation) -> None:
    acls = rules((literal("orders"), allow(Operation.READ)), (denied, deny(operation)))
    if denied == literal("orders"):
        acls.replace(denied, [allow(Operation.READ), deny(operation)])
    assert acls_why(acls) is Why.DENIED


def test_deny_implies_nothing() -> None:
    acls = rules(
        (literal("orders"), allow(Operation.DESCRIBE)), (prefixed("o"), deny(Operation.READ))
    )
    assert acls.decide(ALICE, HOST, Operation.DESCRIBE, TOPIC, "orders").is_allowed
    assert not reads(acls)


@pytest.mark.parametrize(
    ("written", "comes_from"),
    [("0:0:0:0:0:0:0:1", "::1"), ("::1", "::1"), ("2001:DB8:0:0:0:0:0:7", "2001:db8::7")],
)
def test_an_address_is_the_same_however_it_is_written(written: str, comes_from: str) -> None:
    denied = deny(Operation.READ, host=written)
    acls = rules((literal("orders"), allow(Operation.READ)), (literal("orders"), denied))
    assert not reads(acls, host=comes_from)
    assert reads(acls, host="2001:db8::8")
    assert not acls.decide_any(ALICE, comes_from, Operation.READ, TOPIC).is_allowed


def test_hosts_and_principals_must_fit() -> None:
    acls = rules((literal("orders"), allow(Operation.READ, host=HOST)))
    assert reads(acls)
    assert not reads(acls, host="10.0.0.2")
    assert not reads(acls, principal="User:bob")
    everybody = rules((literal("orders"), allow(Operation.READ, "User:*")))
    assert reads(everybody, principal="User:ANONYMOUS")


def test_what_implies_describing() -> None:
    implied = {
        Operation.DESCRIBE: {"READ", "WRITE", "DELETE", "ALTER", "DESCRIBE", "ALL"},
        Operation.DESCRIBE_CONFIGS: {"ALTER_CONFIGS", "DESCRIBE_CONFIGS", "ALL"},
    }
    for asked, allowed in product(Operation, Operation):
        acls = rules((literal("orders"), allow(allowed)))
        decision = acls.decide(ALICE, HOST, asked, TOPIC, "orders")
        assert decision.is_allowed == (allowed.name in implied.get(asked, {asked.name, "ALL"}))


@pytest.mark.parametrize(
    ("given_rules", "expected"),
    [
        ([], False),
        ([(literal("a"), allow(Operation.WRITE))], True),
        ([(prefixed("a"), allow(Operation.ALL))], True),
        ([(literal("a"), allow(Operation.WRITE)), (literal("*"), deny(Operation.WRITE))], False),
        ([(literal("ab"), allow(Operation.WRITE)), (prefixed("a"), deny(Operation.WRITE))], False),
        ([(prefixed("ab"), allow(Operation.WRITE)), (prefixed("a"), deny(Operation.WRITE))], False),
        ([(prefixed("a"), allow(Operation.WRITE)), (prefixed("ab"), deny(Operation.WRITE))], True),
        ([(literal("*"), allow(Operation.WRITE)), (prefixed("a"), deny(Operation.WRITE))], True),
        ([(literal("a"), allow(Operation.READ))], False),
        ([(literal("a"), allow(Operation.WRITE, "User:bob"))], False),
        ([(ResourcePattern(GROUP, "a"), allow(Operation.WRITE))], False),
    ],
)
def test_allowed_anywhere(
    given_rules: list[tuple[ResourcePattern, AclEntry]], expected: bool
) -> None:
    decision = rules(*given_rules).decide_any(ALICE, HOST, Operation.WRITE, TOPIC)
    assert decision.is_allowed is expected


def test_allowed_anywhere_for_super_users_and_open_clusters() -> None:
    assert rules().decide_any("User:root", HOST, Operation.WRITE, TOPIC).is_allowed
    assert rules(open=True).decide_any(ALICE, HOST, Operation.WRITE, TOPIC).is_allowed
    closed = rules((literal("*"), deny(Operation.WRITE)), open=True)
    assert not closed.decide_any(ALICE, HOST, Operation.WRITE, TOPIC).is_allowed


# What is kept is what the store has (CVE-2024-27309)

NAMES = st.text("ab", min_size=1, max_size=3) | st.just("*")
RESOURCES = st.builds(
    ResourcePattern,
    st.sampled_from([TOPIC, GROUP]),
    NAMES,
    st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
)
ENTRIES = st.builds(
    AclEntry,
    st.sampled_from([ALICE, "User:bob", "User:*"]),
    st.sampled_from([HOST, "*"]),
    st.sampled_from([Operation.READ, Operation.DESCRIBE, Operation.ALL]),
    st.sampled_from([Permission.ALLOW, Permission.DENY]),
)
CHANGES = st.lists(st.tuples(RESOURCES, st.lists(ENTRIES, max_size=3)), max_size=12)


def naive(store: dict[ResourcePattern, list[AclEntry]], operation: Operation, name: str) -> bool:
    entries = [
        entry
        for (kind, own, pattern), some in store.items()
        for entry in some
        if kind is TOPIC
        and (own in (name, "*") if pattern is PatternType.LITERAL else name.startswith(own))
    ]
    about = [e for e in entries if e.principal in (ALICE, "User:*") and e.host in (HOST, "*")]
    allows = {operation, Operation.ALL}
    denies = set(allows)
    if operation is Operation.DESCRIBE:
        allows.add(Operation.READ)
    return not any(
        e.permission is Permission.DENY and e.operation in denies for e in about
    ) and any(e.permission is Permission.ALLOW and e.operation in allows for e in about)


@given(CHANGES, NAMES, st.sampled_from([Operation.READ, Operation.DESCRIBE]))
def test_rules_that_came_and_went_answer_as_those_that_are_stored(
    changes: list[tuple[ResourcePattern, list[AclEntry]]], name: str, operation: Operation
) -> None:
    acls, store = Acls(), dict[ResourcePattern, list[AclEntry]]()
    for resource, entries in changes:
        acls.replace(resource, entries)
        store[resource] = entries
    assert acls.decide(ALICE, HOST, operation, TOPIC, name).is_allowed == naive(
        store, operation, name
    )
    fresh = Acls()
    for resource, entries in store.items():
        fresh.replace(resource, entries)
    for kind in (TOPIC, GROUP):
        assert (
            acls.decide_any(ALICE, HOST, operation, kind).is_allowed
            == fresh.decide_any(ALICE, HOST, operation, kind).is_allowed
        )
    assert sorted(acls.find(AclFilter())) == sorted(fresh.find(AclFilter()))
    assert sorted(acls.resources()) == sorted(resource for resource, some in store.items() if some)


# Searching


def test_filters_find_by_name_pattern_and_match() -> None:
    one = allow(Operation.READ)
    acls = rules(
        (literal("orders"), one), (literal("*"), one), (prefixed("ord"), one), (prefixed("x"), one)
    )

    def found(wanted: AclFilter) -> list[ResourcePattern]:
        return [binding.resource for binding in acls.find(wanted)]

    assert found(AclFilter(TOPIC, "orders", PatternType.MATCH)) == [
        literal("orders"), literal("*"), prefixed("ord"),
    ]  # fmt: skip
    assert found(AclFilter(TOPIC, "orders", PatternType.LITERAL)) == [literal("orders")]
    assert found(AclFilter(TOPIC, "ord", PatternType.ANY)) == [prefixed("ord")]
    assert len(found(AclFilter())) == 4
    assert len(found(AclFilter(pattern=PatternType.PREFIXED))) == 2
    assert not found(AclFilter(GROUP))
    assert not found(AclFilter(principal="User:bob"))
    assert not found(AclFilter(host=HOST))
    assert not found(AclFilter(operation=Operation.WRITE))
    assert not found(AclFilter(permission=Permission.DENY))
    assert acls.get(literal("orders")) == (one,)


def test_words_are_found_as_kafka_and_people_write_them() -> None:
    assert named(ResourceType, "TransactionalId") is ResourceType.TRANSACTIONAL_ID
    assert named(ResourceType, "transactional-id") is ResourceType.TRANSACTIONAL_ID
    assert named(Operation, "DESCRIBE_CONFIGS") is Operation.DESCRIBE_CONFIGS
    with pytest.raises(ValueError, match="there are: Any, Topic, Group"):
        named(ResourceType, "table")
    assert str(prefixed("ord")) == "Topic:PREFIXED:ord"
    assert str(allow(Operation.IDEMPOTENT_WRITE)) == "Allow User:alice IdempotentWrite from *"
