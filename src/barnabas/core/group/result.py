"""What a request or a deadline leads to: records to append, replies to send once they are committed.

The one form in which the group machines answer. They change durable state only in `replay`, which sees a record after
the log has it: at once when a request wrote it, again when a coordinator loads.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Hashable

    from barnabas.core.group.records import Record

#: Whose request it is: the caller's own object, handed back with the reply.
Ticket = Any


@dataclass(slots=True)
class Result:
    """Records in order, written as one batch (all or none), and the replies that wait for them.

    A request whose ticket is in no reply goes on waiting: its reply comes with a later result.
    """

    records: list[Record] = field(default_factory=list)
    replies: list[tuple[Ticket, Any]] = field(default_factory=list)
    #: The group whose soft state (who waits for what) must be put right if the records cannot be written.
    group_id: Hashable = None
    #: (producer id, epoch) whose transaction the records are part of; None: they count at once.
    producer: tuple[int, int] | None = None
