"""A cluster on one machine, for trying: a ZooKeeper and some brokers as processes in a folder.

Job: start them in order, tell of one that ended, stop them in order. Must not know what a terminal is, nor what is stored.

Invariants: no process outlives this one; a broker keeps its folder, and with fixed ports its address, from one start to the next.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from barnabas.client.errors import Unreachable
from barnabas.client.settings import ClientSettings
from barnabas.runtime.blocking_client import BlockingClient
from barnabas.runtime.zookeeper_server import CannotStart, end_with_parent, make_ensemble

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

START_TIMEOUT_S: Final = 60.0
STOP_TIMEOUT_S: Final = 30.0
#: What these brokers are told by us, and nobody else.
OWN_SETTINGS: Final = (
    "node.id",
    "broker.id",
    "zookeeper.connect",
    "listeners",
    "log.dirs",
    "log.dir",
)
_POLL_S: Final = 0.05
_REPLICAS: Final = 3
_IN_SYNC: Final = 2


def settings_for(count: int) -> dict[str, str]:
    """What suits a cluster of so many brokers: everything replicated, as far as there are brokers, and a failover within seconds."""
    replicas = str(min(_REPLICAS, count))
    return {
        "default.replication.factor": replicas,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": str(min(_IN_SYNC, count)),
        "zookeeper.session.timeout.ms": "6000",
    }


class BrokerProcess:
    """One broker in a folder of its own."""

    def __init__(self, broker_id: int, folder: Path, listen: str) -> None:
        """Start nothing yet."""
        self.broker_id = broker_id
        self.folder = folder
        self.log_path = folder.with_suffix(".log")
        #: Where it listens; with port 0 known once it is ready.
        self.address = listen
        self.process: subprocess.Popen[str] | None = None

    def command(self, settings: Mapping[str, str]) -> list[str]:
        """Return the words that start it."""
        words = ["up", "--data-dir", str(self.folder), "--listen", self.address]
        for name, value in {"node.id": str(self.broker_id), **settings}.items():
            words += ["--set", f"{name}={value}"]
        return words

    def start(self, settings: Mapping[str, str]) -> None:
        """Start the process."""
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(  # noqa: S603  (the command is ours)
                [sys.executable, "-m", "barnabas.cli.main", *self.command(settings)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                # Ctrl-C in a terminal is for whoever started us, who then stops the brokers in order.
                start_new_session=True,
                preexec_fn=end_with_parent,
            )

    def wait_until_ready(self, deadline_s: float) -> None:
        """Return when clients can connect; CannotStart with what it said if it ends or takes too long."""
        process = self.process
        assert process is not None
        assert process.stdout is not None
        # Reading blocks: who is late is ended, which ends the reading.
        guard = threading.Timer(max(0.0, deadline_s - time.monotonic()), process.kill)
        guard.start()
        try:
            line = process.stdout.readline()
        finally:
            guard.cancel()
        if not line.startswith("ready "):
            process.wait()
            raise CannotStart(f"broker {self.broker_id} did not start: {self._last_words()}")
        self.address = line.split()[1]

    def wait_until_met(self, count: int, deadline_s: float) -> None:
        """Return when it knows of so many brokers: before, topics may find too few for their replicas."""
        settings = ClientSettings.parse({"bootstrap.servers": self.address})
        with BlockingClient(settings) as client:
            while _brokers_known(client) < count:
                if time.monotonic() > deadline_s:
                    raise CannotStart(
                        f"broker {self.broker_id} does not hear of the others: see {self.log_path}"
                    )
                time.sleep(_POLL_S)

    def ended(self) -> int | None:
        """Return its exit code; None while it runs."""
        assert self.process is not None
        return self.process.poll()

    def stop(self) -> None:
        """End the process in order, or by force if it does not end."""
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def _last_words(self) -> str:
        lines = self.log_path.read_text(errors="replace").splitlines()
        return (lines[-1] if lines else "it said nothing") + f" (see {self.log_path})"


def _brokers_known(client: BlockingClient) -> int:
    """Return of how many brokers one knows; before it has heard from a controller it ends the connection instead of telling."""
    try:
        return len(client.metadata([]).brokers)
    except Unreachable:
        return 0


class LocalCluster:
    """ZooKeeper and brokers 1 to `count`."""

    def __init__(
        self, folder: str, count: int, ports: tuple[int, int], settings: Mapping[str, str],
        jars: str | None = None,
    ) -> None:  # fmt: skip
        """`ports`: of the first broker, whose followers take the next ones, and of ZooKeeper; 0 takes free ones."""
        home = Path(folder).absolute()
        self._jars = jars
        first, zookeeper = ports
        self.zookeeper = make_ensemble(str(home / "zookeeper"), ("127.0.0.1", zookeeper), jars=jars)
        self.settings = {
            **settings_for(count), **settings, "zookeeper.connect": self.zookeeper.connect,
        }  # fmt: skip
        self.brokers: Sequence[BrokerProcess] = [
            BrokerProcess(
                number, home / f"broker-{number}", f"127.0.0.1:{first + number - 1 if first else 0}"
            )
            for number in range(1, count + 1)
        ]

    def start(self) -> None:
        """Start all and return when each knows of all others; CannotStart, with all of them ended, if one does not start."""
        try:
            self.zookeeper.start()
            deadline_s = time.monotonic() + START_TIMEOUT_S
            for broker in self.brokers:
                broker.start(self.settings)
            for broker in self.brokers:
                broker.wait_until_ready(deadline_s)
            for broker in self.brokers:
                broker.wait_until_met(len(self.brokers), deadline_s)
        except BaseException:
            self.stop()
            raise

    def zookeeper_ended(self) -> int | None:
        """Return ZooKeeper's exit code; None while it runs."""
        (server,) = self.zookeeper.servers
        assert server.process is not None
        return server.process.poll()

    def zookeeper_command(self) -> list[str]:
        """Return the words that start ZooKeeper with what it has."""
        (server,) = self.zookeeper.servers
        words = ["zookeeper", "up", "--data-dir", str(server.folder), "--port", str(server.port)]
        return [*words, "--jars", self._jars] if self._jars else words

    @property
    def bootstrap(self) -> str:
        """Where clients connect."""
        return ",".join(broker.address for broker in self.brokers)

    def stop(self) -> None:
        """End the brokers one after another, so that each can hand over what it leads, then ZooKeeper."""
        with contextlib.ExitStack() as stack:
            stack.callback(self.zookeeper.stop)
            for broker in self.brokers:
                stack.callback(broker.stop)
