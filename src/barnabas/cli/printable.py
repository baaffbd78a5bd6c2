"""Text that came from elsewhere, made fit for a terminal.

One job. Ids of groups, members and clients may hold anything, also what moves the cursor or rewrites a line above. JSON has
escapes of its own, and records are printed as they are: what is piped on must not change.
"""

from __future__ import annotations


def printable(text: str) -> str:
    """The text with every character that is not to be seen written as Python writes it: `\\n`, `\\x1b`, `\\u202e`."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)
