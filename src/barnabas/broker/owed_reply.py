"""The reply that is owed to a request whose handler has returned without it: exactly one is given.

Job: notice that a reply is given twice, or will never be given. Whatever makes a client wait (a group's member, a transaction, a wait
for bytes or for a high watermark, a place in a queue, a task) holds its `Call`, and the call holds this object. If the last reference
to the call goes and no reply was given, the node finds this object among the dropped ones at the end of the turn
(`Node.on_turn_end`), and answers with an error after which clients try again.

Must not know what the reply is. A request that is answered at once has none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from barnabas.model.errors import ErrorCode

if TYPE_CHECKING:
    from collections import deque

    from barnabas.broker.call import Call
    from barnabas.ports import Link

_PRODUCE: Final = 0
#: OffsetCommit, OffsetFetch, JoinGroup, Heartbeat, LeaveGroup, SyncGroup; InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, EndTxn,
#: TxnOffsetCommit; ConsumerGroupHeartbeat.
_COORDINATED: Final = frozenset((8, 9, 11, 12, 13, 14, 22, 24, 25, 26, 28, 68))


class OwedReply:
    """See the module."""

    __slots__ = ("_dropped", "_is_given", "api_key", "correlation_id", "link", "request", "version")

    def __init__(self, call: Call, dropped: deque[OwedReply]) -> None:
        """Owe a call its reply; if it cannot be given any more, stand among `dropped`."""
        self.link: Link = call.link
        self.api_key = call.api_key
        self.version = call.version
        self.correlation_id = call.correlation_id
        self.request: Any = call.request
        self._dropped = dropped
        self._is_given = False

    def give(self) -> bool:
        """Note that the reply is given now; False if it was before: then nothing is to be sent."""
        if self._is_given:
            return False
        self._is_given = True
        return True

    @property
    def excuse(self) -> ErrorCode:
        """The error to answer with: the client is to try again, since the outcome of its request is unknown."""
        if self.api_key == _PRODUCE:
            return ErrorCode.REQUEST_TIMED_OUT
        if self.api_key in _COORDINATED:
            return ErrorCode.NOT_COORDINATOR
        return ErrorCode.UNKNOWN_SERVER_ERROR

    def __del__(self) -> None:
        """The last reference to the call is gone. This is only noted, since any code may be running now."""
        if not self._is_given and self.link.is_open:
            self._dropped.append(self)
