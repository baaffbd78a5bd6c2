"""What the loop tells a turn about itself: when it began, how many are ready, and whether another is to follow at once.

Job: three fields that the loop writes and the turn reads, or the other way round. Must not know either. It is an object of its own, and compiled, since
the turn asks for each request how long it has taken (docs/adr/0010).
"""

from __future__ import annotations


class Pace:
    """See the module."""

    __slots__ = ("is_restless", "ready_count", "start_ns")

    def __init__(self, start_ns: int) -> None:
        """Begin at this time."""
        #: When the poll of this turn came back.
        self.start_ns = start_ns
        #: Descriptors that this turn has to do with.
        self.ready_count = 0
        #: The next poll does not wait: something is left to be done when nothing else is.
        self.is_restless = False
