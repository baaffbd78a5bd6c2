"""What a follower's fetch finds: like a consumer's, but up to the end of the log, and with its own log compared to ours.

Where a follower is counts once, when its request comes (`note_positions`), however often is looked until it is answered. Who is let
in, and what its position means, `core.partition` says; where logs part, `core.divergence`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.fetch_look import Look, Reading
from barnabas.core.divergence import UnknownEpochError, find_divergence
from barnabas.model.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barnabas.broker.node import Node
    from barnabas.broker.replicas import Replica
    from barnabas.core.fetch_session import Wanted


class FollowerLook(Look):
    """One look at the partitions that a follower pulls."""

    __slots__ = ("_broker_id",)

    def __init__(
        self, node: Node, broker_id: int, max_bytes: int, *, by_id: bool, nowait: bool
    ) -> None:
        """Look for this broker."""
        super().__init__(node, max_bytes, by_id=by_id, committed_only=False, nowait=nowait)
        self._broker_id = broker_id

    def _read(self, wanted: Wanted) -> Reading:
        replica = self._find(wanted)
        if isinstance(replica, ErrorCode):
            return self._fail(wanted, replica)
        code = _refusal(replica, self._broker_id, wanted)
        if code:
            return self._fail(wanted, code)
        log, state = replica.log, replica.state
        reading = Reading(
            wanted, 0, state.high_watermark, replica.last_stable_offset, log.log_start_offset
        )
        reading.diverging = find_divergence(
            replica.leader_epochs,
            log.log_end_offset,
            wanted.last_fetched_epoch,
            wanted.fetch_offset,
        )
        if reading.diverging is not None:
            self.is_urgent = True
        elif wanted.fetch_offset < log.log_end_offset:
            throttle = self._node.members.leader_throttle
            if throttle.holds(replica, self._broker_id):
                return reading
            problem = self._find_bytes(replica, reading, log.log_end_offset)
            if problem is not None:
                return self._fail(wanted, problem)
            throttle.count(replica, self._broker_id, len(reading.records))
        return reading


def _refusal(replica: Replica, broker_id: int, wanted: Wanted) -> ErrorCode:
    """Tell why a follower cannot be served; NONE if it can."""
    code = replica.state.decide_follower(broker_id, wanted.current_leader_epoch)
    if code:
        return code
    log, offset = replica.log, wanted.fetch_offset
    try:
        diverging = offset >= log.log_start_offset and find_divergence(
            replica.leader_epochs, log.log_end_offset, wanted.last_fetched_epoch, offset
        )
    except UnknownEpochError:
        return ErrorCode.OFFSET_OUT_OF_RANGE
    if not diverging and not log.log_start_offset <= offset <= log.log_end_offset:
        return ErrorCode.OFFSET_OUT_OF_RANGE
    return ErrorCode.NONE


def note_positions(node: Node, broker_id: int, partitions: Sequence[Wanted]) -> None:
    """Take from a follower's request how far its logs go: that may commit records, and bring it back in sync."""
    now_ms = node.world.clock.monotonic_ms()
    for wanted in partitions:
        replica = node.hosted(wanted.topic, wanted.partition)
        if isinstance(replica, ErrorCode) or _refusal(replica, broker_id, wanted):
            continue
        log, state = replica.log, replica.state
        if find_divergence(
            replica.leader_epochs,
            log.log_end_offset,
            wanted.last_fetched_epoch,
            wanted.fetch_offset,
        ):
            continue
        if state.on_follower_fetch(
            broker_id, wanted.fetch_offset, wanted.follower_log_start, now_ms
        ):
            replica.on_high_watermark()
        if broker_id not in state.in_sync:
            node.members.in_sync.consider(replica)
