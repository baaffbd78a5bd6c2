"""The Coordination port in the simulation: how one life of a node talks to the shared store.

Job: requests that take their time, in order; connections that break and come back; sessions. Must not know what the
paths mean. A commit takes effect at one moment and is answered at a later one. A crash between the two loses the
answer; a crash before the first leaves it to the seed how many of the commits under way still happen, in their order.

| state     | asks                | moves to                                                              |
|-----------|---------------------|-----------------------------------------------------------------------|
| connected | go                  | blind: the connection breaks, and nobody has noticed yet              |
| blind     | go nowhere          | suspended, when it is noticed: commits under way end as OutcomeUnknown |
| suspended | wait, then fail     | connected, when the store can be reached; as a new session if the old one has expired |
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from barnabas.ports import NotConnected, OutcomeUnknown
from barnabas.sim.store import is_below
from barnabas.sim.world import MS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from barnabas.ports import Operation, SessionListener, ZNode
    from barnabas.sim.store import SimSession, SimStore
    from barnabas.sim.world import Life, Scheduler

#: As zookeeper.session.timeout.ms.
SESSION_TIMEOUT_MS: Final = 18_000


@dataclass(slots=True, eq=False)
class _Commit:
    operations: Sequence[Operation]
    done: Callable[[Sequence[str], BaseException | None], None]
    nothing: Sequence[str] = ()
    paths: Sequence[str] = ()
    problem: BaseException | None = None


@dataclass(slots=True, eq=False)
class _Read:
    label: str
    look: Callable[[], Any]
    #: The answer when there is none.
    nothing: Any
    done: Callable[[Any, BaseException | None], None]


_Request = _Commit | _Read


class SimWatch:
    """An interest in a path, armed at the store for one event at a time."""

    def __init__(
        self, watches: dict[SimWatch, None], path: str, changed: Callable[[], None]
    ) -> None:
        """Stand among these watches, armed, until it is cancelled."""
        self._watches = watches
        self._changed = changed
        self.path = path
        self.is_armed = True
        watches[self] = None

    def cancel(self) -> None:
        """Do not call any more."""
        self._watches.pop(self, None)

    def call(self) -> None:
        """Arm it again, then call, unless it was cancelled."""
        if self in self._watches:
            self.is_armed = True
            self._changed()


class SimCoordination:
    """The port, as one life of a node has it."""

    def __init__(
        self,
        scheduler: Scheduler,
        store: SimStore,
        life: Life,
        enter: Callable[[Callable[[], None]], None],
        *,
        node: str = "",
        session_timeout_ms: int = SESSION_TIMEOUT_MS,
    ) -> None:
        """Answers go through `enter`. Connected from the start, unless the node is cut off."""
        self._scheduler = scheduler
        self._store = store
        self._life = life
        self._enter = enter
        self._node = node
        self._chance = scheduler.chance(f"coordination/{node}{life.number}")
        self._timeout_us = session_timeout_ms * MS
        #: The longest way to the store or back.
        self.slowest_us = 2 * MS
        self._under_way: deque[_Commit] = deque()
        #: Commits that are done and not answered yet.
        self._unanswered: deque[_Commit] = deque()
        self._reads: dict[_Read, None] = {}
        self._waiting: deque[_Request] = deque()
        self._watches: dict[SimWatch, None] = {}
        self._listeners: list[SessionListener] = []
        self._answered_until_us = 0
        #: Rises when a connection begins or ends: what was booked before is void.
        self._connection = 0
        self._is_connected = False
        self._has_noticed = True
        self._has_given_up = False
        self._loses_reply = False
        self._was_put_back = False
        self._session: SimSession | None = None
        store.clients[node] = self
        if store.is_cut_off(node):
            self._look_for_store()
        else:
            self._session = store.open_session(node)
            self._is_connected = True

    # The port

    def read_tree(
        self, path: str, done: Callable[[Mapping[str, ZNode], BaseException | None], None]
    ) -> None:
        """Answer with every path at or below `path`."""

        def look() -> dict[str, ZNode]:
            found = sorted(self._store.tree.items())
            return {known: node for known, node in found if is_below(known, path)}

        self._ask(_Read("tree read", look, {}, done))

    def read(self, path: str, done: Callable[[ZNode | None, BaseException | None], None]) -> None:
        """Answer with what stands at `path`."""
        self._ask(_Read("read", lambda: self._store.tree.get(path), None, done))

    def read_children(
        self, path: str, done: Callable[[Sequence[str] | None, BaseException | None], None]
    ) -> None:
        """Answer with the names right below `path`."""

        def look() -> list[str] | None:
            if path not in self._store.tree:
                return None
            start = path.rstrip("/") + "/"
            names = (p[len(start) :] for p in sorted(self._store.tree) if p.startswith(start))
            return [name for name in names if name and "/" not in name]

        self._ask(_Read("children read", look, None, done))

    def commit(
        self,
        operations: Sequence[Operation],
        done: Callable[[Sequence[str], BaseException | None], None],
    ) -> None:
        """Take the commit in; it happens in turn."""
        self._ask(_Commit(operations, done))

    def watch(self, path: str, changed: Callable[[], None]) -> SimWatch:
        """Watch a path; after every event it is armed again before it is called."""
        return SimWatch(self._watches, path, changed)

    def on_session(self, listener: SessionListener) -> None:
        """Tell the listener from now on."""

        def begin() -> None:
            self._listeners.append(listener)
            if self._session is not None and self._is_connected:
                listener.on_connected(self._session.id, is_new=True)

        self._scheduler.after(1, "session told", lambda: self._deliver(begin))

    def close(self) -> None:
        """End the session: its ephemeral paths go at once."""
        if self._session is not None and not self._store.is_cut_off(self._node):
            self._store.end_session(self._session)
        self._bury()

    def on_crash(self) -> None:
        """Let some of the commits under way happen; nobody hears of it. The session lasts until it times out."""
        self._do_some("the crash")
        self._bury()

    def _bury(self) -> None:
        everything = (self._under_way, self._unanswered, self._reads, self._waiting, self._watches)
        self._scheduler.keep(everything)
        self._fall_silent()

    # Requests

    def _ask(self, request: _Request) -> None:
        if self._life.is_over:
            self._scheduler.keep(request)
        elif self._has_given_up:
            answer = partial(_refuse, [request], "ZooKeeper cannot be reached")
            self._scheduler.after(1, "refused", lambda: self._deliver(answer))
        elif self._has_noticed and not self._is_connected:
            self._waiting.append(request)
        elif isinstance(request, _Read):
            self._reads[request] = None
            self._send(request.label, lambda: self._look(request))
        else:
            self._under_way.append(request)
            if len(self._under_way) == 1:
                self._send("commit", self._commit_next)

    def _send(self, label: str, call: Callable[[], None]) -> None:
        if self._is_connected:  # else it goes into nothing, and that will be noticed
            self._book(self._delay_us(), label, call)

    def _look(self, request: _Read) -> None:
        found = request.look()

        def answer() -> None:
            del self._reads[request]
            self._deliver(lambda: request.done(found, None))

        self._book_answer(f"{request.label} done", answer)

    def _commit_next(self) -> None:
        self._do_first()
        if self._loses_reply:
            self._loses_reply = False
            self.cut(at_once=True)
            return
        self._book_answer("commit done", self._answer_commit)
        if self._under_way:
            self._book(self._delay_us(), "commit", self._commit_next)

    def _book_answer(self, label: str, call: Callable[[], None]) -> None:
        """Answer later, but in the order in which the store did its work: nobody hears old news after newer ones."""
        now_us = self._scheduler.now_us
        self._answered_until_us = max(self._answered_until_us, now_us + self._delay_us())
        self._book(self._answered_until_us - now_us, label, call)

    def _do_first(self) -> None:
        assert self._session is not None
        commit = self._under_way.popleft()
        commit.paths, commit.problem = self._store.commit(commit.operations, self._session)
        self._unanswered.append(commit)

    def _answer_commit(self) -> None:
        commit = self._unanswered.popleft()
        self._deliver(lambda: commit.done(commit.paths, commit.problem))

    def _do_some(self, event: str) -> None:
        """Let as many of the commits under way happen as the seed says, in their order."""
        if not self._is_connected:
            return
        for _ in range(self._chance.randint(0, len(self._under_way))):
            self._scheduler.note(
                f"commit of {len(self._under_way[0].operations)} operations after {event}"
            )
            self._do_first()

    # Connections and sessions

    def on_touched(self, paths: set[str]) -> None:
        """Send events for the watches that are armed there."""
        if self._life.is_over or not self._is_connected:
            return
        for watch in self._watches:
            if watch.is_armed and watch.path in paths:
                watch.is_armed = False
                call = watch.call
                self._book(self._delay_us(), "watch", lambda call=call: self._deliver(call))  # type: ignore[misc]

    def cut(self, *, at_once: bool) -> None:
        """Lose the connection, and notice it at once or after a while."""
        if self._life.is_over or not self._is_connected:
            return
        self._do_some("the connection was lost")
        self._connection += 1
        self._is_connected = self._has_noticed = False
        self._fall_silent()
        unnoticed_us = 0 if at_once else self._chance.randint(0, self._timeout_us * 2 // 3)
        self._book(unnoticed_us + self._delay_us(), "connection lost", self._notice)

    def on_put_back(self) -> None:
        """Lose the connection, and be refused until the session has timed out here too: then it is tried with an open mind."""
        if self._life.is_over:
            return
        self._was_put_back = True
        self.cut(at_once=True)

    def mend(self) -> None:
        """Connect again."""
        if not self._life.is_over and not self._is_connected and self._has_noticed:
            refused_us = self._timeout_us if self._was_put_back else 0
            self._book(refused_us + self._delay_us(), "connect", self._connect)

    def lose_next_reply(self) -> None:
        """Lose the connection between the next commit and its answer."""
        self._loses_reply = True

    def _notice(self) -> None:
        self._has_noticed = True
        sent = self._chance.randint(0, len(self._under_way))
        unknown = [*self._unanswered, *(self._under_way.popleft() for _ in range(sent))]
        self._waiting.extend(self._reads)
        self._waiting.extend(self._under_way)
        self._unanswered.clear()
        self._reads.clear()
        self._under_way.clear()

        def tell() -> None:
            for listener in self._listeners:
                listener.on_suspended()
            for commit in unknown:
                commit.done((), OutcomeUnknown("the connection to ZooKeeper was lost"))

        self._look_for_store()
        self._deliver(tell)

    def _look_for_store(self) -> None:
        self._book(self._timeout_us, "give up", self._give_up)
        if not self._store.is_cut_off(self._node):
            self.mend()

    def _give_up(self) -> None:
        self._has_given_up = True
        waiting, self._waiting = self._waiting, deque()
        self._deliver(lambda: _refuse(waiting, "ZooKeeper cannot be reached"))

    def _connect(self) -> None:
        if self._is_connected or self._store.is_cut_off(self._node):
            return
        self._connection += 1
        self._has_given_up = False
        self._deliver(self._go_on)

    def _go_on(self) -> None:
        """Take up the session, or a new one after telling that the old one is over; then all that waited goes."""
        session = self._session
        if self._was_put_back:
            self._was_put_back = False
            for listener in self._listeners:
                listener.on_gone_back()
        if session is None or session.is_over:
            self._expire()
            session = self._session = self._store.open_session(self._node)
            is_new = True
        else:
            session.silence += 1
            is_new = False
        self._is_connected = True
        waiting, self._waiting = self._waiting, deque()
        for request in waiting:
            self._ask(request)
        for listener in self._listeners:
            listener.on_connected(session.id, is_new=is_new)
        for watch in list(self._watches):
            watch.call()

    def _expire(self) -> None:
        if self._session is None:
            return
        waiting, self._waiting = self._waiting, deque()
        for listener in self._listeners:
            listener.on_expired()
        _refuse(waiting, "the session has expired")

    def _fall_silent(self) -> None:
        """Let the session end unless it is heard of in time."""
        session = self._session
        if session is None or session.is_over:
            return
        session.silence += 1
        silence = session.silence

        def time_out() -> None:
            if session.silence == silence:
                self._store.end_session(session)

        self._scheduler.after(self._timeout_us, "session times out", time_out)

    def _book(self, delay_us: int, label: str, call: Callable[[], None]) -> None:
        """Make the call later, if the connection is still this one (or still lost)."""
        connection = self._connection

        def due() -> None:
            if self._life.is_over:
                self._scheduler.keep(call)
            elif self._connection == connection:
                call()

        self._scheduler.after(delay_us, label, due)

    def _deliver(self, call: Callable[[], None]) -> None:
        if self._life.is_over:
            self._scheduler.keep(call)
        else:
            self._enter(call)

    def _delay_us(self) -> int:
        return self._chance.randint(20, self.slowest_us)


def _refuse(requests: Iterable[_Request], reason: str) -> None:
    for request in requests:
        request.done(request.nothing, NotConnected(reason))
