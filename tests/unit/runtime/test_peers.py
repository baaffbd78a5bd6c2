"""Connections to other brokers over real sockets: order, sizes, ends."""

import random
import socket
import threading

import pytest

from barnabas.broker.receive_memory import TURN_BYTES
from barnabas.model.config.broker_config import BrokerConfig
from barnabas.runtime.loop import Loop
from barnabas.runtime.peer_security import PeerSecurity
from barnabas.runtime.peers import FRAME_BYTES_MAX, RealPeers

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


@pytest.mark.parametrize(
    "size", [0, 1, 100, TURN_BYTES - 4, TURN_BYTES, 3 * TURN_BYTES + 7, 20 * TURN_BYTES]
)
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
    peers.connect(*listener.getsockname(), events)
    loop.run_forever()
    join()
    assert peers._memory.pool.unused_bytes <= 4 * TURN_BYTES


class Keeping(Events):
    """Keeps the reply itself, and a part of it."""

    def on_frame(self, frame):
        self.kept = getattr(self, "kept", [])
        self.kept.append((frame, frame[-100:]))
        super().on_frame(frame)


@pytest.mark.parametrize("size", [200, 3 * TURN_BYTES])
def test_a_reply_that_is_kept_cannot_be_read_and_a_part_of_it_owns_its_bytes(
    loop, peers, listener, caplog, size
):
    bodies = [bytes([number]) * size for number in range(1, 9)]

    def talk(sock):
        for body in bodies:
            sock.sendall(framed(body))

    join = serve(listener, talk)
    events = Keeping(loop, len(bodies))
    peers.connect(*listener.getsockname(), events)
    loop.run_forever()
    join()
    for body, (frame, part) in zip(bodies, events.kept, strict=True):
        with pytest.raises(ValueError, match="released"):
            frame[0]
        assert bytes(part) == body[-100:]  # no later reply was written over it
    assert "still in use" in caplog.text


def test_long_replies_come_in_the_same_memory_again_and_again(loop, peers, listener):
    """A follower that is sent a megabyte at a time must not fault in fresh pages for each."""
    count, body = 200, random.Random(1).randbytes(1 << 20)

    def talk(sock):
        for _ in range(count):
            sock.sendall(framed(body))

    class Comparing(Events):
        def on_frame(self, frame):
            assert frame == body
            memories.add(id(frame.obj))
            super().on_frame(b"")

    memories = set()
    join = serve(listener, talk)
    events = Comparing(loop, count)
    peers.connect(*listener.getsockname(), events)
    loop.run_forever()
    join()
    assert len(events.frames) == count
    pool = peers._memory.pool
    assert pool.kept_count == 0
    assert len(memories) <= 2
    assert pool.unused_bytes <= 16 * len(body)


class Failing(Events):
    def on_frame(self, frame):
        super().on_frame(frame)
        raise RuntimeError("planted")


def test_a_fault_with_a_reply_closes_that_connection_alone_and_is_told_once(loop, peers, caplog):
    with (
        socket.create_server(("127.0.0.1", 0)) as bad,
        socket.create_server(("127.0.0.1", 0)) as good,
    ):
        stop = threading.Event()

        def talk_badly(sock):
            sock.sendall(framed(b"one") + framed(b"two"))
            assert sock.recv(1) == b""
            stop.set()

        def talk(sock):
            assert stop.wait(TIMEOUT_S)
            sock.sendall(framed(b"fine"))

        joins = [serve(bad, talk_badly), serve(good, talk)]
        failing, fine = Failing(loop, 0), Events(loop, 1)
        failing.on_closed = lambda reason: setattr(failing, "reason", reason)
        failing.on_connected = lambda: None
        peers.connect(*bad.getsockname(), failing)
        peers.connect(*good.getsockname(), fine)
        loop.run_forever()
        for join in joins:
            join()
    assert failing.frames == [b"one"]
    assert "planted" in failing.reason
    assert fine.frames == [b"fine"]
    [told] = caplog.records
    assert told.exc_info[0] is RuntimeError


def test_names_that_are_never_found_hold_up_no_address(loop, peers, listener):
    free = threading.Event()
    for _ in range(100):
        loop.ask_network(lambda: free.wait(TIMEOUT_S), lambda _result, _error: None)
    join = serve(listener, lambda sock: sock.sendall(framed(b"here")))
    events = Events(loop, 1)
    peers.connect(*listener.getsockname(), events)
    loop.run_forever()
    free.set()
    join()
    assert events.frames == [b"here"]


def test_after_closing_nothing_is_told(loop, peers, listener):
    join = serve(listener, lambda sock: sock.recv(1))
    events = Events(loop, 0)
    peer = peers.connect(*listener.getsockname(), events)
    loop.run_forever()
    peer.close()
    join()
    peer.send([b"late"])
    assert events.reason is None
