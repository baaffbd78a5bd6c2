"""How a log was left, by the files that speak of all partitions; and how far they can be believed.

Job: hold it, and settle what the files do not agree on. Must not know files or segments.

None of these text files has a checksum, so one changed digit is another offset. Two of them are asked where that could cost records:
the end of a log is known only where both recovery point and high watermark are there or further, and where a log starts its leader
epochs say, too.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, frozen=True)
class LogLeft:
    """What the checkpoints say about how a log was left."""

    recovery_point: int
    log_start_offset: int
    clean: bool
    #: Offsets without records are no loss, whatever cleanup.policy is now.
    was_compacted: bool = False
    #: None where nothing says it.
    high_watermark: int | None = None
    #: The log start offset was written down; else it is only where an empty log begins.
    is_start_known: bool = False

    @property
    def known_end(self) -> int:
        """Up to here there were records, on the medium."""
        if self.high_watermark is None:
            return self.recovery_point
        return min(self.recovery_point, self.high_watermark)

    def start_offset(self, epochs_start: int | None) -> int:
        """Return where the log starts; `epochs_start` is where its leader epochs begin, if that is sure.

        After a crash they may be behind the checkpoint. In doubt records that were deleted are shown rather than others hidden.
        """
        if epochs_start is None or not (self.clean and self.is_start_known):
            return self.log_start_offset
        return min(self.log_start_offset, epochs_start)
