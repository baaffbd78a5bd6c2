"""What every broker knows of the cluster: who lives, its topics, where their replicas are, who leads.

Plain values; who changes them and when is the broker's business.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from barnabas.model.ids import folded

#: The replica id to which any replica answers, whoever leads, with the end of its own log (Kafka's debugging id).
ANY_REPLICA: Final = -2


@dataclass(slots=True, frozen=True)
class LiveBroker:
    """A broker of the cluster that has a session with the coordination store."""

    id: int
    #: That of its registration: it has another one after a restart, and orders to one that has gone do not count for the next.
    epoch: int = -1
    rack: str | None = None
    #: Where it is reached, by listener name.
    endpoints: dict[str, tuple[str, int]] = field(default_factory=dict)


@dataclass(slots=True)
class Partition:
    """Replicas in order of preference, and the state its leader was elected with."""

    replicas: tuple[int, ...]
    leader: int
    leader_epoch: int = 0
    in_sync: tuple[int, ...] = ()
    #: Replicas that cannot be used although their broker may live: its disk has failed.
    offline: tuple[int, ...] = ()


@dataclass(slots=True)
class Topic:
    """One topic. Partitions are numbered by their place in the list."""

    name: str
    id: bytes
    partitions: list[Partition]
    overrides: dict[str, str] = field(default_factory=dict)

    @property
    def is_internal(self) -> bool:
        """Tell whether the brokers keep their own state in it."""
        return self.name in INTERNAL_TOPICS


INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})


class Topics:
    """The topics of a cluster, by name and by id."""

    __slots__ = ("_folded", "by_id", "by_name")

    def __init__(self) -> None:
        """Start with none."""
        self.by_name: dict[str, Topic] = {}
        self.by_id: dict[bytes, Topic] = {}
        #: Names as metrics show them -> the name.
        self._folded: dict[str, str] = {}

    def put(self, topic: Topic) -> None:
        """Add a topic or replace the one of that name."""
        old = self.by_name.get(topic.name)
        if old is not None:
            self._forget_id(old)
        self.by_name[topic.name] = topic
        self.by_id[topic.id] = topic
        self._folded[folded(topic.name)] = topic.name

    def drop(self, topic: Topic) -> None:
        """Forget a topic."""
        del self.by_name[topic.name]
        self._forget_id(topic)
        self._folded.pop(folded(topic.name), None)

    def _forget_id(self, topic: Topic) -> None:
        """An id that was given to another topic since stays that one's: not all who tell of topics give each its own."""
        if self.by_id.get(topic.id) is topic:
            del self.by_id[topic.id]

    def collides_with(self, name: str) -> str | None:
        """Return the topic whose name could not be told from this one in metrics, if there is one."""
        return self._folded.get(folded(name))
