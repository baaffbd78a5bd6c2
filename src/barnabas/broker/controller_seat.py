"""Who is controller: looks, and takes the office (`controller.py`) when nobody holds it.

Job: stand for election, in the epoch after the last; leave the office when there is a newer controller or the session is over.
Must not know what a controller does.

| seen                                   | done                                                                     |
|----------------------------------------|--------------------------------------------------------------------------|
| nobody is controller                   | tries to be, in the epoch after the last                                 |
| the office is ours                     | begins a term                                                            |
| another one is controller, or failure  | ends the term, and looks again                                           |
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from barnabas.broker import cluster_znodes
from barnabas.broker.cluster_view import NOBODY
from barnabas.broker.controller import Office
from barnabas.broker.edge import report
from barnabas.broker.tasks import drive
from barnabas.ports import CoordinationError, NotConnected, OutcomeUnknown

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from barnabas.broker.cluster_znodes import Term
    from barnabas.broker.node import Node
    from barnabas.broker.tasks import Task
    from barnabas.core.controller.effects import Effects
    from barnabas.ports import Watch

    #: Something that happened: reads what it needs, and returns what follows.
    Event = Callable[["Office"], Generator[Any, Any, Effects]]

log = logging.getLogger(__name__)

#: How long to wait before the store is asked again that could not be reached.
_RETRY_MS: Final = 200
#: How long a controller that has failed stays away from the office.
_AGAIN_MS: Final = 1_000
#: How far to go ahead when a broker has heard of a later epoch than the store holds. As often as that, and no more: nobody needs to
#: obey a broker that says it for ever.
_LEAPS: Final = (10, 1_000, 100_000)


class ControllerSeat:
    """Looks who is controller, and takes the office when it is free."""

    def __init__(self, node: Node) -> None:
        """Have no office."""
        self._node = node
        self.office: Office | None = None
        self._watch: Watch | None = None
        self._is_looking = False
        self._look_again = False
        self._leaps = list(_LEAPS)

    @property
    def is_here(self) -> bool:
        """Tell whether this broker is controller, and ready to decide."""
        return self.office is not None and self.office.is_loaded

    def next_leap(self) -> int:
        """Return by how much to raise the epoch of a store that was put back; 0 when that was done often enough."""
        return self._leaps.pop(0) if self._leaps else 0

    def start(self) -> None:
        """Look, and look again whenever something may have changed."""
        coordination = self._node.world.coordination
        self._watch = coordination.watch(cluster_znodes.CONTROLLER, self.look)
        self.look()

    def stop(self) -> None:
        """Give the office up and look no more; the session's end lets others know."""
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        self.leave("the broker stops")

    def look(self) -> None:
        """Find out who is controller."""
        self._look_again = True
        if not self._is_looking and self._watch is not None:
            self._is_looking = True
            drive(self._look(), self._on_looked)

    def _on_looked(self, _result: Any, problem: BaseException | None) -> None:  # noqa: ANN401
        self._is_looking = False
        if isinstance(problem, Exception):
            world = self._node.world
            report(world, "finding out who is controller", problem)
            world.timers.call_at(world.clock.monotonic_ms() + _AGAIN_MS, self.look)

    def _look(self) -> Task[None]:
        node = self._node
        while self._look_again and not node.stopping:
            self._look_again = False
            try:
                yield from self._look_once()
            except (NotConnected, OutcomeUnknown) as problem:
                log.warning("cannot find out who is controller: %s", problem)
                yield partial(node.pause, _RETRY_MS)
                self._look_again = True

    def _look_once(self) -> Task[None]:
        node, coordination = self._node, self._node.world.coordination
        found = yield partial(coordination.read, cluster_znodes.CONTROLLER)
        holder = cluster_znodes.read_controller(found)
        if found is None:
            self.leave("nobody is controller")
            yield from self._stand_for_election()
        elif holder != node.broker_id or found.owner != node.members.session_id:
            # Also our own of a session that is over: it vanishes soon, and is looked at again.
            self.leave(f"broker {holder} is controller")
            if holder is not None:
                node.cluster.controller_id = holder
        elif self.office is None:
            node_ = yield partial(coordination.read, cluster_znodes.CONTROLLER_EPOCH)
            is_ours = node.members.is_registered and found.owner == node.members.session_id
            if self._watch is None or not is_ours:
                return  # this broker leaves, or the session in which it was elected is over
            term = cluster_znodes.read_term(node_)
            assert term is not None
            self._take_office(term)

    def _stand_for_election(self) -> Task[None]:
        node, coordination = self._node, self._node.world.coordination
        if not node.members.is_registered:
            return  # it is looked again after that
        found = yield partial(coordination.read, cluster_znodes.CONTROLLER_EPOCH)
        before = cluster_znodes.read_term(found)
        now_ms = node.world.clock.now_ms()
        # The store may have been put back: brokers that live refuse orders of an epoch before the last one they heard of.
        last = max(node.members.orders.controller_epoch, 0 if before is None else before.epoch)
        operations = cluster_znodes.elect_operations(node.broker_id, before, last + 1, now_ms)
        self._look_again = True  # whoever won is found by looking
        try:
            yield partial(coordination.commit, operations)
        except CoordinationError:
            return
        log.info("elected as controller in epoch %d", last + 1)

    def _take_office(self, term: Term) -> None:
        self._node.cluster.controller_id = self._node.broker_id
        self.office = Office(self._node, term, self._on_deposed)
        self.office.start()

    def _on_deposed(self, reason: str) -> None:
        self.leave(reason)
        # Whoever follows is heard of at once; if nobody does, what has failed here is tried again.
        clock = self._node.world.clock
        self._node.world.timers.call_at(clock.monotonic_ms() + _AGAIN_MS, self.look)

    def leave(self, reason: str) -> None:
        """Give the office up, if it is ours."""
        if self.office is not None:
            log.warning("no longer controller: %s", reason)
            self.office.close()
            self.office = None
            self._node.cluster.controller_id = NOBODY
