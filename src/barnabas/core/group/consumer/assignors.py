"""The server-side assignors of the consumer group protocol: `uniform` and `range`.

Job: say which member shall own which partition, from the members' subscriptions and what they were to own before.
Must not know: epochs, who owns what at this moment, names of topics, records.

Invariants: every partition of a subscribed topic goes to exactly one member that is subscribed to the topic; the same
input gives the same answer in every process. `uniform` first balances (loads of members with the same subscription
differ by one at most), then keeps what a member had. `range` gives each member of a topic a run of partition numbers,
the same numbers in topics with as many partitions; where racks are known for members and partitions, a member takes
partitions with a replica in its own rack first (KIP-881), in the same numbers.

Cost: linear in members plus partitions (times the logarithm of the members), and in the *different* subscriptions, not
in members times topics: members with one subscription share one tuple of topics.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush, heapreplace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from barnabas.core.group.topic_view import TopicInfo

#: topic id -> partitions, ascending.
Assignment = dict[bytes, tuple[int, ...]]

#: Rounds of balancing when subscriptions overlap without being the same. Each about halves the imbalance, as in Kafka.
BALANCE_ROUNDS_MAX: Final = 16


@dataclass(slots=True)
class MemberSpec:
    """A member as an assignor sees it. `topics` are ids of topics that exist."""

    topics: tuple[bytes, ...]
    previous: Assignment = field(default_factory=dict)
    instance_id: str | None = None
    rack_id: str | None = None


Members = dict[str, MemberSpec]
Topics = dict[bytes, "TopicInfo"]


@dataclass(slots=True)
class _TopicClass:
    """Topics that have the same subscribers."""

    topics: list[bytes]
    subscribers: list[str]


def assign(name: str, members: Members, topics: Topics) -> dict[str, Assignment]:
    """Compute the target assignment of every member; a member that gets nothing has an empty one."""
    if not members:
        return {}
    return ASSIGNORS[name](members, topics)


def assign_range(members: Members, topics: Topics) -> dict[str, Assignment]:
    """Give each member a run of partitions of each of its topics."""
    target: dict[str, Assignment] = {member_id: {} for member_id in members}
    for topic_class in _topic_classes(members, _in_range_order(members)):
        by_count: dict[int, list[bytes]] = {}
        for topic_id in topic_class.topics:
            by_count.setdefault(topics[topic_id].partition_count, []).append(topic_id)
        for partition_count, alike in by_count.items():
            shares = _range_shares(
                [(member_id, members[member_id].rack_id) for member_id in topic_class.subscribers],
                partition_count,
                _common_racks([topics[topic_id] for topic_id in alike], partition_count),
            )
            for member_id, partitions in shares:
                for topic_id in alike:
                    target[member_id][topic_id] = partitions
    return target


def assign_uniform(members: Members, topics: Topics) -> dict[str, Assignment]:
    """Share all partitions evenly and move as few as that allows."""
    first = next(iter(members.values())).topics
    if all(spec.topics is first or spec.topics == first for spec in members.values()):
        return _assign_same(members, topics, first)
    return _Balance(members, topics).assign()


ASSIGNORS: Final[Mapping[str, Callable[[Members, Topics], dict[str, Assignment]]]] = {
    "uniform": assign_uniform,
    "range": assign_range,
}


# --- range ---------------------------------------------------------------------------------------------------------


def _in_range_order(members: Members) -> list[str]:
    """Static members first, by instance id: their place outlives their member id."""

    def place(member_id: str) -> tuple[bool, str]:
        instance_id = members[member_id].instance_id
        return (instance_id is None, member_id if instance_id is None else instance_id)

    return sorted(members, key=place)


def _common_racks(topics: Iterable[TopicInfo], partition_count: int) -> list[frozenset[str]] | None:
    """Racks in which partition N of every one of the topics has a replica; None when racks make no difference."""
    common: list[frozenset[str]] | None = None
    for topic in topics:
        if len(topic.racks) < partition_count:
            return None
        racks = [frozenset(racks) for racks in topic.racks]
        common = racks if common is None else [a & b for a, b in zip(common, racks, strict=False)]
    if not common or all(racks == common[0] for racks in common):
        return None
    return common


def _range_shares(
    subscribers: list[tuple[str, str | None]],
    partition_count: int,
    racks: list[frozenset[str]] | None,
) -> list[tuple[str, tuple[int, ...]]]:
    quota, extra = divmod(partition_count, len(subscribers))
    busy = subscribers if quota else subscribers[:extra]
    sizes = [quota + 1 if place < extra else quota for place in range(len(busy))]
    if racks is not None and any(rack_id is not None for _, rack_id in busy):
        return _shares_by_rack(busy, sizes, racks)
    shares: list[tuple[str, tuple[int, ...]]] = []
    start = 0
    for (member_id, _), size in zip(busy, sizes, strict=True):
        shares.append((member_id, tuple(range(start, start + size))))
        start += size
    return shares


def _shares_by_rack(
    busy: list[tuple[str, str | None]], sizes: list[int], racks: list[frozenset[str]]
) -> list[tuple[str, tuple[int, ...]]]:
    """Fill each member with partitions of its rack, then with what is left; sizes are those of a plain range."""
    in_rack: dict[str, list[int]] = {}
    for partition in reversed(range(len(racks))):
        for rack in sorted(racks[partition]):
            in_rack.setdefault(rack, []).append(partition)
    taken: set[int] = set()
    shares: list[list[int]] = []
    for (_, rack_id), size in zip(busy, sizes, strict=True):
        share: list[int] = []
        waiting = in_rack.get(rack_id, []) if rack_id is not None else []
        while waiting and len(share) < size:
            partition = waiting.pop()
            if partition not in taken:
                taken.add(partition)
                share.append(partition)
        shares.append(share)
    rest = iter([partition for partition in range(len(racks)) if partition not in taken])
    for share, size in zip(shares, sizes, strict=True):
        share.extend(next(rest) for _ in range(size - len(share)))
    return [
        (member_id, tuple(sorted(share)))
        for (member_id, _), share in zip(busy, shares, strict=True)
    ]


# --- uniform, all members subscribed to the same topics --------------------------------------------------------------


def _assign_same(
    members: Members, topics: Topics, subscribed: tuple[bytes, ...]
) -> dict[str, Assignment]:
    counts = {topic_id: topics[topic_id].partition_count for topic_id in subscribed}
    quota, extra = divmod(sum(counts.values()), len(members))
    target: dict[str, Assignment] = {}
    unfilled: list[tuple[str, int]] = []
    taken: dict[bytes, set[int]] = {topic_id: set() for topic_id in subscribed}
    for place, (member_id, spec) in enumerate(members.items()):
        may_take_extra = extra > 0
        kept = _keep(spec.previous, counts, taken, quota + may_take_extra)
        target[member_id] = kept
        space = quota + may_take_extra - sum(map(len, kept.values()))
        if may_take_extra and space > 0 and len(members) - place > extra:
            # Another member may have one more already: it shall keep it. Only the last ones must take the extra.
            space -= 1
            may_take_extra = False
        extra -= may_take_extra
        if space > 0:
            unfilled.append((member_id, space))
    free = (
        (topic_id, partition)
        for topic_id, count in counts.items()
        for partition in range(count)
        if partition not in taken[topic_id]
    )
    for member_id, space in unfilled:
        added = [next(free) for _ in range(space)]
        target[member_id] = _with(target[member_id], added)
    assert next(free, None) is None, "quotas add up to all partitions"
    return target


def _keep(
    previous: Assignment, counts: dict[bytes, int], taken: dict[bytes, set[int]], quota: int
) -> Assignment:
    """Keep of the previous assignment what is still there and fits; nobody else may have taken it."""
    kept: Assignment = {}
    for topic_id, partitions in previous.items():
        count = counts.get(topic_id)
        if count is None or quota <= 0:
            continue
        others = taken[topic_id]
        still = partitions
        if len(partitions) > quota or partitions[-1] >= count or not others.isdisjoint(partitions):
            still = tuple([p for p in partitions if p < count and p not in others][:quota])
        if still:
            kept[topic_id] = still
            others.update(still)
            quota -= len(still)
    return kept


def _with(assignment: Assignment, added: list[tuple[bytes, int]]) -> Assignment:
    more: dict[bytes, list[int]] = {}
    for topic_id, partition in added:
        more.setdefault(topic_id, []).append(partition)
    grown = dict(assignment)
    for topic_id, partitions in more.items():
        grown[topic_id] = tuple(sorted((*grown.get(topic_id, ()), *partitions)))
    return grown


# --- uniform, subscriptions differ -----------------------------------------------------------------------------------


def _topic_classes(members: Members, order: Iterable[str]) -> list[_TopicClass]:
    """Group topics by who subscribes to them; subscribers stand in the given order."""
    by_subscription: dict[tuple[bytes, ...], list[str]] = {}
    place = {}
    for number, member_id in enumerate(order):
        place[member_id] = number
        by_subscription.setdefault(members[member_id].topics, []).append(member_id)
    subscriptions_of: dict[bytes, list[int]] = {}
    for number, subscription in enumerate(by_subscription):
        for topic_id in subscription:
            subscriptions_of.setdefault(topic_id, []).append(number)
    classes: dict[tuple[int, ...], _TopicClass] = {}
    crowds = list(by_subscription.values())
    for topic_id, numbers in subscriptions_of.items():
        key = tuple(numbers)
        if key not in classes:
            subscribers = [member_id for number in key for member_id in crowds[number]]
            classes[key] = _TopicClass([], sorted(subscribers, key=place.__getitem__))
        classes[key].topics.append(topic_id)
    return list(classes.values())


class _Balance:
    """The balancing of a group whose members differ in their subscriptions."""

    def __init__(self, members: Members, topics: Topics) -> None:
        self._members = members
        self._topics = topics
        self._number = {member_id: number for number, member_id in enumerate(members)}
        self._load = [0] * len(members)
        self._classes = sorted(_topic_classes(members, members), key=self._pressure)
        self._owner: dict[bytes, list[int]] = {
            topic_id: [-1] * topics[topic_id].partition_count
            for topic_class in self._classes
            for topic_id in topic_class.topics
        }

    def assign(self) -> dict[str, Assignment]:
        self._keep_previous()
        for topic_class in self._classes:
            self._fill(topic_class)
        movable = [topic_class for topic_class in self._classes if len(topic_class.subscribers) > 1]
        for _ in range(BALANCE_ROUNDS_MAX):
            moved = [self._even_out(topic_class) for topic_class in movable]
            if not any(moved):
                break
        return self._target()

    def _pressure(self, topic_class: _TopicClass) -> tuple[float, int, bytes]:
        """Place topics first that have many partitions and few members to take them."""
        partitions = sum(self._topics[topic_id].partition_count for topic_id in topic_class.topics)
        subscribers = len(topic_class.subscribers)
        return (-partitions / subscribers, subscribers, min(topic_class.topics))

    def _keep_previous(self) -> None:
        subscribed = {spec.topics: frozenset(spec.topics) for spec in self._members.values()}
        for number, spec in enumerate(self._members.values()):
            topics = subscribed[spec.topics]
            for topic_id, partitions in spec.previous.items():
                if topic_id in topics:
                    self._take(number, self._owner[topic_id], partitions)

    def _take(self, number: int, owners: list[int], partitions: tuple[int, ...]) -> None:
        for partition in partitions:
            if partition < len(owners) and owners[partition] == -1:
                owners[partition] = number
                self._load[number] += 1

    def _fill(self, topic_class: _TopicClass) -> None:
        """Give partitions without an owner to the subscriber with the least."""
        load = self._load
        numbers = [self._number[member_id] for member_id in topic_class.subscribers]
        least = [(load[number], number) for number in numbers]
        heapify(least)
        for topic_id in topic_class.topics:
            owners = self._owner[topic_id]
            for partition, owner in enumerate(owners):
                if owner == -1:
                    number = least[0][1]
                    owners[partition] = number
                    load[number] += 1
                    heapreplace(least, (load[number], number))

    def _even_out(self, topic_class: _TopicClass) -> bool:
        """Move partitions of these topics from the fullest subscriber to the emptiest while that helps."""
        load = self._load
        numbers = [self._number[member_id] for member_id in topic_class.subscribers]
        loads = [load[number] for number in numbers]
        if max(loads) - min(loads) <= 1:
            return False
        owned = self._owned(topic_class)
        least = [(load[number], number) for number in numbers]
        most = [(-load[number], number) for number in owned]
        heapify(least)
        heapify(most)
        moved = False
        while most:
            giver, taker = heappop(most)[1], least[0][1]
            assert least[0][0] == load[taker], "who gave still has no less than who took"
            if load[giver] - load[taker] <= 1:
                break
            topic_id, partition = owned[giver].pop()
            self._owner[topic_id][partition] = taker
            load[giver] -= 1
            load[taker] += 1
            heapreplace(least, (load[taker], taker))
            if owned[giver]:
                heappush(most, (-load[giver], giver))
            moved = True
        return moved

    def _owned(self, topic_class: _TopicClass) -> dict[int, list[tuple[bytes, int]]]:
        owned: dict[int, list[tuple[bytes, int]]] = {}
        for topic_id in topic_class.topics:
            for partition, owner in enumerate(self._owner[topic_id]):
                owned.setdefault(owner, []).append((topic_id, partition))
        return owned

    def _target(self) -> dict[str, Assignment]:
        lists: list[dict[bytes, list[int]]] = [{} for _ in self._members]
        for topic_id, owners in self._owner.items():
            for partition, owner in enumerate(owners):
                lists[owner].setdefault(topic_id, []).append(partition)
        return {
            member_id: {topic_id: tuple(partitions) for topic_id, partitions in mine.items()}
            for member_id, mine in zip(self._members, lists, strict=True)
        }
