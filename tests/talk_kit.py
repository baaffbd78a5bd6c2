"""Holds the conversations of `barnabas.client` with answers from a test: no sockets, no time but what is paused."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from barnabas.client.cluster import Cluster
from barnabas.client.errors import ClientError, Unreachable
from barnabas.client.settings import ClientSettings
from barnabas.client.talk import Collect, Forget, Pause, Post, Reply
from barnabas.wire.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from barnabas.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

if TYPE_CHECKING:
    from collections.abc import Callable

SEED = ("seed", 1)


class Clock:
    """Stands still unless a conversation pauses."""

    def __init__(self) -> None:
        self.now = 1_000

    def now_ms(self) -> int:
        return self.now

    def monotonic_ms(self) -> int:
        return self.now

    def monotonic_ns(self) -> int:
        return self.now * 1_000_000


class World:
    """A cluster of brokers 1, 2, ... whose answers are functions by the name of the request.

    `on["Fetch"] = lambda request, address: ...` answers; an exception that is returned or raised is a link that broke.
    """

    def __init__(
        self, topics: dict[str, list[int]] | None = None, brokers: int = 2, **settings: Any
    ) -> None:
        #: Leader of each partition of each topic.
        self.topics = dict(topics or {})
        self.brokers = {each: (f"broker-{each}", 9092) for each in range(1, brokers + 1)}
        self.on: dict[str, Callable[[Any, Any], Any]] = {
            "Metadata": self.metadata,
            "FindCoordinator": self.coordinator,
        }
        self.clock = Clock()
        self.settings = ClientSettings(bootstrap=(SEED,)).replace(**settings)
        self.cluster = Cluster(self.settings, self.clock)
        self.asked: list[tuple[str, Any, Any]] = []
        self.coordinator_id = 1
        self.down: set[Any] = set()
        #: Are answers there as soon as they are looked for?
        self.is_prompt = True
        self._waiting: deque[tuple[int, Any]] = deque()
        self._ticket = 0
        self.forgotten: list[int] = []

    def names(self) -> list[str]:
        """Which requests were sent."""
        return [name for name, _, _ in self.asked]

    def requests(self, name: str) -> list[Any]:
        """The requests of a kind."""
        return [request for each, request, _ in self.asked if each == name]

    def run(self, talk: Any) -> Any:
        """Hold a conversation to its end."""
        outcome = None
        try:
            while True:
                outcome = self._do(talk.send(outcome))
        except StopIteration as end:
            return end.value

    def _do(self, effect: Any) -> Any:
        if isinstance(effect, Pause):
            self.clock.now += effect.duration_ms
            return None
        if isinstance(effect, Forget):
            self.forgotten.append(effect.ticket)
            return None
        if isinstance(effect, Collect):
            return self._collect(effect)
        assert isinstance(effect, Post)
        self._ticket += 1
        name = type(effect.request).__name__.removesuffix("Request")
        self.asked.append((name, effect.request, effect.address))
        self._waiting.append((self._ticket, effect))
        return self._ticket

    def _collect(self, effect: Collect) -> Reply | None:
        if not effect.wait and not self.is_prompt:
            return None
        for entry in self._waiting:
            ticket, post = entry
            if ticket in effect.tickets:
                self._waiting.remove(entry)
                return Reply(ticket, self._answer(post))
        raise AssertionError("a ticket that was never posted is waited for")

    def _answer(self, post: Post) -> Any:
        if post.address in self.down:
            return Unreachable(f"{post.address[0]}: connection refused")
        name = type(post.request).__name__.removesuffix("Request")
        try:
            return self.on[name](post.request, post.address)
        except ClientError as problem:
            return problem

    def metadata(self, request: Any, _address: Any) -> MetadataResponse:
        wanted = (
            [each.name for each in request.topics]
            if request.topics is not None
            else list(self.topics)
        )
        topics = []
        for name in wanted:
            leaders = self.topics.get(name)
            if leaders is None:
                topics.append(MetadataResponseTopic(error_code=3, name=name, partitions=[]))
                continue
            partitions = [
                MetadataResponsePartition(
                    error_code=0 if leader >= 0 else 5, partition_index=index, leader_id=leader,
                    replica_nodes=[], isr_nodes=[], offline_replicas=[],
                )
                for index, leader in enumerate(leaders)
            ]  # fmt: skip
            is_internal = name.startswith("__")
            topics.append(
                MetadataResponseTopic(name=name, is_internal=is_internal, partitions=partitions)
            )
        brokers = [
            MetadataResponseBroker(node_id=each, host=host, port=port)
            for each, (host, port) in self.brokers.items()
        ]
        return MetadataResponse(brokers=brokers, topics=topics)

    def coordinator(self, request: Any, _address: Any) -> FindCoordinatorResponse:
        host, port = self.brokers[self.coordinator_id]
        (key,) = request.coordinator_keys
        found = Coordinator(key=key, node_id=self.coordinator_id, host=host, port=port)
        return FindCoordinatorResponse(coordinators=[found])
