"""Projects run by `barnabas pipeline run` as people run it: until it is stopped, and twice with Spark's own runner."""

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from cluster_kit import ROUNDS, only_in_make_chaos, wait_until
from confluent_kafka import Consumer, Producer, TopicPartition
from pipelines.projects import make
from process_kit import killed_after
from spark_kit import QUICK

from barnabas import Broker
from barnabas.pipelines.run_state import read_status

pytest.importorskip("pyspark", reason="pyspark is not installed (extra spark)")

#: Two starts of Spark on a machine with much else to do.
TIMEOUT_S = 900


WORDS = """
from pyspark import pipelines as dp


@dp.table
def words():
    return spark.readStream.format("rate").load()
"""


@pytest.fixture
def bootstrap():
    """A broker for the topics that the template names."""
    with Broker() as running:
        yield running.bootstrap


def environment(bootstrap):
    return {**os.environ, "BARNABAS_BOOTSTRAP": bootstrap, "BARNABAS_SPARK_ARCHIVE": "off", **QUICK}


def command(*arguments):
    return [sys.executable, "-m", "barnabas.cli.main", *map(str, arguments)]


def barnabas(bootstrap, *arguments):
    done = subprocess.run(command(*arguments), env=environment(bootstrap), capture_output=True, text=True, timeout=TIMEOUT_S, check=False)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def send(bootstrap, *values):
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for value in values:
        producer.produce("orders", value if isinstance(value, bytes) else json.dumps(value))
    assert producer.flush(60) == 0


def values(bootstrap, topic):
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "once", "enable.partition.eof": True, "log_level": 0})  # fmt: skip
    consumer.assign([TopicPartition(topic, 0, 0)])
    try:
        found = []
        while (message := consumer.poll(60)) is not None and message.error() is None:
            found.append(message.value())
        assert message is not None, f"{topic} has no end"
        return found
    finally:
        consumer.close()


@pytest.mark.timeout(2 * TIMEOUT_S + 120)
def test_the_second_run_with_sparks_runner_goes_on_where_the_first_ended(tmp_path, bootstrap):
    project = tmp_path / "shop"
    barnabas(bootstrap, "pipeline", "init", project)
    barnabas(bootstrap, "topic", "create", "orders")
    send(bootstrap, {"customer": "ann", "amount": 150.0}, {"customer": "bob", "amount": 1.0}, b"oops")  # fmt: skip
    run = ("pipeline", "run", project, "--once", "--master", "local[1]")
    assert "Run is COMPLETED." in barnabas(bootstrap, *run)
    assert [json.loads(each) for each in values(bootstrap, "orders-large")] == [{"customer": "ann", "amount": 150.0}]  # fmt: skip
    assert values(bootstrap, "orders.dlq") == [b"oops"]

    send(bootstrap, {"customer": "cem", "amount": 200.0})
    barnabas(bootstrap, *run)
    sent = [json.loads(each)["customer"] for each in values(bootstrap, "orders-large")]
    assert sent == ["ann", "cem"]
    assert values(bootstrap, "orders.dlq") == [b"oops"]
    status = json.loads(barnabas(bootstrap, "pipeline", "status", project, "--json"))
    assert (status["runner"], status["running"]) == ("once", False)
    assert {flow["state"] for flow in status["flows"]} == {"done"}


@pytest.mark.timeout(2 * TIMEOUT_S)
def test_a_project_runs_until_it_is_stopped_from_elsewhere(tmp_path, bootstrap):
    project = tmp_path / "shop"
    barnabas(bootstrap, "pipeline", "init", project)
    barnabas(bootstrap, "topic", "create", "orders")
    send(bootstrap, {"customer": "ann", "amount": 150.0}, {"customer": "bob", "amount": 1.0}, b"oops")  # fmt: skip
    run = command("pipeline", "run", project, "--master", "local[2]", "--set", "barnabas.refresh.seconds=1")  # fmt: skip

    def rows(flow):
        """What the run says of itself; asking by a process each time would be most of the work."""
        told = read_status(project / ".barnabas")
        return told and {each["name"]: each["rows_total"] for each in told["flows"]}[flow]

    with (
        subprocess.Popen(run, env=environment(bootstrap), stdout=subprocess.PIPE, text=True) as process,
        killed_after(process, TIMEOUT_S),
    ):  # fmt: skip
        assert process.stdout.readline() == "ready shop: 4 flows\n"
        wait_until(lambda: rows("large_orders") == 2, "orders are read", TIMEOUT_S)
        wait_until(lambda: rows("bad_orders") == 3, "all is read", TIMEOUT_S)
        assert "shop runs as process" in barnabas(bootstrap, "pipeline", "status", project)
        assert "stopped shop" in barnabas(bootstrap, "pipeline", "stop", project, "--timeout", "300")  # fmt: skip
        said = process.communicate(timeout=TIMEOUT_S)[0]
        assert process.returncode == 0, said
    told = json.loads(barnabas(bootstrap, "pipeline", "status", project, "--json"))
    assert {flow["state"] for flow in told["flows"]} == {"stopped"}
    assert len(values(bootstrap, "orders-large")) == 1
    assert values(bootstrap, "orders.dlq") == [b"oops"]


@pytest.mark.timeout(3 * TIMEOUT_S)
def test_ctrl_c_stops_a_run_that_starts_and_one_that_works_and_a_kill_is_told_from_it(tmp_path):
    project = make(tmp_path / "words", transformations__words_py=WORDS)
    state = project / ".barnabas"

    def start():
        run = command("pipeline", "run", project, "--master", "local[1]")
        return subprocess.Popen(run, env=environment("127.0.0.1:1"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # fmt: skip

    with start() as process, killed_after(process, TIMEOUT_S):
        wait_until(lambda: jvm_of(process.pid), "Spark starts", TIMEOUT_S)
        told = read_status(state)
        assert (told["state"], told["pid"]) == ("starting", process.pid)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=TIMEOUT_S)
        assert (out, process.returncode) == ("", 130), err
        assert err.splitlines()[:2] == ["starting words", "stopping words"]
    assert read_status(state)["state"] == "stopped"

    with start() as process, killed_after(process, TIMEOUT_S):
        assert process.stdout.readline() == "ready words: 1 flow\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=TIMEOUT_S)
        assert process.returncode == 130, err
        assert err.splitlines()[:2] == ["starting words", "stopping words"]
        assert "FLOW" in out
    assert read_status(state)["state"] == "stopped"

    with start() as process, killed_after(process, TIMEOUT_S):
        wait_until(lambda: jvm_of(process.pid), "Spark starts", TIMEOUT_S)
        process.kill()
    assert read_status(state)["state"] == "died"


def jvm_of(pid):
    """Whether this process has started another."""
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


@only_in_make_chaos
@pytest.mark.timeout(ROUNDS * TIMEOUT_S)
def test_a_run_that_is_killed_again_and_again_loses_and_doubles_nothing(tmp_path, spark, bootstrap):
    from barnabas.pipelines.continuous import Pipeline

    project = tmp_path / "shop"
    barnabas(bootstrap, "pipeline", "init", project)
    barnabas(bootstrap, "topic", "create", "orders")
    run = command("pipeline", "run", project, "--master", "local[2]")
    rng = random.Random(7)
    orders = []
    for _ in range(ROUNDS):
        new = [{"customer": f"c{rng.randrange(9)}", "amount": float(rng.randrange(200))} for _ in range(300)]  # fmt: skip
        orders += new
        send(bootstrap, *new, b"oops")
        (project / ".barnabas/status.json").unlink(missing_ok=True)
        flow, batches = rng.choice(["orders", "large_orders", "bad_orders"]), rng.randrange(2)

        def is_far(flow=flow, batches=batches):
            told = read_status(project / ".barnabas")
            named = {each["name"]: each for each in told["flows"]} if told else {}
            return flow in named and len(named[flow]["batch_ms_last"]) >= batches

        with (
            subprocess.Popen(run, env=environment(bootstrap), stdout=subprocess.DEVNULL) as process,
            killed_after(process, TIMEOUT_S),
        ):
            wait_until(lambda: process.poll() is not None or is_far(), "it works", TIMEOUT_S)
            process.kill()
    pipeline = Pipeline(project, spark, {"barnabas.bootstrap.servers": bootstrap})
    pipeline.run_available()
    stored = [(row.customer, row.amount) for row in pipeline.table("orders").collect()]
    assert sorted(stored) == sorted((each["customer"], each["amount"]) for each in orders)
    large = [json.loads(each) for each in values(bootstrap, "orders-large")]
    assert sorted(each["amount"] for each in large) == sorted(each["amount"] for each in orders if each["amount"] >= 100)  # fmt: skip
    assert values(bootstrap, "orders.dlq") == [b"oops"] * ROUNDS
