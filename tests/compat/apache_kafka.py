"""Apache Kafka as a process of its own, for tests that hold us against it."""

import base64
import contextlib
import functools
import os
import signal
import subprocess
import time
from pathlib import Path

import peers
import pytest
from compat.wire_client import WireClient

from barnabas.runtime.lasting_port import lasting_port
from barnabas.wire.messages.metadata import MetadataRequest

RELEASE = "4.3.1"
READY_TIMEOUT_S = 120


def kafka_lib(release=RELEASE):
    lib = peers.kafka_lib(release)
    if peers.java() is None or lib is None:
        pytest.skip(peers.reason())
    return lib


#: What Kafka writes when it formats a directory, by release: the same for all, so it is asked once.
FORMATTED = {}


@functools.cache
def class_archive(release):
    """Where the classes that a start loads are kept as Java has them in memory, which takes half the time of loading them (AppCDS)."""
    built = Path(peers.java()).resolve().stat().st_mtime_ns
    return kafka_lib(release).parent / f"server-{built:x}.jsa"


class Kafka:
    """One node of Apache Kafka in a folder of its own, for as long as it takes to write a directory."""

    def __init__(self, home, *settings, release=RELEASE):
        self.release = release
        self.data = home / "data"
        self.log = home / "server.log"
        self.port, controller_port = free_ports(2)
        self.properties = home / "server.properties"
        self.properties.write_text(
            f"log.dirs={self.data}\nnode.id=1\nprocess.roles=broker,controller\n"
            f"controller.quorum.voters=1@127.0.0.1:{controller_port}\n"
            f"listeners=PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{controller_port}\n"
            f"advertised.listeners=PLAINTEXT://127.0.0.1:{self.port}\n"
            "controller.listener.names=CONTROLLER\noffsets.topic.replication.factor=1\n"
            "transaction.state.log.replication.factor=1\ntransaction.state.log.min.isr=1\n"
            # Tests write records of years ago: a look for old ones comes after they have ended, or when they ask for it.
            "log.initial.task.delay.ms=3600000\nlog.retention.check.interval.ms=3600000\n"
            + "".join(f"{line}\n" for line in settings)
        )

    def command(self, *words):
        # It lives for seconds: what a thorough compiler would gain never pays.
        quick = "-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"
        return [peers.java(), *quick, "-cp", f"{kafka_lib(self.release)}/*", *map(str, words)]

    def __enter__(self):
        if self.release not in FORMATTED:
            self._format()
            FORMATTED[self.release] = {path.name: path.read_bytes() for path in self.data.iterdir()}
        self.data.mkdir(exist_ok=True)
        for name, content in FORMATTED[self.release].items():
            (self.data / name).write_bytes(content)
        self.start()
        return self

    def _format(self):
        cluster = base64.urlsafe_b64encode(b"barnabas-tests!!").decode().rstrip("=")
        format_ = ("kafka.tools.StorageTool", "format", "-t", cluster, "-c", self.properties)
        subprocess.run(self.command(*format_), check=True, capture_output=True, timeout=120)

    def start(self):
        """Start it, or start it again on the same directory."""
        with self.log.open("a") as log:
            java, *rest = self.command("kafka.Kafka", self.properties)
            server = [java, self._archive_option(), *rest]
            self.process = subprocess.Popen(server, stdout=log, stderr=log)

    def _archive_option(self):
        """Use the archive of its classes; without one, make it at the end."""
        archive = class_archive(self.release)
        self._made = archive.with_suffix(f".{os.getpid()}-{self.port}")
        if archive.exists():
            return f"-XX:SharedArchiveFile={archive}"
        return f"-XX:ArchiveClassesAtExit={self._made}"

    def kill(self):
        """End it as a power switch would."""
        self.process.kill()
        self.process.wait()

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    def wait_ready(self):
        """Return its address once it answers and knows itself as a broker."""
        deadline = time.monotonic() + READY_TIMEOUT_S
        while not self._answers():
            assert time.monotonic() < deadline, self.log.read_text()[-4000:]
            assert self.process.poll() is None, self.log.read_text()[-4000:]
        return self.address

    def _answers(self):
        try:
            client = WireClient(self.address)
        except OSError:
            return self._stopped(0.1)
        try:
            return bool(client.ask(MetadataRequest(topics=[]), 12).brokers)
        finally:
            client.close()

    def _stopped(self, timeout_s):
        """Wait for the process to end, which it should not: a pause that a failed start cuts short."""
        try:
            self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        return False

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        """End it in order."""
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            self._made.unlink(missing_ok=True)
        with contextlib.suppress(FileNotFoundError):
            self._made.rename(class_archive(self.release))


def free_ports(count):
    """Ports that nobody takes while a slow server starts."""
    found = set()
    while len(found) < count:
        found.add(lasting_port("127.0.0.1"))
    return sorted(found)


@contextlib.contextmanager
def shared_kafka(home, *settings):
    """The address of an Apache Kafka while the block runs, or of the one that runs already at BARNABAS_TEST_KAFKA."""
    outside = os.environ.get("BARNABAS_TEST_KAFKA")
    if outside:
        yield outside
        return
    with Kafka(home, *settings) as kafka:
        yield kafka.wait_ready()
