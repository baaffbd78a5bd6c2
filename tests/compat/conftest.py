"""A real broker process for real clients, and the ways to start the clients that are not Python.

`bootstrap` is the address every test talks to. By default it is our own broker, started as a user would start it. With
BARNABAS_TEST_BOOTSTRAP=HOST:PORT it is somebody else's: run against Apache Kafka, the same tests show that they
ask for Kafka's behaviour and not for ours.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import uuid
import warnings
from pathlib import Path

import pytest

with warnings.catch_warnings():
    # kafka-python reads its schemas with a deprecated function while it is imported: its matter, not a failure of ours.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka  # noqa: F401

HERE = Path(__file__).parent
STOP_TIMEOUT_S = 30


def start_broker(data_dir, log):
    """Our broker as a process; its address is the last word of the one `ready` line."""
    command = [sys.executable, "-m", "barnabas.cli.main", "up"]
    command += ["--data-dir", str(data_dir), "--listen", "127.0.0.1:0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    for line in process.stdout:
        if line.startswith("ready"):
            return process, line.split()[-1]
    raise AssertionError(f"the broker ended with {process.wait()} before it was ready")


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


@pytest.fixture(scope="session")
def bootstrap(tmp_path_factory):
    outside = os.environ.get("BARNABAS_TEST_BOOTSTRAP")
    if outside:
        yield outside
        return
    home = tmp_path_factory.mktemp("broker")
    with (home / "broker.log").open("w") as log:
        process, address = start_broker(home / "data", log)
        try:
            yield address
        finally:
            stop_broker(process, home / "broker.log")


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


@pytest.fixture(scope="session")
def franz(tmp_path_factory):
    """The franz-go program in franz/, built here."""
    go = shutil.which("go")
    if go is None:
        pytest.skip("no Go toolchain on this machine")
    binary = tmp_path_factory.mktemp("franz") / "franz"
    build = [go, "build", "-o", str(binary), "."]
    subprocess.run(build, cwd=HERE / "franz", check=True, timeout=280)
    return binary
