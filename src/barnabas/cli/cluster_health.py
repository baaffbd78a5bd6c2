"""How well a cluster is: a judgement from its state. Pure.

| verdict | what it means                                                            | exit code |
|---------|--------------------------------------------------------------------------|-----------|
| ok      | every replica is where it should be and in sync                          | 0         |
| at risk | everything can be read and written, and less may be lost than should     | 1         |
| broken  | something cannot be read, or not written with acks=all                   | 2         |

Leaders that are not the preferred ones, and moves under way, are told and change no verdict.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from barnabas.cli.cluster_admin import ClusterState, Place, Reassignment, Storage

OK, AT_RISK, BROKEN = range(3)
VERDICTS = ("ok", "at risk", "broken")
_SHOWN = 5


@dataclass(slots=True)
class Health:
    """Partitions that are not as they should be, by what is wrong with them."""

    offline: list[Place] = field(default_factory=list)
    under_min_in_sync: list[Place] = field(default_factory=list)
    under_replicated: list[Place] = field(default_factory=list)
    not_preferred: list[Place] = field(default_factory=list)
    reassigning: list[Place] = field(default_factory=list)
    brokers_away: list[int] = field(default_factory=list)
    #: Broker and path of each.
    failed_directories: list[tuple[int, str]] = field(default_factory=list)
    has_controller: bool = True
    #: Brokers that do not reach ZooKeeper (of Apache Kafka: that its controller has fenced).
    out_of_touch: list[int] = field(default_factory=list)

    @property
    def verdict(self) -> int:
        """OK, AT_RISK or BROKEN: the exit code."""
        if self.offline or self.under_min_in_sync or not self.has_controller:
            return BROKEN
        missing = (self.brokers_away, self.failed_directories, self.out_of_touch)
        if self.under_replicated or any(missing):
            return AT_RISK
        return OK

    def as_dict(self) -> dict[str, Any]:
        """The stable keys of `cluster health -o json`."""
        return {
            "health": VERDICTS[self.verdict].replace(" ", "_"),
            "controller": self.has_controller,
            "brokers_away": self.brokers_away,
            "out_of_touch": self.out_of_touch,
            "failed_directories": [
                {"broker": broker, "directory": path} for broker, path in self.failed_directories
            ],
            "offline": _places(self.offline),
            "under_min_in_sync": _places(self.under_min_in_sync),
            "under_replicated": _places(self.under_replicated),
            "not_preferred_leader": _places(self.not_preferred),
            "reassigning": _places(self.reassigning),
        }

    def lines(self) -> list[str]:
        """For people: the verdict, and a line for each thing that is not as it should be."""
        lines = [VERDICTS[self.verdict]]
        if not self.has_controller:
            lines.append("no controller: nobody elects leaders or changes topics")
        if self.brokers_away:
            lines.append(f"brokers away: {', '.join(map(str, self.brokers_away))}")
        if self.out_of_touch:
            told = ", ".join(map(str, self.out_of_touch))
            lines.append(
                f"without ZooKeeper: {told}; they serve what they lead, and nothing can be changed"
            )
        lines += [
            f"failed log directory: {path} of broker {b}" for b, path in self.failed_directories
        ]
        for what, places in (
            ("offline, nobody leads them", self.offline),
            ("under min.insync.replicas, acks=all is refused", self.under_min_in_sync),
            ("under-replicated", self.under_replicated),
            ("not led by the preferred replica", self.not_preferred),
            ("being moved", self.reassigning),
        ):
            if places:
                lines.append(f"{what}: {_some(places)}")
        return lines


def judge(
    state: ClusterState,
    min_in_sync: Mapping[str, int],
    reassignments: Mapping[Place, Reassignment],
    storage: Mapping[int, Storage],
    out_of_touch: Iterable[int] = (),
) -> Health:
    """Look at everything."""
    health = Health(
        brokers_away=state.away(),
        has_controller=state.controller is not None,
        out_of_touch=sorted(out_of_touch),
    )
    for place, partition in state.partitions.items():
        if partition.leader is None:
            health.offline.append(place)
        elif len(partition.in_sync) < min(min_in_sync.get(place[0], 1), len(partition.replicas)):
            health.under_min_in_sync.append(place)
        if partition.is_under_replicated:
            health.under_replicated.append(place)
        if partition.leader is not None and not partition.has_preferred_leader:
            health.not_preferred.append(place)
    health.reassigning = sorted(reassignments)
    health.failed_directories = [
        (broker, path) for broker, each in storage.items() for path in each.failed_directories
    ]
    return health


def _places(places: Iterable[Place]) -> list[dict[str, Any]]:
    return [{"topic": topic, "partition": partition} for topic, partition in places]


def _some(places: list[Place]) -> str:
    shown = ", ".join(f"{topic}-{index}" for topic, index in places[:_SHOWN])
    more = len(places) - _SHOWN
    return f"{len(places)} ({shown}{f' and {more} more' if more > 0 else ''})"
