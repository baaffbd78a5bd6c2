"""`barnabas quota` as people run it, against Barnabas and against Apache Kafka."""

import uuid

import pytest
from cluster_kit import wait_until
from compat.warm_tool import WarmTool


@pytest.fixture
def tool(either_address, tmp_path):
    return WarmTool(either_address, tmp_path)


@pytest.fixture
def name():
    return f"quota-{uuid.uuid4().hex[:10]}"


def wait_for(tool, who, *quotas):
    """Wait until a broker tells of these quotas, and no others: Kafka's learns of a change after it was acknowledged."""
    wait_until(
        lambda: [entry["quotas"] for entry in tool.json("quota", "list", *who)] == [*quotas],
        "the broker has them",
    )


def test_a_quota_from_set_to_removed(tool, name):
    who = ("--user", name, "--default", "client-id")
    set_ = tool("quota", "set", *who, "--producer-byte-rate", "1000", "--request-percentage", "2.5")
    assert f"user {name}, client-id <default>: producer_byte_rate 1,000" in set_.text
    wait_for(tool, who, {"producer_byte_rate": 1000.0, "request_percentage": 2.5})
    (listed,) = tool.json("quota", "list", "--user", name)
    assert listed == {
        "user": name,
        "client_id": "<default>",
        "ip": None,
        "quotas": {"producer_byte_rate": 1000.0, "request_percentage": 2.5},
    }
    tool("quota", "remove", *who, "producer-byte-rate")
    wait_for(tool, who, {"request_percentage": 2.5})
    removed = tool.json("quota", "remove", *who)
    assert (removed["applied"], removed["quotas"]) == (True, {"request_percentage": None})
    wait_for(tool, who)
    assert "no quotas" in tool("quota", "list", *who).text
    assert "has no quota" in tool("quota", "remove", *who, code=1).said


def test_checking_only_changes_nothing(tool, name):
    done = tool("quota", "set", "--client-id", name, "--consumer-byte-rate", "7", "--dry-run")
    assert "nothing was changed" in done.text
    assert tool.json("quota", "list", "--client-id", name) == []


def test_addresses_have_their_own(tool):
    who = ("--ip", "192.0.2.1")
    tool("quota", "set", *who, "--connection-creation-rate", "100")
    wait_for(tool, who, {"connection_creation_rate": 100.0})
    tool("quota", "remove", *who)
    refused = tool("quota", "set", *who, "--producer-byte-rate", "5", code=1)
    assert "INVALID_REQUEST" in refused.said


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["set", "--producer-byte-rate", "1"], "say who"),
        (["set", "--user", "u"], "nothing to set"),
        (["set", "--user", "u", "--ip", "1.2.3.4"], "address"),
        (["set", "--user", "u", "--default", "user"], "exclude"),
        (["remove", "--user", "u", "speed"], "no quota is called speed"),
    ],
)
def test_a_wrong_command_line_is_told(tmp_path, arguments, why):
    assert why in WarmTool("127.0.0.1:1", tmp_path)("quota", *arguments, code=2).said
