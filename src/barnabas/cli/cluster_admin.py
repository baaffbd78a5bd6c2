"""A cluster as a whole, asked for from the brokers that know it: who is there, who has what, what is on the move.

One job: the requests and answers behind `barnabas cluster`, `broker` and `rebalance`. librdkafka lacks most of them, so they go over a client
of our own. Must not know how results are shown, nor what should be moved.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from barnabas.cli.failure import Failure
from barnabas.cli.own_client import open_client
from barnabas.client.errors import ClientError, Refused
from barnabas.model.errors import ErrorCode
from barnabas.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from barnabas.wire.messages.describe_cluster import DescribeClusterRequest
from barnabas.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from barnabas.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from barnabas.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from barnabas.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from barnabas.wire.primitives import WireError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from barnabas.cli.connection import Connection
    from barnabas.wire.primitives import Message

#: A topic and a partition of it.
Place = tuple[str, int]
Replicas = tuple[int, ...]
PREFERRED, UNCLEAN = 0, 1
_TOPIC: Final = 2
_MIN_IN_SYNC: Final = "min.insync.replicas"
_RETRY_S: Final = 0.2
#: What passes: another broker becomes controller.
_PASSING: Final = (ErrorCode.NOT_CONTROLLER, ErrorCode.BROKER_NOT_AVAILABLE)


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker that is there."""

    broker: int
    host: str
    port: int
    rack: str | None


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition as metadata tells it; `leader` is None while it has none."""

    leader: int | None
    replicas: Replicas
    in_sync: Replicas

    @property
    def is_under_replicated(self) -> bool:
        """Is a replica missing from the in-sync set?"""
        return len(self.in_sync) < len(self.replicas)

    @property
    def has_preferred_leader(self) -> bool:
        """Does the first replica lead?"""
        return self.leader == self.replicas[0]


@dataclass(frozen=True, slots=True)
class Reassignment:
    """A partition on the move."""

    replicas: Replicas
    adding: Replicas
    removing: Replicas

    @property
    def target(self) -> Replicas:
        """The replicas that it will have."""
        return tuple(replica for replica in self.replicas if replica not in self.removing)


@dataclass(slots=True)
class Storage:
    """What a broker says of its log directories."""

    size_bytes: int = 0
    #: None where the broker does not tell.
    free_bytes: int | None = None
    failed_directories: list[str] = field(default_factory=list)
    partition_bytes: dict[Place, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClusterState:
    """Everything that metadata tells."""

    cluster_id: str | None
    controller: int | None
    brokers: dict[int, Broker]
    partitions: dict[Place, Partition]

    def away(self) -> list[int]:
        """Brokers that have replicas and are not there."""
        named = {r for partition in self.partitions.values() for r in partition.replicas}
        return sorted(named - self.brokers.keys())


class ClusterAdmin:
    """One command's look at the cluster. Use as a context manager."""

    def __init__(self, connection: Connection) -> None:
        """Connect; Failure if nobody answers, or does not let us in."""
        self._timeout_s = connection.timeout_s
        self._client = open_client(connection)

    def __enter__(self) -> ClusterAdmin:
        """Nothing more to do."""
        return self

    def __exit__(self, *arguments: object) -> None:
        """Hang up."""
        self._client.__exit__(*arguments)

    def state(self) -> ClusterState:
        """Ask for everything that metadata tells."""
        answer = self._client.metadata(None)
        brokers = {b.node_id: Broker(b.node_id, b.host, b.port, b.rack) for b in answer.brokers}
        partitions = {
            (topic.name or "", each.partition_index): Partition(
                each.leader_id if each.leader_id >= 0 else None,
                tuple(each.replica_nodes),
                tuple(each.isr_nodes),
            )
            for topic in answer.topics
            for each in topic.partitions
        }
        return ClusterState(
            answer.cluster_id,
            answer.controller_id if answer.controller_id >= 0 else None,
            dict(sorted(brokers.items())),
            dict(sorted(partitions.items())),
        )

    def brokers(self) -> set[int]:
        """Ask who is there."""
        return {broker.node_id for broker in self._client.metadata([]).brokers}

    def storage(self, brokers: Iterable[int]) -> dict[int, Storage]:
        """Ask each broker what lies on its disks; one that does not answer is left out."""
        found = {}
        for broker in brokers:
            try:
                answer = self._client.ask(broker, DescribeLogDirsRequest(topics=None))
            except ClientError:
                continue
            found[broker] = _storage(answer.results)
        return found

    def out_of_touch(self, brokers: Iterable[int]) -> set[int]:
        """Ask each broker whether it lacks contact with ZooKeeper; one that does not answer, or does not know the question, is left out."""
        found: set[int] = set()
        request = DescribeClusterRequest(include_fenced_brokers=True)
        for broker in brokers:
            try:
                answer = self._client.ask(broker, request)
            except (ClientError, WireError):
                continue
            found |= {each.broker_id for each in answer.brokers if each.is_fenced}
        return found.intersection(brokers)

    def min_in_sync(self, topics: Iterable[str]) -> dict[str, int]:
        """Ask for min.insync.replicas of each topic; one without an answer is left out."""
        resources = [
            DescribeConfigsResource(
                resource_type=_TOPIC, resource_name=name, configuration_keys=[_MIN_IN_SYNC]
            )
            for name in topics
        ]
        if not resources:
            return {}
        answer = self._client.ask(
            self._client.brokers()[0], DescribeConfigsRequest(resources=resources)
        )
        return {
            result.resource_name: int(entry.value)
            for result in answer.results
            for entry in result.configs
            if entry.name == _MIN_IN_SYNC and entry.value
        }

    # Moves

    def reassignments(self) -> dict[Place, Reassignment]:
        """Ask what is on the move; nothing, where the broker knows no such thing."""
        request = ListPartitionReassignmentsRequest(timeout_ms=self._timeout_ms, topics=None)
        try:
            answer = self._ask_controller(request)
        except Refused:
            raise
        except ClientError:
            return {}  # a lone Barnabas, or a very old Kafka
        return {
            (topic.name, each.partition_index): Reassignment(
                tuple(each.replicas), tuple(each.adding_replicas), tuple(each.removing_replicas)
            )
            for topic in answer.topics
            for each in topic.partitions
        }

    def reassign(self, targets: Mapping[Place, Replicas | None]) -> dict[Place, str]:
        """Begin moves to these replicas, or cancel them (None); the places that were refused, and why."""
        topics: dict[str, ReassignableTopic] = {}
        for (name, index), replicas in targets.items():
            topic = topics.setdefault(name, ReassignableTopic(name=name, partitions=[]))
            wanted = None if replicas is None else list(replicas)
            topic.partitions.append(ReassignablePartition(partition_index=index, replicas=wanted))
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=self._timeout_ms, topics=list(topics.values())
        )
        answer = self._ask_controller(request)
        return {
            (topic.name, each.partition_index): _words(each.error_code, each.error_message)
            for topic in answer.responses
            for each in topic.partitions
            if each.error_code
        }

    def elect(self, kind: int, places: Iterable[Place] | None) -> dict[Place, str | None]:
        """Elect leaders of these partitions, or of all that need it: None where it was done, else why not.

        Those that need no election are left out.
        """
        by_topic: dict[str, list[int]] = {}
        for name, index in places or ():
            by_topic.setdefault(name, []).append(index)
        wanted = [TopicPartitions(topic=name, partitions=each) for name, each in by_topic.items()]
        request = ElectLeadersRequest(
            election_type=kind,
            topic_partitions=None if places is None else wanted,
            timeout_ms=self._timeout_ms,
        )
        answer = self._ask_controller(request)
        return {
            (topic.topic, each.partition_id): _words(each.error_code, each.error_message)
            if each.error_code
            else None
            for topic in answer.replica_election_results
            for each in topic.partition_result
            if each.error_code != ErrorCode.ELECTION_NOT_NEEDED
        }

    @property
    def _timeout_ms(self) -> int:
        return int(self._timeout_s * 1000)

    def _ask_controller(self, request: Message) -> Any:  # noqa: ANN401  # as BlockingClient.ask
        """Ask whoever is controller; again while that changes, as long as an answer may take."""
        for is_last in _attempts(self._timeout_s):
            controller = self._client.metadata([]).controller_id
            if controller < 0:
                problem: ClientError = Refused(ErrorCode.NOT_CONTROLLER, "there is no controller")
            else:
                answer = self._client.ask(controller, request)
                if not answer.error_code:
                    return answer
                problem = Refused(answer.error_code, getattr(answer, "error_message", None))
                if problem.code not in _PASSING:
                    raise problem
            if is_last:
                raise problem
        raise AssertionError


def _attempts(timeout_s: float) -> Iterator[bool]:
    """Yield at once and then from time to time; True when it is the last time."""
    deadline_s = time.monotonic() + timeout_s
    while time.monotonic() < deadline_s:
        yield False
        time.sleep(_RETRY_S)
    yield True


def _words(code: int, message: str | None) -> str:
    return str(Refused(code, message))


def _storage(results: Iterable[Any]) -> Storage:
    storage = Storage()
    for directory in results:
        if directory.error_code:
            storage.failed_directories.append(directory.log_dir)
            continue
        if directory.usable_bytes >= 0:
            storage.free_bytes = (storage.free_bytes or 0) + directory.usable_bytes
        for topic in directory.topics:
            for each in topic.partitions:
                storage.size_bytes += each.partition_size
                place = (topic.name, each.partition_index)
                taken = storage.partition_bytes.get(place, 0)
                storage.partition_bytes[place] = max(taken, each.partition_size)
    return storage


def broker_or_fail(state: ClusterState, broker: int) -> None:
    """Failure unless this broker is there, or was and has replicas."""
    known = sorted({*state.brokers, *state.away()})
    if broker not in known:
        listed = ", ".join(map(str, known))
        raise Failure(f"there is no broker {broker}", f"there are {listed}")
