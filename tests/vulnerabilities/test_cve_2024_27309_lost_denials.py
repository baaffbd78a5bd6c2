"""CVE-2024-27309: when one of several rules of a resource was removed, the others, denials among them, were forgotten by some brokers. What counts is what is kept,
before and after a restart (`tests/unit/core/test_acl.py` has it as a property)."""

from acl_kit import AclKit, creation

from barnabas.model.acl import Operation, Permission
from barnabas.model.errors import ErrorCode


def code(kit):
    answer = kit.new_user("alice").ask(kit.fetch_request("t", 0), 11)
    return answer.responses[0].partitions[0].error_code


def test_a_denial_outlives_its_neighbours():
    kit = AclKit()
    kit.create("t")
    kit.allow(
        creation(Operation.READ, principal="User:*"),
        creation(Operation.WRITE, principal="User:*"),
        creation(Operation.READ, permission=Permission.DENY),
    )
    assert code(kit) == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert kit.revoke(operation=Operation.WRITE) == 1
    assert code(kit) == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    kit.restart()
    assert code(kit) == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert kit.revoke(permission_type=Permission.DENY) == 1
    assert code(kit) == 0
