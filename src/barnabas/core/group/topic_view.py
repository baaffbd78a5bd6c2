"""What the group machines see of the cluster's topics.

Job: name the few questions a group asks about topics, so that the host can answer them from its own metadata.
Must not know: where metadata comes from, who leads a partition, or how a change is noticed (the host tells the shard).
Invariants: one answer is one moment; partitions are numbered 0 .. partition_count - 1; `racks` is either empty (nothing
is known of racks) or has one entry per partition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable

    from barnabas.model.ids import TopicId


class TopicInfo(NamedTuple):
    """One topic as an assignor needs it."""

    topic_id: TopicId
    name: str
    partition_count: int
    #: Racks of each partition's replicas, sorted and without doubles; empty when no replica's broker has a rack.
    racks: tuple[tuple[str, ...], ...] = ()


class TopicView(Protocol):
    """The cluster's topics at this moment."""

    def by_name(self, name: str) -> TopicInfo | None:
        """Give the topic of that name, or None when there is none."""

    def by_id(self, topic_id: TopicId) -> TopicInfo | None:
        """Give the topic of that id, or None when there is none (any more)."""

    def names(self) -> Iterable[str]:
        """Give every topic's name; regular expressions are matched against these."""
