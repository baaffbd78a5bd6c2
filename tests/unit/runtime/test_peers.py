"""Connections to other brokers over real sockets: order, sizes, ends."""

import random
import socket
import threading

import pytest

from barnabas.model.config.broker_config import BrokerConfig
from barnabas.runtime.loop import Loop
from barnabas.runtime.peer_security import PeerSecurity
from barnabas.runtime.peers import FRAME_BYTES_MAX, ROOM_BYTES, RealPeers

TIMEOUT_S = 60


@pytest.fixture
def loop():
    loop = Loop()
    yield loop
    loop.close()


@pytest.fixture
def peers(loop):
    peers = RealPeers(loop, PeerSecurity(BrokerConfig))
    yield peers
    peers.close()


@pytest.fixture
def listener():
    with socket.create_server(("127.0.0.1", 0)) as sock:
        sock.settimeout(TIMEOUT_S)
        yield sock


class Events:
    """Notes what happens; stops the loop when enough has."""

    def __init__(self, loop, frames):
        self.loop = loop
        self.wanted = frames
        self.is_connected = False
        self.frames = []
        self.reason = None

    def on_connected(self):
        self.is_connected = True
        if not self.wanted:
            self.loop.stop()

    def on_frame(self, frame):
        self.frames.append(bytes(frame))
        if len(self.frames) == self.wanted:
            self.loop.stop()

    def on_closed(self, reason):
        self.reason = reason
        self.loop.stop()


class Keeper(Events):
    """Keeps replies for longer than they are lent."""

    def on_frame(self, frame):
        super().on_frame(frame)
        self.frames[-1] = frame


def framed(body):
    return len(body).to_bytes(4, "big") + body


def serve(listener, talk):
    """Run the other side in a thread; its problems are raised by `join`."""
    problems = []

    def run():
        try:
            sock, _ = listener.accept()
            sock.settimeout(TIMEOUT_S)
            with sock:
                talk(sock)
        except Exception as problem:  # noqa: BLE001
            problems.append(problem)

    thread = threading.Thread(target=run)
    thread.start()

    def join():
        thread.join()
        assert not problems, problems

    return join


def read_exactly(sock, size):
    data = b""
    while len(data) < size:
        piece = sock.recv(size - len(data))
        assert piece
        data += piece
    return data


@pytest.mark.parametrize("size", [0, 1, 100, ROOM_BYTES - 4, ROOM_BYTES, 3 * ROOM_BYTES + 7])
def test_replies_come_whole_however_they_are_cut(loop, peers, listener, size):
    bodies = [random.Random(n).randbytes(size) for n in range(3)] + [b"end"]
    stream = b"".join(framed(body) for body in bodies)

    def talk(sock):
        assert read_exactly(sock, 4) == b"ping"
        cut = max(1, size // 3)
        for start in range(0, len(stream), cut):
            sock.sendall(stream[start : start + cut])

    join = serve(listener, talk)
    events = Events(loop, len(bodies))
    peer = peers.connect(*listener.getsockname(), events)
    peer.send([b"pi", b"ng"])
    loop.run_forever()
    join()
    assert events.frames == bodies


def test_a_reply_cannot_be_read_after_its_call(loop, peers, listener):
    def talk(sock):
        assert read_exactly(sock, 4) == b"ping"
        sock.sendall(framed(b"first") + framed(b"second"))

    join = serve(listener, talk)
    keeper = Keeper(loop, 2)
    peers.connect(*listener.getsockname(), keeper).send([b"ping"])
    loop.run_forever()
    join()
    for reply in keeper.frames:
        with pytest.raises(ValueError, match="released"):
            bytes(reply)


def test_a_long_request_leaves_as_the_other_side_takes_it(loop, peers, listener):
    body = random.Random(1).randbytes(8 << 20)

    def talk(sock):
        assert read_exactly(sock, len(body)) == body
        sock.sendall(framed(b"ok"))

    join = serve(listener, talk)
    events = Events(loop, 1)
    peers.connect(*listener.getsockname(), events).send([body[:5], body[5:]])
    loop.run_forever()
    join()
    assert events.frames == [b"ok"]


def test_nobody_there_is_told(loop, peers):
    with socket.create_server(("127.0.0.1", 0)) as sock:
        address = sock.getsockname()
    events = Events(loop, 1)
    peers.connect(*address, events)
    loop.run_forever()
    assert "refused" in events.reason
    assert not events.is_connected


def test_a_name_that_cannot_be_found_is_told(loop, peers):
    events = Events(loop, 1)
    peers.connect("no-such-host.invalid", 1, events)
    loop.run_forever()
    assert events.reason


def test_the_other_sides_end_is_told_once(loop, peers, listener):
    join = serve(listener, lambda sock: sock.sendall(framed(b"last")))
    events = Events(loop, 2)
    peers.connect(*listener.getsockname(), events)
    loop.run_forever()
    join()
    assert events.frames == [b"last"]
    assert "closed" in events.reason


@pytest.mark.parametrize("size", [-1, FRAME_BYTES_MAX + 1])
def test_a_length_that_cannot_be_ends_the_connection(loop, peers, listener, size):
    join = serve(listener, lambda sock: sock.sendall(size.to_bytes(4, "big", signed=True)))
    events = Events(loop, 1)
    peers.connect(*listener.getsockname(), events)
    loop.run_forever()
    join()
    assert str(size) in events.reason


def test_a_length_that_is_only_announced_is_given_no_room(loop, peers, listener):
    join = serve(listener, lambda sock: sock.sendall(FRAME_BYTES_MAX.to_bytes(4, "big") + b"x"))
    events = Events(loop, 1)
    peer = peers.connect(*listener.getsockname(), events)
    loop.run_forever()
    join()
    assert len(peer._room) <= 4 * ROOM_BYTES


def test_after_closing_nothing_is_told(loop, peers, listener):
    join = serve(listener, lambda sock: sock.recv(1))
    events = Events(loop, 0)
    peer = peers.connect(*listener.getsockname(), events)
    loop.run_forever()
    peer.close()
    join()
    peer.send([b"late"])
    assert events.reason is None
