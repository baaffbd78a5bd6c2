"""A whole broker of real parts: loop, disk, store, node, server; from settings to a clean stop.

Used by `barnabas up` and by `barnabas.Broker`. Decides nothing about requests or logs.
"""

from __future__ import annotations

import logging
import os
import socket
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from barnabas.broker.node import Node
from barnabas.broker.tasks import Task, drive
from barnabas.ports import World
from barnabas.runtime.directory_lock import DirectoryInUse, DirectoryLock, lock_directory
from barnabas.runtime.disk import RealDisk
from barnabas.runtime.embedded import EmbeddedStore
from barnabas.runtime.loop import Loop, SystemRng
from barnabas.runtime.server import Server
from barnabas.runtime.state_text import state_text
from barnabas.runtime.tls_problem import TlsProblem

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from barnabas.broker.cleaners import Cleaner
    from barnabas.model.config.broker_config import BrokerConfig
    from barnabas.model.config.listeners import Listener
    from barnabas.runtime.metrics_http import MetricsServer
    from barnabas.runtime.peers import RealPeers
    from barnabas.runtime.tls import TlsListener
    from barnabas.runtime.zookeeper import ZooKeeperStore

#: Name of the coordination store's file, in the first log directory.
STORE_FILE: Final = "barnabas.db"
#: How long a stop waits for clients to take their last answers.
DRAIN_MS: Final = 5_000
_DRAIN_STEP_MS: Final = 5
#: Listening there is listening on every address.
_EVERY_ADDRESS: Final = ("0.0.0.0", "::", "")  # noqa: S104 (compared, not bound)
_LOOPBACK: Final = ("::1", "localhost")

log = logging.getLogger(__name__)


class RunningBroker:
    """One broker in this process, on the thread that calls `run`."""

    def __init__(self, config: BrokerConfig, metrics: tuple[str, int] | None = None) -> None:
        """Take the directories and bind nothing yet; OSError if a directory cannot be had.

        `metrics` is the address at which to serve figures.
        """
        self._metrics_address = metrics
        self.metrics_server: MetricsServer | None = None
        self._locks = _take_directories(config.log_dirs)
        self.loop = Loop()
        self._peers: RealPeers | None = None
        self._store = self._open_store(config)
        self.disk = RealDisk()
        world = World(
            self.loop.clock, SystemRng(), self.loop, self.loop, self._store, self.disk, self._peers
        )
        self.node = Node(config, world)
        self.node.upkeep.compaction.make_cleaner = self._make_cleaner
        self.node.authentication.read_url = _read_url
        self.node.on_doomed = self._on_doomed
        self.loop.faults.describe_state = lambda: state_text(self.node)
        self.server = Server(self.loop, self.node)
        self.server.make_way = self.disk.give_way
        self._failure: BaseException | None = None
        self._stopping = False
        self._discard = False
        self._is_started = False
        #: Addresses that clients can connect to, once it runs: (listener name, host, port).
        self.addresses: list[tuple[str, str, int]] = []

    def run(self, ready: Callable[[], None]) -> None:
        """Start, call `ready` when clients can connect, serve until `stop`. Raises what kept it from it."""
        self._drive(self.node.start(), lambda: self._listen(ready))
        try:
            self.loop.run_forever()
        finally:
            self._close()
        if self._failure is not None:
            raise self._failure

    def stop(self, *, discard: bool = False) -> None:
        """Begin a clean stop. Safe from any thread and from a signal handler; twice is once.

        With `discard` nothing is synced or marked clean: the data is about to be deleted.
        """
        self.loop.post(lambda: self._or_fail(lambda: self._begin_stop(discard=discard)))

    def _open_store(self, config: BrokerConfig) -> EmbeddedStore | ZooKeeperStore:
        connect = config.get("zookeeper.connect")
        if connect is None:
            return EmbeddedStore(self.loop, os.path.join(config.log_dirs[0], STORE_FILE))
        # Imported here: a lone broker does without kazoo.
        from barnabas.runtime.peer_security import PeerSecurity
        from barnabas.runtime.peers import RealPeers

        try:
            from barnabas.runtime.zookeeper import ZooKeeperStore
            from barnabas.runtime.zookeeper_access import access_options
        except ModuleNotFoundError:
            raise OSError(
                "a member of a cluster needs the package kazoo: pip install 'barnabas[cluster]'"
            ) from None
        self._peers = RealPeers(self.loop, PeerSecurity(lambda: self.node.config))
        connection_timeout = config.get("zookeeper.connection.timeout.ms")
        return ZooKeeperStore(
            self.loop, str(connect),
            session_timeout_ms=config.get_int("zookeeper.session.timeout.ms"),
            connection_timeout_ms=None if connection_timeout is None else int(str(connection_timeout)),
            access=access_options(config),
        )  # fmt: skip

    def _on_doomed(self, problem: Exception) -> None:
        """Stop in order, and end with this problem."""
        self._failure = problem
        self._begin_stop(discard=False)

    def _drive(self, task: Task[Any], then: Callable[[], None]) -> None:
        """Take a step of the start or of the stop. A fault in one ends the process: nobody else would."""

        def finished(_result: Any, problem: BaseException | None) -> None:  # noqa: ANN401
            if problem is None:
                self._or_fail(then)
            else:
                self._fail(problem)

        drive(task, finished)

    def _or_fail(self, step: Callable[[], None]) -> None:
        try:
            step()
        except Exception as fault:  # noqa: BLE001  (an edge: whoever runs the broker gets it)
            self._fail(fault)

    def _fail(self, problem: BaseException) -> None:
        self._failure = problem
        self.server.close()
        self.loop.stop()

    def _listen(self, ready: Callable[[], None]) -> None:
        self._is_started = True
        if self._stopping:
            self._take_leave()
            return
        config = self.node.config
        advertised = {listener.name: listener for listener in config.advertised_listeners}
        try:
            tls = self._open_tls(config)
            for listener in config.listeners:
                host, port = self.server.listen(
                    listener.name, listener.host, listener.port, tls.get(listener.name)
                )
                _warn_if_open(listener, host)
                self.addresses.append((listener.name, host, port))
                told = advertised.get(listener.name)
                if told is not None:
                    self.node.advertised[listener.name] = (told.host, told.port or port)
        except TlsProblem as problem:
            self._fail(problem)
            return
        except OSError as problem:
            where = f"{listener.host}:{listener.port}"
            self._fail(OSError(problem.errno, f"cannot listen on {where}: {problem.strerror}"))
            return
        if self._serve_metrics():
            self._drive(self.node.join(self._endpoints()), ready)

    def _open_tls(self, config: BrokerConfig) -> dict[str, TlsListener]:
        """Read the keys and certificates of every listener that speaks TLS."""
        names = [listener.name for listener in config.listeners if listener.is_encrypted]
        if not names:
            return {}
        # Imported here: a broker without TLS does without.
        from barnabas.broker.handshakes import Handshakes
        from barnabas.runtime.tls import TlsListener

        handshakes = Handshakes(self.loop)
        return {name: TlsListener(self.loop, config, name, handshakes) for name in names}

    def _endpoints(self) -> dict[str, tuple[str, int]]:
        """Where other brokers reach each listener: as advertised, else where it listens, under this machine's name if everywhere."""
        endpoints = {}
        for name, host, port in self.addresses:
            reachable = socket.gethostname() if host in _EVERY_ADDRESS else host
            endpoints[name] = self.node.advertised.get(name, (reachable, port))
        return endpoints

    def _serve_metrics(self) -> bool:
        if self._metrics_address is None:
            return True
        # Imported here: a broker without metrics does without http.server, a fifth of its start-up time.
        from barnabas.runtime.metrics_http import MetricsServer

        host, port = self._metrics_address
        try:
            self.metrics_server = MetricsServer(self, host, port)
        except OSError as problem:
            self._fail(OSError(problem.errno, f"cannot serve metrics on {host}:{port}: {problem}"))
            return False
        return True

    def _make_cleaner(self) -> Cleaner:
        # Imported here: a broker without compacted topics does without.
        from barnabas.runtime.cleaner_process import ProcessCleaner

        return ProcessCleaner(self.loop.post)

    def _begin_stop(self, *, discard: bool) -> None:
        if self._stopping:
            return
        self._stopping = True
        self._discard = discard
        if self._is_started:  # else it stops as soon as it has
            self._take_leave()

    def _take_leave(self) -> None:
        # Others go on asking until what this broker leads has been handed over.
        self._drive(self.node.leave(), self._stop_serving)

    def _stop_serving(self) -> None:
        self.server.stop_listening()
        self.node.release_waiting()
        self._drain(self.loop.clock.monotonic_ms() + DRAIN_MS)

    def _drain(self, deadline_ms: int) -> None:
        now_ms = self.loop.clock.monotonic_ms()
        if not self.server.is_quiet and now_ms < deadline_ms:
            again = partial(self._drain, deadline_ms)
            self.loop.call_at(now_ms + _DRAIN_STEP_MS, partial(self._or_fail, again))
            return
        self.server.close()
        if self._discard:
            self.node.upkeep.compaction.stop(lambda _result, _problem: self.loop.stop())
        else:
            self._drive(self.node.stop(), self.loop.stop)

    def _close(self) -> None:
        if self.metrics_server is not None:
            self.metrics_server.close()
        self.server.close()
        if self._peers is not None:
            self._peers.close()
        self._store.close()
        self.loop.close()
        self.disk.close()
        for lock in self._locks:
            lock.release()


def _read_url(url: str) -> bytes:
    # Imported here: only a broker that checks tokens reads an address.
    from barnabas.runtime.url_reading import read_url

    return read_url(url)


def _warn_if_open(listener: Listener, host: str) -> None:
    """Say plainly what an open listener is."""
    is_near = host in _LOOPBACK or host.startswith("127.")
    if not (listener.is_encrypted or listener.wants_login or is_near):
        log.warning(
            "%s is open to everybody who can reach it: it has neither TLS nor logins (docs/security.md)",
            listener._replace(host=host),
        )


def _take_directories(paths: Sequence[str]) -> list[DirectoryLock]:
    """Make and lock the log directories. One that cannot be had is left to the node, which runs without it.

    Not the first: it holds the coordination store.
    """
    locks: list[DirectoryLock] = []
    for path in paths:
        try:
            os.makedirs(path, exist_ok=True)
            locks.append(lock_directory(path))
        except OSError as problem:
            if path == paths[0] or isinstance(problem, DirectoryInUse):
                for lock in locks:
                    lock.release()
                raise
            log.error("cannot take the log directory %s: %s", path, problem)
    return locks
