"""A ZooKeeper that speaks TLS only, and only with those whom it knows: who gets to it, and whom the broker takes for it."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import time
from typing import TYPE_CHECKING

import peers
import pytest
import security_kit
from zookeeper_kit import zookeeper_jars

import barnabas
from barnabas.runtime.lasting_port import lasting_port
from barnabas.runtime.zookeeper_server import find_jars

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [
    pytest.mark.java,
    # kazoo leaves the socket of a handshake that failed to the collector.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

TIMEOUT_S = 60
CONFIG = """\
tickTime=2000
dataDir={folder}/data
secureClientPort={port}
secureClientPortAddress=127.0.0.1
serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory
ssl.keyStore.location={key}
ssl.keyStore.type=PEM
ssl.trustStore.location={authority}
ssl.trustStore.type=PEM
ssl.clientAuth=need
admin.enableServer=false
"""


@pytest.fixture
def files(tmp_path: Path) -> security_kit.Certificates:
    return security_kit.make_certificates(tmp_path)


@contextlib.contextmanager
def served(files: security_kit.Certificates, key: Path) -> Iterator[str]:
    """The address of a server that shows this certificate."""
    port = lasting_port("127.0.0.1")  # Java takes a while until it listens there
    config = files.folder / "zoo.cfg"
    config.write_text(
        CONFIG.format(folder=files.folder, port=port, key=key, authority=files.authority)
    )
    jars = ":".join(str(jar) for jar in find_jars(zookeeper_jars()))
    command = [str(peers.java()), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", jars,
               "org.apache.zookeeper.server.quorum.QuorumPeerMain", str(config)]  # fmt: skip
    with (files.folder / "zookeeper.log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        wait_for(port, process)
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(TIMEOUT_S)


def wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        assert process.poll() is None, "ZooKeeper ended"
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            assert time.monotonic() < deadline, "ZooKeeper does not listen"
            time.sleep(0.05)
        else:
            return


def settings(address: str, files: security_kit.Certificates, **more: str) -> dict[str, str]:
    return {
        "node.id": "1",
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "zookeeper.connect": address,
        "zookeeper.connection.timeout.ms": str(TIMEOUT_S * 1000),
        "zookeeper.ssl.client.enable": "true",
        "zookeeper.ssl.keystore.location": str(files.client),
        "zookeeper.ssl.truststore.location": str(files.authority),
        **{name.replace("_", "."): text for name, text in more.items()},
    }


def is_refused(texts: dict[str, str]) -> bool:
    try:
        with barnabas.Broker(settings={**texts, "zookeeper.connection.timeout.ms": "2000"}):
            return False
    except OSError:
        return True


def test_brokers_and_zookeeper_know_each_other(files: security_kit.Certificates) -> None:
    with served(files, files.server) as address:
        with barnabas.Broker(settings=settings(address, files)) as broker:
            assert broker.bootstrap
        stranger = str(files.stranger)
        assert is_refused(settings(address, files, zookeeper_ssl_keystore_location=stranger))
        assert is_refused(settings(address, files, zookeeper_ssl_truststore_location=stranger))
        assert is_refused(settings(address, files, zookeeper_ssl_client_enable="false"))


def test_who_has_the_certificate_of_another_host_is_no_zookeeper(
    files: security_kit.Certificates,
) -> None:
    with served(files, files.client) as address:
        assert is_refused(settings(address, files))
