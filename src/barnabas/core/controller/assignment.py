"""Which brokers hold a partition, and which ones it is moving to.

Job: the value that stands in `/brokers/topics/T`, and how one follows from another (KIP-455). Must not know: who is alive, who leads.

| word      | is                                                                                      |
|-----------|-----------------------------------------------------------------------------------------|
| replicas  | all that hold it now, in order of preference; while it moves, the target's come first    |
| adding    | those of them that the move brings                                                      |
| removing  | those of them that the move takes away                                                  |
| target    | replicas without removing: what it will be                                              |
| origin    | replicas without adding: what it was, and will be if the move is cancelled              |
| withdrawn | adding and removing: brought by a move that was replaced before it ended                |

Invariants: adding and removing are parts of replicas, and no replica is named twice. Kafka drops what is withdrawn at once, in sync or not;
here it stays written down until its log is gone, and until another replica has what it has.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

Replicas = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Assignment:
    """The replicas of one partition."""

    replicas: Replicas
    adding: Replicas = ()
    removing: Replicas = ()

    @property
    def is_moving(self) -> bool:
        """Tell whether a reassignment, or the end of a cancelled one, is under way."""
        return bool(self.adding or self.removing)

    @property
    def target(self) -> Replicas:
        """What it will be."""
        return without(self.replicas, self.removing)

    @property
    def origin(self) -> Replicas:
        """What it was before the move."""
        return without(self.replicas, self.adding)

    @property
    def withdrawn(self) -> Replicas:
        """Those that were to be added and are not any more."""
        return tuple(replica for replica in self.adding if replica in self.removing)

    @property
    def is_reassigned(self) -> bool:
        """Tell whether a person would say that it is being reassigned: a cancelled move is not."""
        return self.adding != self.withdrawn or self.removing != self.withdrawn

    def reassigned_to(self, target: Replicas) -> Assignment:
        """Begin a move, also over one that is under way. Doing it twice is doing it once."""
        origin = self.origin
        replicas = tuple(dict.fromkeys(target + self.replicas))
        return Assignment(replicas, without(replicas, origin), without(replicas, target))

    def without_replicas(self, gone: Collection[int]) -> Assignment:
        """Take replicas off, and whatever was said about them."""
        return Assignment(
            without(self.replicas, gone), without(self.adding, gone), without(self.removing, gone)
        )


def without(replicas: Replicas, gone: Collection[int]) -> Replicas:
    """Take some replicas out; the order of the others stays."""
    return tuple(replica for replica in replicas if replica not in gone)
