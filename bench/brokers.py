"""The two brokers as processes: started, asked until they answer, stopped by their pid.

Apache Kafka runs with the settings of its own config/server.properties and the JVM options of its own start scripts;
Barnabas as `barnabas up`. Each has its data in a folder of its own and listens on 127.0.0.1 only.
"""

from __future__ import annotations

import base64
import compileall
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Self

from tools import peers

import barnabas
from bench import measure
from bench.admin import Admin, BrokerFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

KAFKA_VERSION = "4.3.1"
START_LIMIT_S = 120
STOP_LIMIT_S = 30
POLL_S = 0.002
JVM_OPTIONS = [
    "-Xms1G",
    "-Xmx1G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
    "-Djava.awt.headless=true",
]
LOGGING = """rootLogger.level=info
rootLogger.appenderRef.console.ref=console
appender.console.type=Console
appender.console.name=console
appender.console.layout.type=PatternLayout
appender.console.layout.pattern=[%d] %p %m (%c)%n
"""
SERVER_PROPERTIES = """process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs={data}
num.partitions=1
num.recovery.threads.per.data.dir=2
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
"""

TLS_PROPERTIES = """listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller},SSL://127.0.0.1:{tls}
advertised.listeners=PLAINTEXT://127.0.0.1:{port},SSL://127.0.0.1:{tls}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SSL:SSL
"""


def free_ports(count: int) -> list[int]:
    """Give ports that nobody listens on now."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class Broker:
    """One broker process; a context manager that stops it whatever happens."""

    name = ""

    def __init__(self, home: Path, settings: Mapping[str, str] | None = None) -> None:
        """Keep everything in `home`, which may hold the data of an earlier start; settings are added to the usual ones."""
        self.home = home
        self.settings = dict(settings or {})
        self.port, self.other_port = free_ports(2)
        self.tls_port = 0
        self._process: subprocess.Popen[bytes] | None = None

    def add_tls(self, keys: Path) -> None:
        """Have it listen with TLS as well from its next start on, at `tls_port`, with the key and certificate in a PEM file."""
        (self.tls_port,) = free_ports(1)
        self.settings |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(keys)}

    def command(self) -> list[str]:
        """Give the command that runs the broker in the foreground."""
        raise NotImplementedError

    def prepare(self) -> None:
        """Do what has to be done before a start, outside of what is measured."""
        self.home.mkdir(parents=True, exist_ok=True)

    @property
    def pids(self) -> list[int]:
        """Every process whose CPU counts."""
        return [self.pid]

    @property
    def pid(self) -> int:
        """The process."""
        assert self._process is not None, f"{self.name} is not running"
        return self._process.pid

    def start(self, ready: Callable[[Admin], bool] = lambda admin: admin.brokers() > 0) -> float:
        """Start and wait until `ready` holds; give the seconds from the start of the process until then."""
        started = self.launch()
        self.wait_until(ready, started)
        return time.monotonic() - started

    def launch(self) -> float:
        """Start and do not wait; give the time of the start."""
        self.prepare()
        with (self.home / "broker.log").open("ab") as log:
            started = time.monotonic()
            self._process = self._spawn(log)
        return started

    def wait_until(self, ready: Callable[[Admin], bool], started: float) -> None:
        """Wait until `ready` holds; BrokerFailed if that takes too long or the process ends."""
        assert self._process is not None
        while not self._answers(ready):
            if self._process.poll() is not None or time.monotonic() - started > START_LIMIT_S:
                self.stop()
                raise BrokerFailed(f"{self.name} did not start:\n{self.last_words()}")
            time.sleep(POLL_S)

    def _spawn(self, log: IO[bytes]) -> subprocess.Popen[bytes]:
        """Run it in a session of its own: Ctrl-C reaches this program only, which then stops the broker."""
        return subprocess.Popen(
            self.command(),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )

    def _answers(self, ready: Callable[[Admin], bool]) -> bool:
        with suppress(OSError, BrokerFailed), Admin(self.port, timeout_s=10) as admin:
            return ready(admin)
        return False

    def log_text(self) -> str:
        """What the broker has written to its log."""
        return (self.home / "broker.log").read_text(errors="replace")

    def last_words(self) -> str:
        """The end of the broker's log."""
        return self.log_text()[-2000:]

    def stop(self) -> None:
        """Stop it cleanly, or after a while without asking."""
        process, self._process = self._process, None
        if process is None or process.poll() is not None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def kill(self) -> None:
        """Stop it at once, for when its data is not needed any more."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def wipe(self) -> None:
        """Delete its data."""
        shutil.rmtree(self.home, ignore_errors=True)

    def admin(self) -> Admin:
        """Connect."""
        return Admin(self.port)

    def memory(self) -> measure.Memory:
        """Resident memory of the process."""
        return measure.memory(self.pid)

    def __enter__(self) -> Self:
        """Nothing to do; `start` is called apart because it is measured."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stop."""
        self.stop()


class Barnabas(Broker):
    """This project's broker, from the environment that runs the benchmark."""

    name = "barnabas"

    def prepare(self) -> None:
        """Compile its modules, as an installation does: else every start would measure Python's compiler, too."""
        super().prepare()
        compileall.compile_dir(Path(barnabas.__file__).parent, quiet=1)

    def command(self) -> list[str]:
        """`barnabas up`."""
        program = str(Path(sys.executable).parent / "barnabas")
        listen = f"127.0.0.1:{self.port}"
        command = [program, "up", "--data-dir", str(self.home / "data"), "--listen", listen]
        if self.tls_port:
            command += ["--listen", f"SSL://127.0.0.1:{self.tls_port}"]
        for name, value in self.settings.items():
            command += ["--set", f"{name}={value}"]
        return command


class ApacheKafka(Broker):
    """Apache Kafka, a combined KRaft node."""

    name = "kafka"
    cluster_id = ""
    """Of the cluster that it belongs to; without one it is a cluster by itself."""

    def prepare(self) -> None:
        """Write its configuration and, the first time, format its storage."""
        first = not self.home.exists()
        super().prepare()
        text = SERVER_PROPERTIES.format(
            port=self.port, controller=self.other_port, data=self.home / "data"
        )
        if self.tls_port:
            text += TLS_PROPERTIES.format(
                port=self.port, controller=self.other_port, tls=self.tls_port
            )
        text += "".join(f"{name}={value}\n" for name, value in self.settings.items())
        (self.home / "server.properties").write_text(text)
        (self.home / "log4j2.properties").write_text(LOGGING)
        if first:
            cluster_id = self.cluster_id or new_cluster_id()
            config = str(self.home / "server.properties")
            command = ["kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", config]
            java_main(command, timeout_s=60)

    def command(self) -> list[str]:
        """`java kafka.Kafka`."""
        logging = f"-Dlog4j2.configurationFile={self.home / 'log4j2.properties'}"
        config = str(self.home / "server.properties")
        return [*java(), *JVM_OPTIONS, logging, "-cp", class_path(), "kafka.Kafka", config]


def new_cluster_id() -> str:
    """Make an id as Kafka's tools do; one that began with a dash would be taken for an option."""
    return base64.urlsafe_b64encode(os.urandom(16)).decode().rstrip("=").replace("-", "A")


KINDS: dict[str, type[Broker]] = {"barnabas": Barnabas, "kafka": ApacheKafka}
SHOWN = {"barnabas": "Barnabas", "kafka": f"Apache Kafka {KAFKA_VERSION}"}


def java() -> list[str]:
    """The command that runs Java; BrokerFailed says what is missing."""
    found = peers.java()
    if found is None:
        raise BrokerFailed(f"the benchmark needs Java 17 or newer: {peers.reason()}")
    return [found]


def class_path() -> str:
    """Apache Kafka's jars, fetched from Maven Central the first time."""
    lib = peers.kafka_lib(KAFKA_VERSION)
    if lib is None:
        raise BrokerFailed(f"no Apache Kafka {KAFKA_VERSION}: {peers.reason()}")
    return f"{lib}/*"


def java_main(arguments: list[str], timeout_s: float) -> str:
    """Run one of Kafka's Java programs to its end and give what it printed."""
    logging = "-Dlog4j2.level=ERROR"
    command = [*java(), "-Xmx512M", logging, "-cp", class_path(), *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=timeout_s, stdin=subprocess.DEVNULL
    )
    if done.returncode:
        raise BrokerFailed(f"{arguments[0]} failed: {(done.stdout + done.stderr)[-1000:]}")
    return done.stdout
