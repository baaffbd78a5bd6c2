"""kcat, as it is in scripts everywhere; it brings the librdkafka of its distribution, years older than the one in the wheel."""

import json

import pytest
from compat.records import CODECS, FIRST_TIMESTAMP_MS

LINES = [f"k{i}:value {i}" for i in range(50)]


def read(kcat, topic, *args):
    """The records up to the end of every partition asked for, as kcat's JSON."""
    done = kcat("-C", "-q", "-e", "-J", "-t", topic, *args)
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("codec", CODECS)
def test_lines_come_back(kcat, topic_name, codec):
    stdin = "\n".join(LINES) + "\n"
    kcat("-P", "-t", topic_name, "-K:", "-z", codec, "-H", "from=kcat", stdin=stdin)
    found = read(kcat, topic_name, "-o", "beginning")
    assert [f"{m['key']}:{m['payload']}" for m in found] == LINES
    assert [m["offset"] for m in found] == list(range(len(LINES)))
    assert {tuple(m["headers"]) for m in found} == {("from", "kcat")}
    assert min(m["ts"] for m in found) > FIRST_TIMESTAMP_MS


@pytest.mark.parametrize("acks", ["0", "1", "-1"])
def test_acks_and_idempotence(kcat, topic_name, acks):
    settings = ["-X", f"acks={acks}", "-X", f"enable.idempotence={str(acks == '-1').lower()}"]
    kcat("-P", "-t", topic_name, stdin="first\n")  # makes the topic, and shows that it has a leader
    kcat("-P", "-t", topic_name, *settings, stdin="second\n")
    # With acks=0 kcat may end before the broker has the record.
    while len(found := read(kcat, topic_name, "-o", "beginning")) < 2:
        assert acks == "0"
    assert [m["payload"] for m in found] == ["first", "second"]


def test_offsets_and_timestamps(kcat, topic_name):
    kcat("-P", "-t", topic_name, "-K:", stdin="\n".join(LINES) + "\n")
    assert [m["offset"] for m in read(kcat, topic_name, "-p", "0", "-o", "45")] == [*range(45, 50)]
    assert [m["offset"] for m in read(kcat, topic_name, "-p", "0", "-o", "-2")] == [48, 49]
    assert read(kcat, topic_name, "-p", "0", "-o", "end") == []
    first = read(kcat, topic_name, "-o", "beginning", "-c", "1")[0]
    assert read(kcat, topic_name, "-o", f"s@{first['ts']}")[0]["offset"] == 0
    assert f"{topic_name} [0] offset 0" in kcat("-Q", "-t", f"{topic_name}:0:1").stdout


def test_metadata_listing(kcat, topic_name, bootstrap):
    kcat("-P", "-t", topic_name, stdin="x\n")
    listing = json.loads(kcat("-L", "-J").stdout)
    assert [broker["name"] for broker in listing["brokers"]] == [bootstrap]
    (shown,) = [topic for topic in listing["topics"] if topic["topic"] == topic_name]
    assert [p["partition"] for p in shown["partitions"]] == [0]
    assert shown["partitions"][0]["leader"] == listing["brokers"][0]["id"]


def test_unknown_partition_is_an_error(kcat, topic_name):
    kcat("-P", "-t", topic_name, stdin="x\n")
    done = kcat("-P", "-t", topic_name, "-p", "7", stdin="y\n", check=False)
    assert done.returncode != 0
    assert "Unknown partition" in done.stderr


def test_a_group_goes_on_where_it_stopped(kcat, topic_name, group_bootstrap):
    """Balanced reading (-G) commits by itself when it ends."""
    at = ["-b", group_bootstrap]
    write = [*at, "-P", "-t", topic_name]
    read = [*at, "-q", "-e", "-X", "auto.offset.reset=earliest", "-G", f"{topic_name}-group"]
    kcat(*write, stdin="\n".join(LINES) + "\n")
    assert kcat(*read, topic_name).stdout.splitlines() == LINES
    assert kcat(*read, topic_name).stdout == ""
    kcat(*write, stdin="one more\n")
    assert kcat(*read, topic_name).stdout.splitlines() == ["one more"]
