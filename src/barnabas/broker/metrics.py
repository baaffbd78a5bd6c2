"""What the node counts as it works. Plain numbers: rendering them is the runtime's job.

Gauges (sizes, offsets, partition counts) are not here: they are read from the parts when asked for.
"""

from __future__ import annotations

from collections import defaultdict


class TopicMetrics:
    """Counters of one topic, kept while it exists."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "failed_fetches",
        "failed_produces",
        "fetches",
        "messages_in",
        "produces",
        "replication_bytes_in",
        "replication_bytes_out",
    )

    def __init__(self) -> None:
        """Start at zero."""
        self.messages_in = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.produces = 0
        self.fetches = 0
        self.failed_produces = 0
        self.failed_fetches = 0
        self.replication_bytes_in = 0
        self.replication_bytes_out = 0


class Metrics:
    """Counters of the node."""

    __slots__ = ("by_topic", "failures", "in_sync_expands", "in_sync_shrinks", "requests")

    def __init__(self) -> None:
        """Start at zero."""
        #: Requests by API key.
        self.requests: defaultdict[int, int] = defaultdict(int)
        #: Handlers that ended in an unexpected error.
        self.failures = 0
        self.in_sync_shrinks = 0
        self.in_sync_expands = 0
        self.by_topic: defaultdict[str, TopicMetrics] = defaultdict(TopicMetrics)

    def on_in_sync_changed(self, *, grew: bool) -> None:
        """Count a change of who is in sync on a partition that this broker leads."""
        if grew:
            self.in_sync_expands += 1
        else:
            self.in_sync_shrinks += 1
