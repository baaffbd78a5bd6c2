"""`barnabas group` as people run it, against Barnabas and against Apache Kafka.

BARNABAS_TEST_KAFKA=HOST:PORT takes an Apache Kafka that runs already.
"""

import json
import time
import urllib.request
import uuid

import pytest
from cluster_kit import wait_until
from compat.test_up import Running
from compat.warm_tool import WarmTool
from confluent_kafka import Consumer, Producer, TopicPartition

NOW_MS = time.time_ns() // 1_000_000
TIMEOUT_S = 60


@pytest.fixture
def address(either_address):
    return either_address


@pytest.fixture
def tool(address, tmp_path):
    return WarmTool(address, tmp_path)


@pytest.fixture
def group():
    return f"group-{uuid.uuid4().hex[:10]}"


@pytest.fixture
def topic(tool, group):
    """A topic with two partitions of ten records each, one a second, the last one now."""
    name = f"{group}-topic"
    tool("topic", "create", name, "-p", 2)
    produce(tool, name, [(p, NOW_MS - (9 - n) * 1000) for n in range(10) for p in range(2)])
    return name


def produce(tool, topic, rows):
    lines = [{"value": "v", "partition": p, "timestamp": t} for p, t in rows]
    tool("produce", topic, "--format", "json", stdin="\n".join(map(json.dumps, lines)))


def commit(tool, group, *places):
    """Commit for places like `topic:0` = 3 from outside."""
    rows = "".join(f"{t},{p},{o}\n" for t, p, o in places)
    return tool("group", "reset", group, "--from-file", "-", "--yes", stdin=rows)


def describe(tool, group):
    [described] = tool.json("group", "describe", group)
    return described


def committed(tool, group):
    [shown] = tool.json("group", "offsets", group)
    return [(p["topic"], p["partition"], p["committed_offset"]) for p in shown["partitions"]]


class Member:
    """A real consumer that holds its partitions while the test looks."""

    def __init__(self, address, group, topic, **settings):
        self.consumer = Consumer(
            {
                "bootstrap.servers": address,
                "group.id": group,
                "client.id": "a-client",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                **settings,
            }
        )
        self.consumer.subscribe([topic])

    def __enter__(self):
        deadline = time.monotonic() + TIMEOUT_S
        while not self.consumer.assignment():
            if time.monotonic() > deadline:
                self.consumer.close()
                raise AssertionError("no assignment came")
            self.consumer.poll(0.2)
        return self.consumer

    def __exit__(self, *_):
        self.consumer.close()


# -- looking ---------------------------------------------------------------------------------


def test_groups_are_listed_by_state_and_type(tool, group, topic):
    commit(tool, group, (topic, 0, 4))
    [listed] = tool.json("group", "list", group)
    assert listed == {"group": group, "type": "classic", "state": "Empty"}
    assert tool.json("group", "list", group, "--state", "stable") == []
    assert tool.json("group", "list", group, "--state", "empty", "--type", "classic") == [listed]
    assert tool.json("group", "list", group, "--type", "consumer") == []
    assert tool("group", "list", group).text.split() == ["GROUP", "TYPE", "STATE", group, "classic", "Empty"]  # fmt: skip
    assert tool("group", "list", f"{group}-none").said == "no group matches\n"


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_describe_shows_members_and_what_they_own(tool, address, group, topic, protocol):
    settings = {"group.protocol": protocol, "group.instance.id": "number-7"}
    with Member(address, group, topic, **settings) as consumer:
        consumer.commit(offsets=[TopicPartition(topic, 0, 7)], asynchronous=False)
        described = describe(tool, group)
        page = tool("group", "describe", group).text
        only_members = tool.json("group", "describe", group, "--members")
        [only_offsets] = tool.json("group", "describe", group, "--offsets")
    assert (described["state"], described["type"]) == ("Stable", protocol)
    assert described["assignor"] == {"classic": "range", "consumer": "uniform"}[protocol]
    host, port = address.split(":")
    assert described["coordinator"]["host"] == host
    assert described["coordinator"]["port"] == int(port)
    [member] = described["members"]
    assert (member["client_id"], member["instance_id"]) == ("a-client", "number-7")
    assert member["host"] == "127.0.0.1"
    assert member["assignment"] == [{"topic": topic, "partitions": [0, 1]}]
    first, second = described["partitions"]
    assert first == {
        "topic": topic,
        "partition": 0,
        "committed_offset": 7,
        "start_offset": 0,
        "end_offset": 10,
        "lag": 3,
        "lag_seconds": 2.0,
        "member_id": member["member_id"],
        "client_id": "a-client",
        "host": "127.0.0.1",
    }
    assert (second["committed_offset"], second["lag"], second["lag_seconds"]) == (None, None, None)
    assert (described["lag"], described["lag_seconds"]) == (3, 2.0)
    assert f"{topic}:0-1" in page
    assert "lag 3 records, 2 s behind" in page
    assert only_members[0]["partitions"] is None
    assert only_members[0]["members"] == described["members"]
    assert only_offsets["members"] is None
    assert only_offsets["partitions"] == described["partitions"]


def test_a_group_that_is_not_there_is_named_with_the_nearest(tool, group, topic):
    commit(tool, group, (topic, 0, 1))
    missing = tool("group", "describe", f"{group}x", code=1)
    assert missing.said == f"error: group {group}x does not exist\n       did you mean {group}?\n"
    assert f"did you mean {group}?" in tool("group", "offsets", f"{group}x", code=1).said
    both = tool("group", "describe", f"{group}x", group, code=1)
    assert both.text.startswith(f"{group}  Empty, classic protocol, 0 members")


def test_offsets_are_shown_with_epoch_and_metadata(tool, address, group, topic):
    with Member(address, group, topic) as consumer:
        place = TopicPartition(topic, 1, 5, metadata="by hand", leader_epoch=0)
        consumer.commit(offsets=[place], asynchronous=False)
    [shown] = tool.json("group", "offsets", group)
    assert shown["partitions"] == [
        {
            "topic": topic,
            "partition": 1,
            "committed_offset": 5,
            "leader_epoch": 0,
            "metadata": "by hand",
        }
    ]
    assert "by hand" in tool("group", "offsets", group).text


def test_group_names_complete(tool, group, topic):
    commit(tool, group, (topic, 0, 1))
    tool.environ |= {
        "_BARNABAS_COMPLETE": "bash_complete",
        "COMP_WORDS": f"barnabas group describe {group[:-2]}",
        "COMP_CWORD": "3",
    }
    assert tool().text.split() == [f"plain,{group}"]


# -- lag in seconds --------------------------------------------------------------------------


def test_lag_is_exact_in_records_and_seconds(tool, group, topic):
    commit(tool, group, (topic, 0, 10), (topic, 1, 0))
    done, behind = describe(tool, group)["partitions"]
    assert (done["lag"], done["lag_seconds"]) == (0, 0.0)
    assert (behind["lag"], behind["lag_seconds"]) == (10, 9.0)
    produce(tool, topic, [(1, NOW_MS + 500)])
    described = describe(tool, group)
    assert (described["lag"], described["lag_seconds"]) == (11, 9.5)


def test_groups_on_one_partition_are_each_measured(tool, group, topic):
    names = [f"{group}-{offset}" for offset in (2, 5, 9)]
    for name, offset in zip(names, (2, 5, 9), strict=True):
        commit(tool, name, (topic, 0, offset))
    described = tool.json("group", "describe", *names)
    assert [d["lag_seconds"] for d in described] == [7.0, 4.0, 0.0]


def test_offsets_without_a_record_are_stepped_over(tool, address, group, topic):
    """A transaction's marker takes the last offset: the newest record is the one before it."""
    producer = Producer({"bootstrap.servers": address, "transactional.id": group})
    try:
        producer.init_transactions(TIMEOUT_S)
    except Exception as error:  # noqa: BLE001
        pytest.skip(f"no transactions here: {error}")
    producer.begin_transaction()
    producer.produce(topic, b"in", partition=0, timestamp=NOW_MS + 2000)
    producer.commit_transaction(TIMEOUT_S)
    commit(tool, group, (topic, 0, 9), (topic, 1, 9))

    def first():
        return describe(tool, group)["partitions"][0]

    wait_until(lambda: first()["end_offset"] == 12, "the marker is written")
    assert first()["lag_seconds"] == 2.0
    commit(tool, group, (topic, 0, 11))  # only the marker is left
    assert (first()["lag"], first()["lag_seconds"]) == (1, 0.0)


def test_a_topic_that_is_gone_leaves_lag_unknown(tool, address, group, topic):
    other = f"{topic}-other"
    tool("topic", "create", other)
    commit(tool, group, (topic, 0, 9), (other, 0, 0))
    tool("topic", "delete", other, "--yes")
    described = describe(tool, group)
    known = {p["topic"]: p for p in described["partitions"]}
    assert known[topic]["lag"] == 1
    if other in known:  # a broker may forget the offsets with the topic
        assert (known[other]["lag"], known[other]["lag_seconds"]) == (None, None)


def test_the_broker_tells_the_same_lag_as_metrics(tmp_path):
    listen = ["--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0"]
    with Running("--data-dir", str(tmp_path / "data"), *listen) as broker:
        url = next(line.split()[-1] for line in broker.process.stderr if "metrics at " in line)
        tool = WarmTool(broker.ready[0], tmp_path)
        tool("topic", "create", "orders")
        produce(tool, "orders", [(0, NOW_MS + n * 500) for n in range(4)])
        commit(tool, "billing", ("orders", 0, 1))
        described = describe(tool, "billing")
        with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:
            lines = answer.read().decode().splitlines()
        broker.stop()
    samples = dict(line.rsplit(" ", 1) for line in lines if "consumergroup" in line)
    place = 'consumergroup="billing",topic="orders",partition="0"'
    assert samples[f"kafka_consumergroup_lag{{{place}}}"] == str(described["lag"]) == "3"
    assert samples[f"kafka_consumergroup_current_offset{{{place}}}"] == "1"
    [seconds] = [v for k, v in samples.items() if k.startswith("kafka_consumergroup_group_lag_s")]
    assert float(seconds) == described["lag_seconds"] == 1.0


# -- moving ----------------------------------------------------------------------------------


def test_reset_moves_everywhere_it_is_told_to(tool, group, topic):
    def after(*how):
        tool("group", "reset", group, *how, "--yes")
        return [offset for _, _, offset in committed(tool, group)]

    assert after("--topic", topic, "--to-latest") == [10, 10]
    assert after("--topic", f"{topic}:1", "--to-earliest") == [10, 0]
    assert after("--all-topics", "--to-offset", 4) == [4, 4]
    assert after("--all-topics", "--shift-by", 3) == [7, 7]
    assert after("--topic", f"{topic}:0", "--shift-by", -2) == [5, 7]
    assert after("--all-topics", "--to-time", NOW_MS - 3000) == [6, 6]
    assert after("--all-topics", "--to-time", "-1d") == [0, 0]
    assert after("--all-topics", "--to-time", "2100-01-01T00:00Z") == [10, 10]


def test_a_dry_run_shows_the_plan_and_changes_nothing(tool, group, topic):
    commit(tool, group, (topic, 0, 4))
    shown = tool("group", "reset", group, "-t", topic, "--to-earliest", "--dry-run")
    assert [line.split() for line in shown.text.splitlines()] == [
        [group],
        ["TOPIC", "PARTITION", "BEFORE", "AFTER", "CHANGE", "LAG", "AFTER"],
        [topic, "0", "4", "0", "-4", "10"],
        [topic, "1", "-", "0", "new", "10"],
    ]
    assert shown.said == "dry run: nothing was changed\n"
    [plan] = tool.json("group", "reset", group, "-t", topic, "--to-latest", "--dry-run")
    assert plan["applied"] is False
    assert plan["partitions"][0] == {
        "topic": topic,
        "partition": 0,
        "before": 4,
        "after": 10,
        "start_offset": 0,
        "end_offset": 10,
        "note": None,
        "error": None,
    }
    assert committed(tool, group) == [(topic, 0, 4)]


def test_what_lies_outside_the_log_is_put_at_its_end_and_said(tool, group, topic):
    commit(tool, group, (topic, 0, 4))
    moved = tool("group", "reset", group, "-t", f"{topic}:0", "--to-offset", 99)
    assert "99 is beyond the log end 10" in moved.text
    assert committed(tool, group) == [(topic, 0, 10)]
    moved = tool("group", "reset", group, "-t", f"{topic}:0", "--shift-by", -50)
    assert "-40 is before the log start 0" in moved.text
    assert committed(tool, group) == [(topic, 0, 0)]


def test_a_plan_goes_out_and_back_as_csv(tool, group, topic, tmp_path):
    commit(tool, group, (topic, 0, 4), (topic, 1, 6))
    saved = tmp_path / "saved.csv"
    how = ("--all-topics", "--to-current", "--dry-run", "--export")
    tool("group", "reset", group, *how, saved)
    assert saved.read_text() == f"{topic},0,4\n{topic},1,6\n"
    assert tool("group", "reset", group, *how, "-").text == saved.read_text()
    tool("group", "reset", group, "--all-topics", "--to-latest")
    tool("group", "reset", group, "--from-file", saved)
    assert committed(tool, group) == [(topic, 0, 4), (topic, 1, 6)]
    other = f"{group}-other"
    both = tmp_path / "both.csv"
    tool("group", "reset", group, other, "-t", topic, "--to-offset", 2, "--export", both)
    assert both.read_text().splitlines()[0] == f"{group},{topic},0,2"
    tool("group", "reset", other, "--all-topics", "--to-latest")
    back = tool("group", "reset", other, "--from-file", both)
    assert "2 lines" in back.said
    assert committed(tool, other) == [(topic, 0, 2), (topic, 1, 2)]


@pytest.mark.java
def test_kafkas_own_tool_reads_the_exported_plan(tool, address, group, topic, tmp_path, kafka_tool):
    plan = tmp_path / "plan.csv"
    how = ("--topic", topic, "--to-offset", 3, "--dry-run", "--export", plan)
    tool("group", "reset", group, *how)
    kafka_tool(
        "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
        *("--bootstrap-server", address, "--reset-offsets", "--group", group),
        *("--from-file", str(plan), "--execute"),
    )
    assert committed(tool, group) == [(topic, 0, 3), (topic, 1, 3)]


def test_seek_is_reset_said_shortly(tool, group, topic, tmp_path):
    tool("group", "seek", group, "--to", "end", "--topic", topic)
    assert committed(tool, group) == [(topic, 0, 10), (topic, 1, 10)]
    tool("group", "seek", group, "--to", "start")
    assert committed(tool, group) == [(topic, 0, 0), (topic, 1, 0)]
    tool("group", "seek", group, "--to", "-3", "--topic", f"{topic}:1")
    assert committed(tool, group) == [(topic, 0, 0), (topic, 1, 7)]
    copy = f"{group}-copy"
    tool("group", "seek", copy, "--to-group", group)
    assert committed(tool, copy) == committed(tool, group)
    file = tmp_path / "rpk"
    file.write_text(f"{topic} 0 5\n")
    tool("group", "seek", copy, "--to-file", file)
    assert committed(tool, copy)[0] == (topic, 0, 5)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_with_members_is_left_alone(tool, address, group, topic, protocol):
    with Member(address, group, topic, **{"group.protocol": protocol}) as consumer:
        consumer.commit(offsets=[TopicPartition(topic, 0, 7)], asynchronous=False)
        moved = tool("group", "reset", group, "--all-topics", "--to-earliest", "--yes", code=1)
        deleted = tool("group", "delete", group, "--yes", code=1)
        removed = tool("group", "offsets", "delete", group, "-t", topic, "--yes", code=1)
        assert committed(tool, group) == [(topic, 0, 7)]
    assert moved.said.startswith(
        f"error: group {group} cannot be moved: it has 1 member (such as a-client at 127.0.0.1)\n"
        "       stop its consumers first"
    )
    assert f"group {group} cannot be deleted: it has 1 member" in deleted.said
    assert f"a member subscribes to {topic}" in removed.said


def test_wrong_command_lines_say_what_is_missing(tool, group, topic):
    def said(*how, code=2):
        return tool("group", "reset", group, *how, code=code).said

    assert "say where to: one of --to-earliest" in said("--topic", topic)
    assert "--to-earliest and --to-latest were given" in said("--to-earliest", "--to-latest")
    assert "say which partitions: --topic" in said("--to-earliest")
    assert "'soon' is no time" in said("--topic", topic, "--to-time", "soon")
    assert "is not like orders" in said("--topic", f"{topic}:x", "--to-latest")
    assert "has no partition 9" in said("--topic", f"{topic}:9", "--to-latest", code=1)
    assert "did you mean" in said("--topic", f"{topic}x", "--to-latest", code=1)
    assert "committed nothing" in said("--all-topics", "--to-latest", code=1)
    assert "no committed offset to start from" in said("-t", topic, "--shift-by", 1, code=1)
    bad = tool("group", "reset", group, "--from-file", "-", stdin=f"{topic},0\n", code=1)
    assert "line 1: 2 fields" in bad.said
    bad = tool("group", "reset", group, "--from-file", "-", stdin=f"{topic},7,0\n", code=1)
    assert f"topic {topic} has no partition 7" in bad.said


def test_ids_cannot_rewrite_the_screen(tool, group, topic):
    name = f"{group}\x1b[2J\nb"
    commit(tool, name, (topic, 0, 4))
    shown = rf"{group}\x1b[2J\nb"
    assert f"{shown}  " in tool("group", "list").text
    assert tool("group", "describe", name).text.startswith(f"{shown}  Empty")
    assert name in [one["group"] for one in tool.json("group", "list")]
    assert tool("group", "delete", name, "--yes").text == f"deleted group {shown}\n"


# -- forgetting ------------------------------------------------------------------------------


def test_offsets_of_a_topic_are_removed(tool, group, topic):
    commit(tool, group, (topic, 0, 4), (topic, 1, 6))
    dry = tool("group", "offsets", "delete", group, "--topic", f"{topic}:1", "--dry-run")
    assert "nothing was done (dry run)" in dry.text
    gone = tool("group", "offsets", "delete", group, "--topic", f"{topic}:1", "--yes")
    assert gone.text == f"{group}: {topic}-1 offset 6 removed\n"
    assert committed(tool, group) == [(topic, 0, 4)]
    nothing = tool("group", "offsets", "delete", group, "--topic", f"{topic}:1", code=1)
    assert f"it has for: {topic}" in nothing.said


def test_groups_are_deleted_each_alone(tool, group, topic):
    commit(tool, group, (topic, 0, 4))
    assert "would be deleted" in tool("group", "delete", group, "--dry-run").text
    absent = f"{group}-absent"
    outcome = tool.json("group", "delete", group, absent, "--yes", code=1)
    assert [(o["group"], o["result"]) for o in outcome] == [(group, "deleted"), (absent, "failed")]
    assert tool.json("group", "list", group) == []
    assert "does not exist" in tool("group", "delete", group, "--if-exists").text
