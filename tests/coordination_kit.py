"""The three implementations of the Coordination port under one hand, for tests that hold them against each other."""

import contextlib
import threading

from kazoo.client import KazooClient
from tcp_proxy import TcpProxy

from barnabas.runtime.embedded import EmbeddedStore
from barnabas.runtime.loop import Loop
from barnabas.runtime.zookeeper import ZooKeeperStore
from barnabas.sim.coordination import SimCoordination
from barnabas.sim.store import SimStore
from barnabas.sim.world import SECOND, Life, Scheduler

WAIT_S = 60
SESSION_TIMEOUT_MS = 4_000


class Client:
    """A port, driven from a test. `begin` and `wait` are the drivers' own."""

    port = None

    def __init__(self):
        self.events = []

    def ask(self, name, *arguments):
        outcome = self.begin(name, *arguments)
        return self.result(outcome)

    def result(self, outcome):
        self.wait(lambda: outcome)
        value, error = outcome[0]
        if error is not None:
            raise error
        return value

    def begin(self, name, *arguments):
        """Call the port with `done` at the end; the list gets (value, error)."""
        outcome = []
        self.run(
            lambda: getattr(self.port, name)(*arguments, lambda *answer: self.note(outcome, answer))
        )
        return outcome

    def commit(self, *operations):
        return self.ask("commit", operations)

    def read(self, path):
        return self.ask("read", path)

    def children(self, path):
        found = self.ask("read_children", path)
        return None if found is None else list(found)

    def tree(self, path):
        return dict(self.ask("read_tree", path))

    def watch(self, path):
        """A list that grows with every call."""
        calls = []
        self.run(lambda: calls_of(self.port, path, lambda: self.note(calls, path)))
        return calls

    def follow_session(self):
        self.run(lambda: self.port.on_session(self))

    def on_connected(self, session_id, *, is_new):
        self.note(self.events, ("connected", session_id, is_new))

    def on_suspended(self):
        self.note(self.events, ("suspended",))

    def on_expired(self):
        self.note(self.events, ("expired",))

    def on_gone_back(self):
        self.note(self.events, ("gone back",))


def calls_of(port, path, call):
    port.watch(path, call)


class LoopClient(Client):
    """On a loop in a thread of its own."""

    def __init__(self, make_port):
        super().__init__()
        self._changed = threading.Condition()
        self.loop = Loop()
        self.port = make_port(self.loop)
        self._thread = threading.Thread(target=self.loop.run_forever)
        self._thread.start()
        self._is_open = True

    def run(self, call):
        done = threading.Event()

        def called():
            call()
            done.set()

        self.loop.post(called)
        assert done.wait(WAIT_S)

    def note(self, notes, what):
        with self._changed:
            notes.append(what)
            self._changed.notify_all()

    def wait(self, condition):
        with self._changed:
            assert self._changed.wait_for(condition, WAIT_S), "it did not come to that"

    def close(self):
        if self._is_open:
            self._is_open = False
            self.loop.stop()
            self._thread.join()
            self.port.close()
            self.loop.close()


class SimClient(Client):
    """In virtual time."""

    def __init__(self, scheduler, store, node):
        super().__init__()
        self.scheduler = scheduler
        self.store = store
        self.node = node
        self.life = Life(1)
        self.port = SimCoordination(
            scheduler,
            store,
            self.life,
            lambda call: call(),
            node=node,
            session_timeout_ms=SESSION_TIMEOUT_MS,
        )

    def run(self, call):
        call()

    def note(self, notes, what):
        notes.append(what)

    def wait(self, condition):
        end_us = self.scheduler.now_us + WAIT_S * SECOND
        assert self.scheduler.run(lambda: bool(condition()), end_us), "it did not come to that"

    def close(self):
        if not self.life.is_over:
            self.port.close()
            self.life.is_over = True

    def cut(self):
        self.store.suspend(self.node)

    def mend(self):
        self.store.resume(self.node)

    def expire(self):
        self.store.expire(self.node)

    def lose_reply_to(self, *operations, seen_by):
        self.store.lose_next_reply(self.node)
        return self.begin("commit", operations)


class ZooKeeperClient(LoopClient):
    """On a real server, through a proxy that can be cut."""

    def __init__(self, zookeeper, session_timeout_ms=SESSION_TIMEOUT_MS):
        server, slash, root = zookeeper.partition("/")
        self._server = server
        self.proxy = TcpProxy(server)
        super().__init__(
            lambda loop: ZooKeeperStore(
                loop,
                self.proxy.address + slash + root,
                session_timeout_ms=session_timeout_ms,
                connection_timeout_ms=WAIT_S * 1000,
            )
        )

    def close(self):
        super().close()
        self.proxy.close()

    def cut(self):
        self.proxy.cut()

    def mend(self):
        self.proxy.mend()

    def expire(self):
        """End the session from another client that claims to be this one."""
        twin = KazooClient(self._server, client_id=self.port.session._client.client_id)
        twin.start(WAIT_S)
        twin.stop()
        twin.close()

    def lose_reply_to(self, *operations, seen_by):
        self.proxy.swallow_replies()
        outcome = self.begin("commit", operations)
        seen_by.read("/")  # connected from here on, and that is a reason to be called
        calls = seen_by.watch(operations[-1].path)
        if seen_by.read(operations[-1].path) is None:
            seen_by.wait(lambda: calls)
        self.proxy.cut()
        self.proxy.mend()
        return outcome


class EmbeddedStores:
    """One client only: a lone node has its store to itself."""

    def __init__(self, path):
        self._path = path

    def client(self):
        return LoopClient(lambda loop: EmbeddedStore(loop, str(self._path)))


class SimStores:
    """Any number of clients of one store."""

    def __init__(self, seed):
        self._scheduler = Scheduler(seed)
        self._store = SimStore()
        self._count = 0

    def client(self):
        self._count += 1
        return SimClient(self._scheduler, self._store, str(self._count))


class ZooKeeperStores:
    """Any number of clients of one root."""

    def __init__(self, zookeeper):
        self._zookeeper = zookeeper

    def client(self):
        return ZooKeeperClient(self._zookeeper)


@contextlib.contextmanager
def clients_of(stores):
    """Makes clients, and closes them at the end."""
    made = []

    def make():
        made.append(stores.client())
        return made[-1]

    try:
        yield make
    finally:
        for client in made:
            client.close()
