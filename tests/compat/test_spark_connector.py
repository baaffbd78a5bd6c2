"""Spark's own Kafka connector against this broker: batch, streaming, by timestamp, headers, writes.

It runs on the Spark that it was released for, in an environment of its own (tools/peers.py), as one program (spark_connector.py).
"""

import json
import subprocess
from pathlib import Path

import peers
import pytest
from compat.conftest import needed
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

PROGRAM = Path(__file__).parent / "spark_connector.py"
PARTITIONS, COUNT = 2, 20
FIRST_MS = 1_700_000_000_000
MIDDLE = 10
# Where nothing was fetched before, the test fetches it.
pytestmark = [pytest.mark.java, pytest.mark.timeout(1200)]


def make_topics(bootstrap, *names):
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for made in admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in names]).values():
        made.result(30)


def fill(bootstrap, topic):
    """Records whose timestamps are a second apart; the even ones have a header."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for i in range(COUNT):
        headers = [("number", str(i).encode())] if i % 2 == 0 else None
        producer.produce(topic, f"value-{i}", f"key-{i}", i % PARTITIONS, timestamp=FIRST_MS + 1000 * i, headers=headers)  # fmt: skip
    assert producer.flush(30) == 0


def read_all(bootstrap, topic, count):
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "reader",
        "auto.offset.reset": "earliest",
    }
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    messages = []
    while len(messages) < count and (more := consumer.consume(count, 30)):
        messages += more
    consumer.close()
    return messages


def run_program(*arguments):
    spark = needed(peers.official_spark())
    needed(peers.java())
    submit = next(
        spark.python.parent.parent.glob("lib/python*/site-packages/pyspark/bin/spark-submit")
    )
    settings = {
        "spark.master": "local[2]", "spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2",
        # It lives for seconds: the quick compiler is enough.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }  # fmt: skip
    command = [submit, *(word for item in settings.items() for word in ("--conf", "=".join(item)))]
    command += ["--jars", ",".join(map(str, spark.jars)), PROGRAM, *map(str, arguments)]
    environment = {
        "PYSPARK_PYTHON": str(spark.python), "PYSPARK_DRIVER_PYTHON": str(spark.python), "SPARK_LOCAL_IP": "127.0.0.1",
        "PATH": f"{Path(peers.java()).parent}:/usr/bin:/bin", "HOME": str(Path.home()),
    }  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout.partition("found ")[2])


def test_every_way(bootstrap, topic_name, tmp_path):
    source, target = f"{topic_name}-source", f"{topic_name}-target"
    make_topics(bootstrap, source, target)
    fill(bootstrap, source)
    found = run_program(
        bootstrap, source, target, FIRST_MS + 1000 * MIDDLE, tmp_path / "checkpoint"
    )

    written = [[i % PARTITIONS, i // PARTITIONS, f"key-{i}", f"value-{i}"] for i in range(COUNT)]
    assert found["batch"] == sorted(written)
    assert found["headers"] == {f"value-{i}": [["number", str(i)]] for i in range(0, COUNT, 2)}
    assert found["since"] == sorted(written[MIDDLE:])
    assert found["until"] == sorted(written[:MIDDLE])
    assert (found["streamed"], found["streamed again"]) == (COUNT, 5)

    copied = read_all(bootstrap, target, COUNT + 5)
    values = sorted(message.value().decode() for message in copied)
    assert values == sorted(
        [f"value-{i}" for i in range(COUNT)] + [f"written-{i}" for i in range(5)]
    )
    with_headers = {message.value().decode(): message.headers() for message in copied}
    assert with_headers["value-4"] == [("number", b"4")]
