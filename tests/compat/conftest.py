"""A real broker process for real clients, and the ways to start the clients that are not Python.

`bootstrap` is the address every test talks to. By default it is our own broker, started as a user would start it. With
BARNABAS_TEST_BOOTSTRAP=HOST:PORT it is somebody else's: run against Apache Kafka, the same tests show that they
ask for Kafka's behaviour and not for ours.
"""

import contextlib
import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
import uuid
import warnings
from pathlib import Path

import peers
import pytest
from compat.apache_kafka import shared_kafka
from compat.java_tools import JavaTools
from compat.members import GROUP_SETTINGS
from process_kit import ready_line, with_no_retention

with warnings.catch_warnings():
    # kafka-python reads its schemas with a deprecated function while it is imported: its matter, not a failure of ours.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka  # noqa: F401

HERE = Path(__file__).parent
STOP_TIMEOUT_S = 30


def start_broker(data_dir, log, *settings):
    """Our broker as a process; its address is the last word of the one `ready` line."""
    command = [sys.executable, "-m", "barnabas.cli.main", "up"]
    command += ["--data-dir", str(data_dir), "--listen", "127.0.0.1:0"]
    command += [word for line in with_no_retention(settings) for word in ("--set", line)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    line = ready_line(process)
    if line is None:
        code = process.wait(STOP_TIMEOUT_S)
        raise AssertionError(f"the broker ended with {code} before it was ready")
    return process, line.split()[-1]


def stop_broker(process, log_path):
    """SIGTERM is a clean stop: exit code 0, and nothing unexpected in the log of the whole session."""
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    finally:
        process.stdout.close()
    log = log_path.read_text()
    assert process.returncode == 0, f"exit code {process.returncode} on SIGTERM:\n{log[-4000:]}"
    assert "Traceback" not in log, log[log.index("Traceback") - 500 :][:4000]


@contextlib.contextmanager
def running_broker(home, *settings, data_dir=None):
    """The address of our broker while the block runs; its log goes to `home`, and its data unless it has some already."""
    with (home / "broker.log").open("w") as log:
        process, address = start_broker(data_dir or home / "data", log, *settings)
        try:
            yield address
        finally:
            stop_broker(process, home / "broker.log")


@contextlib.contextmanager
def shared_broker(home, *settings):
    """The same, or the outside one of BARNABAS_TEST_BOOTSTRAP, which should have the same settings."""
    outside = os.environ.get("BARNABAS_TEST_BOOTSTRAP")
    with contextlib.nullcontext(outside) if outside else running_broker(home, *settings) as address:
        yield address


@pytest.fixture(scope="session")
def bootstrap(tmp_path_factory):
    with shared_broker(tmp_path_factory.mktemp("broker")) as address:
        yield address


@pytest.fixture(scope="session")
def group_bootstrap(tmp_path_factory):
    """A broker whose groups are in a hurry (GROUP_SETTINGS)."""
    with shared_broker(tmp_path_factory.mktemp("group-broker"), *GROUP_SETTINGS) as address:
        yield address


@pytest.fixture(scope="session")
def session_kafka(tmp_path_factory):
    """The address of an Apache Kafka for tests that leave other tests' topics and groups alone."""
    with shared_kafka(tmp_path_factory.mktemp("kafka")) as address:
        yield address


@pytest.fixture(params=["barnabas", pytest.param("kafka", marks=pytest.mark.java)])
def either_address(request):
    """That of our broker, then that of Apache Kafka."""
    return request.getfixturevalue("bootstrap" if request.param == "barnabas" else "session_kafka")


@pytest.fixture
def topic_name(request):
    """A name no other test has: readable in a log, and fresh even on an outside broker that lives on."""
    test = re.sub(r"[^A-Za-z0-9_.-]", "-", request.node.name)
    return f"{test}-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def kcat(bootstrap):
    """Runs kcat and returns its completed process."""
    binary = shutil.which("kcat")
    if binary is None:
        pytest.skip("no kcat on this machine (Debian package kcat)")

    def run(*args, stdin=None, check=True):
        command = [binary, "-b", bootstrap, *args]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=60)
        assert not check or done.returncode == 0, done.stderr
        return done

    return run


class Java:
    """Apache Kafka's Java code: our programs with the jars of one release."""

    def __init__(self, classes):
        self.classes = classes

    def class_path(self, release):
        """The jars of a release; of 4.4 only the clients are published, so its other jars are 4.3's."""
        jars = []
        if release == "4.4.0":
            jars.append(needed(peers.kafka_clients_jar("4.4.0")))
        lib = needed(peers.kafka_lib("4.3.1" if release == "4.4.0" else release))
        return ":".join(str(part) for part in [self.classes, *jars, lib / "*"])

    def run(self, release, *args, program="Scenario"):
        # The JVM lives for seconds: the quick compiler is enough, and leaves the other core to the broker.
        command = [peers.java(), "-XX:TieredStopAtLevel=1", "-cp", self.class_path(release)]
        command += [program, *args]
        return subprocess.run(command, capture_output=True, text=True, timeout=240)


def needed(found):
    if found is None:
        pytest.skip(peers.reason())
    return found


def once_in_a_run(tmp_path_factory, name, make):
    """A folder that the first of all workers makes and the others find."""
    home = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        home = home.parent
    folder = home / name
    with (home / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            unfinished = home / f"{name}.new"
            unfinished.mkdir(exist_ok=True)
            make(unfinished)
            unfinished.rename(folder)
    return folder


@pytest.fixture(scope="session")
def franz(tmp_path_factory):
    """The franz-go program in franz/, built here."""
    go = shutil.which("go")
    if go is None:
        pytest.skip("no Go toolchain on this machine")

    def build(folder):
        command = [go, "build", "-o", str(folder / "franz"), "."]
        # Its parts are compiled once for a machine, not for every clone: `make test` has a cache of its own for what belongs to the clone.
        kept = os.environ.get("GOCACHE") or str(Path.home() / ".cache/go-build")
        environment = {**os.environ, "GOCACHE": kept}
        subprocess.run(command, cwd=HERE / "franz", check=True, timeout=280, env=environment)

    return once_in_a_run(tmp_path_factory, "franz", build) / "franz"


@pytest.fixture(scope="session")
def java(tmp_path_factory):
    """Our Java programs, compiled with the older release: what its clients have, the newer ones still have."""
    needed(peers.java())
    class_path = f"{needed(peers.kafka_lib('3.9.2'))}/*"

    def compile_all(folder):
        command = [needed(peers.javac()), "-d", str(folder), "-cp", class_path]
        sources = map(str, (HERE / "java").glob("*.java"))
        subprocess.run([*command, *sources], check=True, timeout=120)

    return Java(once_in_a_run(tmp_path_factory, "java-classes", compile_all))


@pytest.fixture(scope="session")
def kafka_tool(java):
    """Runs one of Kafka's command-line tools, named by its class, and returns its completed process."""
    running = {}

    def run(name, *args, release="4.3.1", stdin="", check=True):
        if release not in running:
            quick = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m")
            command = [peers.java(), *quick, "-cp", java.class_path(release), "Tools"]
            running[release] = JavaTools(command)
        done = running[release].run(name, args, stdin)
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done

    yield run
    for tools in running.values():
        tools.close()
