"""Driver, executors, Python workers and the broker are killed while a query copies a topic: the copy is exact (F22).

`make chaos CHAOS_ROUNDS=100`, again with CHAOS_SEED. Each round waits until the query has finished another batch, then a moment that the
seed chooses, so that over the rounds every phase of a batch is hit.
"""

import logging
import os
import random
import re
import subprocess
import threading
from contextlib import ExitStack, contextmanager

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed (extra spark)")

from chaos.spark_copy_kit import BATCH_S, PATIENCE_S, Copy, Feed, assert_copied, descendants, kill
from chaos.wire_kit import BrokerProcess, eventually
from cluster_kit import ROUNDS, only_in_make_chaos
from topic_kit import make_topic

from barnabas.pipelines.java import JavaMissing, find_java
from barnabas.pipelines.jvm import spark_home
from barnabas.runtime.lasting_port import lasting_port

log = logging.getLogger(__name__)

PARTS = {"executor": "CoarseGrainedExecutorBackend", "worker": "pyspark.daemon"}


@contextmanager
def spark_daemon(log_path, ready, name, *arguments, environment):
    """Run one of Spark's daemons; yield its process and what its log matched."""
    command = [str(spark_home() / "bin/spark-class"), f"org.apache.spark.deploy.{name}"]
    command += ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0", *arguments]
    with log_path.open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
    try:
        found = eventually(lambda: re.search(ready, log_path.read_text()), name, PATIENCE_S)
        yield process, found
    finally:
        for pid, _ in descendants(process.pid):
            kill(pid)
        process.kill()
        process.wait(PATIENCE_S)


@contextmanager
def standalone_spark(home, java):
    """A master and two workers with an executor each; yield the master's address and the workers' processes."""
    environment = {
        **os.environ,
        "JAVA_HOME": str(java.home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Dspark.deploy.maxExecutorRetries=-1",
        "SPARK_DAEMON_MEMORY": "256m",
    }
    with ExitStack() as stack:
        start = "Starting Spark master at (\\S+)"
        master = spark_daemon(home / "master.log", start, "master.Master", environment=environment)
        url = stack.enter_context(master)[1].group(1)
        workers = []
        for number in (1, 2):
            options = ["-c", "1", "-m", "1g", "-d", str(home / f"worker-{number}"), url]
            log_path, registered = home / f"worker-{number}.log", "Successfully registered"
            worker = spark_daemon(log_path, registered, "worker.Worker", *options, environment=environment)  # fmt: skip
            workers.append(stack.enter_context(worker)[0])
        yield url, workers


@only_in_make_chaos
@pytest.mark.timeout(0)
def test_a_copy_is_exact_whoever_is_killed(tmp_path):
    try:
        java = find_java()
    except JavaMissing as problem:
        pytest.skip(f"Spark has no Java: {problem}")
    seed = int(os.environ.get("CHAOS_SEED") or random.SystemRandom().randrange(1 << 32))
    log.warning("CHAOS_SEED=%d", seed)
    rng = random.Random(seed)
    with standalone_spark(tmp_path, java) as (master, workers):
        run_rounds(tmp_path, master, workers, rng)


def run_rounds(home, master, workers, rng):
    broker = BrokerProcess(home / "data", listen=(f"127.0.0.1:{lasting_port('127.0.0.1')}",))
    bootstrap = broker.bootstrap
    make_topic(bootstrap, "source", 2)
    make_topic(bootstrap, "target", 2)
    copy, feed = Copy(home, bootstrap, master, workers), Feed(bootstrap)
    feed.start()
    copy.start()
    try:
        for each in range(ROUNDS):
            copy.wait_for_a_batch()
            threading.Event().wait(rng.uniform(0, BATCH_S))
            victim = rng.choice(["driver", "executor", "worker", "worker", "broker", "broker"])
            log.warning("round %d, batch %d: %s", each, copy.finished_batches(), victim)
            if victim == "broker":
                broker.kill()
                broker = BrokerProcess(home / "data", listen=(bootstrap,))
            elif victim == "driver":
                copy.kill()
                copy.start()
            else:
                copy.kill_part(PARTS[victim], rng)
        feed.end()
        copy.kill()
        copy.start("to the end")
        copy.finish()
        assert_copied(bootstrap)
    finally:
        copy.close()
        broker.kill()
