"""`barnabas user`: from the first administrator to the last goodbye."""

import pytest
from compat.warm_tool import WarmTool

import barnabas

BOTH = ["SCRAM-SHA-256", "SCRAM-SHA-512"]


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    """A data directory whose first administrator was made before the broker's first start."""
    folder = tmp_path_factory.mktemp("data")
    done = WarmTool("127.0.0.1:1", folder)(
        "user", "add", "ad/min", "--password", "hush-1", "--data-dir", folder / "logs"
    )
    assert "hush" not in done.text
    return folder / "logs"


@pytest.fixture(scope="module")
def broker(data_dir):
    settings = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": ",".join(BOTH),
        "connection.failed.authentication.delay.ms": 1,
    }
    with barnabas.Broker(data_dir=str(data_dir), settings=settings) as broker:
        yield broker


def login(name, password, mechanism="SCRAM-SHA-256"):
    settings = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": name,
        "sasl.password": password,
    }
    return [part for name, value in settings.items() for part in ("-X", f"{name}={value}")]


@pytest.fixture
def tool(broker, tmp_path):
    return WarmTool(broker.bootstrap, tmp_path)


ADMIN = login("ad/min", "hush-1")


def test_the_life_of_a_user(tool):
    tool("user", "add", "alice", "--password", "hush-2", *ADMIN)
    assert tool.json("user", "list", *login("alice", "hush-2", "SCRAM-SHA-512")) == [
        {"name": "ad/min", "mechanisms": dict.fromkeys(BOTH, 8192)},
        {"name": "alice", "mechanisms": dict.fromkeys(BOTH, 8192)},
    ]
    tool("user", "set-password", "alice", "--password", "hush-3", "--mechanism", BOTH[0], *ADMIN)
    tool("user", "list", *login("alice", "hush-3"))
    refused = tool("user", "list", *login("alice", "hush-2"), code=1)
    assert "invalid credentials" in refused.said
    assert "hush" not in refused.said
    tool("user", "delete", "alice", *ADMIN)
    tool("user", "list", *login("alice", "hush-3"), code=1)
    assert [one["name"] for one in tool.json("user", "list", *ADMIN)] == ["ad/min"]


def test_words_for_what_cannot_be(tool, data_dir):
    assert (
        "is there already" in tool("user", "add", "ad/min", "--password", "x", *ADMIN, code=1).said
    )
    assert "no user nobody" in tool("user", "delete", "nobody", *ADMIN, code=1).said
    running = tool("user", "add", "x", "--password", "x", "--data-dir", data_dir, code=1)
    assert "a broker is running" in running.said
