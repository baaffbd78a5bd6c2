"""Which partitions a follower's fetch has to be looked at for: those that it names, and those that changed.

Job: per link of a follower, remember what it pulls and what came for it since it was told. A fetch then costs by what is new, not by
how much a broker leads: between two fetches of a follower there is time for one append. Must not know records or positions.

All is looked at when the set of partitions has changed and, so that nothing depends on having been told of every change, as often as a
follower would ask to which nothing happens (`replica.fetch.wait.max.ms`).

Invariants: what was taken and not told is put back; what has to wait for its turn comes before what is named next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.changes import Changes, Onlooker

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from barnabas.core.fetch_session import Wanted
    from barnabas.ports import Link


class FollowerNews:
    """What one follower is to be told; whoever waits for it waits on `onlooker`."""

    __slots__ = ("_all", "_is_whole", "_session_id", "_whole_at_ms", "onlooker")

    def __init__(self) -> None:
        """Know of no partition yet."""
        self.onlooker = Onlooker()
        self._all: dict[Hashable, Wanted] = {}
        self._session_id = 0
        self._is_whole = True
        self._whole_at_ms = 0

    def is_current(self, session_id: int, named: Sequence[Wanted], now_ms: int) -> bool:
        """Tell whether it is enough to look at what is named and what changed."""
        return (
            session_id == self._session_id != 0
            and now_ms < self._whole_at_ms
            and all(_key(wanted) in self.onlooker for wanted in named)
        )

    def start_over(
        self, session_id: int, partitions: Iterable[Wanted], next_ms: int, changes: Changes
    ) -> None:
        """Look at all of these with the next `take`; again at `next_ms` at the latest."""
        self._all = {_key(wanted): wanted for wanted in partitions}
        self._session_id, self._whole_at_ms, self._is_whole = session_id, next_ms, True
        changes.watch(self.onlooker, self._all)

    def take(self) -> list[Wanted]:
        """Return what is to be looked at now."""
        changed = self.onlooker.take()
        if self._is_whole:
            self._is_whole = False
            return list(self._all.values())
        return [wanted for key in changed if (wanted := self._all.get(key)) is not None]

    def put_back(self, partitions: Iterable[Wanted]) -> None:
        """Look at these again with the next `take`."""
        self.onlooker.changed.update(dict.fromkeys(map(_key, partitions)))


class Followers:
    """All who pull from this broker, by their links."""

    __slots__ = ("_by_link", "changes")

    def __init__(self, changes: Changes) -> None:
        """Start with none; `changes` hears of everything that followers want to know."""
        self.changes = changes
        self._by_link: dict[Link, FollowerNews] = {}

    def of(self, link: Link) -> FollowerNews:
        """Return what the follower on this link is to be told."""
        news = self._by_link.get(link)
        if news is None:
            news = self._by_link[link] = FollowerNews()
        return news

    def forget(self, link: Link) -> None:
        """Forget a follower whose link is closed."""
        news = self._by_link.pop(link, None)
        if news is not None:
            self.changes.watch(news.onlooker, ())


def _key(wanted: Wanted) -> Hashable:
    """Give the key under which changes of a partition are told. If its topic is unknown here, that is the key of the session."""
    return (wanted.topic, wanted.partition) if wanted.topic else wanted.key
