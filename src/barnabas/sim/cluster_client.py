"""What every client of a simulated cluster does: ask any broker who leads, then talk to leaders.

Job: a connection to each broker, made when it is needed; Metadata, again and again until it is known who leads. Must not know what
is sent or read: that is `cluster_producer`, `cluster_consumer` and `cluster_admin`.
Invariant: every request is answered once, with the response or with None when its outcome is unknown.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.sim.client import BACKOFF_US, REQUEST_TIMEOUT_US, Client
from barnabas.sim.violation import Violation
from barnabas.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from barnabas.sim.history import Key
    from barnabas.sim.network import Network
    from barnabas.sim.world import Booked


class _Wanted(NamedTuple):
    request: Any
    version: int
    answered: Callable[[Any], None]
    timeout_us: int


class Line(Client):
    """A connection to one broker, while somebody asks."""

    def __init__(self, owner: str, network: Network) -> None:
        """Start without a connection."""
        super().__init__(f"{owner}>{network.machine.name}", network)
        self._wanted: deque[_Wanted] = deque()

    def put(
        self,
        request: Any,  # noqa: ANN401
        version: int,
        answered: Callable[[Any], None],
        timeout_us: int = REQUEST_TIMEOUT_US,
    ) -> None:
        """Ask as soon as there is a connection; None is the answer if there is none to be had."""
        self._wanted.append(_Wanted(request, version, answered, timeout_us))
        if self.connection is not None:
            self.step()
        else:
            self.wake()

    def step(self) -> None:
        """Send what waits."""
        while self._wanted and self.connection is not None:
            request, version, answered, timeout_us = self._wanted.popleft()
            self.ask(request, version, answered, timeout_us=timeout_us)

    def on_refused(self) -> None:
        """Tell everybody who waits."""
        self._connecting = False
        wanted, self._wanted = self._wanted, deque()
        for one in wanted:
            one.answered(None)

    def wake_after_backoff(self) -> None:
        """Connect again only if somebody waits."""
        if self._wanted:
            super().wake_after_backoff()


class ClusterClient:
    """One process that talks to whoever leads."""

    def __init__(self, name: str, networks: Mapping[int, Network], topics: list[str]) -> None:
        """Know nothing of the cluster yet."""
        self.name = name
        self.scheduler = next(iter(networks.values())).scheduler
        self.chance = self.scheduler.chance(name)
        self.lines = {broker: Line(name, network) for broker, network in networks.items()}
        self.is_finished = False
        self.leaders: dict[Key, int] = {}
        self.epochs: dict[Key, int] = {}
        self.topic_ids: dict[str, bytes] = {}
        self.controller = -1
        self._topics = topics
        self._is_refreshing = False
        self._wake: Booked | None = None

    # For subclasses

    def step(self) -> None:
        """Do what can be done now."""
        raise NotImplementedError

    def any_line(self) -> Line:
        """Choose a broker to ask what any of them knows."""
        return self.chance.choice(list(self.lines.values()))

    def wake(self, delay_us: int = 0) -> None:
        """Book the next step; one that is booked stays."""
        if self._wake is None or self._wake.call is None:
            self._wake = self.scheduler.after(delay_us, f"{self.name} steps", self._on_wake)

    def wake_after_backoff(self) -> None:
        """Try again in a while."""
        self.wake(self.chance.randint(*BACKOFF_US))

    def hang_up(self) -> None:
        """Close all connections."""
        for line in self.lines.values():
            line.hang_up()

    def refresh(self) -> None:
        """Ask who leads; a step follows."""
        if not self._is_refreshing:
            self._is_refreshing = True
            self._ask()

    def _on_wake(self) -> None:
        if not self.is_finished:
            self.step()

    # Metadata

    def _ask(self) -> None:
        line = self.any_line()
        wanted = [MetadataRequestTopic(name=name) for name in self._topics]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
        line.put(request, self.chance.choice((10, 12, 13)), self._on_metadata)

    def _on_metadata(self, response: Any) -> None:  # noqa: ANN401
        self._is_refreshing = False
        if response is not None:
            if not response.brokers:  # a client that believes it knows nobody to ask any more
                raise Violation("a cluster has brokers", f"{self.name} was told of none")
            self.controller = response.controller_id
            for topic in response.topics:
                if not topic.error_code:
                    self.topic_ids[topic.name] = topic.topic_id
                    self._learn(topic)
        self.wake_after_backoff()

    def _learn(self, topic: Any) -> None:  # noqa: ANN401
        """Take over who leads, unless it is older than what is known (KIP-320)."""
        for partition in topic.partitions:
            key = (topic.name, partition.partition_index)
            if partition.leader_epoch < self.epochs.get(key, -1):
                continue
            self.epochs[key] = partition.leader_epoch
            if partition.leader_id in self.lines:
                self.leaders[key] = partition.leader_id
            else:
                self.leaders.pop(key, None)
