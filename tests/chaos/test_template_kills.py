"""Templates of pipelines as users run them, while driver, Python workers and the broker are killed: what comes out equals the model.

`make chaos CHAOS_ROUNDS=20`, again with CHAOS_SEED. Each round sends a part of the load, waits until some of it has come out, and kills.
"""

import json
import logging
import os
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed (extra spark)")

from chaos.wire_kit import BrokerProcess, eventually
from cluster_kit import ROUNDS, only_in_make_chaos
from postgres_kit import postgres, rows
from template_kit import template
from topic_kit import consume_all, make_topic

from barnabas.pipelines import feeding

log = logging.getLogger(__name__)

SEED = int(os.environ.get("CHAOS_SEED", "1"))
PATIENCE_S = 300
PER_ROUND = 120
PAUSE = threading.Event()


class CommitLog:
    """A database that follows another."""

    name = "commitlog"
    topics = ("changes", "changes.dlq")

    def __init__(self, stack, rounds):
        import generate

        self.url = stack.enter_context(postgres())
        self.settings = {"commitlog.target": self.url}
        self._database = generate.Database()
        self.first = ()
        self.events = list(generate.work(self._database, SEED, PER_ROUND * rounds))

    def progress(self, _bootstrap):
        """Some number that grows with every batch."""
        if rows(self.url, "SELECT to_regclass('barnabas_batches')") == [(None,)]:
            return 0
        return rows(self.url, "SELECT coalesce(sum(batch + 1), 0)::int FROM barnabas_batches")[0][0]

    def is_done(self, _bootstrap):
        """Is everything as it must be?"""
        if self.progress(_bootstrap) == 0:
            return False
        for table, expected in self._database.rows.items():
            if rows(self.url, "SELECT to_regclass(%s)", table) == [(None,)]:
                return False
            found = rows(
                self.url, f"SELECT to_jsonb(t) - 'barnabas_position' FROM {table} t ORDER BY id"
            )
            if [each[0] for each in found] != [expected[each] for each in sorted(expected)]:
                return False
        return rows(self.url, "SELECT count(*) FROM barnabas_refused") == [(0,)]


class Notifications:
    """Requests with exactly one outcome each."""

    name = "notifications"
    topics = (
        *(
            f"notification-{each}"
            for each in ("requests", "preferences", "outcomes", "requests.dlq", "preferences.dlq")
        ),
        *(f"notifications-{each}" for each in ("email", "sms", "push")),
    )
    settings = {"notifications.window.seconds": "2"}  # noqa: RUF012 - never changed

    def __init__(self, _stack, rounds):
        import functions
        import generate

        preferences = generate.preferences(SEED, 20)
        wanted = [
            feeding.Event(generate.PREFERENCES, user, json.dumps(each))
            for user, each in preferences.items()
        ]
        requests = list(generate.requests(SEED, PER_ROUND * rounds, 20))
        self.first, self.events = wanted, requests
        self._expected, self._refused = {}, Counter()
        for each in requests:
            try:
                read = functions.read_request(each.value.encode())
            except ValueError:
                self._refused[each.value] += 1
                continue
            wants = preferences.get(each.key, functions.read_preferences(None))
            self._expected[read["id"]] = set(functions.wanted_channels(read["app"], wants))

    def progress(self, bootstrap):
        """Some number that grows."""
        return len(consume_all(bootstrap, "notification-outcomes"))

    def is_done(self, bootstrap):
        """Is everything as it must be? What is too much is so for ever."""
        outcomes = Counter(
            each.key().decode() for each in consume_all(bootstrap, "notification-outcomes")
        )
        assert not outcomes or max(outcomes.values()) == 1
        sent = Counter()
        for channel in ("email", "sms", "push"):
            for each in consume_all(bootstrap, f"notifications-{channel}"):
                sent.update((request, channel) for request in json.loads(each.value())["requests"])
        assert not sent or max(sent.values()) == 1
        dead = Counter(
            each.value().decode() for each in consume_all(bootstrap, "notification-requests.dlq")
        )
        assert dead <= self._refused
        wanted = {
            (request, channel)
            for request, channels in self._expected.items()
            for channel in channels
        }
        return (
            outcomes.keys() == self._expected.keys()
            and sent.keys() == wanted
            and dead == self._refused
        )


class Running:
    """`barnabas pipeline run`, in a group of processes of its own."""

    def __init__(self, project, bootstrap, settings):
        self._command = [
            sys.executable,
            "-m",
            "barnabas.cli.main",
            "pipeline",
            "run",
            str(project.folder),
        ]
        self._command += ["--continuous", "--master", "local[2]", "--bootstrap", bootstrap]
        for name, value in {
            "spark.sql.shuffle.partitions": "2",
            "barnabas.trigger.interval": "1 second",
            **settings,
        }.items():
            self._command += ["--set", f"{name}={value}"]
        self._log = project.folder / "run.log"
        self.start()

    def start(self):
        """Go on, or begin."""
        with self._log.open("a") as output:
            self._process = subprocess.Popen(
                self._command,
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )

    def members(self, word):
        """Processes of the group whose command has this word."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                command = (folder / "cmdline").read_text()
                group = int((folder / "stat").read_text().rpartition(")")[2].split()[2])
            except OSError:
                continue
            if group == self._process.pid and word in command:
                found.append(int(folder.name))
        return found

    def kill_worker(self, rng):
        """One of the processes that tasks run in; False if there is none."""
        workers = self.members("pyspark.daemon")
        if workers:
            os.kill(rng.choice(workers), signal.SIGKILL)
        return bool(workers)

    def kill(self):
        """All of it, without a goodbye."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(60)

    @property
    def has_ended(self):
        """Did it give up by itself?"""
        return self._process.poll() is not None


def came_out(made, bootstrap, before, running):
    PAUSE.wait(0.5)  # asking takes the database and the broker time, too
    return running.has_ended or made.progress(bootstrap) > before


@only_in_make_chaos
@pytest.mark.timeout(1200 + 240 * ROUNDS)
@pytest.mark.parametrize("case", [CommitLog, Notifications], ids=lambda case: case.name)
def test_kills_change_nothing_of_what_comes_out(case, tmp_path):
    rng = random.Random(SEED)
    with ExitStack() as stack:
        project = stack.enter_context(template(case.name, tmp_path))
        made = case(stack, ROUNDS)
        broker = BrokerProcess(tmp_path / "broker")
        stack.callback(lambda: broker.kill())
        bootstrap = broker.bootstrap
        for topic in made.topics:
            make_topic(bootstrap, topic, 2)
        feeding.feed(made.first, bootstrap)
        running = Running(project, bootstrap, made.settings)
        stack.callback(running.kill)
        size = -(-len(made.events) // ROUNDS)
        for number in range(ROUNDS):
            before = made.progress(bootstrap)
            feeding.feed(made.events[number * size : (number + 1) * size], bootstrap)
            eventually(
                partial(came_out, made, bootstrap, before, running),
                "something comes out",
                PATIENCE_S,
            )
            kind = rng.choice(["driver", "worker", "broker"])
            log.warning("round %d: kill %s", number, kind)
            if (
                running.has_ended
                or kind == "driver"
                or (kind == "worker" and not running.kill_worker(rng))
            ):
                if not running.has_ended:
                    running.kill()
                running.start()
            elif kind == "broker":
                broker.kill()
                broker = BrokerProcess(tmp_path / "broker", listen=(bootstrap,))
        eventually(
            lambda: PAUSE.wait(0.5) or made.is_done(bootstrap),
            "the output equals the model",
            PATIENCE_S,
        )
