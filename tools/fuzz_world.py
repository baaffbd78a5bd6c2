"""A node without sockets, threads or a real disk, for the fuzzer: one thread, one seed, thousands of requests a second.

Job: the ports of `barnabas.ports` in memory, and links that remember what they were answered. Background jobs and commits to
the store run when `settle` is called, in order. Must not know: what requests mean.
"""

import heapq
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from barnabas.broker.node import Node
from barnabas.broker.tasks import drive
from barnabas.model.config.broker_config import BrokerConfig
from barnabas.ports import FileSlice, Operation, World, ZNode
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


class FuzzEvents:
    """Timers, background jobs and the coordination store: everything that happens later."""

    def __init__(self, clock: FuzzClock) -> None:
        """Start with nothing to do."""
        self._clock = clock
        self._timers: list[tuple[int, int, FuzzTimer]] = []
        self._booked = 0
        self._later: deque[Callable[[], None]] = deque()
        self._store = SimStore()
        self._session = self._store.open_session("")

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

    def read_tree(
        self, path: str, done: Callable[[Mapping[str, ZNode], BaseException | None], None]
    ) -> None:
        """Answer with the znodes at or below `path`."""
        tree = {each: node for each, node in self._store.tree.items() if is_below(each, path)}
        self._later.append(lambda: done(tree, None))

    def read(self, path: str, done: Callable[[ZNode | None, BaseException | None], None]) -> None:
        """Answer with one znode."""
        found = self._store.tree.get(path)
        self._later.append(lambda: done(found, None))

    def commit(
        self,
        operations: Sequence[Operation],
        done: Callable[[Sequence[str], BaseException | None], None],
    ) -> None:
        """Do all operations or none."""
        self._later.append(lambda: done(*self._store.commit(operations, self._session)))

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
        for timer in due:
            if timer.call is not None:
                timer.call()
        self.settle()


class FuzzLink:
    """A client's connection that remembers."""

    listener = "PLAINTEXT"
    local_host = "127.0.0.1"
    local_port = 9092
    peer_host = "127.0.0.1"

    def __init__(self) -> None:
        """Start open, without an answer."""
        self.answers: list[bytes] = []
        self.is_open = True
        self.lanes: Any = None

    def reply_repeated(self, answers: bytes) -> None:
        """Take the answers to requests that went a lane."""
        self.answers.append(answers)

    def reply(self, buffers: list[Any]) -> None:
        """Take a late answer."""
        self.answers.append(joined(buffers))

    def close(self) -> None:
        """Note that the node wants to be rid of us."""
        self.is_open = False


def joined(parts: list[Any]) -> bytes:
    """Read an answer's parts as the bytes that would be sent."""
    return b"".join(part.read() if isinstance(part, FileSlice) else bytes(part) for part in parts)


class FuzzNode:
    """A started node in its world."""

    def __init__(self, rng: Random, settings: Mapping[str, str] | None = None) -> None:
        """Start it on an empty disk."""
        clock = FuzzClock()
        self.events = FuzzEvents(clock)
        self.disk = SimDisk(Random(rng.random()))
        texts = {"log.dirs": "/data", "listeners": "PLAINTEXT://127.0.0.1:9092", **(settings or {})}
        events: Any = self.events
        world = World(clock, FuzzRng(rng), events, events, events, self.disk)
        self.node = Node(BrokerConfig(texts), world)
        outcome: list[BaseException | None] = []
        drive(self.node.start(), lambda _result, problem: outcome.append(problem))
        self.events.settle()
        assert outcome == [None], outcome

    def ends(self) -> dict[str, int]:
        """Return the log end offset of every partition hosted."""
        return {str(replica.key): replica.log.log_end_offset for replica in self.node.replicas}
