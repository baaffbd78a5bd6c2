"""Who makes the topics of a simulated cluster, and moves their replicas and leaders about while the run goes on.

Job: CreateTopics until every topic is there; then now and then what operators ask for. Must not know what comes of it:
`cluster_checkers` look whether the cluster is whole in the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from barnabas.model.errors import ErrorCode
from barnabas.sim.cluster_checkers import REPLICATION_FACTOR
from barnabas.sim.cluster_client import ClusterClient
from barnabas.sim.violation import Violation
from barnabas.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from barnabas.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from barnabas.wire.messages.elect_leaders import ElectLeadersRequest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from barnabas.sim.network import Network

TIMEOUT_MS: Final = 1500
#: Answers to CreateTopics that say nothing about the topic itself.
_PASSING: Final = (
    ErrorCode.NOT_CONTROLLER,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.INVALID_REPLICATION_FACTOR,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.BROKER_NOT_AVAILABLE,
)


class TopicPlan(NamedTuple):
    """A topic to be made."""

    name: str
    partition_count: int
    configs: tuple[tuple[str, str], ...]


class ClusterAdmin(ClusterClient):
    """Makes topics, then lets their partitions move."""

    def __init__(
        self, networks: Mapping[int, Network], topics: list[TopicPlan], *, moves: bool
    ) -> None:
        """Have made nothing yet; with `moves` replicas and leaders are moved later."""
        super().__init__("admin", networks, [topic.name for topic in topics])
        self._to_make = list(topics)
        self._topics_made = topics
        self._moves = moves
        self._is_asking = False
        self.last_problem = ""

    @property
    def topics_made(self) -> bool:
        """Tell whether every topic is there."""
        return not self._to_make

    def step(self) -> None:
        """Make the next topic, or move something."""
        if self._is_asking:
            return
        if self._to_make:
            self._create(self._to_make[0])
        elif self._moves:
            self._move()

    def rest(self) -> None:
        """Ask for nothing more."""
        self._moves = False

    def _line(self) -> Any:  # noqa: ANN401
        """Ask the controller, as far as it is known."""
        return self.lines.get(self.controller) or self.any_line()

    def _create(self, topic: TopicPlan) -> None:
        self._is_asking = True
        creatable = CreatableTopic(
            name=topic.name,
            num_partitions=topic.partition_count,
            replication_factor=REPLICATION_FACTOR,
            assignments=[],
            configs=[CreatableTopicConfig(name=name, value=value) for name, value in topic.configs],
        )
        request = CreateTopicsRequest(
            topics=[creatable], timeout_ms=TIMEOUT_MS, validate_only=False
        )
        self._line().put(request, 5, self._on_created)

    def _on_created(self, response: Any) -> None:  # noqa: ANN401
        self._is_asking = False
        if response is not None:
            result = response.topics[0]
            code = ErrorCode(result.error_code)
            self.last_problem = f"{code.name} {result.error_message or ''}"
            if code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                self._to_make.pop(0)
            elif code not in _PASSING:
                raise Violation("topics can be made", f"{result.name}: {self.last_problem}")
        self.refresh()

    def _move(self) -> None:
        self._is_asking = True
        topic = self.chance.choice(self._topics_made)
        index = self.chance.randrange(topic.partition_count)
        request: Any
        if self.chance.random() < 0.3:
            request, version = (
                ElectLeadersRequest(election_type=0, topic_partitions=None, timeout_ms=TIMEOUT_MS),
                2,
            )
        else:
            brokers = self.chance.sample(sorted(self.lines), REPLICATION_FACTOR)
            wanted = None if self.chance.random() < 0.2 else brokers
            partition = ReassignablePartition(partition_index=index, replicas=wanted)
            request, version = (
                AlterPartitionReassignmentsRequest(
                    timeout_ms=TIMEOUT_MS,
                    topics=[ReassignableTopic(name=topic.name, partitions=[partition])],
                ),
                0,
            )
        self._line().put(request, version, self._on_moved)

    def _on_moved(self, response: Any) -> None:  # noqa: ANN401
        self._is_asking = False
        if response is None or response.error_code:
            self.refresh()
        else:
            self.wake(self.chance.randint(300_000, 2_000_000))
