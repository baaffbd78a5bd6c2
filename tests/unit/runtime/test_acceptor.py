"""A listener that pauses, and one that is closed while it does."""

import socket

import pytest

from barnabas.runtime.acceptor import ACCEPT_PAUSE_MS, Acceptor
from barnabas.runtime.loop import Loop


class Stage:
    """A loop with one listener; what it took is in `taken`."""

    def __init__(self):
        self.loop = Loop()
        self.sock = socket.create_server(("127.0.0.1", 0))
        self.sock.setblocking(False)
        self.address = self.sock.getsockname()
        self.taken = []
        self.full = None
        self.pause_ms = 0
        self.acceptor = Acceptor(
            self.loop, self.sock, self._adopt, lambda: self.full, lambda _count: 0
        )
        self._clients = []

    def _adopt(self, sock):
        self.taken.append(sock)
        return self.pause_ms

    def connect(self):
        self._clients.append(socket.create_connection(self.address, 10))

    def run(self, milliseconds=0):
        """Let turns of the loop pass until this much time has."""
        self.loop.call_at(self.loop.clock.monotonic_ms() + milliseconds, self.loop.stop)
        self.loop.run_forever()
        self.loop._stopping = False

    def close(self):
        self.acceptor.close()
        self.loop.close()
        for sock in (*self.taken, *self._clients):
            sock.close()


@pytest.fixture
def stage():
    stage = Stage()
    yield stage
    stage.close()


def test_connections_are_taken(stage):
    stage.connect()
    stage.connect()
    stage.run()
    assert len(stage.taken) == 2


def test_no_connection_is_taken_during_a_pause(stage):
    stage.pause_ms = 60_000
    stage.connect()
    stage.connect()
    stage.run()
    assert len(stage.taken) == 1


def test_it_goes_on_after_a_pause(stage):
    stage.full = "there are too many"
    stage.connect()
    stage.run()
    assert not stage.taken
    stage.full = None
    stage.run(200)
    assert len(stage.taken) == 1


@pytest.mark.parametrize("is_paused", [False, True])
def test_it_can_be_closed_whether_it_pauses_or_not(stage, is_paused):
    """A broker that was full did not stop: it gave up watching what it did not watch."""
    if is_paused:
        stage.full = "there are too many"
        stage.connect()
        stage.run()
    stage.acceptor.close()
    stage.acceptor.close()
    stage.full = None
    stage.run(200)
    assert not stage.taken
    assert stage.sock.fileno() < 0


def test_a_connection_that_cannot_be_taken_is_closed_and_others_are_taken(stage, caplog):
    adopt, faults = stage.acceptor._adopt, []

    def fail_once(sock):
        if not faults:
            faults.append(sock)
            raise RuntimeError("planted")
        return adopt(sock)

    stage.acceptor._adopt = fail_once
    stage.connect()
    stage.run()
    stage.connect()
    stage.run(2 * ACCEPT_PAUSE_MS)
    assert len(stage.taken) == 1
    assert stage._clients[0].recv(1) == b""
    [told] = caplog.records
    assert told.exc_info[0] is RuntimeError
