"""Dead letters as people handle them: real processes against a real broker (and Apache Kafka, where there is one)."""

import json

import pytest
from acl_kit import AUTHORIZER
from chaos.wire_kit import BrokerProcess
from cluster_kit import wait_until
from compat.test_cli import Tool
from confluent_kafka import Consumer, Producer, TopicPartition
from topic_kit import wait_until_ended

from barnabas.cli.dead_letters import Letter, Wanted
from barnabas.cli.record import Record
from barnabas.cli.redrive import plan


@pytest.fixture
def tool(bootstrap, tmp_path):
    return Tool(bootstrap, tmp_path)


@pytest.fixture
def source(tool, request):
    name = "".join(each if each.isalnum() else "-" for each in request.node.name)[:80]
    tool("topic", "create", name, "--partitions", "3")
    tool("topic", "create", f"{name}.dlq", "--partitions", "2")
    return name


def bury(bootstrap, source, count, reason="is no JSON", partition=0):
    """Write dead letters of records 0 to count, as a pipeline does."""
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for number in range(count):
        told = {"reason": reason, "topic": source, "partition": str(number % 3), "offset": str(number), "stack": "Traceback\n  line 1"}  # fmt: skip
        headers = [("trace", b"\xff%d" % number), *((f"barnabas.{name}", text.encode()) for name, text in told.items())]  # fmt: skip
        producer.produce(f"{source}.dlq", b"\xfevalue %d" % number, b"key", partition=partition, headers=headers)  # fmt: skip
    assert producer.flush(60) == 0


def test_letters_are_listed_shown_and_sent_back_once(tool, source, bootstrap):
    bury(bootstrap, source, 4)
    bury(bootstrap, source, 2, reason="Timeout: no answer", partition=1)
    (row,) = [row for row in tool.json("dlq", "list") if row["topic"] == f"{source}.dlq"]
    assert (row["letters"], row["redriven"]) == (6, 0)
    assert row["reasons"] == {"is no JSON": 4, "Timeout: no answer": 2}
    (shown,) = tool.json("dlq", "show", f"{source}.dlq", "--offset", "0:3")
    assert shown["source"] == {"topic": source, "partition": 0, "offset": 3}
    assert (shown["reason"], shown["stack"]) == ("is no JSON", "Traceback\n  line 1")
    page = tool("dlq", "show", f"{source}.dlq", "--reason", "timeout").text
    assert "\\xfevalue 1" in page
    assert "| Traceback" in page

    planned = tool("dlq", "redrive", f"{source}.dlq", "--reason", "TIMEOUT", "--dry-run").text
    assert planned == f"would send 2 letters of {source}.dlq to {source}\n"
    assert tool.records(source) == []

    tool("dlq", "redrive", f"{source}.dlq", "--reason", "timeout")
    everything = tool.json("dlq", "redrive", f"{source}.dlq")
    assert everything["sent"] == {source: 4}
    assert everything["already_redriven"] == 2
    assert tool("dlq", "redrive", f"{source}.dlq").text.startswith("nothing of")

    back = tool.records(source, "--isolation", "read_committed")
    assert len(back) == 6
    values = sorted(json.dumps(each["value"]) for each in back)
    assert len(set(values)) == 4
    first = [each for each in back if each["partition"] == 0]
    assert all(each["key"] == "key" for each in back)
    assert [header["key"] for header in first[0]["headers"]] == ["trace"]
    assert "base64" in first[0]["headers"][0]["value"]
    rows = {row["topic"]: row for row in tool.json("dlq", "list")}
    assert rows[f"{source}.dlq"]["redriven"] == 6


def end_of(bootstrap, topic):
    """How far the log of a topic has grown, whoever may read it."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "looks", "log_level": 0}
    consumer = Consumer({**settings, "isolation.level": "read_uncommitted"})
    try:
        places = [TopicPartition(topic, number) for number in range(3)]
        return sum(consumer.get_watermark_offsets(place, 60)[1] for place in places)
    finally:
        consumer.close()


def test_a_redrive_that_is_killed_anywhere_and_run_again_sends_each_once(tool, source, bootstrap):
    count = 3_000
    bury(bootstrap, source, count)
    for _ in range(2):
        before = end_of(bootstrap, source)
        with tool.start("dlq", "redrive", f"{source}.dlq", "--timeout", "60") as running:
            wait_until(
                lambda: running.poll() is not None or end_of(bootstrap, source) > before,  # noqa: B023 - it is called in this turn
                "something is sent",
            )
            running.kill()
    tool("dlq", "redrive", f"{source}.dlq", "--timeout", "60")
    wait_until_ended(bootstrap, source)
    back = tool.records(source, "--isolation", "read_committed")
    assert len(back) == count
    assert len({json.dumps(each["value"]) for each in back}) == count


def test_letters_of_a_topic_that_was_made_again_are_sent(tool, source, bootstrap):
    bury(bootstrap, source, 3)
    tool("dlq", "redrive", f"{source}.dlq")
    tool("topic", "delete", f"{source}.dlq", "--yes")
    tool("topic", "create", f"{source}.dlq", "--partitions", "2")
    bury(bootstrap, source, 2)
    (row,) = [row for row in tool.json("dlq", "list") if row["topic"] == f"{source}.dlq"]
    assert (row["letters"], row["redriven"]) == (2, 0)
    again = tool.json("dlq", "redrive", f"{source}.dlq")
    assert (again["sent"], again["already_redriven"]) == ({source: 2}, 0)
    assert tool.json("dlq", "redrive", f"{source}.dlq")["already_redriven"] == 2
    wait_until_ended(bootstrap, source)
    assert len(tool.records(source, "--isolation", "read_committed")) == 5
    # Notes of the first topic are of no use any more, and are gone.
    left = {each["key"]: each["value"] for each in tool.records(f"{source}.dlq.redriven")}
    assert len([key for key, value in left.items() if value is not None]) == 2


def test_letters_that_do_not_say_where_from_go_where_one_says(tool, source, bootstrap):
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    producer.produce(f"{source}.dlq", b"alone")
    assert producer.flush(60) == 0
    refused = tool("dlq", "redrive", f"{source}.dlq", code=1)
    assert "--to TOPIC" in refused.said
    tool("dlq", "redrive", f"{source}.dlq", "--to", source)
    wait_until_ended(bootstrap, source)
    assert [each["value"] for each in tool.records(source)] == ["alone"]


def test_a_name_that_is_no_dead_letter_topic_makes_none(tool, bootstrap):
    assert "no topic nothing.dlq" in tool("dlq", "redrive", "nothing.dlq", code=1).said
    assert "nothing.dlq.redriven" not in tool("topic", "list").text


def test_a_dry_run_tells_of_letters_that_do_not_say_where_from(tool, source, bootstrap):
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    producer.produce(f"{source}.dlq", b"alone")
    assert producer.flush(60) == 0
    planned = tool("dlq", "redrive", f"{source}.dlq", "--dry-run", code=1)
    assert "nothing" not in planned.text
    assert "1 letter" in planned.said
    assert "--to TOPIC" in planned.said


def test_a_topic_without_dead_letters_is_not_redriven(tool, source, bootstrap):
    tool("produce", source, stdin="an order\n")
    for mode in ([], ["--dry-run"]):
        refused = tool("dlq", "redrive", source, *mode, code=1)
        assert f"{source} is no topic of dead letters" in refused.said
        assert f"did you mean {source}.dlq?" in refused.said
    assert f"{source}.redriven" not in tool("topic", "list").text
    assert "no topic nothing.redriven" in tool("dlq", "redrive", "nothing.redriven", code=1).said


def test_a_topic_of_another_name_with_dead_letters_is_redriven(tool, source, bootstrap):
    tool("topic", "create", f"{source}-bad")
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    producer.produce(f"{source}-bad", b"alone", headers=[("barnabas.topic", source)])
    assert producer.flush(60) == 0
    assert tool.json("dlq", "redrive", f"{source}-bad")["sent"] == {source: 1}


def test_what_was_cut_to_fit_is_not_sent_back(tool, source, bootstrap):
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    cut = [[(f"barnabas.{part}.bytes", b"9000000")] for part in ("key", "value", "headers")]
    for headers in ([], *cut):
        value = b"part" if headers else b"whole"
        producer.produce(f"{source}.dlq", value, headers=[("barnabas.topic", source), *headers])
    assert producer.flush(60) == 0
    assert (
        "left out 3 letters of which only a part was kept"
        in tool("dlq", "redrive", f"{source}.dlq").text
    )
    wait_until_ended(bootstrap, source)
    assert [each["value"] for each in tool.records(source)] == ["whole"]


def bury_large(bootstrap, source, *sizes):
    """Write a dead letter of each size; their partition is 0."""
    bury_large_of(bootstrap, f"{source}.dlq", source, *sizes)


def bury_large_of(bootstrap, dlq, source, *sizes):
    """Write dead letters of one topic into a dead-letter topic of any name."""
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0, "message.max.bytes": 10_000_000})  # fmt: skip
    for size in sizes:
        headers = [("barnabas.topic", source), ("barnabas.partition", "0")]
        producer.produce(dlq, b"v" * size, partition=0, headers=headers)
    assert producer.flush(60) == 0


def sizes_in(tool, bootstrap, topic):
    wait_until_ended(bootstrap, topic)
    return [len(each["value"]) for each in tool.records(topic, "--isolation", "read_committed")]


def test_a_letter_as_large_as_its_topic_takes_is_sent(tool, source, bootstrap):
    bury_large(bootstrap, source, 10, 1_045_000, 20)
    tool("dlq", "redrive", f"{source}.dlq")
    assert sizes_in(tool, bootstrap, source) == [10, 1_045_000, 20]


def test_letters_that_cannot_be_sent_are_named_and_the_others_go(tool, source, bootstrap):
    tool("config", "set", "topic", f"{source}.dlq", "max.message.bytes=5000000")
    bury_large(bootstrap, source, 10, 3_000_000, 20, 2_000_000, 30)
    for sent in ({source: 3}, {}):
        told = tool.json("dlq", "redrive", f"{source}.dlq", code=1)
        assert told["sent"] == sent
        assert [each["offset"] for each in told["refused"]] == [1, 3]
        # No transaction is left open, which would hold back who reads committed records only.
        assert sorted(sizes_in(tool, bootstrap, source)) == [10, 20, 30]
    told = tool("dlq", "redrive", f"{source}.dlq", code=1)
    assert f"left out 0:1: {source} takes 1,048,588 bytes (max.message.bytes)" in told.text
    assert "2 letters" in told.said


@pytest.mark.parametrize("mode", [["--dry-run"], []])
def test_what_a_topic_would_refuse_is_said_before_and_when_sending(tool, source, bootstrap, mode):
    """A dry run says what a run does, and does nothing."""
    tool("config", "set", "topic", source, "max.message.bytes=2000")
    bury_large(bootstrap, source, 10, 3_000)
    bury_large_of(bootstrap, f"{source}.dlq", f"{source}-gone", 20)
    told = tool("dlq", "redrive", f"{source}.dlq", *mode, code=1)
    verb, spared = ("would send", "would leave out") if mode else ("sent", "left out")
    sent, large, gone = told.text.splitlines()
    assert sent == f"{verb} 1 letter of {source}.dlq to {source}"
    assert large.startswith(f"{spared} 0:1: {source} takes 2,000 bytes (max.message.bytes)")
    assert gone == f"{spared} 0:2: there is no topic {source}-gone"
    assert "2 letters" in told.said
    assert sizes_in(tool, bootstrap, source) == ([] if mode else [10])
    topics = tool("topic", "list").text
    assert f"{source}-gone" not in topics
    assert (f"{source}.dlq.redriven" in topics) == (not mode)


@pytest.mark.parametrize("mode", [["--dry-run"], []])
def test_a_topic_that_one_may_not_write_to_is_named(tmp_path, mode):
    settings = (f"authorizer.class.name={AUTHORIZER}", "allow.everyone.if.no.acl.found=true")
    with BrokerProcess(tmp_path / "data", settings=settings) as broker:
        tool = Tool(broker.bootstrap, tmp_path)
        for topic in ("kept", "open", "a.dlq"):
            tool("topic", "create", topic)
        for topic in ("kept", "open"):
            bury_large_of(broker.bootstrap, "a.dlq", topic, 10)
        tool("acl", "add", "ANONYMOUS", "read", "topic:kept")
        told = tool.json("dlq", "redrive", "a.dlq", *mode, code=1)
        assert told["sent"] == {"open": 1}
        reason = "topic 'kept': no right to Write"
        assert told["refused"] == [{"partition": 0, "offset": 0, "reason": reason}]
        assert sizes_in(tool, broker.bootstrap, "open") == ([] if mode else [10])


def test_what_fails_leaves_no_transaction_open(tool, source, bootstrap):
    # So little is taken at once that each letter is waited for: the first is there when the second fails.
    tool("config", "set", "topic", source, "max.message.bytes=20000")
    bury_large(bootstrap, source, 10, 9_000, 20)
    small = ("-X", "message.max.bytes=2000", "-X", "batch.size=2000", "-X", "linger.ms=0")
    # Brokers abort what is open for too long: not while this looks.
    patient = ("-X", "transaction.timeout.ms=900000")
    assert "too large" in tool("dlq", "redrive", f"{source}.dlq", *small, *patient, code=1).said
    assert end_of(bootstrap, source) > 0, "nothing was sent that an abort could take back"
    (left,) = tool.json("txn", "describe", f"barnabas-redrive-{source}.dlq")
    assert left["state"] in {"PrepareAbort", "CompleteAbort"}
    assert sizes_in(tool, bootstrap, source) == []
    tool("dlq", "redrive", f"{source}.dlq")
    assert sizes_in(tool, bootstrap, source) == [10, 9_000, 20]


def test_letters_that_fit_one_by_one_are_sent_where_together_they_would_not(
    tool, source, bootstrap
):
    tool("config", "set", "topic", source, "max.message.bytes=2000")
    bury_large(bootstrap, source, *[1_500] * 5)
    tool("dlq", "redrive", f"{source}.dlq")
    assert sizes_in(tool, bootstrap, source) == [1_500] * 5


def test_more_letters_than_may_wait_are_sent(tool, source, bootstrap):
    bury(bootstrap, source, 20)
    tool("dlq", "redrive", f"{source}.dlq", "-X", "queue.buffering.max.messages=5")
    wait_until_ended(bootstrap, source)
    assert len(tool.records(source, "--isolation", "read_committed")) == 20


def test_filters_choose_by_reason_time_and_place():
    def letter(offset, reason, timestamp):
        headers = (("barnabas.reason", reason), ("barnabas.topic", b"clicks"))
        return Letter.of(Record("clicks.dlq", 0, offset, timestamp, None, None, b"", headers), {(0, 1)})  # fmt: skip

    letters = [letter(0, b"Bad date", 10), letter(1, b"bad date", 20), letter(2, b"late", 30)]
    by_reason = plan(letters, Wanted(reason="BAD"), None)
    assert [each.place for each, _ in by_reason.sent] == [(0, 0)]
    assert by_reason.done == 1
    assert [each.place for each, _ in plan(letters, Wanted(since_ms=20), None).sent] == [(0, 2)]
    at = Wanted(places=frozenset({(0, 0), (0, 2)}))
    assert [(each.place, to) for each, to in plan(letters, at, "other").sent] == [((0, 0), "other"), ((0, 2), "other")]  # fmt: skip
