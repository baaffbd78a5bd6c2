"""Logs that refuse a call: what `rolling_log.py` raises then. Apart from it, because a compiled module can have no such classes."""

from __future__ import annotations


class BrokenLogError(OSError):
    """A write or sync failed in a way that leaves the files unknown: only opening again helps."""


class BeingCutError(OSError):
    """The log is being cut, and its files have not followed yet: nothing changed. It passes when the cut has ended."""
