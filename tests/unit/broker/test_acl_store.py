"""Changing access rules: what is refused, what is found, what is kept, and who else may be changing them."""

import pytest
from acl_kit import AclKit, any_filter, creation
from node_kit import NodeKit

from barnabas.broker.notices import KEPT_MS
from barnabas.model.acl import Operation, PatternType, Permission, ResourcePattern, ResourceType
from barnabas.model.errors import ErrorCode
from barnabas.ports import CoordinationError, Create, Delete, OutcomeUnknown
from barnabas.wire.messages.create_acls import CreateAclsRequest
from barnabas.wire.messages.delete_acls import DeleteAclsRequest
from barnabas.wire.messages.describe_acls import DescribeAclsRequest

TOPIC = ResourceType.TOPIC


@pytest.fixture
def kit():
    return AclKit()


def create(kit, *creations):
    answer = kit.ask(CreateAclsRequest(creations=list(creations)), 3)
    return [one.error_code for one in answer.results]


def describe(kit, **fields):
    wanted = any_filter(**fields)
    request = DescribeAclsRequest(
        **{
            name: getattr(wanted, name)
            for name in wanted.__slots__
            if name != "unknown_tagged_fields"
        }
    )
    return kit.ask(request, 3)


def listed(kit, **fields):
    return [
        (place.resource_name, one.principal, Operation(one.operation).title)
        for place in describe(kit, **fields).resources
        for one in place.acls
    ]


@pytest.mark.parametrize(
    "wrong",
    [
        creation(Operation.READ, name=""),
        creation(Operation.READ, name="a/b"),
        creation(Operation.READ, ResourceType.CLUSTER, "other"),
        creation(Operation.READ, ResourceType.ANY),
        creation(Operation.READ, 99),
        creation(Operation.ANY),
        creation(99),
        creation(Operation.READ, pattern=PatternType.MATCH),
        creation(Operation.READ, permission=Permission.ANY),
        creation(Operation.READ, principal="alice"),
    ],
)
def test_what_is_no_rule_is_refused_and_its_neighbours_are_kept(kit, wrong):
    assert create(kit, wrong, creation(Operation.WRITE)) == [ErrorCode.INVALID_REQUEST, 0]
    assert listed(kit) == [("t", "User:alice", "Write")]


def test_a_rule_that_is_there_is_there_once_and_outlives_a_crash(kit):
    assert create(kit, creation(Operation.READ), creation(Operation.READ)) == [0, 0]
    assert create(
        kit,
        creation(Operation.READ),
        creation(Operation.ALL, name="p", pattern=PatternType.PREFIXED),
    ) == [0, 0]
    before = listed(kit)
    assert len(before) == 2
    kit.crash()
    assert listed(kit) == before


def test_each_rule_goes_with_the_first_filter_that_means_it(kit):
    create(
        kit, creation(Operation.READ), creation(Operation.WRITE), creation(Operation.READ, name="u")
    )
    filters = [
        any_filter(operation=Operation.READ),
        any_filter(resource_name_filter="t"),
        any_filter(),
    ]
    answer = kit.ask(DeleteAclsRequest(filters=filters), 3)
    assert [
        [(one.resource_name, Operation(one.operation).title) for one in result.matching_acls]
        for result in answer.filter_results
    ] == [[("t", "Read"), ("u", "Read")], [("t", "Write")], []]
    assert listed(kit) == []


def test_filters_with_unknown_words_are_refused(kit):
    assert describe(kit, operation=99).error_code == ErrorCode.INVALID_REQUEST
    answer = kit.ask(DeleteAclsRequest(filters=[any_filter(permission_type=0)]), 3)
    assert answer.filter_results[0].error_code == ErrorCode.INVALID_REQUEST


def test_rules_that_another_broker_made_are_seen_where_they_are_changed(kit):
    """Its notice may not have come yet."""
    place = "/kafka-acl/Topic/t"
    data = b'{"version":1,"acls":[{"principal":"User:bob","permissionType":"Allow","operation":"Read","host":"*"}]}'
    done = []
    kit.node.world.coordination.commit([Create(place, data)], lambda *_: done.append(1))
    kit.run(lambda: done)
    assert create(kit, creation(Operation.WRITE)) == [0]
    assert listed(kit) == [("t", "User:bob", "Read"), ("t", "User:alice", "Write")]
    done.clear()
    kit.node.world.coordination.commit(
        [Create(place.replace("/t", "/u"), data)], lambda *_: done.append(1)
    )
    kit.run(lambda: done)
    assert kit.revoke(resource_type_filter=TOPIC, resource_name_filter="u") == 1


class Racing:
    """A store in which somebody else is faster, some times."""

    def __init__(self, inner, times, make):
        self.inner = inner
        self.left = times
        self.make = make

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def commit(self, operations, done):
        if self.left:
            self.left -= 1
            self.make(self.inner, operations, done)
        else:
            self.inner.commit(operations, done)


def faster(inner, operations, done):
    """Another broker's rule stands there, or stands there no more, before ours is written."""
    inner.read("/", lambda *_: done([], CoordinationError("BAD_VERSION", operations[0].path)))


@pytest.mark.parametrize(("times", "code"), [(3, 0), (50, ErrorCode.REQUEST_TIMED_OUT)])
def test_who_is_second_tries_again(kit, times, code):
    world = kit.node.world
    world.coordination = Racing(world.coordination, times, faster)
    assert create(kit, creation(Operation.READ)) == [code]
    assert bool(listed(kit)) == (code == 0)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (OutcomeUnknown("gone"), ErrorCode.REQUEST_TIMED_OUT),
        (OSError("full"), ErrorCode.KAFKA_STORAGE_ERROR),
    ],
)
def test_what_could_not_be_written_is_not_in_force(kit, error, code):
    def fail(inner, _operations, done):
        inner.read("/", lambda *_: done([], error))

    world = kit.node.world
    world.coordination = Racing(world.coordination, 1, fail)
    assert create(kit, creation(Operation.READ)) == [code]
    assert listed(kit) == []


def test_without_an_authorizer_there_are_no_rules():
    kit = NodeKit()
    assert create(kit, creation(Operation.READ)) == [ErrorCode.SECURITY_DISABLED]
    assert describe(kit).error_code == ErrorCode.SECURITY_DISABLED
    answer = kit.ask(DeleteAclsRequest(filters=[any_filter()]), 3)
    assert answer.filter_results[0].error_code == ErrorCode.SECURITY_DISABLED


# Notices of others


def write(kit, *operations):
    done = []
    kit.node.world.coordination.commit(list(operations), lambda *told: done.append(told))
    kit.run(lambda: done)
    assert done[0][1] is None


def rule(user):
    return (
        b'{"version":1,"acls":[{"principal":"User:%s","permissionType":"Allow","operation":"Read","host":"*"}]}'
        % user.encode()
    )


def test_notices_are_followed_and_old_ones_are_taken_away(kit):
    kit.node.acl_store.follow()
    changes = "/kafka-acl-changes"
    for number in range(3):
        write(
            kit,
            Create(f"/kafka-acl/Topic/t{number}", rule("bob")),
            Create(f"{changes}/acl_changes_", f"TOPIC:t{number}".encode(), sequential=True),
        )
        kit.run(lambda: kit.node.acl_store.acls.get(ResourcePattern(TOPIC, f"t{number}")))  # noqa: B023
        kit.advance(KEPT_MS)
    left = []
    kit.node.world.coordination.read_children(changes, lambda names, _: left.extend(names))
    kit.run(lambda: left)
    assert left == ["acl_changes_0000000002"]
    kit.node.acl_store.stop()


def test_who_missed_notices_reads_everything(kit):
    changes = "/kafka-acl-extended-changes/acl_changes_"
    write(
        kit, Create("/kafka-acl/Topic/t", rule("bob")), Create(changes, b"TOPIC:x", sequential=True)
    )
    write(kit, Delete(f"{changes}0000000000"))
    write(kit, Create(changes, b"TOPIC:x", sequential=True))
    kit.node.acl_store.follow()
    kit.run(lambda: kit.node.acl_store.acls.get(ResourcePattern(TOPIC, "t")))
    kit.node.acl_store.stop()
