"""The session with a real ZooKeeper in trouble that has no like in a simulation: silence, and bytes that make no sense."""

import pytest
from coordination_kit import LoopClient, ZooKeeperClient
from zookeeper_kit import zookeeper_jars

from barnabas.ports import Create
from barnabas.runtime.zookeeper import ZooKeeperStore
from barnabas.runtime.zookeeper_server import make_ensemble

pytestmark = pytest.mark.java


@pytest.fixture
def client(zookeeper, request):
    made = ZooKeeperClient(zookeeper, *getattr(request, "param", ()))
    made.follow_session()
    made.commit(Create("/ids/1", ephemeral=True))
    yield made
    made.close()


def test_a_server_that_falls_silent_is_noticed(client):
    client.proxy.swallow_replies()
    client.wait(lambda: ("suspended",) in client.events)
    client.cut()
    client.mend()
    client.wait(lambda: client.events[-1][0] == "connected")
    client.commit(Create("/later"))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_bytes_that_make_no_sense_cost_a_connection_and_not_the_session(client):
    answer_to_nothing = (16).to_bytes(4, "big") + (77).to_bytes(4, "big") + bytes(12)
    client.proxy.inject_replies(answer_to_nothing)
    client.wait(lambda: len(client.events) == 3)
    first, suspended, second = client.events
    assert suspended == ("suspended",)
    assert second == ("connected", first[1], False)
    assert client.read("/ids/1").owner == first[1]


@pytest.mark.parametrize("client", [(12_000,)], indirect=True, ids=["half of 12 s"])
def test_a_server_that_takes_a_connection_and_says_nothing_does_not_cost_the_session(client):
    """One that is starting may do that: ZooKeeper 3.9 forgets a connection that came before its database was there."""
    client.cut()
    client.wait(lambda: ("suspended",) in client.events)
    waiting = client.begin("commit", [Create("/later")])
    client.proxy.mute_next()
    client.mend()
    assert client.result(waiting) == ["/later"]
    assert client.events[-1] == ("connected", client.events[0][1], False)


def test_closing_without_a_connection_does_not_hang(client):
    client.cut()
    client.wait(lambda: ("suspended",) in client.events)
    client.close()


def test_a_session_outlives_a_server_that_is_killed(tmp_path):
    ensemble = make_ensemble(str(tmp_path), ("127.0.0.1", 0), jars=zookeeper_jars())
    ensemble.start(sync=False)
    client = LoopClient(
        lambda loop: ZooKeeperStore(loop, ensemble.connect, session_timeout_ms=60_000)
    )
    try:
        client.follow_session()
        client.commit(Create("/ids/1", ephemeral=True))
        ensemble.servers[0].kill()
        client.wait(lambda: ("suspended",) in client.events)
        waiting = client.begin("commit", [Create("/later")])
        ensemble.start(sync=False)
        assert client.result(waiting) == ["/later"]
        assert client.read("/ids/1").owner == client.events[0][1]
        assert client.events[-1] == ("connected", client.events[0][1], False)
    finally:
        client.close()
        ensemble.stop()
