"""What has changed since somebody last looked, for those who look again and again at many things of which few change.

Job: note for every onlooker which of its keys changed. Must not know what stands behind a key, nor when anybody looks. A key costs
nothing while it does not change.

Invariants: a change is noted with every onlooker of its key, once, until it is taken; keys are taken in the order in which they changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable


class Onlooker:
    """One who looks. `changed` has what is to be looked at."""

    __slots__ = ("_keys", "changed")

    def __init__(self) -> None:
        """Look at nothing yet."""
        self._keys: dict[Hashable, None] = {}
        self.changed: dict[Hashable, None] = {}

    def __contains__(self, key: Hashable) -> bool:
        """Tell whether it hears of changes of this key."""
        return key in self._keys

    def replace_keys(self, keys: Iterable[Hashable]) -> dict[Hashable, None]:
        """Look at these from now on; return those before. Use `Changes.watch`."""
        before, self._keys = self._keys, dict.fromkeys(keys)
        return before

    def take(self) -> list[Hashable]:
        """Return what has changed, and forget it."""
        taken = list(self.changed)
        self.changed.clear()
        return taken


class Changes:
    """All onlookers by key."""

    __slots__ = ("_by_key",)

    def __init__(self) -> None:
        """Start with none."""
        self._by_key: dict[Hashable, dict[Onlooker, None]] = {}

    def watch(self, onlooker: Onlooker, keys: Iterable[Hashable]) -> None:
        """Let it hear of changes of these, and of no others any more; of none, and nothing is kept of it."""
        wanted = list(keys)
        for key in onlooker.replace_keys(wanted):
            onlookers = self._by_key[key]
            del onlookers[onlooker]
            if not onlookers:
                del self._by_key[key]
        for key in wanted:
            self._by_key.setdefault(key, {})[onlooker] = None

    def on_change(self, key: Hashable) -> Iterable[Onlooker]:
        """Note a change; return who looks at this."""
        onlookers = self._by_key.get(key, ())
        for onlooker in onlookers:
            onlooker.changed[key] = None
        return onlookers
