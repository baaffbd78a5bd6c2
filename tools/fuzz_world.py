"""A node without sockets, threads or a real disk, for the fuzzer: one thread, one seed, thousands of requests a second.

Job: the ports of `barnabas.ports` in memory, and links that remember what they were answered. Background jobs and commits to
the store run when `settle` is called, in order. Must not know: what requests mean.
"""

import heapq
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from barnabas.broker.edge import call_all
from barnabas.broker.node import Node
from barnabas.broker.tasks import Task, drive
from barnabas.model.config.broker_config import BrokerConfig
from barnabas.model.principal import ANONYMOUS
from barnabas.ports import (
    FileSlice,
    NotConnected,
    Operation,
    PeerEvents,
    SessionListener,
    World,
    ZNode,
)
from barnabas.sim.disk import SimDisk
from barnabas.sim.store import SimStore, is_below

START_MS = 1_700_000_000_000


class FuzzClock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        """Start at a fixed time."""
        self.elapsed_ms = 0

    def now_ms(self) -> int:
        """Return the time people read."""
        return START_MS + self.elapsed_ms

    def monotonic_ms(self) -> int:
        """Return the time since the start."""
        return self.elapsed_ms

    def monotonic_ns(self) -> int:
        """Return the same in nanoseconds."""
        return self.elapsed_ms * 1_000_000


class FuzzRng:
    """Random bytes from the seed."""

    def __init__(self, rng: Random) -> None:
        """Draw from `rng`."""
        self._rng = rng

    def random_bytes(self, size: int) -> bytes:
        """Return `size` bytes."""
        return self._rng.randbytes(size)


class FuzzTimer:
    """One booked call."""

    def __init__(self, call: Callable[[], None]) -> None:
        """Keep the call."""
        self.call: Callable[[], None] | None = call

    def cancel(self) -> None:
        """Do not call any more."""
        self.call = None

    def make(self) -> None:
        """Make the call, unless it was cancelled."""
        if self.call is not None:
            self.call()


class FuzzEvents:
    """Timers, background jobs and the coordination store: everything that happens later."""

    def __init__(self, clock: FuzzClock, store: SimStore) -> None:
        """Start with nothing to do."""
        self._clock = clock
        self._timers: list[tuple[int, int, FuzzTimer]] = []
        self._booked = 0
        self._later: deque[Callable[[], None]] = deque()
        self._store = store
        self._session = self._store.open_session("")
        self._store.clients[""] = self
        self._watches: list[FuzzWatch] = []
        self._listeners: list[SessionListener] = []
        self.trees_read: list[str] = []
        #: The store does not answer.
        self.is_cut_off = False
        #: Paths that cannot be read as long as they are here.
        self.unreadable: set[str] = set()
        #: Paths whose reads are answered by `answer_slow`.
        self.slow: set[str] = set()
        self._held: list[Callable[[], None]] = []

    def call_at(self, deadline_ms: int, call: Callable[[], None]) -> FuzzTimer:
        """Book a call."""
        self._booked += 1
        timer = FuzzTimer(call)
        heapq.heappush(self._timers, (deadline_ms, self._booked, timer))
        return timer

    def run(
        self, job: Callable[[], Any], done: Callable[[Any, BaseException | None], None]
    ) -> None:
        """Run a job when things settle."""

        def work() -> None:
            try:
                result = job()
            except Exception as problem:  # noqa: BLE001  (the caller gets it, as from a thread)
                done(None, problem)
            else:
                done(result, None)

        self._later.append(work)

    def compute(
        self, job: Callable[[], Any], done: Callable[[Any, BaseException | None], None]
    ) -> None:
        """Run a job as any other."""
        self.run(job, done)

    def ask_network(
        self, job: Callable[[], Any], done: Callable[[Any, BaseException | None], None]
    ) -> None:
        """Run a job as any other."""
        self.run(job, done)

    def read_tree(
        self, path: str, done: Callable[[Mapping[str, ZNode], BaseException | None], None]
    ) -> None:
        """Answer with the znodes at or below `path`."""
        self.trees_read.append(path)
        tree = {each: node for each, node in self._store.tree.items() if is_below(each, path)}
        self._later.append(lambda: done(tree, None))

    def read(self, path: str, done: Callable[[ZNode | None, BaseException | None], None]) -> None:
        """Answer with one znode."""
        if self.is_cut_off or path in self.unreadable:
            self._later.append(lambda: done(None, NotConnected("the store cannot be reached")))
            return
        found = self._store.tree.get(path)
        queue = self._held if path in self.slow else self._later
        queue.append(lambda: done(found, None))

    def answer_slow(self) -> None:
        """Answer the reads that were held up."""
        self.slow.clear()
        self._later.extend(self._held)
        self._held.clear()
        self.settle()

    def commit(
        self,
        operations: Sequence[Operation],
        done: Callable[[Sequence[str], BaseException | None], None],
    ) -> None:
        """Do all operations or none."""
        if self.is_cut_off:
            self._later.append(lambda: done((), NotConnected("the store cannot be reached")))
            return
        self._later.append(lambda: done(*self._store.commit(operations, self._session)))

    def read_children(
        self, path: str, done: Callable[[Sequence[str] | None, BaseException | None], None]
    ) -> None:
        """Answer with the names right below `path`."""
        below = path.rstrip("/") + "/"
        names = {p[len(below) :].split("/")[0] for p in self._store.tree if p.startswith(below)}
        found = sorted(names) if names or path in self._store.tree else None
        self._later.append(lambda: done(found, None))

    def watch(self, path: str, changed: Callable[[], None]) -> "FuzzWatch":
        """Tell of changes."""
        watch = FuzzWatch(self._watches, path, changed)
        self._watches.append(watch)
        return watch

    def on_session(self, listener: SessionListener) -> None:
        """Tell of the one session there is."""
        self._listeners.append(listener)
        self._later.append(lambda: listener.on_connected(self._session.id, is_new=True))

    def expire(self) -> None:
        """End the session, and tell of it; `reconnect` begins another one."""
        self._store.end_session(self._session)
        for listener in self._listeners:
            listener.on_suspended()
            listener.on_expired()

    def reconnect(self) -> None:
        """Begin another session; everybody is told, and whoever watches looks again."""
        self._session = self._store.open_session("")
        for listener in self._listeners:
            listener.on_connected(self._session.id, is_new=True)
        for watch in list(self._watches):
            watch.call()
        self.settle()

    def on_touched(self, paths: set[str]) -> None:
        """Hear from the store what has changed."""
        self._later.extend(watch.call for watch in self._watches if watch.path in paths)

    def on_put_back(self) -> None:
        """Go on in a session that the store knows."""
        self._session = self._store.open_session("")

    def cut(self, *, at_once: bool) -> None:
        """Is never cut off."""

    def mend(self) -> None:
        """Is never cut off."""

    def lose_next_reply(self) -> None:
        """Loses nothing."""

    def later(self, call: Callable[[], None]) -> None:
        """Make a call when things settle."""
        self._later.append(call)

    def settle(self) -> None:
        """Run all jobs, and those they start."""
        while self._later:
            self._later.popleft()()

    def advance(self, by_ms: int) -> None:
        """Move the clock and make the calls that are due then; each at most once."""
        self._clock.elapsed_ms += by_ms
        due = []
        while self._timers and self._timers[0][0] <= self._clock.elapsed_ms:
            due.append(heapq.heappop(self._timers)[2])
        try:
            call_all(timer.make for timer in due)
        finally:
            self.settle()


class FuzzWatch:
    """An interest in a path."""

    def __init__(self, watches: "list[FuzzWatch]", path: str, changed: Callable[[], None]) -> None:
        """Stand among these."""
        self._watches = watches
        self.path = path
        self._changed = changed

    def cancel(self) -> None:
        """Do not call any more."""
        if self in self._watches:
            self._watches.remove(self)

    def call(self) -> None:
        """Tell, unless nobody wants to know any more."""
        if self in self._watches:
            self._changed()


class FuzzLink:
    """A client's connection that remembers."""

    listener = "PLAINTEXT"
    local_host = "127.0.0.1"
    local_port = 9092
    peer_host = "127.0.0.1"
    principal = ANONYMOUS
    authenticator = None
    frame_bytes_max = 100 * 1024 * 1024
    owns_frame = False
    has_staged = False

    def __init__(self) -> None:
        """Start open, without an answer."""
        self.answers: list[bytes] = []
        self.is_open = True
        self.lanes: Any = None

    def mute(self, _delay_ms: int) -> None:
        """Go on at once: requests come one by one here."""

    def reply_repeated(self, answers: bytes) -> None:
        """Take the answers to requests that went a lane."""
        self.has_staged = False
        self.answers.append(answers)

    def reply(self, buffers: list[Any]) -> None:
        """Take a late answer."""
        self.answers.append(joined(buffers))

    def close_when_sent(self) -> None:
        """Note that the node wants to be rid of us soon."""
        self.is_open = False

    def close(self) -> None:
        """Note that the node wants to be rid of us."""
        self.is_open = False


def joined(parts: list[Any]) -> bytes:
    """Read an answer's parts as the bytes that would be sent."""
    return b"".join(part.read() if isinstance(part, FileSlice) else bytes(part) for part in parts)


class FuzzPeers:
    """Connections of a node to itself: the only broker of its cluster."""

    def __init__(self, events: FuzzEvents) -> None:
        """Know no node yet."""
        self.events = events
        self.node: Node | None = None

    def connect(self, _host: str, _port: int, events: PeerEvents) -> "FuzzPeer":
        """Connect, wherever to."""
        peer = FuzzPeer(self, events)
        self.events.later(peer.connected)
        return peer


class FuzzPeer(FuzzLink):
    """One such connection, with both its ends."""

    def __init__(self, peers: FuzzPeers, events: PeerEvents) -> None:
        """Start without a connection."""
        super().__init__()
        self._peers = peers
        self._events = events

    def connected(self) -> None:
        """Tell that it stands."""
        if self.is_open:
            self._events.on_connected()

    def send(self, buffers: Sequence[Any]) -> None:
        """Ask."""
        frame = b"".join(bytes(part) for part in buffers)[4:]
        self._peers.events.later(lambda: self._serve(frame))

    def _serve(self, frame: bytes) -> None:
        node = self._peers.node
        assert node is not None
        if self.is_open:
            parts = node.on_request(self, memoryview(bytearray(frame)))
            if parts is not None:
                self.reply(parts)

    def reply(self, buffers: list[Any]) -> None:
        """Answer."""
        answer = joined(buffers)[4:]
        self._peers.events.later(lambda: self._answer(answer))

    def _answer(self, answer: bytes) -> None:
        if self.is_open:
            self._events.on_frame(memoryview(answer))


class FuzzNode:
    """A started node in its world: a lone one, or with `zookeeper.connect` the only member of a cluster."""

    def __init__(
        self,
        rng: Random,
        settings: Mapping[str, str] | None = None,
        store: SimStore | None = None,
    ) -> None:
        """Start it on an empty disk, with what is in the store already."""
        clock = FuzzClock()
        self.events = FuzzEvents(clock, store or SimStore())
        self.disk = SimDisk(Random(rng.random()))
        texts = {"log.dirs": "/data", "listeners": "PLAINTEXT://127.0.0.1:9092", **(settings or {})}
        events: Any = self.events
        peers = FuzzPeers(self.events)
        world = World(clock, FuzzRng(rng), events, events, events, self.disk, peers)
        self.node = peers.node = Node(BrokerConfig(texts), world)
        self._finish(self.node.start())
        self._finish(self.node.join({"PLAINTEXT": ("127.0.0.1", 9092)}))
        for _ in range(10):
            self.events.advance(1)

    def _finish(self, task: Task[None]) -> None:
        outcome: list[BaseException | None] = []
        drive(task, lambda _result, problem: outcome.append(problem))
        self.events.settle()
        assert outcome == [None], outcome

    def ends(self) -> dict[str, int]:
        """Return the log end offset of every partition hosted."""
        return {str(replica.key): replica.log.log_end_offset for replica in self.node.replicas}
