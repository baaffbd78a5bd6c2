"""What a client knows of its cluster: brokers, leaders of partitions, coordinators.

Job: remember what Metadata and FindCoordinator answered, ask again for what is missing or was found wrong. Must not know what the
partitions are asked for.

Invariants: an address was either given by the user or by a broker; what turned out wrong is forgotten before it is used again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from barnabas.client.errors import (
    AuthenticationFailed,
    ClientError,
    Refused,
    UnknownTopic,
    Unreachable,
    refusal,
)
from barnabas.client.retry import retried
from barnabas.client.talk import ask
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import TopicPartition
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from barnabas.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from barnabas.client.settings import ClientSettings
    from barnabas.client.talk import Address, Talk
    from barnabas.ports import Clock
    from barnabas.wire.primitives import Message

#: What FindCoordinator is asked for.
Result = TypeVar("Result")

GROUP: Final = 0
TRANSACTION: Final = 1


class Leader(NamedTuple):
    """Who leads a partition, since which epoch."""

    broker_id: int
    epoch: int


class Cluster:
    """Knowledge of one cluster; grows with what is asked."""

    def __init__(self, settings: ClientSettings, clock: Clock) -> None:
        """Know the addresses that the user gave."""
        self.settings = settings
        self.clock = clock
        self.brokers: dict[int, Address] = {}
        self._leaders: dict[TopicPartition, Leader] = {}
        self._coordinators: dict[tuple[int, str], int] = {}
        #: Who answered last.
        self._good: Address | None = None

    def retried(self, attempt: Callable[[], Talk[Result]]) -> Talk[Result]:
        """Hold a conversation until it succeeds, as long as the settings allow."""
        return retried(self.clock, self.settings, attempt)

    def ask_any(self, request: Message, version_max: int | None = None) -> Talk[Any]:
        """Ask whoever answers; Unreachable if nobody does."""
        problems = []
        for address in self._candidates():
            try:
                answer = yield from ask(address, request, version_max)
            except (Unreachable, AuthenticationFailed) as problem:
                if self._good == address:
                    self._good = None
                if isinstance(problem, AuthenticationFailed):
                    raise
                problems.append(str(problem))
            else:
                self._good = address
                return answer
        raise Unreachable("; ".join(problems))

    def _candidates(self) -> list[Address]:
        first = () if self._good is None else (self._good,)
        return list(dict.fromkeys((*first, *self.brokers.values(), *self.settings.bootstrap)))

    # -- metadata -----------------------------------------------------------------------------

    def metadata(self, topics: Iterable[str] | None) -> Talk[MetadataResponse]:
        """Ask where partitions are, once, and remember; None for all topics."""
        names = None if topics is None else [MetadataRequestTopic(name=each) for each in topics]
        request = MetadataRequest(topics=names, allow_auto_topic_creation=False)
        answer: MetadataResponse = yield from self.ask_any(request)
        if answer.error_code:
            raise refusal(answer.error_code, "the cluster's metadata")
        self.brokers = {each.node_id: (each.host, each.port) for each in answer.brokers}
        for topic in answer.topics:
            self._remember(topic)
        return answer

    def _remember(self, topic: MetadataResponseTopic) -> None:
        for each in topic.partitions:
            partition = TopicPartition(topic.name or "", each.partition_index)
            if each.leader_id in self.brokers:
                self._leaders[partition] = Leader(each.leader_id, each.leader_epoch)
            else:
                self._leaders.pop(partition, None)

    def locate(self, partitions: Iterable[TopicPartition]) -> Talk[None]:
        """Know the leaders of these partitions; an error, often retriable, if one has none."""
        missing = [each for each in partitions if each not in self._leaders]
        if not missing:
            return
        answer = yield from self.metadata(dict.fromkeys(each.topic for each in missing))
        found = {topic.name: topic for topic in answer.topics}
        for each in missing:
            if each not in self._leaders:
                raise _why_no_leader(found.get(each.topic), each)

    def address_of(self, broker_id: int) -> Address:
        """Tell where a broker is; Unreachable if no such broker is known."""
        try:
            return self.brokers[broker_id]
        except KeyError:
            raise Unreachable(f"there is no broker {broker_id}") from None

    def leader_of(self, partition: TopicPartition) -> Leader:
        """Return the leader of a partition that was located."""
        return self._leaders[partition]

    def leader_address(self, partition: TopicPartition) -> Address:
        """Tell where the leader of a located partition is."""
        return self.address_of(self._leaders[partition].broker_id)

    def forget_leader(self, partition: TopicPartition) -> None:
        """Ask again before the next use: the leader has moved or does not answer."""
        self._leaders.pop(partition, None)

    # -- coordinators -------------------------------------------------------------------------

    def coordinator(self, kind: int, key: str) -> Talk[int]:
        """Find the broker that coordinates a group or a transactional id."""
        known = self._coordinators.get((kind, key))
        if known is not None and known in self.brokers:
            return known
        request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
        answer: FindCoordinatorResponse = yield from self.ask_any(request)
        if len(answer.coordinators) != 1:
            raise Unreachable("an answer without a coordinator: is it a Kafka broker?")
        found = answer.coordinators[0]
        if found.error_code:
            what = "transactional id" if kind == TRANSACTION else "group"
            raise refusal(
                found.error_code, f"the coordinator of {what} '{key}'", found.error_message
            )
        self.brokers[found.node_id] = (found.host, found.port)
        self._coordinators[kind, key] = found.node_id
        return found.node_id

    def ask_coordinator(
        self, kind: int, key: str, request: Message, version_max: int | None = None
    ) -> Talk[Any]:
        """Ask a coordinator once. Who finds in the answer that it is another calls `forget_coordinator`."""
        broker_id = yield from self.coordinator(kind, key)
        try:
            return (yield from ask(self.brokers[broker_id], request, version_max))
        except Unreachable:
            self.forget_coordinator(kind, key)
            raise

    def forget_coordinator(self, kind: int, key: str) -> None:
        """Look for it again before the next use."""
        self._coordinators.pop((kind, key), None)

    def coordinator_refusal(self, kind: int, key: str, code: int, subject: str) -> Refused:
        """Make the error for a coordinator's answer, and forget a coordinator that is none any more."""
        if code in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE):
            self.forget_coordinator(kind, key)
        return refusal(code, subject)


def _why_no_leader(topic: MetadataResponseTopic | None, partition: TopicPartition) -> ClientError:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if topic is None or topic.error_code == unknown:
        return UnknownTopic(partition.topic)
    if topic.error_code:
        return refusal(topic.error_code, f"topic '{partition.topic}'")
    for each in topic.partitions:
        if each.partition_index == partition.partition:
            code = each.error_code or ErrorCode.LEADER_NOT_AVAILABLE
            return refusal(code, f"partition {partition}")
    return UnknownTopic(partition.topic, partition.partition)
