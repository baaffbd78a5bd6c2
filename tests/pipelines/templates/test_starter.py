"""The template to start from, whole: records that are too large for what becomes of them, on a real broker and a real Spark."""

import ast
import json

import pytest
from confluent_kafka import Producer
from template_kit import TEMPLATES, template
from topic_kit import consume_all, make_topic

from barnabas import Broker
from barnabas.pipelines.continuous import Pipeline
from barnabas.pipelines.dead_letters import CUT_BYTES


def sinks(file):
    """The sinks of a file: name, format, and its options as they are written."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "dp.create_sink":
            name, kind, options = node.args
            yield ast.literal_eval(name), ast.literal_eval(kind), ast.unparse(options)


def test_no_template_stops_at_a_row_that_cannot_be_written():
    found = [
        (file.parent.parent.name, name, "deadLetterTopic" in options)
        for file in sorted(TEMPLATES.glob("*/transformations/*.py"))
        for name, kind, options in sinks(file)
        if kind == "barnabas"
    ]
    assert len(found) > 6
    assert [(where, name) for where, name, is_safe in found if not is_safe] == []


@pytest.fixture
def bootstrap():
    """A broker that has no orders of other tests."""
    with Broker() as running:
        yield running.bootstrap


@pytest.mark.timeout(900)  # Spark, on a machine with much else to do
def test_orders_that_grow_too_large_stop_nothing(tmp_path, bootstrap, spark):
    make_topic(bootstrap, "orders")
    fits_just = b"x" * 1_048_400
    grows = json.dumps({"customer": "x" * 600_000, "amount": 200.0}).encode()
    last = b'{"customer": "ann", "amount": 200.0}'
    producer = Producer({"bootstrap.servers": bootstrap, "message.max.bytes": 1_048_588})
    for value in (fits_just, grows, last):
        producer.produce("orders", value)
    assert producer.flush(60) == 0

    with template("starter", tmp_path) as project:
        settings = {"barnabas.bootstrap.servers": bootstrap, "spark.sql.shuffle.partitions": "2"}
        Pipeline(project, spark, settings).run_available()
    assert [each.key() for each in consume_all(bootstrap, "orders-large")] == [b"ann"]
    (bad,) = consume_all(bootstrap, "orders.dlq")
    assert bad.value() == fits_just[:CUT_BYTES]
    told = dict(bad.headers())
    assert told["barnabas.reason"].startswith(b"is no JSON")
    assert (told["barnabas.topic"], told["barnabas.offset"]) == (b"orders", b"0")
    assert told["barnabas.value.bytes"] == str(len(fits_just)).encode()
    (large,) = consume_all(bootstrap, "orders-large.dlq")
    assert large.key() == b"x" * CUT_BYTES
    assert dict(large.headers())["barnabas.topic"] == b"orders-large"
