"""When logs are looked at for old segments, and what becomes of those that go.

Job: one round over every log each log.retention.check.interval.ms: decide (`storage/retention.py`), move the start, drop, tell.
Must not know the rules. A round looks at some logs at a time, so that a broker with many stays responsive, and goes by a
clock that does not jump ahead (`core/steady_clock.py`).

In Kafka the cleaner looks after logs that are compacted and deleted from; here every log is looked at in the same round.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from barnabas.broker.dropping import drop_before_starts
from barnabas.core.steady_clock import HOLD_MS, SteadyClock
from barnabas.storage.retention import Bounds, Drop, Reason, decide_drops

if TYPE_CHECKING:
    from barnabas.broker.node import Node
    from barnabas.broker.replicas import Replica
    from barnabas.broker.tasks import Done, Task
    from barnabas.model.config.log_config import LogConfig
    from barnabas.storage.directory import LogDirectory

log = logging.getLogger(__name__)

#: Logs looked at between two pauses, some microseconds each.
_PIECE: Final = 200
#: And no longer than this: where the active segment goes, files are made.
_PIECE_MS: Final = 5


class Retention:
    """See the module. Each `run` is one round, and one must end before the next."""

    def __init__(self, node: Node) -> None:
        """Look at nothing yet."""
        self._node = node
        clock = node.world.clock
        self._clock = SteadyClock(clock.now_ms(), clock.monotonic_ms())

    def run(self) -> Task[None]:
        """Drop what is too old or too much, in every log."""
        node, now_ms = self._node, self._read_clock()
        moved: list[tuple[Replica, list[str]]] = []
        clock = node.world.clock
        since_ms, looked_at = clock.monotonic_ms(), 0
        for replica in list(node.replicas):
            reasons = self._move_start(replica, now_ms)
            if reasons:
                moved.append((replica, reasons))
            looked_at += 1
            if looked_at >= _PIECE or clock.monotonic_ms() - since_ms >= _PIECE_MS:
                yield self._pause
                since_ms, looked_at = clock.monotonic_ms(), 0
        for directory in node.directories:
            here = [one for one in moved if one[0].directory is directory]
            if here:
                yield from self._drop(directory, here)

    def _pause(self, done: Done) -> None:
        """Go on once everybody else had a turn."""
        world = self._node.world
        world.timers.call_at(world.clock.monotonic_ms(), lambda: done(None, None))

    def _read_clock(self) -> int:
        clock, was_doubted = self._node.world.clock, self._clock.is_doubted
        wall_ms = clock.now_ms()
        now_ms = self._clock.read(wall_ms, clock.monotonic_ms())
        if self._clock.is_doubted and not was_doubted:
            log.warning(
                "the clock jumped ahead by %d s: segments go by the time before until it has kept the new one for %d s",
                (wall_ms - now_ms) // 1000, HOLD_MS // 1000,
            )  # fmt: skip
        elif was_doubted and not self._clock.is_doubted:
            log.info("segments go by the clock again")
        return now_ms

    def _move_start(self, replica: Replica, now_ms: int) -> list[str]:
        """Let a log start after the segments that go; why each of them goes."""
        if replica.offline or replica.log.is_broken or self._node.stopping:
            return []
        log_ = replica.log
        bounds = Bounds(log_.log_start_offset, log_.log_end_offset, replica.state.high_watermark)
        try:
            drops = decide_drops(log_.segments, bounds, log_.config, now_ms)
            if not drops:
                return []
            reasons = [_describe(drop, log_.config) for drop in drops]
            if drops[-1].end_offset == log_.log_end_offset:
                log_.roll(self._node.world.clock.now_ms())  # nothing if the active one is empty
            log_.move_log_start(drops[-1].end_offset)
        except OSError as problem:
            replica.on_disk_error(problem, "drop segments")
            return []
        return reasons

    def _drop(self, directory: LogDirectory, moved: list[tuple[Replica, list[str]]]) -> Task[None]:
        try:
            yield from drop_before_starts(self._node, directory, [replica for replica, _ in moved])
        except OSError as problem:
            log.error("%s: no segment is dropped for now: %s", directory.path, problem)
            return
        for replica, reasons in moved:
            for reason in reasons:
                log.info("%s: %s", replica.key, reason)


def _describe(drop: Drop, config: LogConfig) -> str:
    segments = drop.segments
    count = "1 segment" if len(segments) == 1 else f"{len(segments)} segments"
    what = (
        f"dropped {count}, {drop.size_bytes} bytes,"
        f" offsets {segments[0].base_offset} to {drop.end_offset - 1}"
    )
    if drop.reason is Reason.START:
        return f"{what}: deleted before"
    if drop.reason is Reason.SIZE:
        return f"{what}: retention.bytes is {config.retention_bytes}"
    newest_ms = max(segment.largest_timestamp() for segment in segments)
    newest = datetime.fromtimestamp(newest_ms / 1000, UTC).isoformat(timespec="seconds")
    return f"{what}: retention.ms is {config.retention_ms}, and the newest is of {newest}"
