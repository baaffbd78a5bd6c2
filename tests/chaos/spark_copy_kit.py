"""A query that copies a topic while somebody writes to it: what tests of kills share."""

import logging
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

from chaos.wire_kit import eventually
from confluent_kafka import Producer
from topic_kit import consume_all

log = logging.getLogger(__name__)

PROGRAM = Path(__file__).with_name("spark_copy.py")
PATIENCE_S = 240
BATCH_S = 1.5


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
