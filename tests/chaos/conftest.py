"""One broker for all attacks that leave it as it was. With BARNABAS_TEST_BOOTSTRAP=HOST:PORT they go to somebody else's: run against
Apache Kafka they show which answers are Kafka's."""

import os
import uuid

import pytest
from chaos.wire_kit import BrokerProcess, RawClient


@pytest.fixture(scope="session")
def is_ours():
    return not os.environ.get("BARNABAS_TEST_BOOTSTRAP")


@pytest.fixture(scope="session")
def attacked(tmp_path_factory):
    """The address of a broker; at the end it must have nothing unexpected in its log and stop cleanly."""
    outside = os.environ.get("BARNABAS_TEST_BOOTSTRAP")
    if outside:
        yield outside
        return
    with BrokerProcess(tmp_path_factory.mktemp("attacked") / "data") as broker:
        yield broker.bootstrap
        assert broker.terminate() == 0


@pytest.fixture
def client(attacked):
    with RawClient(attacked) as raw:
        yield raw


@pytest.fixture
def topic(client):
    """A fresh topic with one partition."""
    name = f"t-{uuid.uuid4().hex[:12]}"
    assert client.create_topic(name).error_code == 0
    # Kafka tells of a topic before its leader is ready everywhere: the first answer may be an error.
    while client.end_offset(name) != 0:
        pass
    return name
