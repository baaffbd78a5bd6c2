"""A log that no call can mend: what `rolling_log.py` raises then. Apart from it, because a compiled module can have no such class."""

from __future__ import annotations


class BrokenLogError(OSError):
    """A write or sync failed in a way that leaves the files unknown: only opening again helps."""
