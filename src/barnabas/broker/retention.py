"""When logs are looked at for old segments, and what becomes of those that go.

Job: one round over every log each log.retention.check.interval.ms: decide (`storage/retention.py`), move the start, drop, tell.
Must not know the rules. Before segments go by their largest timestamp, the batches are asked whether the time index says it
right: a wrong entry must not take records early. A round looks at some logs at a time, so that a broker with many stays responsive, and goes by a
clock that does not jump ahead (`core/steady_clock.py`).

In Kafka the cleaner looks after logs that are compacted and deleted from; here every log is looked at in the same round.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final

from barnabas.broker.dropping import drop_before_starts
from barnabas.core.steady_clock import HOLD_MS, SteadyClock
from barnabas.storage.retention import Bounds, Drop, Reason, decide_drops
from barnabas.wire.batch import BatchError

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
            if self._may_look_at(replica):
                yield from self._confirm_times(replica, now_ms)
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

    def _may_look_at(self, replica: Replica) -> bool:
        log_ = replica.log
        return not (replica.offline or log_.is_broken or replica.is_cutting or self._node.stopping)

    def _decide(self, replica: Replica, now_ms: int) -> list[Drop]:
        log_ = replica.log
        bounds = Bounds(log_.log_start_offset, log_.log_end_offset, replica.state.high_watermark)
        return decide_drops(log_.segments, bounds, log_.config, now_ms)

    def _confirm_times(self, replica: Replica, now_ms: int) -> Task[None]:
        """Make sure of the timestamps by which segments would go; where they are wrong, the log is looked at in a later round."""
        try:
            drops = self._decide(replica, now_ms)
        except OSError:
            return  # the same is met, and told, when they are to go
        by_time = {
            one.base_offset for drop in drops if drop.reason is Reason.TIME for one in drop.segments
        }
        unsure = [
            segment for segment in replica.log.segments
            if segment.base_offset in by_time and segment.unsure is not None
        ]  # fmt: skip
        try:
            for segment in unsure:
                if replica.offline or replica.is_cutting:
                    return  # what is found would be of the segment as it was
                job = partial(replica.log.confirm_largest, segment)
                confirming = partial(self._node.world.background.run, job)
                yield self._node.claims.share(replica, confirming)
        except BatchError as problem:
            replica.on_damage(problem)
        except OSError as problem:
            replica.on_disk_error(problem, "read")

    def _move_start(self, replica: Replica, now_ms: int) -> list[str]:
        """Let a log start after the segments that go; why each of them goes."""
        if not self._may_look_at(replica):
            return []
        log_ = replica.log
        try:
            drops = self._decide(replica, now_ms)
            if not drops or any(_is_unsure(drop) for drop in drops):
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


def _is_unsure(drop: Drop) -> bool:
    return drop.reason is Reason.TIME and any(segment.unsure for segment in drop.segments)


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
