"""Groups as a cluster shows them: state, members, committed offsets, as plain values.

One job: the admin requests for groups. Must not print or decide. States and types carry Kafka's names, except that
librdkafka cannot tell Assigning from Reconciling: both are `Rebalancing` here. A group that does not exist is
`Dead` to Kafka's older answers and an error to its newer ones; here it is simply not found.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.cli.connection import admin_api, wait_until
from barnabas.cli.failure import Failure, failure, nearest
from barnabas.cli.output import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from confluent_kafka import KafkaError, TopicPartition

    from barnabas.cli.connection import Connection

# librdkafka's name: what Kafka calls it.
STATES = {
    "STABLE": "Stable",
    "EMPTY": "Empty",
    "PREPARING_REBALANCING": "PreparingRebalance",
    "COMPLETING_REBALANCING": "CompletingRebalance",
    "UNKNOWN": "Rebalancing",
    "DEAD": "Dead",
}
TYPES = {"CLASSIC": "classic", "CONSUMER": "consumer"}
NOT_FOUND = "GROUP_ID_NOT_FOUND"
#: A coordinator that is not ready yet, or not the one any more.
_PASSING = ("COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR")


class Place(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        """As Kafka writes it: `orders-0`."""
        return f"{self.topic}-{self.partition}"


class Bounds(NamedTuple):
    """Log start and end of a partition; the end is the next offset to be read."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class GroupListing:
    """One line of the list."""

    name: str
    state: str
    type: str | None

    def as_dict(self) -> dict[str, Any]:
        """The stable keys of `group list -o json`."""
        return {"group": self.name, "type": self.type, "state": self.state}


@dataclass(frozen=True, slots=True)
class MemberView:
    """One member. `target` is None where the group's protocol knows none (classic)."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[Place, ...]
    target: tuple[Place, ...] | None

    def as_dict(self) -> dict[str, Any]:
        """The stable keys of a member."""
        return {
            "member_id": self.member_id,
            "instance_id": self.instance_id,
            "client_id": self.client_id,
            "host": self.host,
            "assignment": by_topic(self.assignment),
            "target_assignment": None if self.target is None else by_topic(self.target),
        }


@dataclass(frozen=True, slots=True)
class GroupView:
    """One group with its members; `coordinator` is (id, host, port)."""

    name: str
    state: str
    type: str | None
    assignor: str | None
    coordinator: tuple[int, str, int] | None
    members: tuple[MemberView, ...]

    @property
    def is_inactive(self) -> bool:
        """May its offsets be moved from outside?"""
        return not self.members and self.state in {"Empty", "Dead"}


@dataclass(frozen=True, slots=True)
class Committed:
    """What a group committed for one partition."""

    place: Place
    offset: int
    leader_epoch: int | None
    metadata: str


def by_topic(places: Iterable[Place]) -> list[dict[str, Any]]:
    """Partitions gathered under their topics, for JSON."""
    gathered: dict[str, list[int]] = {}
    for place in sorted(places):
        gathered.setdefault(place.topic, []).append(place.partition)
    return [{"topic": topic, "partitions": indexes} for topic, indexes in gathered.items()]


# -- listing and describing ------------------------------------------------------------------


def list_groups(
    connection: Connection, timeout_s: float | None = None
) -> tuple[list[GroupListing], list[KafkaError]]:
    """Every group by name, and the errors of brokers that could not tell theirs."""
    future = connection.admin().list_consumer_groups(
        request_timeout=timeout_s or connection.timeout_s
    )
    answer = connection.result(future, "groups")
    listings = [
        GroupListing(found.group_id, _state(found), _type(found)) for found in answer.valid or ()
    ]
    errors = [raised.args[0] for raised in answer.errors or ()]
    return sorted(listings, key=lambda listing: listing.name), errors


def _state(answer: Any) -> str:  # noqa: ANN401 - listing or description
    return STATES.get(answer.state.name, "Rebalancing")


def _type(answer: Any) -> str | None:  # noqa: ANN401 - listing or description
    return TYPES.get(answer.type.name)


def describe_groups(
    connection: Connection, names: Sequence[str]
) -> tuple[dict[str, GroupView], dict[str, KafkaError | None]]:
    """The groups there are, and why not for the others; None: there is no such group.

    A coordinator that has just come up or is moving is asked again for as long as the command may take.
    """
    found: dict[str, GroupView] = {}
    missing: dict[str, KafkaError | None] = {}
    left = list(names)

    def is_settled() -> bool:
        views, refused = _describe_once(connection, left)
        found.update(views)
        missing.update(refused)
        left[:] = [name for name, error in refused.items() if _is_passing(error)]
        return not left

    wait_until(is_settled, connection.timeout_s)
    return found, {name: error for name, error in missing.items() if name not in found}


def _is_passing(error: KafkaError | None) -> bool:
    return error is not None and error.name() in _PASSING


def _describe_once(
    connection: Connection, names: Sequence[str]
) -> tuple[dict[str, GroupView], dict[str, KafkaError | None]]:
    answers = connection.admin().describe_consumer_groups(
        list(names), request_timeout=connection.timeout_s
    )
    found: dict[str, GroupView] = {}
    missing: dict[str, KafkaError | None] = {}
    for name, future in answers.items():
        answer, error = connection.outcome(future)
        if error is not None:
            missing[name] = None if error.name() == NOT_FOUND else error
        else:
            view = _view(answer)
            if view.state == "Dead":
                missing[name] = None
            else:
                found[name] = view
    return found, missing


def _view(answer: Any) -> GroupView:  # noqa: ANN401 - ConsumerGroupDescription
    node = answer.coordinator
    members = sorted(map(_member, answer.members), key=_by_client)
    return GroupView(
        answer.group_id,
        _state(answer),
        _type(answer),
        answer.partition_assignor or None,
        (node.id, node.host, node.port) if node is not None and node.id >= 0 else None,
        tuple(members),
    )


def _by_client(member: MemberView) -> tuple[str, str, str]:
    return member.client_id, member.instance_id or "", member.member_id


def _member(answer: Any) -> MemberView:  # noqa: ANN401 - MemberDescription
    target = answer.target_assignment
    return MemberView(
        answer.member_id,
        answer.group_instance_id or None,
        answer.client_id,
        # Java writes addresses without a name as "/10.0.0.1".
        answer.host.removeprefix("/"),
        _places(answer.assignment.topic_partitions),
        None if target is None else _places(target.topic_partitions),
    )


def _places(partitions: Iterable[TopicPartition]) -> tuple[Place, ...]:
    return tuple(sorted(Place(p.topic, p.partition) for p in partitions))


def missing_group(connection: Connection, name: str, error: KafkaError | None) -> Failure:
    """The Failure for a group that cannot be described; names the nearest there is."""
    if error is not None and error.name() != NOT_FOUND:
        return failure(f"group {name}", error)
    known, _ = list_groups(connection)
    close = nearest(name, (listing.name for listing in known))
    return Failure(
        f"group {name} does not exist",
        close or "`barnabas group list` shows the groups there are",
    )


def in_use(view: GroupView, what: str) -> Failure:
    """The Failure for a group whose members are in the way."""
    first = view.members[0] if view.members else None
    who = f" (such as {first.client_id} at {first.host})" if first else ""
    have = counted(len(view.members), "member") if first else f"state {view.state}"
    return Failure(
        f"group {view.name} cannot be {what}: it has {have}{who}",
        f"stop its consumers first; `barnabas group describe {view.name} --members` shows them. "
        "One that crashed leaves by itself after its session time-out",
    )


# -- offsets ---------------------------------------------------------------------------------


def read_committed(
    connection: Connection, names: Sequence[str]
) -> dict[str, dict[Place, Committed]]:
    """What each group committed, by partition in order; empty for a group that does not exist."""
    from confluent_kafka import ConsumerGroupTopicPartitions

    # librdkafka takes one group a request; they are all under way before the first answer is waited for.
    futures = {
        name: connection.admin().list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(name)], request_timeout=connection.timeout_s
        )[name]
        for name in names
    }
    found: dict[str, dict[Place, Committed]] = {}
    for name, future in futures.items():
        answer, error = connection.outcome(future)
        if error is not None and error.name() != NOT_FOUND:
            raise failure(f"offsets of group {name}", error)
        found[name] = {}
        for partition in sorted(answer.topic_partitions if answer else ()):
            if partition.error is not None:
                raise failure(f"offset of group {name} in {partition.topic}", partition.error)
            if partition.offset >= 0:
                committed = _committed(partition)
                found[name][committed.place] = committed
    return found


def _committed(partition: TopicPartition) -> Committed:
    epoch = partition.leader_epoch
    return Committed(
        Place(partition.topic, partition.partition),
        partition.offset,
        epoch if epoch is not None and epoch >= 0 else None,
        partition.metadata or "",
    )


def ask_offsets(
    connection: Connection, specs: dict[Place, Any]
) -> dict[Place, tuple[int, int] | KafkaError]:
    """ListOffsets of any partitions at once: (offset, timestamp), -1 where there is none, or the error."""
    from confluent_kafka import TopicPartition

    if not specs:
        return {}
    answers = connection.admin().list_offsets(
        {TopicPartition(*place): spec for place, spec in specs.items()},
        request_timeout=connection.timeout_s,
    )
    found: dict[Place, tuple[int, int] | KafkaError] = {}
    for partition, future in answers.items():
        answer, error = connection.outcome(future)
        place = Place(partition.topic, partition.partition)
        if answer is None:
            assert error is not None
            found[place] = error
        else:
            found[place] = (answer.offset, answer.timestamp)
    return found


def ask_bounds(
    connection: Connection, places: Iterable[Place]
) -> tuple[dict[Place, Bounds], dict[Place, KafkaError]]:
    """Log start and end of each partition, and the errors of those that have none to tell."""
    spec = admin_api().OffsetSpec
    wanted = list(dict.fromkeys(places))
    starts = ask_offsets(connection, dict.fromkeys(wanted, spec.earliest()))
    ends = ask_offsets(connection, dict.fromkeys(wanted, spec.latest()))
    bounds: dict[Place, Bounds] = {}
    errors: dict[Place, KafkaError] = {}
    for place in wanted:
        start, end = starts[place], ends[place]
        if not isinstance(start, tuple):
            errors[place] = start
        elif not isinstance(end, tuple):
            errors[place] = end
        else:
            bounds[place] = Bounds(start[0], max(start[0], end[0]))
    return bounds, errors
