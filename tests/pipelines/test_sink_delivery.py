"""How rows get into topics, without Spark around it: a real broker, attempts that crash, zombies, poison."""

import re

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from pipeline_kit import Sink, rows
from topic_kit import consume_all, make_topic

from barnabas.pipelines import delivery
from barnabas.pipelines.problem import PipelineProblem, one_sentence


@pytest.fixture
def sink(bootstrap, topic):
    make_topic(bootstrap, topic, 2)
    return Sink(bootstrap, topic)


def refusal(call, *args):
    with pytest.raises(PipelineProblem) as caught:
        call(*args)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_row_has_what_its_columns_say(bootstrap, topic):
    make_topic(bootstrap, topic, 3)
    headers = [[{"key": "a", "value": b"1"}, {"key": "a", "value": None}], None]
    header_type = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    batch = pa.RecordBatch.from_pydict(
        {
            "key": ["k", None],
            "value": [b"v", None],
            "partition": pa.array([2, 1], pa.int32()),
            "timestamp": pa.array([5_000_000, 6_000_000], pa.timestamp("us", "UTC")),
            "headers": pa.array(headers, header_type),
            "other": [1, 2],
        }
    )
    Sink(bootstrap, topic).write(0, batch)
    second, first = consume_all(bootstrap, topic)
    assert (first.key(), first.value(), first.partition()) == (b"k", b"v", 2)
    assert first.timestamp() == (1, 5000)
    assert first.headers() == [("a", b"1"), ("a", None)]
    assert (second.key(), second.value(), second.partition()) == (None, None, 1)
    assert second.headers() is None


def test_keys_go_where_java_sends_them(bootstrap, topic):
    make_topic(bootstrap, topic, 3)
    keys = [f"key-{each}" for each in range(50)]
    Sink(bootstrap, topic).write(0, rows(*keys, key=keys))
    other = make_topic(bootstrap, f"{topic}-other", 3)
    producer = Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2_random"})
    for each in keys:
        producer.produce(other, each, each)
    assert producer.flush(30) == 0
    found = {each.key(): each.partition() for each in consume_all(bootstrap, topic)}
    assert found == {each.key(): each.partition() for each in consume_all(bootstrap, other)}


def test_topics_by_column_unless_there_is_an_option(bootstrap, topic):
    for name in (f"{topic}-a", f"{topic}-b"):
        make_topic(bootstrap, name)
    batch = rows("1", "2", topic=[f"{topic}-a", f"{topic}-b"])
    by_column = Sink(bootstrap, "")
    by_column.name = topic
    assert by_column.write(0, batch) == 2
    assert by_column.write(0, batch) == 0
    assert by_column.values(f"{topic}-a") == ["1"]
    by_option = Sink(bootstrap, f"{topic}-b")
    by_option.write(0, batch)
    assert by_option.values() == ["2", "1", "2"]


def test_a_replayed_epoch_is_skipped_and_the_next_one_is_not(sink):
    assert sink.write(0, rows("a"), rows("b", "c")) == 3
    assert sink.write(0, rows("a"), rows("b", "c")) == 0
    assert sink.write(1, rows("d")) == 1
    assert sink.write(1, rows("d")) == 0
    # Epochs without rows leave no trace.
    assert sink.write(2) == 0
    assert sink.write(7, rows("e")) == 1
    assert sorted(sink.values()) == ["a", "b", "c", "d", "e"]


def test_an_attempt_that_crashed_leaves_nothing(sink):
    def batches():
        yield rows("half")
        raise RuntimeError("the task is killed")

    with sink.client() as client, pytest.raises(RuntimeError):
        delivery.write_epoch(client, sink.options, sink.name, 0, batches())
    assert sink.write(0, rows("half"), rows("whole")) == 2
    assert sorted(sink.values()) == ["half", "whole"]


def test_a_zombie_is_fenced_while_another_attempt_writes(sink):
    """Two attempts at once: the one that began last wins, whatever the other does."""

    def zombie():
        yield rows("z1")
        assert sink.write(0, rows("z1"), rows("z2")) == 2
        yield rows("z2")

    with sink.client() as client:
        told = refusal(delivery.write_epoch, client, sink.options, sink.name, 0, zombie())
    assert "another attempt of this task has taken over" in told
    assert sorted(sink.values()) == ["z1", "z2"]


def test_a_zombie_of_an_epoch_that_is_over_writes_nothing(sink):
    sink.write(0, rows("a"))
    sink.write(1, rows("b"))
    told = refusal(sink.write, 0, rows("a"))
    assert "is asked for epoch 0 and has written epoch 1" in told
    assert sorted(sink.values()) == ["a", "b"]


def test_an_attempt_whose_commit_was_not_heard_of_is_not_repeated(sink):
    """It had committed, and died before it could say so: the next attempt takes over the id and finds the epoch."""
    with sink.client() as client:
        delivery.write_epoch(client, sink.options, sink.name, 0, iter([rows("a")]))
        assert client.committed(sink.name, None)
    assert sink.write(0, rows("a")) == 0
    assert sink.values() == ["a"]


def test_tasks_of_a_batch_become_visible_together(sink):
    with sink.client() as client:
        first = delivery.write_open(client, sink.options, f"{sink.name}-x", iter([rows("a")]))
    with sink.client() as client:
        second = delivery.write_open(client, sink.options, f"{sink.name}-y", iter([rows("b")]))
        assert delivery.write_open(client, sink.options, f"{sink.name}-z", iter(())) == (0, None)
    assert sink.values() == []
    with sink.client() as driver:
        delivery.end_all(driver, [first[1], second[1]])
    assert sorted(sink.values()) == ["a", "b"]


def test_tasks_of_a_batch_that_failed_leave_nothing(sink):
    with sink.client() as client:
        _, prepared = delivery.write_open(client, sink.options, sink.name, iter([rows("a")]))
        delivery.abort_all(client, [prepared])
        _, again = delivery.write_open(client, sink.options, sink.name, iter([rows("b")]))
        assert "nothing was written" in refusal(delivery.end_all, client, [prepared, again])
    assert sink.values() == []


def test_what_killed_tasks_left_open_is_aborted_and_nobody_elses(sink, topic):
    """A failed job's tasks are killed at any moment; readers would wait for the time-out of what they left open."""
    others = f"{sink.name}-x-1"
    with sink.client() as client:
        for name in (f"{sink.name}-1-0", others):
            delivery.write_open(client, sink.options, name, iter([rows(name)]))
        delivery.abort_left(client, re.compile(re.escape(sink.name) + r"-\d+-\d+"))
        assert delivery._open(client) == [others]
        delivery.abort_left(client, re.compile(re.escape(others)))
    assert sink.values() == []
    assert sink.write(0, rows("after")) == 1
    assert sink.values() == ["after"]


def test_at_least_once_writes_again(sink):
    for _ in range(2):
        with sink.client() as client:
            delivery.write_at_least_once(client, sink.options, sink.name, iter([rows("a", "b")]))
    assert sorted(sink.values()) == ["a", "a", "b", "b"]


def test_poison_is_told_with_row_and_reason(bootstrap, topic):
    make_topic(bootstrap, topic, **{"cleanup.policy": "compact", "max.message.bytes": 5000})
    sink = Sink(bootstrap, topic)
    told = refusal(sink.write, 0, rows("a", key=["k"]), rows("b", "c", key=["k", None]))
    assert f"row 3 of {sink.name}, epoch 0 cannot be written to {topic}" in told
    assert "key" in told
    assert told.endswith("set deadLetterTopic to put such rows aside")
    told = refusal(sink.write, 0, rows("x" * 6000, key=["large"]))
    assert f"row 1 (key 'large') of {sink.name}" in told
    assert sink.values() == []


def test_poison_is_put_aside_with_its_reason_in_the_same_transaction(bootstrap, topic):
    make_topic(bootstrap, topic, **{"cleanup.policy": "compact", "max.message.bytes": 5000})
    aside = make_topic(bootstrap, f"{topic}-dead")
    sink = Sink(bootstrap, topic, deadLetterTopic=aside)
    assert sink.write(0, rows("a", "b", "x" * 6000, key=["k", None, "large"])) == 3
    assert sink.write(0, rows("a", "b", "x" * 6000, key=["k", None, "large"])) == 0
    assert sink.values() == ["a"]
    no_key, large = consume_all(bootstrap, aside)
    assert (no_key.key(), no_key.value()) == (None, b"b")
    assert dict(no_key.headers())["barnabas.topic"] == topic.encode()
    assert dict(no_key.headers())["barnabas.reason"]
    assert (large.key(), large.value()) == (b"large", b"x" * 6000)


def test_a_row_with_a_nameless_header_is_put_aside_without_it(bootstrap, topic):
    make_topic(bootstrap, topic)
    aside = make_topic(bootstrap, f"{topic}-dead")
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    headers = pa.array([[{"key": "a", "value": b"1"}, {"key": None, "value": b"2"}]], kind)
    Sink(bootstrap, topic, deadLetterTopic=aside).write(0, rows("x", headers=headers))
    (letter,) = consume_all(bootstrap, aside)
    assert letter.value() == b"x"
    assert [name for name, _ in letter.headers()] == ["a", "barnabas.reason", "barnabas.topic"]


def test_what_even_the_dead_letter_topic_refuses_is_cut(bootstrap, topic):
    make_topic(bootstrap, topic, **{"max.message.bytes": 100_000})
    aside = make_topic(bootstrap, f"{topic}-dead", **{"max.message.bytes": 100_000})
    Sink(bootstrap, topic, deadLetterTopic=aside).write(0, rows("x" * 200_000))
    (letter,) = consume_all(bootstrap, aside)
    assert letter.value() == b"x" * 65_536
    assert dict(letter.headers())["barnabas.value.bytes"] == b"200000"


def test_headers_that_even_the_dead_letter_topic_refuses_are_cut_and_the_reason_is_kept(
    bootstrap, topic
):
    make_topic(bootstrap, topic)
    aside = make_topic(bootstrap, f"{topic}-dead")
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    own = [
        [{"key": "a", "value": b"1" * 2_000_000}],
        [{"key": "h", "value": b"1" * 30}] * 40_000,
        [{"key": "n" * 2_000_000, "value": b"1"}, {"key": "b", "value": b"2"}],
    ]
    headers = pa.array(own, kind)
    Sink(bootstrap, topic, deadLetterTopic=aside).write(0, rows("x", "y", "z", headers=headers))
    long, many, named = (each.headers() for each in consume_all(bootstrap, aside))
    ours = ["barnabas.reason", "barnabas.topic", "barnabas.headers.bytes"]
    assert [name for name, _ in long] == ["a", *ours]
    assert len(long[0][1]) == 8192
    assert 1000 < len(many) < 10_000
    assert [name for name, _ in many][-3:] == ours
    assert [name for name, _ in named] == ["b", *ours]
    assert int(dict(named)["barnabas.headers.bytes"]) > 2_000_000


def test_a_topic_that_is_not_there(bootstrap, topic):
    assert f"'{topic}'" in str(_failure(Sink(bootstrap, topic), rows("a")))


def test_transactions_longer_than_the_broker_allows(bootstrap, topic):
    make_topic(bootstrap, topic)
    sink = Sink(bootstrap, topic, **{"kafka.transaction.timeout.ms": "99999999"})
    assert "set kafka.transaction.timeout.ms" in refusal(sink.write, 0, rows("a"))


def _failure(sink, batch):
    with pytest.raises(PipelineProblem) as caught, one_sentence():
        sink.write(0, batch)
    return caught.value
