"""Notices in the store, each read once: how a broker hears what another one, or a tool, has changed.

Job: watch a path, hand every notice below it that is new to whoever takes them. A notice says only that something changed: what is
so is what stands at its place. Must not know: what notices are about.

Invariants: none is left out. Where some are gone before they were seen, because this broker was away too long, `take_all` is called
instead. Whoever finds a new one takes away, as in Kafka, those that every broker has had time to see.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from barnabas.broker.cluster_znodes import notice_number
from barnabas.broker.edge import report
from barnabas.broker.tasks import drive
from barnabas.ports import CoordinationError, Delete

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from barnabas.broker.node import Node
    from barnabas.broker.tasks import Task
    from barnabas.ports import Watch, ZNode

log = logging.getLogger(__name__)

#: How long one stays for brokers that have not seen it yet, as in Kafka; who comes later reads everything.
KEPT_MS: Final = 15 * 60 * 1000
_RETRY_MS: Final = 500
#: How long to wait after a fault of ours.
FAULT_PAUSE_MS: Final = 1_000


class Notices:
    """Follows one path."""

    def __init__(
        self,
        node: Node,
        path: str,
        take: Callable[[ZNode], Task[None]],
        take_all: Callable[[], Task[None]],
    ) -> None:
        """Have seen none."""
        self._node = node
        self._path = path
        self._take = take
        self._take_all = take_all
        self._watch: Watch | None = None
        self._seen = -1
        #: Since when each notice is known here, by the clock that only goes on.
        self._known_since: dict[str, int] = {}
        self._is_looking = False
        self._look_again = False

    def start(self) -> None:
        """Look, and look again whenever there may be a new one."""
        self._watch = self._node.world.coordination.watch(self._path, self._look)
        self._look()

    def stop(self) -> None:
        """Look no more."""
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None

    def _look(self) -> None:
        self._look_again = True
        if not self._is_looking:
            self._is_looking = True
            drive(self._read_new(), self._on_read)

    def _on_read(self, _result: Any, problem: BaseException | None) -> None:  # noqa: ANN401
        self._is_looking = False
        if isinstance(problem, Exception):
            world = self._node.world
            report(world, f"following {self._path}", problem)
            world.timers.call_at(
                world.clock.monotonic_ms() + FAULT_PAUSE_MS, self._look_unless_stopped
            )

    def _look_unless_stopped(self) -> None:
        if self._watch is not None:
            self._look()

    def _read_new(self) -> Task[None]:
        node, coordination = self._node, self._node.world.coordination
        while self._look_again and self._watch is not None:
            self._look_again = False
            try:
                names = yield partial(coordination.read_children, self._path)
                # Whatever else somebody has put there is nothing to follow.
                numbered = [name for name in names or () if name[-10:].isdecimal()]
                yield from self._take_new(sorted(numbered, key=notice_number))
            except OSError as problem:
                log.warning("cannot read %s: %s", self._path, problem)
                yield partial(node.pause, _RETRY_MS)
                self._look_again = True

    def _take_new(self, names: Sequence[str]) -> Task[None]:
        new = [name for name in names if notice_number(name) > self._seen]
        if names and notice_number(names[-1]) < self._seen:
            # The store was put back to an older state: later notices went with what they told of.
            yield from self._take_all()
            self._seen, new = notice_number(names[-1]), []
        if new and notice_number(new[0]) > self._seen + 1:
            yield from self._take_all()
            self._seen = notice_number(new[-1])
        for name in new:
            if notice_number(name) > self._seen:
                found = yield partial(self._node.world.coordination.read, f"{self._path}/{name}")
                if found is None:
                    yield from self._take_all()
                else:
                    yield from self._take_one(name, found)
                self._seen = notice_number(name)
        yield from self._remove_old(names)

    def _take_one(self, name: str, found: ZNode) -> Task[None]:
        """Take one notice. What cannot be made of it is found by reading everything: those after it are not held up."""
        try:
            yield from self._take(found)
        except OSError:
            raise
        except Exception as fault:  # noqa: BLE001  (an edge: the notice's)
            report(self._node.world, f"the notice {self._path}/{name}", fault)
            yield from self._take_all()

    def _remove_old(self, names: Sequence[str]) -> Task[None]:
        now_ms = self._node.world.clock.monotonic_ms()
        self._known_since = {name: self._known_since.get(name, now_ms) for name in names}
        for name, since_ms in self._known_since.items():
            if now_ms - since_ms >= KEPT_MS:
                delete = [Delete(f"{self._path}/{name}")]
                try:
                    yield partial(self._node.world.coordination.commit, delete)
                except CoordinationError:
                    continue  # another broker was faster
