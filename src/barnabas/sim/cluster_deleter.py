"""Who makes and deletes topics in a simulated cluster, over and over under the same names, while brokers come and go.

Job: CreateTopics and DeleteTopics at any time. Must not know what comes of it: `cluster_checkers` look whether every broker
knows and hosts what the store has in the end, and nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from barnabas.sim.cluster_client import ClusterClient
from barnabas.sim.world import MS
from barnabas.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from barnabas.sim.network import Network

#: Enough that one which was deleted is not always made again.
_NAMES: Final = tuple(f"brief{number}" for number in range(8))
_TIMEOUT_MS: Final = 1500


class ClusterDeleter(ClusterClient):
    """Makes topics in order to delete them."""

    def __init__(self, networks: Mapping[int, Network]) -> None:
        """Have made nothing."""
        super().__init__("deleter", networks, list(_NAMES))
        self._is_asking = False
        self._is_resting = False

    def rest(self) -> None:
        """Ask for nothing more."""
        self._is_resting = True

    def step(self) -> None:
        """Make a topic, or delete one."""
        if self._is_asking or self._is_resting:
            return
        self._is_asking = True
        name = self.chance.choice(_NAMES)
        request: Any
        if self.chance.random() < 0.5:
            topic = CreatableTopic(
                name=name,
                num_partitions=self.chance.randint(1, 2),
                replication_factor=self.chance.randint(1, 3),
            )
            request, version = CreateTopicsRequest(topics=[topic], timeout_ms=_TIMEOUT_MS), 5
        else:
            request = DeleteTopicsRequest(topic_names=[name], timeout_ms=_TIMEOUT_MS)
            version = 5
        line = self.lines.get(self.controller) or self.any_line()
        line.put(request, version, self._on_answered)

    def _on_answered(self, _response: Any) -> None:  # noqa: ANN401
        self._is_asking = False
        if self.chance.random() < 0.5:
            self.refresh()
        else:
            self.wake(self.chance.randint(20 * MS, 700 * MS))
