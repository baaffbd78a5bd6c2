"""Driver, executors, Python workers and the broker are killed while a query copies a topic: the copy is exact (F22).

`make chaos CHAOS_ROUNDS=100`, again with CHAOS_SEED. Each round waits until the query has finished another batch, then a moment that the
seed chooses, so that over the rounds every phase of a batch is hit.
"""

import logging
import os
import random
import re
import signal
import subprocess
import sys
import threading
from collections import Counter
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed (extra spark)")

from chaos.wire_kit import BrokerProcess, eventually
from cluster_kit import ROUNDS, only_in_make_chaos
from confluent_kafka import Producer
from topic_kit import consume_all, make_topic

from barnabas.pipelines.java import JavaMissing, find_java
from barnabas.pipelines.jvm import spark_home

log = logging.getLogger(__name__)

PROGRAM = Path(__file__).with_name("spark_copy.py")
PATIENCE_S = 240
BATCH_S = 1.5
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


class Copy:
    """The query: its driver, and where its tasks run."""

    def __init__(self, home, bootstrap, master, workers):
        self._home, self._words = home, [master, bootstrap, "source", "target"]
        self._workers = workers
        self.checkpoint = home / "checkpoint"
        self._log = (home / "spark.log").open("a")
        self.process = None

    def start(self, until="go on"):
        self.process = subprocess.Popen(
            [sys.executable, PROGRAM, *self._words, str(self.checkpoint), until],
            stdout=self._log,
            stderr=self._log,
            cwd=self._home,
            start_new_session=True,
        )

    def finished_batches(self):
        names = [each.name for each in self.checkpoint.glob("commits/*")]
        return max((int(each) for each in names if each.isdigit()), default=-1)

    def wait_for_a_batch(self):
        """Until another batch than those there are is finished."""
        before = self.finished_batches()
        eventually(self._alive(lambda: self.finished_batches() > before), "a batch", PATIENCE_S)

    def _alive(self, condition):
        def check():
            assert self.process.poll() is None, "the query has failed, see spark.log"
            return condition()

        return check

    def kill(self):
        """Kill the driver, and what it has started."""
        for pid, _ in descendants(self.process.pid):
            kill(pid)
        self.process.kill()
        self.process.wait(PATIENCE_S)

    def kill_part(self, word, rng):
        """Kill one of the processes on the workers whose command has this word, if there is one just now."""
        family = [each for worker in self._workers for each in descendants(worker.pid)]
        found = [pid for pid, command in family if word in command]
        if found:
            kill(rng.choice(found))

    def finish(self):
        assert self.process.wait(PATIENCE_S) == 0, "the query has failed, see spark.log"

    def close(self):
        if self.process is not None and self.process.poll() is None:
            self.kill()
        self._log.close()


def descendants(root):
    """Processes below one, with their commands."""
    parents, commands = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text().rpartition(")")[2].split()
                command = (entry / "cmdline").read_text().replace("\0", " ")
            except OSError:
                continue
            parents[int(entry.name)], commands[int(entry.name)] = int(stat[1]), command
    found, family = [], {root}
    for pid in sorted(parents):
        if parents[pid] in family:
            family.add(pid)
            found.append((pid, commands[pid]))
    return found


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        log.info("%d has ended by itself", pid)


class Feed(threading.Thread):
    """Writes numbers to the source, now and then, through whatever happens to the broker."""

    def __init__(self, bootstrap):
        super().__init__(daemon=True)
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
        self._ended = threading.Event()

    def run(self):
        number = 0
        while not self._ended.wait(0.05):
            for _ in range(20):
                self._producer.produce("source", str(number), str(number % 50))
                number += 1
            self._producer.poll(0)

    def end(self):
        self._ended.set()
        self.join(30)
        assert self._producer.flush(60) == 0


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
    broker = BrokerProcess(home / "data")
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


def assert_copied(bootstrap):
    """Every record of the source is in the target, once."""
    source, target = (
        Counter((each.key(), each.value()) for each in consume_all(bootstrap, topic))
        for topic in ("source", "target")
    )
    assert sum(source.values()) > 0
    missing, doubled = source - target, target - source
    assert not missing, f"{sum(missing.values())} records are missing"
    assert not doubled, f"{sum(doubled.values())} records are there too often"
