"""Who is in sync: the leader's changes to the store, one partition at a time, before they count.

Job: ask `core.partition` who should be in sync, write that by compare-and-set on the version that the controller told, tell
the controller. Must not know why somebody is in sync. After a write that was refused, or of which nobody knows, the store is read:
what it holds counts, unless it is of a newer leader epoch. Then the controller's order is on the way.

Invariant: nothing is sent while the store is out of touch, nor taken from it once the replica's tenure is over. The version alone does not tell
a partition from that of another topic of the same name.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from barnabas.broker import cluster_znodes
from barnabas.broker.cluster_znodes import StoredState
from barnabas.broker.tasks import drive
from barnabas.ports import CoordinationError, SetData

if TYPE_CHECKING:
    from barnabas.broker.node import Node
    from barnabas.broker.replicas import Replica
    from barnabas.broker.tasks import Task
    from barnabas.model.ids import TopicPartition

log = logging.getLogger(__name__)

#: Changes of so many partitions are told to the controller in one notice.
NOTICE_PARTITIONS_MAX: Final = 3_000
#: How long changes are gathered before the controller is told.
NOTICE_DELAY_MS: Final = 100
#: How long to wait before a write is tried again that the store did not take.
RETRY_MS: Final = 500


class InSyncKeeper:
    """Keeps the in-sync sets of the partitions that this broker leads."""

    def __init__(self, node: Node) -> None:
        """Keep nothing yet."""
        self._node = node
        #: Changed, and not yet told: an ordered set.
        self._untold: dict[TopicPartition, None] = {}
        self._is_telling = False

    def start(self) -> None:
        """Look at all partitions from time to time: those who fell behind send nothing that would bring it up."""
        node = self._node
        lag_max_ms = node.config.get_int("replica.lag.time.max.ms")

        def look() -> None:
            if node.stopping:
                return
            book()  # first: whatever becomes of this round, there is a next one
            for replica in list(node.replicas):
                if replica.state.is_leader and replica.state.followers:
                    self.consider(replica)

        def book() -> None:
            due_ms = node.world.clock.monotonic_ms() + max(1, lag_max_ms // 2)
            node.world.timers.call_at(due_ms, look)

        book()

    def consider(self, replica: Replica) -> None:
        """Change who is in sync on a partition, if somebody fell behind or caught up."""
        if replica.offline or self._node.stopping:
            return
        if self._node.members.orders.is_outlived(replica):
            return  # its version may be of something else by now
        if not self._node.members.is_in_touch:
            return  # a write that waits for the connection could reach a new topic of this name, whose state has the same version
        now_ms = self._node.world.clock.monotonic_ms()
        planned = replica.state.plan_in_sync(now_ms, self._node.cluster.brokers)
        if planned is None:
            return
        replica.state.on_in_sync_sent(planned)

        def ended(_result: Any, problem: BaseException | None) -> None:  # noqa: ANN401
            if problem is not None:
                log.error("%s: who is in sync cannot be written", replica.key, exc_info=problem)

        drive(self._write(replica, planned), ended)

    def _write(self, replica: Replica, planned: tuple[int, ...]) -> Task[None]:
        node, state, tenure = self._node, replica.state, replica.tenure
        before, version, epoch = state.in_sync, state.partition_epoch, tenure.leader_epoch
        path = cluster_znodes.state_path(*replica.key)
        data = cluster_znodes.state_data(
            state.leader, epoch, planned, node.members.orders.controller_epoch
        )
        found: StoredState | None = StoredState(state.leader, epoch, planned, 0, version + 1)
        try:
            yield lambda done: node.world.coordination.commit([SetData(path, data, version)], done)
        except (CoordinationError, OSError) as problem:
            log.warning("%s: who is in sync was not written: %s", replica.key, problem)
            found = yield from self._read(path)
        if tenure.is_over or state.pending_in_sync is not planned:
            return  # the controller has spoken meanwhile
        if found is None or found.leader_epoch != epoch:
            return  # the controller's order is on the way: until then nobody is left out
        if found.version == version:
            moved = state.on_in_sync_unchanged()
            self._try_again(replica)
        else:
            moved = state.on_in_sync_written(found.in_sync, found.version)
            self._on_changed(replica, before, found.in_sync)
        if moved:
            replica.on_high_watermark()

    def _on_changed(
        self, replica: Replica, before: tuple[int, ...], after: tuple[int, ...]
    ) -> None:
        word = "shrunk" if len(after) < len(before) else "expanded"
        log.info("%s: in sync %s from %s to %s", replica.key, word, list(before), list(after))
        self._node.metrics.on_in_sync_changed(grew=len(after) > len(before))
        self._tell(replica.key)

    def _read(self, path: str) -> Task[StoredState | None]:
        """Look what the store holds after a write that was refused, or of which nobody knows."""
        while not self._node.stopping:
            try:
                found = yield lambda done: self._node.world.coordination.read(path, done)
            except OSError:
                yield lambda done: self._node.pause(RETRY_MS, done)
            else:
                return None if found is None else cluster_znodes.read_state(found)
        return None

    def _try_again(self, replica: Replica) -> None:
        clock, timers = self._node.world.clock, self._node.world.timers
        timers.call_at(clock.monotonic_ms() + RETRY_MS, lambda: self.consider(replica))

    # Telling the controller

    def _tell(self, key: TopicPartition) -> None:
        self._untold[key] = None
        if not self._is_telling:
            self._is_telling = True
            drive(self._tell_all(), self._on_told)

    def _tell_all(self) -> Task[None]:
        node = self._node
        while self._untold and not node.stopping:
            yield lambda done: node.pause(NOTICE_DELAY_MS, done)
            some = list(self._untold)[:NOTICE_PARTITIONS_MAX]
            notice = cluster_znodes.in_sync_notice(some)
            try:
                yield partial(node.world.coordination.commit, [notice])
            except OSError:
                continue  # told twice does no harm
            for key in some:
                self._untold.pop(key, None)

    def _on_told(self, _result: Any, problem: BaseException | None) -> None:  # noqa: ANN401
        self._is_telling = False
        if problem is not None:
            log.error("the controller cannot be told who is in sync", exc_info=problem)
