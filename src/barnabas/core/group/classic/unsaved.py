"""What a classic group's record on its way to the log is about, so that it can be taken back if the append fails.

Job: name the cases. Must not know: how each is put right (`classic` does).
Invariant: the log takes or refuses a record before the group is touched again, so a group has at most one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from barnabas.core.group.classic.member import Member


@dataclass(slots=True)
class Created:
    """The group is new; `before` is the empty group of the other protocol that stood in its place."""

    before: Any | None


@dataclass(slots=True)
class Assigned:
    """The leader brought the assignment of this generation."""


@dataclass(slots=True)
class Emptied:
    """The last member is gone."""


@dataclass(slots=True)
class Replaced:
    """A static member came back under a new id; `leader` led before."""

    old: Member
    new: Member
    leader: str


Unsaved = Created | Assigned | Emptied | Replaced
