"""What a follower's fetch finds: like a consumer's, but up to the end of the log, and with its own log compared to ours.

Where a follower is counts once, when its request comes (`note_positions`), however often is looked until it is answered. Who is let
in, and what its position means, `core.partition` says; where logs part, `core.divergence`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.broker.fetch_look import Look, Reading
from barnabas.core.divergence import UnknownEpochError, find_divergence
from barnabas.model.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barnabas.broker.node import Node
    from barnabas.broker.replicas import Replica
    from barnabas.core.divergence import EpochEnd
    from barnabas.core.fetch_session import Wanted


#: What a request by name says.
_NO_ID: Final = bytes(16)


class FollowerLook(Look):
    """One look at the partitions that a follower pulls."""

    __slots__ = ("_broker_id", "unserved")

    def __init__(
        self, node: Node, broker_id: int, max_bytes: int, *, by_id: bool, nowait: bool
    ) -> None:
        """Look for this broker."""
        super().__init__(node, max_bytes, by_id=by_id, committed_only=False, nowait=nowait)
        self._broker_id = broker_id
        #: There are bytes for these, and no room in the answer, or they are held back.
        self.unserved: list[Wanted] = []

    def _read(self, wanted: Wanted) -> Reading:
        replica = self._find(wanted)
        if isinstance(replica, ErrorCode):
            return self._fail(wanted, replica)
        found = _judge(replica, self._broker_id, wanted)
        if isinstance(found, ErrorCode):
            return self._fail(wanted, found)
        log, state = replica.log, replica.state
        reading = Reading(
            wanted, 0, state.high_watermark, replica.last_stable_offset, log.log_start_offset
        )
        if found is not None:
            reading.diverging = found
            self.is_urgent = True
        elif wanted.fetch_offset < log.log_end_offset:
            throttle = self._node.members.leader_throttle
            if throttle.holds(replica, self._broker_id):
                self.unserved.append(wanted)
                return reading
            problem = self._find_bytes(replica, reading, log.log_end_offset)
            if problem is not None:
                return self._fail(wanted, problem)
            throttle.count(replica, self._broker_id, len(reading.records))
            if not reading.records:
                self.unserved.append(wanted)
        return reading


def _judge(replica: Replica, broker_id: int, wanted: Wanted) -> ErrorCode | EpochEnd | None:
    """Tell why a follower cannot be served, or where its log has left ours; None if it is on our way."""
    code = replica.state.decide_follower(broker_id, wanted.current_leader_epoch)
    if code:
        return code
    log, offset = replica.log, wanted.fetch_offset
    if offset < log.log_start_offset:
        return ErrorCode.OFFSET_OUT_OF_RANGE
    if offset <= log.log_end_offset and wanted.last_fetched_epoch == log.epochs.latest:
        return None  # nearly always: the last epoch with records reaches to the end
    try:
        diverging = find_divergence(
            replica.leader_epochs, log.log_end_offset, wanted.last_fetched_epoch, offset
        )
    except UnknownEpochError:
        return ErrorCode.OFFSET_OUT_OF_RANGE
    if diverging is None and offset > log.log_end_offset:
        return ErrorCode.OFFSET_OUT_OF_RANGE
    return diverging


def note_positions(node: Node, broker_id: int, partitions: Sequence[Wanted]) -> None:
    """Take from a follower's request how far its logs go: that may commit records, and bring it back in sync."""
    now_ms = node.world.clock.monotonic_ms()
    for wanted in partitions:
        replica = node.hosted(wanted.topic, wanted.partition)
        if isinstance(replica, ErrorCode) or wanted.topic_id not in (_NO_ID, replica.topic.id):
            continue  # a session may know the name of a topic that was made again since
        if _judge(replica, broker_id, wanted) is not None:
            continue
        state = replica.state
        if state.on_follower_fetch(
            broker_id, wanted.fetch_offset, wanted.follower_log_start, now_ms
        ):
            replica.on_high_watermark()
        if broker_id not in state.in_sync:
            node.members.in_sync.consider(replica)
