"""Our command line tool as people run it: real processes against a real broker."""

import json
import os
import signal
import subprocess
import sys
import uuid

import pytest
from compat.test_up import Running
from compat.wire_client import WireClient
from process_kit import started

from barnabas.wire.batch import Producer, Record, build
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

TIMEOUT_S = 60


class Tool:
    """Runs `barnabas ARGUMENTS` against one broker."""

    def __init__(self, bootstrap, config_home):
        self.environ = {
            **{
                name: value
                for name, value in os.environ.items()
                if not name.startswith("BARNABAS_")
            },
            "BARNABAS_BOOTSTRAP": bootstrap,
            "XDG_CONFIG_HOME": str(config_home),
        }

    def command(self, *arguments):
        return [sys.executable, "-m", "barnabas.cli.main", *map(str, arguments)]

    def run(self, arguments, stdin):
        return subprocess.run(
            self.command(*arguments),
            input=stdin,
            capture_output=True,
            env=self.environ,
            timeout=TIMEOUT_S,
        )

    def __call__(self, *arguments, stdin=b"", code=0):
        done = self.run(arguments, stdin.encode() if isinstance(stdin, str) else stdin)
        said = done.stderr.decode()
        assert done.returncode == code, f"exit code {done.returncode}: {done.stdout!r} {said}"
        assert "Traceback" not in said
        assert "%3|" not in said, "librdkafka's own log reached the user"
        done.text, done.said = done.stdout.decode("utf-8", "replace"), said
        return done

    def json(self, *arguments, **how):
        return json.loads(self(*arguments, "-o", "json", **how).stdout)

    def records(self, *arguments):
        return [
            json.loads(line)
            for line in self("consume", *arguments, "-o", "json").stdout.splitlines()
        ]

    def start(self, *arguments):
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        return started(self.command(*arguments), env=self.environ, **pipes)


@pytest.fixture
def tool(bootstrap, tmp_path):
    return Tool(bootstrap, tmp_path)


@pytest.fixture
def name():
    return f"cli-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def topic(tool, name):
    """A topic with one partition."""
    tool("topic", "create", name, "--partitions", 1)
    return name


# -- topics and settings ---------------------------------------------------------------------


def test_a_topic_is_created_shown_altered_and_deleted(tool, name):
    assert (
        tool("topic", "create", name, "-p", 3, "-c", "retention.ms=3600000").text
        == f"created {name}\n"
    )
    [listed] = tool.json("topic", "list", name)
    assert listed == {
        "topic": name,
        "partitions": 3,
        "replication_factor": 1,
        "internal": False,
        "under_replicated": 0,
        "leaderless": 0,
    }
    changed = tool(
        "topic",
        "alter",
        name,
        "-p",
        4,
        "--set",
        "max.message.bytes=2000",
        "--delete",
        "retention.ms",
    )
    assert changed.text.splitlines()[0] == f"{name}: partitions 3 -> 4"
    [described] = tool.json("topic", "describe", name)
    assert {entry["name"]: entry["value"] for entry in described["configs"]} == {
        "max.message.bytes": "2000"
    }
    assert [p["partition"] for p in described["partitions"]] == [0, 1, 2, 3]
    assert all(p["replicas"] == p["in_sync"] == [p["leader"]] for p in described["partitions"])
    assert all(p["start_offset"] == p["end_offset"] == 0 for p in described["partitions"])
    page = tool("topic", "describe", name).text
    assert page.startswith(f"{name}  4 partitions, replication factor 1\n")
    assert "max.message.bytes=2000  (about 2.0 KiB)" in page
    assert tool("topic", "delete", name, "--yes").text == f"deleted {name}\n"
    assert tool.json("topic", "list", name) == []


def test_a_dry_run_changes_nothing(tool, topic, name):
    other = f"{name}-other"
    assert "could be created" in tool("topic", "create", other, "--dry-run").text
    assert tool.json("topic", "list", other) == []
    tool("topic", "alter", topic, "-p", 3, "--set", "retention.ms=5", "--dry-run")
    assert "would be deleted" in tool("topic", "delete", topic, "--dry-run").text
    [described] = tool.json("topic", "describe", topic)
    assert (len(described["partitions"]), described["configs"]) == (1, [])


def test_a_refused_alter_leaves_the_topic_as_it_was(tool, topic):
    refused = tool("topic", "alter", topic, "-p", 3, "--set", "retention.ms=soon", code=1)
    assert "retention.ms" in refused.said
    [described] = tool.json("topic", "describe", topic)
    assert len(described["partitions"]) == 1


def test_each_topic_stands_alone(tool, topic):
    new = f"{topic}-new"
    outcome = tool.json("topic", "create", topic, new, code=1)
    results = {entry["topic"]: entry["result"] for entry in outcome}
    assert results == {topic: "failed", new: "created"}
    assert next(e["error"]["name"] for e in outcome if e["error"]) == "TOPIC_ALREADY_EXISTS"
    assert "exists already" in tool("topic", "create", topic, "--if-not-exists").text
    gone = tool("topic", "delete", new, f"{topic}-never", "--if-exists").text
    assert f"deleted {new}\n" in gone
    assert f"{topic}-never does not exist\n" in gone


def test_mistakes_are_answered_with_the_next_step(tool, topic):
    assert f"did you mean {topic}?" in tool("topic", "describe", topic[:-1], code=1).said
    assert (
        "did you mean retention.ms?"
        in tool("topic", "alter", topic, "--set", "retenton.ms=1", code=1).said
    )
    assert (
        "did you mean cleanup.policy?"
        in tool("config", "get", "topic", topic, "cleanup.polic", code=1).said
    )
    assert "there is no broker 77" in tool("config", "get", "broker", 77, code=1).said
    assert "topic create" in tool("produce", "cli.none.such.topic", stdin="x\n", code=1).said
    assert "has no partition 9" in tool("produce", topic, "-p", 9, stdin="x\n", code=1).said
    assert "has no partition 9" in tool("consume", topic, "-p", 9, code=1).said
    assert "No such configuration property" in tool("topic", "list", "-X", "no.such=1", code=2).said


def test_asking_for_a_topic_does_not_create_it(tool, name):
    for arguments in (
        ("topic", "describe"),
        ("consume",),
        ("produce",),
        ("config", "get", "topic"),
    ):
        tool(*arguments, name, code=1)
    assert tool.json("topic", "list", name) == []


def test_settings_are_read_and_changed(tool, topic):
    tool("config", "set", "topic", topic, "retention.ms=1000", "cleanup.policy=compact")
    [entry] = tool.json("config", "get", "topic", topic, "retention.ms", "--documentation")
    assert (entry["value"], entry["source"], entry["read_only"]) == ("1000", "topic", False)
    assert entry["documentation"]
    assert tool("config", "set", "topic", topic, "--delete", "retention.ms", "--dry-run").said
    tool("config", "set", "topic", topic, "--delete", "retention.ms")
    names = {entry["name"] for entry in tool.json("config", "get", "topic", topic)}
    assert "cleanup.policy" in names
    assert "retention.ms" not in names
    everything = tool.json("config", "get", "topic", topic, "--all")
    assert len(everything) > 20


def test_settings_of_a_broker(tool, topic):
    [described] = tool.json("topic", "describe", topic)
    broker = described["partitions"][0]["leader"]
    [entry] = tool.json("config", "get", "broker", broker, "message.max.bytes")
    assert int(entry["value"]) > 0


# -- records ---------------------------------------------------------------------------------


def test_lines_become_records_and_records_lines(tool, topic):
    done = tool("produce", topic, stdin="one\ntwo\n\nthree")
    assert done.said == f"4 records (11 bytes) to {topic}\n"
    assert tool("consume", topic).stdout == b"one\ntwo\n\nthree\n"


def test_keys_headers_and_tombstones(tool, topic):
    lines = "a=1\tk1:v1\n\tk2:NULL\n"
    options = ("-K", ":", "--headers-separator", "\\t", "-Z", "NULL", "-H", "from=cli", "-z", "lz4")
    tool("produce", topic, *options, stdin=lines)
    first, second = tool.records(topic)
    assert (first["key"], first["value"]) == ("k1", "v1")
    assert first["headers"] == [{"key": "from", "value": "cli"}, {"key": "a", "value": "1"}]
    assert (second["key"], second["value"]) == ("k2", None)
    assert first["timestamp_type"] == "CreateTime"
    text = tool("consume", topic, "--format", "%p/%o %k=%s %S %h\\n", "-Z", "~").text
    assert text == "0/0 k1=v1 2 from=cli,a=1\n0/1 k2=~ -1 from=cli\n"


def test_json_goes_round(tool, topic):
    rows = [
        {
            "key": "k",
            "value": {"base64": "/wD+"},
            "headers": {"h": "é"},
            "timestamp": 1_700_000_000_000,
        },
        {"key": None, "value": "plain", "headers": [], "timestamp": 1_700_000_001_000},
    ]
    summary = tool.json(
        "produce", topic, "--format", "json", stdin="\n".join(map(json.dumps, rows))
    )
    assert summary == {"topic": topic, "records": 2, "bytes": 9, "failed": 0, "errors": []}
    first, second = tool.records(topic)
    assert first["value"] == {"base64": "/wD+"}
    assert first["headers"] == [{"key": "h", "value": "é"}]
    assert (second["timestamp"], second["value"]) == (1_700_000_001_000, "plain")
    again = tool("consume", topic, "-o", "json").stdout
    tool("produce", topic, "--format", "json", stdin=again)
    copies = tool.records(topic)[2:]
    assert [{**copy, "offset": 0} for copy in copies] == [
        {**r, "offset": 0} for r in (first, second)
    ]


def test_a_bad_line_is_named_and_the_good_ones_before_it_are_kept(tool, topic):
    bad = tool("produce", topic, "--format", "json", stdin='{"value": "good"}\nbad\n', code=1)
    assert "line 2: not JSON" in bad.said
    assert tool("consume", topic).stdout == b"good\n"


def test_a_file_may_be_one_record(tool, topic, tmp_path):
    path = tmp_path / "blob"
    path.write_bytes(bytes(range(256)) * 10)
    tool("produce", topic, "--file", path, "--whole-file", "-k", "blob")
    assert tool("consume", topic, "--format", "%s").stdout == path.read_bytes()


def test_every_codec_and_every_kind_of_acknowledgement(tool, topic, tmp_path):
    path = tmp_path / "lines"
    path.write_text("".join(f"line {n}\n" for n in range(2000)))
    for codec, acks in (("gzip", "all"), ("snappy", "1"), ("lz4", "all"), ("zstd", "0")):
        tool("produce", topic, "--file", path, "-z", codec, "--acks", acks)
    with tool.start("consume", topic, "--follow") as follower:  # acks 0 does not wait for the write
        read = b"".join(follower.stdout.readline() for _ in range(4 * 2000))
        follower.send_signal(signal.SIGINT)
    assert read == path.read_bytes() * 4


def test_a_refused_record_is_named_with_line_and_reason(tool, name):
    tool("topic", "create", name, "-p", 1, "-c", "max.message.bytes=500")
    refused = tool("produce", name, stdin=f"{'x' * 2000}\n", code=1)
    assert "line 1: " in refused.said
    assert "max.message.bytes" in refused.said
    assert "1 failed" in refused.said


def test_from_and_to_choose_offsets(tool, topic):
    tool("produce", topic, stdin="".join(f"{n}\n" for n in range(10)))

    def read(*options):
        return tool("consume", topic, *options).text.split()

    assert read("--from", 7) == ["7", "8", "9"]
    assert read("--from", -2) == ["8", "9"]
    assert read("--to", 3) == ["0", "1", "2"]
    assert read("--from", 2, "--to", -5) == ["2", "3", "4"]
    assert read("--from", 4, "--count", 2) == ["4", "5"]
    assert read("--from", "end") == []
    assert read("--from", "1h") == [str(n) for n in range(10)]
    assert read("--to", "1h") == []
    late = tool("consume", topic, "--from", 99)
    assert (late.text, late.said) == ("", "note: partition 0 ends at 10, before offset 99\n")


def test_from_and_to_choose_times(tool, topic):
    rows = [{"value": str(n), "timestamp": 1_700_000_000_000 + n * 60_000} for n in range(5)]
    tool("produce", topic, "--format", "json", stdin="\n".join(map(json.dumps, rows)))
    picked = tool("consume", topic, "--from", "@1700000060000", "--to", "2023-11-14T22:16:20Z")
    assert picked.text.split() == ["1", "2"]


def test_partitions_are_kept_apart(tool, name):
    tool("topic", "create", name, "-p", 3)
    for partition in range(3):
        tool("produce", name, "-p", partition, stdin=f"in {partition}\n")
    assert sorted(tool("consume", name).text.splitlines()) == ["in 0", "in 1", "in 2"]
    chosen = tool.records(name, "-p", 0, "-p", 2)
    assert sorted((r["partition"], r["value"]) for r in chosen) == [(0, "in 0"), (2, "in 2")]


def test_following_shows_what_comes_and_ends_on_ctrl_c(tool, topic):
    tool("produce", topic, stdin="old\n")
    with tool.start("consume", topic, "--follow") as follower:
        assert follower.stdout.readline() == b"old\n"
        tool("produce", topic, stdin="new\n")
        assert follower.stdout.readline() == b"new\n"
        follower.send_signal(signal.SIGINT)
        assert follower.wait(TIMEOUT_S) == 0
        assert follower.stderr.read() == b""


def test_ctrl_c_while_producing_loses_nothing_that_was_read(tool, topic):
    with (
        tool.start("consume", topic, "--follow") as follower,
        tool.start("produce", topic) as producer,
    ):
        producer.stdin.write(b"a\nb\n")
        producer.stdin.flush()
        assert [follower.stdout.readline(), follower.stdout.readline()] == [b"a\n", b"b\n"]
        producer.send_signal(signal.SIGINT)
        assert producer.wait(TIMEOUT_S) == 130
        assert producer.stderr.read().decode() == f"2 records (2 bytes) to {topic}\n"
        follower.send_signal(signal.SIGINT)


def test_a_reader_that_goes_away_is_no_error(tool, topic):
    tool("produce", topic, stdin="".join(f"{'x' * 100}{n}\n" for n in range(20_000)))
    with tool.start("consume", topic) as consumer:
        assert consumer.stdout.readline().endswith(b"0\n")
        consumer.stdout.close()
        assert consumer.wait(TIMEOUT_S) == 0
        assert consumer.stderr.read() == b""


def test_topic_names_complete(tool, topic):
    tool.environ |= {
        "_BARNABAS_COMPLETE": "bash_complete",
        "COMP_WORDS": f"barnabas consume {topic[:-2]}",
        "COMP_CWORD": "2",
    }
    assert tool().text.split() == [f"plain,{topic}"]


def test_options_may_stand_before_the_noun_and_profiles_name_brokers(
    tool, topic, bootstrap, tmp_path
):
    (tmp_path / "barnabas").mkdir()
    (tmp_path / "barnabas" / "profiles.toml").write_text(f'[here]\nbootstrap = "{bootstrap}"\n')
    tool.environ["BARNABAS_BOOTSTRAP"] = "127.0.0.1:1"
    assert topic in tool("--profile", "here", "-o", "json", "topic", "list").text
    assert topic in tool("--bootstrap", bootstrap, "topic", "list", topic).text
    assert "barnabas up" in tool("topic", "list", code=1).said


def test_a_producer_that_cannot_go_on_is_told_in_one_sentence(tmp_path):
    """Another one has written with its id, which the first producer of a new broker gets."""
    with Running("--data-dir", tmp_path / "data", "--listen", "127.0.0.1:0") as running:
        tool = Tool(running.ready[0], tmp_path)
        tool("topic", "create", "t")
        records = [Record(number, 5, None, b"v") for number in range(3)]
        batch = PartitionProduceData(
            index=0, records=bytes(build(records, producer=Producer(0, 0, 0)))
        )
        topic_data = [TopicProduceData(name="t", partition_data=[batch])]
        client = WireClient(running.ready[0])
        answer = client.ask(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=topic_data), 11)
        client.close()
        assert answer.responses[0].partition_responses[0].error_code == 0
        said = tool("produce", "t", stdin="one\ntwo\n", code=1).said
        assert "error: line 1: " in said
        assert "0 records (0 bytes) to t, 2 failed" in said
