"""Where replicas should go: evenly over brokers and racks, with as few moves as possible. Pure.

One job: from a layout (who has which replicas) to changes of it. Must not know how they are asked for or shown.

Invariants: a partition keeps its number of replicas unless that is what was asked for; no broker has a partition twice; no
change puts more replicas of a partition into one rack than there need be, where it was so before; what is even is left alone.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

Place = tuple[str, int]
Replicas = tuple[int, ...]
#: Two brokers are even if one has this many more than the other: no move can make it better.
_EVEN = 1


class Impossible(Exception):
    """There is no such layout; the text says why."""


@dataclass(frozen=True, slots=True)
class Move:
    """A partition whose replicas are to be others, or in another order."""

    place: Place
    before: Replicas
    after: Replicas

    @property
    def adding(self) -> Replicas:
        """Brokers that get a copy."""
        return tuple(broker for broker in self.after if broker not in self.before)


class Layout:
    """Who has which replicas, and what would become of it."""

    def __init__(self, racks: Mapping[int, str | None], replicas: Mapping[Place, Replicas]) -> None:
        """`racks`: of the brokers that may have replicas."""
        self._racks = dict(racks)
        self._rack_count = len(set(self._racks.values()))
        self._before = dict(replicas)
        self._now = dict(replicas)
        self._load = Counter(dict.fromkeys(racks, 0))
        self._preferred = Counter(dict.fromkeys(racks, 0))
        self._of_topic: Counter[tuple[int, str]] = Counter()
        for place, brokers in replicas.items():
            self._count(place, brokers, 1)

    def moves(self) -> list[Move]:
        """What has changed."""
        return [
            Move(place, before, self._now[place])
            for place, before in self._before.items()
            if self._now[place] != before
        ]

    # Wishes

    def drain(self, broker: int) -> None:
        """Give all replicas of a broker to others; Impossible if there are too few of them."""
        self._racks.pop(broker, None)
        self._rack_count = len(set(self._racks.values()))
        for place, replicas in list(self._now.items()):
            if broker in replicas:
                heir = self._best_heir(place, [r for r in replicas if r != broker])
                after = tuple(heir if r == broker else r for r in replicas)
                if replicas[0] == broker:
                    after = self._with_idlest_first(after)
                self._set(place, after)

    def resize(self, topic: str, count: int) -> None:
        """Give the partitions of a topic so many replicas; Impossible if there are too few brokers."""
        for place in [place for place in self._now if place[0] == topic]:
            while len(self._now[place]) < count:
                now = self._now[place]
                self._set(place, (*now, self._best_heir(place, now)))
            while len(self._now[place]) > count:
                now = self._now[place]
                spare = self._to_spare(now)
                self._set(place, tuple(r for r in now if r != spare))

    def _to_spare(self, replicas: Replicas) -> int:
        """Who is missed least: one that is not there, one of a crowded rack, one with many; not the first, who leads."""
        away = [r for r in replicas if r not in self._racks]
        if away:
            return away[-1]
        return max(replicas[1:], key=lambda r: (self._in_rack(r, replicas), self._load[r], r))

    def spread(self) -> None:
        """Make replicas and leaders even. Partitions with a replica on a broker that is not there stay: they could not end their move."""
        self._mend_racks()
        while self._move_one():
            pass
        while self._shift_one_leader():
            pass

    # Replicas

    def _mend_racks(self) -> None:
        for place in [place for place in self._now if self._is_movable(place)]:
            while (crowded := self._crowded(self._now[place])) is not None:
                now = self._now[place]
                heir = self._best_heir(place, [r for r in now if r != crowded])
                if self._in_rack(heir, now) >= self._in_rack(crowded, now) - 1:
                    break
                self._set(place, tuple(heir if r == crowded else r for r in now))

    def _crowded(self, replicas: Replicas) -> int | None:
        """A replica of a rack that has more of them than it must have; rather not the leader."""
        bound = -(-len(replicas) // max(1, self._rack_count))
        found = [r for r in reversed(replicas) if self._in_rack(r, replicas) > bound]
        return found[0] if found else None

    def _move_one(self) -> bool:
        """Move one replica from a broker with many to one with few; False if none can make it more even."""
        by_load = sorted(self._racks, key=lambda broker: (self._load[broker], broker))
        for source in reversed(by_load):
            for target in by_load:
                if self._load[source] - self._load[target] <= _EVEN:
                    break
                place = self._best_to_move(source, target)
                if place is not None:
                    now = self._now[place]
                    self._set(place, tuple(target if r == source else r for r in now))
                    return True
        return False

    def _best_to_move(self, source: int, target: int) -> Place | None:
        """The partition whose topic is the most uneven between the two."""
        best, best_surplus = None, None
        for place, replicas in self._now.items():
            if source not in replicas or target in replicas or not self._is_movable(place):
                continue
            if self._makes_crowded(replicas, source, target):
                continue
            surplus = self._of_topic[source, place[0]] - self._of_topic[target, place[0]]
            if best_surplus is None or surplus > best_surplus:
                best, best_surplus = place, surplus
        return best

    def _makes_crowded(self, replicas: Replicas, source: int, target: int) -> bool:
        others = [r for r in replicas if r != source]
        here = sum(self._racks[r] == self._racks[source] for r in others)
        there = sum(self._racks[r] == self._racks[target] for r in others)
        return self._rack_count > 1 and there > here

    def _best_heir(self, place: Place, others: Iterable[int]) -> int:
        having = tuple(others)
        free = [broker for broker in self._racks if broker not in having]
        if not free:
            count = len(self._racks)
            raise Impossible(
                f"{place[0]}-{place[1]} would need {len(having) + 1} brokers, and there are only {count} for it"
            )
        return min(
            free,
            key=lambda b: (self._in_rack(b, having), self._load[b], self._of_topic[b, place[0]], b),
        )

    # Leaders

    def _shift_one_leader(self) -> bool:
        """Take one partition's lead from the broker with the most, over others if need be; False if it cannot be more even."""
        ways = self._ways()
        for source in sorted(self._racks, key=lambda b: (-self._preferred[b], b)):
            path = self._path_to_idle(source, ways)
            if path:
                for place, heir in path:
                    now = self._now[place]
                    self._set(place, (heir, *(r for r in now if r != heir)))
                return True
        return False

    def _ways(self) -> dict[int, dict[int, Place]]:
        """For each broker, who could lead one of its partitions instead, and which."""
        ways: dict[int, dict[int, Place]] = {}
        for place, replicas in self._now.items():
            if self._is_movable(place):
                for other in replicas[1:]:
                    ways.setdefault(replicas[0], {}).setdefault(other, place)
        return ways

    def _path_to_idle(
        self, source: int, ways: Mapping[int, Mapping[int, Place]]
    ) -> list[tuple[Place, int]]:
        came_from: dict[int, int] = {source: source}
        queue = deque([source])
        while queue:
            broker = queue.popleft()
            if self._preferred[source] - self._preferred[broker] > _EVEN:
                return list(_steps(broker, came_from, ways))
            for other in ways.get(broker, ()):
                if other not in came_from:
                    came_from[other] = broker
                    queue.append(other)
        return []

    def _with_idlest_first(self, replicas: Replicas) -> Replicas:
        first = min(replicas, key=lambda r: (self._preferred[r], replicas.index(r)))
        return (first, *(r for r in replicas if r != first))

    # Counting

    def _is_movable(self, place: Place) -> bool:
        return all(replica in self._racks for replica in self._now[place])

    def _in_rack(self, broker: int, replicas: Iterable[int]) -> int:
        """How many of these are in a broker's rack; 0 where nobody says what racks there are."""
        if self._rack_count <= 1:
            return 0
        rack = self._racks.get(broker)
        return sum(r in self._racks and self._racks[r] == rack for r in replicas)

    def _set(self, place: Place, after: Replicas) -> None:
        self._count(place, self._now[place], -1)
        self._now[place] = after
        self._count(place, after, 1)

    def _count(self, place: Place, replicas: Replicas, change: int) -> None:
        for broker in replicas:
            self._load[broker] += change
            self._of_topic[broker, place[0]] += change
        if replicas:
            self._preferred[replicas[0]] += change


def _steps(
    end: int, came_from: Mapping[int, int], ways: Mapping[int, Mapping[int, Place]]
) -> Iterator[tuple[Place, int]]:
    """Walk back from the end: each step is a partition, and who leads it from now on."""
    while came_from[end] != end:
        start = came_from[end]
        yield ways[start][end], end
        end = start
