"""What the broker writes in a real ZooKeeper, kept from others."""

import pytest
from cluster_kit import PATIENCE_S
from coordination_kit import LoopClient
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from barnabas.model.config.broker_config import BrokerConfig
from barnabas.ports import Create
from barnabas.runtime.zookeeper import ZooKeeperStore
from barnabas.runtime.zookeeper_access import access_options

pytestmark = pytest.mark.java


def store(zookeeper: str, credentials: str) -> LoopClient:
    texts = {"zookeeper.digest.credentials": credentials, "zookeeper.set.acl": "true"}
    access = access_options(BrokerConfig(texts))
    return LoopClient(
        lambda loop: ZooKeeperStore(
            loop,
            zookeeper,
            session_timeout_ms=10_000,
            connection_timeout_ms=PATIENCE_S * 1000,
            access=access,
        )
    )


def test_only_the_broker_reads_and_changes(zookeeper: str) -> None:
    own = store(zookeeper, "broker:hush-1")
    other = store(zookeeper, "broker:hush-2")
    server, _, root = zookeeper.partition("/")
    stranger = KazooClient(server)
    stranger.start(PATIENCE_S)
    try:
        own.commit(Create("/config/users/alice", b"secret"))
        assert own.read("/config/users/alice").data == b"secret"
        with pytest.raises(NoAuthError):
            stranger.get(f"/{root}/config/users/alice")
        with pytest.raises(Exception, match=r"NoAuth|NO_AUTH"):
            other.read("/config/users/alice")
    finally:
        stranger.stop()
        stranger.close()
        own.close()
        other.close()
