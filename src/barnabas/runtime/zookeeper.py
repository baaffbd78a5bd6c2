"""ZooKeeper behind the Coordination port.

Job: the port's calls on a session (`zookeeper_session.py`), commits through their queue (`zookeeper_commits.py`),
watches that are armed again and again. Must not know what the paths mean. The cluster's paths stand below a root, which is
part of `zookeeper.connect`; callers never see it.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from kazoo.protocol.states import EventType

from barnabas.broker.edge import call_all
from barnabas.ports import CoordinationError, NotConnected, ZNode
from barnabas.runtime.zookeeper_commits import CommitQueue, check_size
from barnabas.runtime.zookeeper_reads import Reads
from barnabas.runtime.zookeeper_session import ZooKeeperSession
from barnabas.runtime.zookeeper_walk import walk

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kazoo.protocol.states import WatchedEvent

    from barnabas.ports import Operation, SessionListener
    from barnabas.runtime.loop import Loop
    from barnabas.runtime.zookeeper_reads import Found


class ZooKeeperWatch:
    """An interest in a path. ZooKeeper's watches fire once: each is armed again before anybody is called."""

    def __init__(self, store: ZooKeeperStore, path: str, changed: Callable[[], None]) -> None:
        """Arm it."""
        self._store = store
        self._path = path
        self._changed = changed
        self._watches_children = False
        self.arm()

    def cancel(self) -> None:
        """Do not call any more. What is armed fires into nothing."""
        self._store.watches.pop(self, None)

    def arm(self) -> None:
        """Have ZooKeeper watch. First the path itself: its creation is what arms the children, if it is not there."""
        self._arm_data()
        self._arm_children()

    def call(self) -> None:
        """Call, unless it was cancelled."""
        if self in self._store.watches:
            self._changed()

    def _arm_data(self) -> None:
        path = self._path
        self._store.session.query(
            lambda client: client.exists_async(path, watch=self._on_data_event), self._on_exists
        )

    def _arm_children(self) -> None:
        path = self._path
        self._watches_children = True
        self._store.session.query(
            lambda client: client.get_children_async(path, watch=self._on_child_event),
            self._on_children,
        )

    def _on_exists(self, stat: Any, _error: BaseException | None) -> None:  # noqa: ANN401
        if stat is not None and not self._watches_children:
            # It came between the questions for its children and for itself: no event will tell.
            self._arm_children()
            self.call()

    def _on_children(self, _names: Any, error: BaseException | None) -> None:  # noqa: ANN401
        if error is not None:
            self._watches_children = False

    # kazoo's thread

    def _on_data_event(self, event: WatchedEvent) -> None:
        if event.type != EventType.NONE:  # the connection: everything is armed again after it
            self._store.loop.post(partial(self._on_data, event.type))

    def _on_child_event(self, event: WatchedEvent) -> None:
        if event.type != EventType.NONE:
            self._store.loop.post(self._on_child_change)

    # The loop

    def _on_data(self, kind: str) -> None:
        if self not in self._store.watches:
            return
        self._arm_data()
        if kind == EventType.CREATED or not self._watches_children:
            self._arm_children()
        self._changed()

    def _on_child_change(self) -> None:
        if self not in self._store.watches:
            return
        self._arm_children()
        self._changed()


class ZooKeeperStore:
    """The port."""

    def __init__(
        self,
        loop: Loop,
        connect: str,
        *,
        session_timeout_ms: int,
        connection_timeout_ms: int | None = None,
        access: Mapping[str, Any] | None = None,
    ) -> None:
        """Begin to connect to HOST:PORT,HOST:PORT/root; what is asked waits for it."""
        self.loop = loop
        hosts, slash, root = connect.partition("/")
        self._root = (slash + root).rstrip("/")
        self._listeners: list[SessionListener] = []
        self._session_id: int | None = None
        self.watches: dict[ZooKeeperWatch, None] = {}
        first_timeout_ms = connection_timeout_ms or session_timeout_ms
        self.session = ZooKeeperSession(
            loop, hosts, self, session_timeout_ms, first_timeout_ms, access or {}
        )
        self._reads = Reads(loop, self.session)
        self._commits = CommitQueue(self.session, self._reads)

    def read_tree(
        self, path: str, done: Callable[[Mapping[str, ZNode], BaseException | None], None]
    ) -> None:
        """Answer with every path at or below `path`."""

        def told(found: dict[str, ZNode], error: BaseException | None) -> None:
            done({self._relative(full): found[full] for full in sorted(found)}, error)

        walk(self._reads, self._absolute(path), told)

    def read(self, path: str, done: Callable[[ZNode | None, BaseException | None], None]) -> None:
        """Answer with what stands at `path`."""

        def told(found: Found | None, error: BaseException | None) -> None:
            done(None if found is None else found.node, error)

        self._reads.get(self._absolute(path), told)

    def read_children(
        self, path: str, done: Callable[[Sequence[str] | None, BaseException | None], None]
    ) -> None:
        """Answer with the names right below `path`."""

        def told(names: list[str] | None, error: BaseException | None) -> None:
            done(None if names is None else sorted(names), error)

        self._reads.get_children(self._absolute(path), told)

    def commit(
        self,
        operations: Sequence[Operation],
        done: Callable[[Sequence[str], BaseException | None], None],
    ) -> None:
        """Do all or none, in the order of the calls."""
        problem = self.session.unreachable or check_size(operations)
        if problem is not None:
            self.loop.post(partial(done, (), problem))
            return

        def told(paths: Sequence[str], error: BaseException | None) -> None:
            if isinstance(error, CoordinationError):
                error = CoordinationError(error.kind, self._relative(error.path))
            done([self._relative(path) for path in paths], error)

        moved = [replace(one, path=self._absolute(one.path)) for one in operations]
        self._commits.commit(moved, told)

    def watch(self, path: str, changed: Callable[[], None]) -> ZooKeeperWatch:
        """Watch a path."""
        watch = ZooKeeperWatch(self, self._absolute(path), changed)
        self.watches[watch] = None
        return watch

    def on_session(self, listener: SessionListener) -> None:
        """Tell the listener from now on."""

        def begin() -> None:
            self._listeners.append(listener)
            if self._session_id is not None and self.session.is_connected:
                listener.on_connected(self._session_id, is_new=True)

        self.loop.post(begin)

    def close(self) -> None:
        """End the session: ephemeral paths go at once. What waits for a connection is not done."""
        self.session.close()

    # The session

    def on_connected(self, session_id: int, *, is_new: bool) -> None:
        """Go on with what waited; arm every watch, then call it, because nobody knows what happened meanwhile."""
        self._session_id = session_id
        for watch in self.watches:
            watch.arm()
        self._commits.go_on()
        call_all(
            [
                *(partial(one.on_connected, session_id, is_new=is_new) for one in self._listeners),
                *(watch.call for watch in self.watches),
            ]
        )

    def on_suspended(self) -> None:
        """Tell the listeners."""
        call_all(listener.on_suspended for listener in self._listeners)

    def on_expired(self) -> None:
        """Tell the listeners; then what was to be done in the old session fails, after what was under way."""
        problem = NotConnected("the session with ZooKeeper has expired")
        for done in self._commits.take_waiting():
            self.loop.post(partial(done, (), problem))
        call_all(listener.on_expired for listener in self._listeners)

    def on_gone_back(self) -> None:
        """Tell the listeners."""
        call_all(listener.on_gone_back for listener in self._listeners)

    def on_unreachable(self, problem: NotConnected) -> None:
        """Let commits that wait fail."""
        call_all(partial(done, (), problem) for done in self._commits.take_waiting())

    def _absolute(self, path: str) -> str:
        return (self._root + path.rstrip("/")) or "/"

    def _relative(self, path: str) -> str:
        return path[len(self._root) :] or "/"
