"""A session with ZooKeeper as the loop sees it: kazoo's client, whose threads never touch anything of ours.

Job: send requests, bring their answers to the loop, tell how the connection fares. Must not know what is asked.
Invariants: every request is answered exactly once, on the loop; a query is repeated until it got through; an order is
sent once at most; what was asked in a session that has expired fails.

| kazoo says      | here                                                                                |
|-----------------|-------------------------------------------------------------------------------------|
| CONNECTED       | connected: a new session if its id is another one; `sync` goes before everything    |
| SUSPENDED       | queries wait; after the session's time-out without a connection they fail           |
| LOST, expired   | everything under way fails; kazoo seeks a new session                               |
| LOST, closed    | its thread has died of something unforeseen: another client takes the session over  |

ZooKeeper refuses who has seen a later transaction than its own last one: then it was put back to an older state, and would refuse for
ever. So after the session's time-out without a connection another client takes over that has seen none; if ZooKeeper has gone back
indeed, that is told, and the session ends: nothing that was known of the store holds any more.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections import deque
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Protocol

from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import (
    ConnectionClosedError,
    ConnectionLoss,
    KazooException,
    OperationTimeoutError,
    SessionExpiredError,
    SessionMovedError,
)
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.states import KeeperState

from barnabas.broker.edge import call_all
from barnabas.ports import NotConnected, OutcomeUnknown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from barnabas.runtime.loop import BookedCall, Loop

    Call = Callable[[KazooClient], Any]
    Answer = Callable[[Any, BaseException | None], None]

#: Queries under way; the others wait here, where they cost nothing.
QUERIES_MAX: Final = 64
#: How long closing waits for ZooKeeper to hear of it; if it does not, the session times out by itself.
CLOSE_TIMEOUT_S: Final = 3.0
#: Pause before another client takes the place of one that died.
_REOPEN_MS: Final = 1_000
_RETRY: Final = {"max_tries": -1, "delay": 0.05, "backoff": 2, "max_delay": 1.0, "max_jitter": 0.4}
#: The request may or may not have been done.
_LOST: Final = (
    ConnectionLoss,
    ConnectionClosedError,
    OperationTimeoutError,
    SessionExpiredError,
    SessionMovedError,
)

log = logging.getLogger(__name__)
#: kazoo tells of every attempt; what matters is told here once.
_kazoo_log = logging.getLogger("barnabas.kazoo")
_kazoo_log.setLevel(logging.ERROR)


class SessionOwner(Protocol):
    """Who is told of changes, on the loop."""

    def on_connected(self, session_id: int, *, is_new: bool) -> None:
        """Hear of a connection."""

    def on_suspended(self) -> None:
        """Hear that it was lost."""

    def on_expired(self) -> None:
        """Hear that the session is over."""

    def on_gone_back(self) -> None:
        """Hear that ZooKeeper was put back to an older state; `on_expired` follows."""

    def on_unreachable(self, problem: NotConnected) -> None:
        """Hear that waiting has no sense any more: what waits is to fail."""


class _Handler(SequentialThreadingHandler):  # type: ignore[misc]
    """kazoo's threads, with an attempt to connect that leaves time for the other servers of an ensemble, or for another attempt."""

    def __init__(self, attempt_timeout_s: float) -> None:
        super().__init__()
        self._attempt_timeout_s = attempt_timeout_s

    def create_connection(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        kwargs["timeout"] = self._attempt_timeout_s
        return super().create_connection(*args, **kwargs)

    def select(self, readers: Any, writers: Any, failing: Any, timeout: float) -> Any:  # noqa: ANN401
        """Wait for the answer to a greeting as long as for a connection, where kazoo would wait for the whole session.

        A server that is starting may take a connection and forget it. kazoo looks at one socket alone only
        while it greets or has begun to read or write a message; idle, it looks at two.
        """
        if len(readers) + len(writers) == 1:
            timeout = min(timeout, self._attempt_timeout_s)
        return super().select(readers, writers, failing, timeout)


class ZooKeeperSession:
    """One node's session after another, over connections that come and go."""

    def __init__(
        self,
        loop: Loop,
        hosts: str,
        owner: SessionOwner,
        timeout_ms: int,
        first_timeout_ms: int,
        access: Mapping[str, Any],
    ) -> None:
        """Begin to connect; `first_timeout_ms` is how long the first connection may take.

        `access` is what kazoo is told besides: who we are, TLS.
        """
        self._loop = loop
        self._access = access
        self._hosts = hosts
        self._owner = owner
        self._timeout_ms = timeout_ms
        self._is_connected = False
        #: Why requests fail at once; None while they go, or wait for a connection.
        self.unreachable: NotConnected | None = None
        self._is_closing = False
        self._identity: tuple[int, bytes] | None = None
        #: The last transaction that a client before has seen, until it is known that ZooKeeper has it.
        self._seen_zxid = 0
        self._numbers = count()
        self._under_way: dict[int, Answer] = {}
        self._queries_under_way = 0
        self._waiting: deque[tuple[Call, Answer]] = deque()
        self._patience: BookedCall | None = None
        self._be_patient(first_timeout_ms)
        self._client = self._open()

    @property
    def is_connected(self) -> bool:
        """Tell whether an order can be sent. kazoo knows of a lost connection a moment before the loop does."""
        return self._is_connected and bool(self._client.connected)

    # Requests

    def query(self, call: Call, answer: Answer) -> None:
        """Ask what may be asked twice. Errors: what ZooKeeper says, or NotConnected."""
        if self.unreachable is not None:
            self._loop.post(partial(answer, None, self.unreachable))
            return
        self._waiting.append((call, answer))
        self._ask_waiting()

    def order(self, call: Call, answer: Answer) -> None:
        """Ask once; call it while connected. Errors: what ZooKeeper says, or OutcomeUnknown."""

        def told(value: Any, error: BaseException | None) -> None:  # noqa: ANN401
            if isinstance(error, _LOST):
                error = OutcomeUnknown(
                    "the connection to ZooKeeper was lost with a change under way"
                )
            answer(value, error)

        self._send(call, told)

    def close(self) -> None:
        """End the session, so that its ephemeral paths go now; what waits is not answered."""
        self._is_closing = True
        if self._patience is not None:
            self._patience.cancel()
        closer = threading.Thread(target=_end, args=(self._client,), daemon=True)
        closer.start()
        closer.join(CLOSE_TIMEOUT_S)

    def _ask_waiting(self) -> None:
        while self.is_connected and self._waiting and self._queries_under_way < QUERIES_MAX:
            call, answer = self._waiting.popleft()
            self._queries_under_way += 1
            self._send(call, partial(self._on_queried, call, answer))

    def _on_queried(
        self,
        call: Call,
        answer: Answer,
        value: Any,  # noqa: ANN401
        error: BaseException | None,
    ) -> None:
        self._queries_under_way -= 1
        try:
            if isinstance(error, SessionExpiredError):
                answer(None, NotConnected("the session with ZooKeeper has expired"))
            elif isinstance(error, _LOST):
                self.query(call, answer)
            else:
                answer(value, error)
        finally:
            self._ask_waiting()

    def _send(self, call: Call, answer: Answer) -> None:
        number = next(self._numbers)
        self._under_way[number] = answer
        # On kazoo's thread: nothing there but the way to the loop.
        call(self._client).rawlink(
            lambda result: self._loop.post(lambda: self._on_answer(number, result))
        )

    def _on_answer(self, number: int, result: Any) -> None:  # noqa: ANN401
        answer = self._under_way.pop(number, None)
        if answer is None:
            return  # failed already, with its session
        if result.exception is not None:
            answer(None, result.exception)
        else:
            answer(result.get_nowait(), None)

    # States

    def _open(self) -> KazooClient:
        hosts = self._hosts.count(",") + 1
        client = KazooClient(
            self._hosts,
            timeout=self._timeout_ms / 1000,
            client_id=self._identity,
            handler=_Handler(self._timeout_ms / 1000 / (hosts + 1)),
            connection_retry=_RETRY,
            logger=_kazoo_log,
            **self._access,
        )
        client.add_listener(partial(self._on_state, client))
        client.start_async()
        return client

    def _on_state(self, client: KazooClient, state: str) -> None:
        """Bring a state to the loop. Called on kazoo's thread."""
        act: Callable[[], None]
        if state == KazooState.CONNECTED:
            act = partial(self._on_connected, client.client_id)
        elif state == KazooState.LOST and client.client_state == KeeperState.EXPIRED_SESSION:
            act = self._on_expired
        elif state == KazooState.LOST:
            act = self._on_died
        else:
            act = self._on_suspended
        self._loop.post(lambda: act() if client is self._client and not self._is_closing else None)

    def _on_connected(self, identity: tuple[int, bytes]) -> None:
        """Send `sync` before everything: another server may lag behind the last one, and what follows must not see less than was done."""
        if self._identity is not None and self._identity[0] != identity[0]:
            self._on_expired()  # kazoo does not tell it when it is the first that a client hears
        if self._seen_zxid:
            self._send(_sync, partial(self._on_synced, identity))
        else:
            self._send(_sync, lambda _path, _error: None)
            self._go_on(identity)

    def _on_synced(self, identity: tuple[int, bytes], _path: str, error: Exception | None) -> None:
        """See whether ZooKeeper knows what was seen of it."""
        if error is not None:
            return  # the connection is lost again
        seen, self._seen_zxid = self._seen_zxid, 0
        if self._client.last_zxid >= seen:
            self._go_on(identity)
            return
        log.error(
            "ZooKeeper has gone back: its last transaction is 0x%x, and 0x%x was seen here."
            " It was put back to an older state, or is another one",
            self._client.last_zxid, seen,
        )  # fmt: skip
        self._owner.on_gone_back()
        self._on_expired()
        self._reopen()

    def _go_on(self, identity: tuple[int, bytes]) -> None:
        is_new = self._identity is None or self._identity[0] != identity[0]
        log.info(
            "connected to ZooKeeper, %s session 0x%x", "new" if is_new else "same", identity[0]
        )
        self._identity = identity
        self._is_connected = True
        self.unreachable = None
        if self._patience is not None:
            self._patience.cancel()
        self._ask_waiting()
        self._owner.on_connected(identity[0], is_new=is_new)

    def _on_suspended(self) -> None:
        if not self._is_connected:
            return
        log.warning("the connection to ZooKeeper is lost")
        self._is_connected = False
        self._be_patient(self._timeout_ms)
        self._owner.on_suspended()

    def _on_expired(self) -> None:
        if self._identity is None:
            return
        log.error("the session with ZooKeeper has expired")
        self._is_connected = False
        self._identity = None
        under_way, self._under_way = self._under_way, {}
        waiting, self._waiting = self._waiting, deque()
        self._be_patient(self._timeout_ms)
        gone = NotConnected("the session with ZooKeeper has expired")
        call_all(
            [
                self._owner.on_expired,
                *(partial(answer, None, SessionExpiredError()) for answer in under_way.values()),
                partial(_fail, waiting, gone),
            ]
        )

    def _on_died(self) -> None:
        log.error("the connection to ZooKeeper failed; trying again")
        self._on_suspended()
        self._loop.call_at(self._loop.clock.monotonic_ms() + _REOPEN_MS, self._reopen)

    def _reopen(self) -> None:
        if not self._is_closing:
            before, self._client = self._client, self._open()
            threading.Thread(target=_end, args=(before,), daemon=True).start()

    def _be_patient(self, timeout_ms: int) -> None:
        """Let requests wait for a connection, but not for ever."""
        if self._patience is not None:
            self._patience.cancel()
        self.unreachable = None
        deadline_ms = self._loop.clock.monotonic_ms() + timeout_ms
        self._patience = self._loop.call_at(deadline_ms, partial(self._give_up, timeout_ms))

    def _give_up(self, timeout_ms: int) -> None:
        self.unreachable = problem = NotConnected(
            f"no connection to ZooKeeper at {self._hosts} within {timeout_ms} ms:"
            " check that it runs there, and the setting zookeeper.connect"
        )
        log.error("%s", problem)
        waiting, self._waiting = self._waiting, deque()
        if self._identity is not None:
            self._seen_zxid = max(self._seen_zxid, self._client.last_zxid)
            self._reopen()
        call_all([partial(_fail, waiting, problem), partial(self._owner.on_unreachable, problem)])


def _fail(requests: Iterable[tuple[Call, Answer]], problem: NotConnected) -> None:
    call_all(partial(answer, None, problem) for _call, answer in requests)


def _sync(client: KazooClient) -> Any:  # noqa: ANN401
    return client.sync_async("/")


def _end(client: KazooClient) -> None:
    with contextlib.suppress(KazooException):  # it did not stop in time
        client.stop()
        client.close()
