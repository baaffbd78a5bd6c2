"""`topic describe --storage` beside a broker that is at work."""

import json

import pytest
from compat.warm_tool import WarmTool

import barnabas

DAY_MS = 86_400_000
START_MS = 1_700_000_000_000


@pytest.fixture(scope="module")
def broker():
    # Nobody deletes or compacts while a test looks.
    quiet = dict.fromkeys(("log.initial.task.delay.ms", "log.cleaner.backoff.ms"), "86400000")
    with barnabas.Broker(settings=quiet) as broker:
        yield broker


@pytest.fixture
def tool(broker, tmp_path):
    return WarmTool(broker.bootstrap, tmp_path)


def fill(tool, topic):
    """Three segments: five records each, a day apart."""
    for number in range(3):
        records = [
            {"key": f"k{record}", "value": "v", "timestamp": START_MS + number * DAY_MS}
            for record in range(5)
        ]
        tool("produce", topic, "--format", "json", stdin="\n".join(map(json.dumps, records)))


def storage(tool, topic, *more):
    [described] = tool.json("topic", "describe", topic, "--storage", *more)
    return [partition["storage"] for partition in described["partitions"]]


def test_segments_and_their_future(tool):
    tool("topic", "create", "orders", "-p", 1, "-c", "segment.ms=1000", "-c",
         "retention.ms=-1", "-c", "retention.bytes=1000000")  # fmt: skip
    fill(tool, "orders")
    [stored] = storage(tool, "orders")
    sizes = [segment["size_bytes"] for segment in stored["segments"]]
    assert stored["size_bytes"] == sum(sizes)
    assert stored["dirty_ratio"] is None
    assert stored["oldest_timestamp_ms"] == START_MS
    assert stored["newest_timestamp_ms"] == START_MS + 2 * DAY_MS
    assert stored["segments"][0] == {
        "base_offset": 0,
        "end_offset": 5,
        "size_bytes": sizes[0],
        "newest_timestamp_ms": START_MS,
        "active": False,
        "deleted_at_ms": None,
        "deleted_after_bytes": 1_000_000 - sizes[1] - sizes[2],
    }
    assert [segment["base_offset"] for segment in stored["segments"]] == [0, 5, 10]
    assert "more have come by retention.bytes=1000000" in stored["outlook"][0]


def test_the_page(tool, broker):
    tool("topic", "create", "users", "-p", 2, "-c", "cleanup.policy=compact,delete", "-c",
         "segment.ms=1000", "-c", "retention.ms=-1")  # fmt: skip
    fill(tool, "users")
    page = tool("topic", "describe", "users", "--storage").text
    assert "DIRTY" in page
    assert "0: " in page
    assert "1: " in page
    assert "is kept: retention.ms=-1 (no limit) and retention.bytes=-1 (no limit)" in page
    assert "it is compacted next: its dirty ratio, 1.00 now" in page


def test_another_directory(tool, broker, tmp_path):
    tool("topic", "create", "away", "-p", 1)
    refused = tool("topic", "describe", "away", "--storage", "--data-dir", tmp_path, code=1)
    assert "is no log directory that can be read" in refused.said
    (tmp_path / "meta.properties").write_text("version=1\ncluster.id=abc\nnode.id=1\n")
    refused = tool("topic", "describe", "away", "--storage", "--data-dir", tmp_path, code=1)
    assert "belongs to the cluster abc" in refused.said
    [partition] = storage(tool, "away", "--data-dir", broker._broker.node.config.log_dirs[0])
    assert partition["size_bytes"] == 0
    assert tool("topic", "describe", "away", "--data-dir", tmp_path, code=2)


def test_a_partition_that_is_not_here(tool, broker, tmp_path):
    tool("topic", "create", "elsewhere", "-p", 1)
    node = broker._broker.node
    (tmp_path / "meta.properties").write_text(
        f"version=1\ncluster.id={node.cluster_id}\nnode.id=1\n"
    )
    assert storage(tool, "elsewhere", "--data-dir", tmp_path) == [None]
    page = tool("topic", "describe", "elsewhere", "--storage", "--data-dir", tmp_path).text
    assert "not on this machine" in page


def test_a_broker_on_another_machine(tool, broker, tmp_path):
    tool("topic", "create", "far", "-p", 1)
    identity = f"{broker._broker.node.config.log_dirs[0]}/meta.properties"
    with open(identity) as file:
        text = file.read()
    try:
        with open(identity, "w") as file:
            file.write(text.replace("cluster.id=", "cluster.id=x"))
        refused = tool("topic", "describe", "far", "--storage", code=1)
    finally:
        with open(identity, "w") as file:
            file.write(text)
    assert "are not on this machine" in refused.said
    assert "--data-dir DIR" in refused.said
