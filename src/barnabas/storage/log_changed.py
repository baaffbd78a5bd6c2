"""A look that never met its log unchanged: what `log_reader.py` raises then. Apart from it, because a compiled module can have no such class."""

from __future__ import annotations


class LogChanged(OSError):
    """What a look was reading went away, however often it was begun again: it may succeed later, and no disk has failed."""
