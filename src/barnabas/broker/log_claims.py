"""Who may put new segments in the place of a log's old ones: the cleaner, a move or a repair, one at a time.

Appending, reading, flushing and dropping old segments need no claim.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from barnabas.model.ids import TopicPartition


class LogClaims:
    """Bounded by the number of partitions."""

    __slots__ = ("_taken",)

    def __init__(self) -> None:
        """Start with none."""
        self._taken: dict[TopicPartition, None] = {}

    def is_taken(self, key: TopicPartition) -> bool:
        """Tell whether somebody has it."""
        return key in self._taken

    def take(self, key: TopicPartition) -> bool:
        """Take it if nobody has it; tell whether that was so. `give` must follow."""
        if key in self._taken:
            return False
        self._taken[key] = None
        return True

    def give(self, key: TopicPartition) -> None:
        """Give it back."""
        del self._taken[key]
