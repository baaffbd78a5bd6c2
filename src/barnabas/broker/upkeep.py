"""What a node does by the clock: checkpoints, flushes by time, forgetting idle producers, opening missing logs again, retention, compaction.

Each job books itself again when it has ended, so a slow disk makes it rarer, never a queue.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from barnabas.broker import checkpointing, missing_logs, topic_deletion
from barnabas.broker.compaction import Compaction
from barnabas.broker.retention import Retention
from barnabas.broker.tasks import drive

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.node import Node
    from barnabas.broker.tasks import Task

log = logging.getLogger(__name__)

#: How often to look whether a flush by time is due.
FLUSH_CHECK_MS: Final = 1000
#: How often to try again to open logs that could not be opened.
OPEN_AGAIN_MS: Final = 5000
_CHECKPOINT_INTERVALS: Final = (
    "log.flush.offset.checkpoint.interval.ms",
    "log.flush.start.offset.checkpoint.interval.ms",
    "replica.high.watermark.checkpoint.interval.ms",
)


class Upkeep:
    """The timers of one node. `start` after the node has started; `stop` before it stops."""

    def __init__(self, node: Node) -> None:
        """Book nothing yet."""
        self._node = node
        self._stopped = False
        self.compaction = Compaction(node)
        self._retention = Retention(node)

    def start(self) -> None:
        """Book the first round of each job."""
        config = self._node.config
        # Files that did not change are not written, so all three may go with the shortest interval.
        self._checkpoint_ms = min(config.get_int(name) for name in _CHECKPOINT_INTERVALS)
        self._expiry_ms = config.get_int("producer.id.expiration.check.interval.ms")
        self._book(self._checkpoint_ms, self._write_checkpoints)
        self._book(FLUSH_CHECK_MS, self._flush_due)
        self._book(self._expiry_ms, self._forget_producers)
        self._book(OPEN_AGAIN_MS, self._open_missing_logs)
        self._book(config.get_int("log.initial.task.delay.ms"), self._drop_old_segments)
        self.compaction.start()

    def stop(self) -> None:
        """Book nothing more."""
        self._stopped = True

    def _book(self, delay_ms: int, call: Callable[[], None]) -> None:
        world = self._node.world

        def due() -> None:
            if not self._stopped:
                call()

        world.timers.call_at(world.clock.monotonic_ms() + delay_ms, due)

    def _write_checkpoints(self) -> None:
        def written(_result: Any, problem: BaseException | None) -> None:  # noqa: ANN401
            if problem is not None:
                log.error("cannot write checkpoints", exc_info=problem)
            self._book(self._checkpoint_ms, self._write_checkpoints)

        drive(checkpointing.write_all(self._node, self._node.directories), written)

    def _flush_due(self) -> None:
        self._book(
            FLUSH_CHECK_MS, self._flush_due
        )  # first: whatever becomes of this round, there is a next one
        now_ms = self._node.world.clock.now_ms()
        for replica in self._node.replicas:
            if not replica.offline and replica.log.flush_due(now_ms):
                replica.flush_in_background()

    def _forget_producers(self) -> None:
        self._book(self._expiry_ms, self._forget_producers)
        now_ms = self._node.world.clock.now_ms()
        expiration_ms = self._node.config.get_int("producer.id.expiration.ms")
        for replica in self._node.replicas:
            replica.log.producers.remove_expired(now_ms, expiration_ms)

    def _open_missing_logs(self) -> None:
        def tried(_result: Any, problem: BaseException | None) -> None:  # noqa: ANN401
            if problem is not None:
                log.error("cannot open logs again", exc_info=problem)
            self._book(OPEN_AGAIN_MS, self._open_missing_logs)

        drive(self._open_again(), tried)

    def _open_again(self) -> Task[None]:
        unwanted = yield from missing_logs.open_again(self._node)
        if unwanted:
            yield from topic_deletion.set_aside(self._node, unwanted)

    def _drop_old_segments(self) -> None:
        interval_ms = self._node.config.get_int("log.retention.check.interval.ms")

        def dropped(_result: Any, problem: BaseException | None) -> None:  # noqa: ANN401
            if problem is not None:
                log.error("cannot look for old segments", exc_info=problem)
            self._book(interval_ms, self._drop_old_segments)

        drive(self._retention.run(), dropped)
