"""`barnabas acl` as people run it: rules from the first to the last, and why somebody may or may not."""

import pytest
from acl_kit import AUTHORIZER
from chaos.wire_kit import BrokerProcess
from compat.warm_tool import WarmTool


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    settings = (f"authorizer.class.name={AUTHORIZER}", "super.users=User:ANONYMOUS; User:root")
    with BrokerProcess(tmp_path_factory.mktemp("acl") / "data", settings=settings) as broker:
        yield broker.bootstrap


@pytest.fixture
def tool(address, tmp_path):
    return WarmTool(address, tmp_path)


def test_rules_from_added_to_removed(tool):
    client = ("add-alice", "--producer", "--topic", "a-*", "--transactional-id", "x")
    dry = tool.json("acl", "add", *client, "--dry-run")
    assert (dry["applied"], len(dry["rules"])) == (False, 5)
    assert tool.json("acl", "list", "--principal", "add-alice") == []
    tool("acl", "add", *client)
    listed = tool.json("acl", "list", "--principal", "add-alice")
    assert listed == sorted(dry["rules"], key=listed.index)
    assert listed[0] == {
        "principal": "User:add-alice",
        "permission": "Allow",
        "operation": "Write",
        "resource_type": "Topic",
        "resource_name": "a-",
        "pattern_type": "Prefixed",
        "host": "*",
    }
    matching = tool.json("acl", "list", "--resource", "topic:a-b", "--match")
    assert len(matching) == 3
    assert tool.json("acl", "list", "--resource", "topic:a-b") == []
    assert (
        "removed: Allow User:add-alice Write from * on topic:a-*"
        in tool("acl", "remove", *client).text
    )
    assert tool.json("acl", "list", "--principal", "add-alice") == []
    assert "no such rule" in tool("acl", "remove", *client, code=1).said


def test_why_somebody_may_or_may_not(tool):
    tool("acl", "add", "carol", "read", "topic:c")
    tool("acl", "add", "carol", "delete", "topic:c*", "--deny", "--host", "192.0.2.7")
    tool("acl", "add", "carol", "all", "topic:c")
    assert (
        "a rule allows it: Allow User:carol Read"
        in tool("acl", "check", "carol", "read", "topic:c").text
    )
    denied = tool("acl", "check", "carol", "delete", "topic:c", "--host", "192.0.2.7", code=1)
    assert "denied: " in denied.text
    assert "a rule denies it: Deny User:carol Delete from 192.0.2.7 on topic:c*" in denied.text
    assert tool.json("acl", "check", "carol", "delete", "topic:c")["allowed"]
    assert (
        "no rule on the resource" in tool("acl", "check", "carol", "read", "group:g", code=1).text
    )
    lacking = tool("acl", "check", "dave", "read", "topic:c", code=1).text
    assert "no rule allows it" in lacking
    assert tool.json("acl", "check", "root", "alter", "cluster")["why"] == "a super user"


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["add", "a"], "say what"),
        (["add", "a", "read", "t"], "is no resource"),
        (["add", "a", "peek", "topic:t"], "there are: Any, All, Read"),
        (["add", "a", "--producer"], "need a --topic"),
        (["add", "a", "--consumer", "--topic", "t"], "needs a --group"),
        (["add", "a", "--producer", "--topic", "t", "--group", "g"], "--group goes with"),
        (["add", "a", "--producer", "--topic", "t", "--deny"], "by themselves"),
        (["add", "a", "read", "topic:t", "--topic", "t"], "go with --producer"),
    ],
)
def test_what_cannot_be_meant(tool, arguments, why):
    assert why in tool("acl", *arguments, code=2).said


def test_refusals_are_told(tool):
    assert "INVALID_REQUEST" in tool("acl", "add", "a", "read", "group:x/y", code=1).said


def test_a_broker_without_rules_says_how_to_get_some(bootstrap, tmp_path):
    said = WarmTool(bootstrap, tmp_path)("acl", "list", code=1).said
    assert "everybody may do everything" in said
    assert "authorizer.class.name" in said
