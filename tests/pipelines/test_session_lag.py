"""Lag of queries in seconds, from a real broker, and `barnabas spark` where it needs no Spark to run."""

import json
import os
import socket
import subprocess
import sys

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.pipelines.lag import LagMeter
from barnabas.pipelines.progress import Board, Lag, read_batch

FIRST_MS = 1_700_000_000_000


@pytest.fixture
def clicks(bootstrap, topic):
    """Ten records in each of two partitions, a second apart."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, 2, 1)])[topic].result(30)
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(20):
        producer.produce(topic, b"x", partition=number % 2, timestamp=FIRST_MS + 1000 * number)
    assert producer.flush(30) == 0
    return topic


@pytest.mark.parametrize(
    ("reached", "records", "seconds"),
    [
        ({"0": 10, "1": 10}, 0, 0.0),
        ({"0": 9, "1": 10}, 1, 0.0),
        ({"0": 8, "1": 10}, 2, 2.0),
        ({"0": 0, "1": 10}, 10, 18.0),
        ({"0": 8, "1": 0}, 12, 18.0),
        ({"0": 99, "1": 10}, 0, 0.0),
    ],
)
def test_records_that_wait_and_the_longest_wait_of_one(bootstrap, clicks, reached, records, seconds):  # fmt: skip
    meter = LagMeter({"bootstrap.servers": bootstrap})
    assert meter.measure({clicks: reached}) == Lag(records, seconds)


def test_what_cannot_be_known(bootstrap):
    meter = LagMeter({"bootstrap.servers": bootstrap})
    assert meter.measure({}) == Lag()
    assert meter.measure({"nowhere": {"0": 1}}) == Lag()


def test_brokers_that_do_not_answer_are_told_from_what_cannot_be_known(clicks):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    meter = LagMeter({"bootstrap.servers": f"127.0.0.1:{port}"})
    assert meter.measure({clicks: {"0": 1}}) == Lag(answered=False)


def barnabas(*arguments, **environment):
    command = [sys.executable, "-m", "barnabas.cli.main", "spark", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=120, env={**os.environ, **environment}
    )


def test_tail_tells_of_other_processes(bootstrap, clicks, tmp_path):
    report = {
        "id": "1b4e28ba", "name": "counts", "batchId": 7, "numInputRows": 16, "processedRowsPerSecond": 32.0, "batchDuration": 500,
        "sources": [{"endOffset": {clicks: {"0": 8, "1": 8}}, "latestOffset": {clicks: {"0": 10, "1": 10}}}],
    }  # fmt: skip
    board = Board()
    board.on_batch(report["id"], report["name"], read_batch(report))
    folder = tmp_path / "barnabas/queries"
    folder.mkdir(parents=True)
    (folder / f"{os.getpid()}.json").write_text(board.to_json())
    done = barnabas("tail", "--once", "--bootstrap", bootstrap, "-o", "json", XDG_CACHE_HOME=str(tmp_path))  # fmt: skip
    assert json.loads(done.stdout) == [
        {
            "id": "1b4e28ba", "name": "counts", "state": "running", "batch": 7, "rows": 16, "rows_per_second": 32.0, "batch_ms": 500,
            "lag": 4, "lag_seconds": 2.0, "offsets": {clicks: {"0": 8, "1": 8}},
        }
    ]  # fmt: skip
    done = barnabas("tail", "--once", "--bootstrap", bootstrap, XDG_CACHE_HOME=str(tmp_path / "other"))  # fmt: skip
    assert done.stdout == "no streaming query runs\n"


def test_up_says_what_is_in_the_way():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = barnabas("up", "--port", str(port))
    assert done.returncode == 1
    assert done.stderr == f"error: cannot listen on 127.0.0.1:{port}: Address already in use\n"


def test_up_is_no_door_to_another_server():
    done = barnabas("up", "--master", "sc://127.0.0.1:15002")
    assert done.returncode == 2
    assert "programs can use it as it is" in done.stderr
