"""Which brokers a new partition's replicas go to: Kafka's even spread.

Job: place replicas over brokers, and over racks where they are known. Must not know: chance. Who calls draws `start` and `shift`, so that
topics do not all begin at the same broker.

First replicas go round the brokers one by one from `start`. The second replica is `shift` further on, the third one more; after each
round the shift grows by one, so that the partitions of one leader have their followers in different places. With racks the brokers
are lined up so that neighbours are in different racks, and a rack gets a second replica only when every rack has one.
"""

from __future__ import annotations

from itertools import cycle, zip_longest
from typing import TYPE_CHECKING

from barnabas.model.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from barnabas.core.controller.assignment import Replicas
    from barnabas.model.cluster import LiveBroker


def place_partitions(
    brokers: Collection[LiveBroker], numbers: range, replication_factor: int, start: int, shift: int
) -> dict[int, Replicas]:
    """Place the partitions of these numbers; a KafkaError says why that cannot be done.

    For partitions that are added to a topic, `start` and `shift` are both `start_of_added`.
    """
    _check(brokers, numbers, replication_factor)
    has_racks = any(broker.rack is not None for broker in brokers)
    # Without racks every broker is one of its own.
    racks = {b.id: b.rack if has_racks and b.rack else str(b.id) for b in brokers}
    order = alternating(racks) if has_racks else sorted(racks)
    step = len(set(racks.values())) if has_racks else 1
    rounds_before = max(0, numbers.start - 1) // len(order)
    placed = {}
    for number in numbers:
        first = (number + start) % len(order)
        turned = (shift + number // len(order) - rounds_before) * step
        candidates = [order[first], *_followers(order, first, turned)]
        placed[number] = _pick(candidates, racks, replication_factor)
    return placed


def start_of_added(brokers: Collection[LiveBroker], first_replica: int) -> int:
    """Where partitions that are added begin: at partition 0's first replica, so that they go on as if made with it."""
    order = sorted(broker.id for broker in brokers)
    return next((i for i, broker in enumerate(order) if broker >= first_replica), 0)


def alternating(racks: Mapping[int, str]) -> list[int]:
    """Line brokers up so that neighbours are in different racks: the first of each rack, then the second of each."""
    by_rack: dict[str, list[int]] = {}
    for broker in sorted(racks):
        by_rack.setdefault(racks[broker], []).append(broker)
    rounds = zip_longest(*(by_rack[rack] for rack in sorted(by_rack)))
    return [broker for round_ in rounds for broker in round_ if broker is not None]


def _followers(order: Sequence[int], first: int, turned: int) -> list[int]:
    """All brokers but the first, in the order in which they are asked."""
    others = len(order) - 1
    return [order[(first + 1 + (turned + i) % others) % len(order)] for i in range(others)]


def _pick(candidates: list[int], racks: Mapping[int, str], replication_factor: int) -> Replicas:
    """Ask brokers in turn, again and again; one says no while its rack has a replica and another rack has none."""
    picked: list[int] = []
    used: set[str] = set()
    rack_count = len(set(racks.values()))
    turns = cycle(candidates)
    while len(picked) < replication_factor:
        broker = next(turns)
        if broker not in picked and (racks[broker] not in used or len(used) == rack_count):
            picked.append(broker)
            used.add(racks[broker])
    return tuple(picked)


def _check(brokers: Collection[LiveBroker], numbers: range, replication_factor: int) -> None:
    if not numbers:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, "A topic must have at least one partition.")
    if replication_factor < 1:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR, "The replication factor must be at least 1."
        )
    if replication_factor > len(brokers):
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is {replication_factor}, and there are only {len(brokers)} brokers "
            f"alive: start more brokers, or ask for at most {len(brokers)}.",
        )
    bare = sorted(broker.id for broker in brokers if broker.rack is None)
    if 0 < len(bare) < len(brokers):
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Brokers {bare} have no rack and the others do: set `broker.rack` on all brokers or on none, "
            "or name the replicas of each partition.",
        )
