"""One turn of the classic machine: the moment it is told of, and the result it is making.

Job: carry both through the rules that one request or deadline sets off. Must not know: any rule.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from barnabas.core.group.result import Result

if TYPE_CHECKING:
    from barnabas.core.group.classic.requests import JoinReply, LeaveReply, SyncReply
    from barnabas.core.group.records import Record
    from barnabas.core.group.result import Ticket


@dataclass(slots=True)
class Turn:
    """What happens now, in one group."""

    now_ms: int  # monotonic
    wall_ms: int
    result: Result = field(default_factory=Result)

    def reply(self, ticket: Ticket, reply: JoinReply | SyncReply | LeaveReply) -> None:
        """Answer a request, once this turn's records are committed."""
        self.result.replies.append((ticket, reply))

    def write(self, *records: Record) -> None:
        """Have records appended."""
        self.result.records += records
