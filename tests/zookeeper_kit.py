"""A real ZooKeeper for tests: one server for the session, a root of its own for each test."""

import uuid

import peers
import pytest

from barnabas.runtime.zookeeper_server import make_ensemble


def zookeeper_jars():
    jars = peers.zookeeper_lib()
    if jars is None or peers.java() is None:
        pytest.skip(peers.reason())
    return str(jars)


@pytest.fixture(scope="session")
def zookeeper_server(tmp_path_factory):
    """Its address. Not synced: a test's data need not survive the machine."""
    folder = tmp_path_factory.mktemp("zookeeper")
    ensemble = make_ensemble(str(folder), ("127.0.0.1", 0), jars=zookeeper_jars())
    ensemble.start(sync=False)
    yield ensemble.connect
    ensemble.stop()


@pytest.fixture
def zookeeper(zookeeper_server):
    """What to write into zookeeper.connect: an empty root."""
    return f"{zookeeper_server}/test-{uuid.uuid4().hex[:12]}"
