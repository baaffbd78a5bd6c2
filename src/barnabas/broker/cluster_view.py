"""What this broker tells of the cluster: which brokers there are and where, who controls, who leads.

A lone broker tells of itself. A member of a cluster tells what the controller last said (`api/update_metadata.py`), so that any
broker can be asked; before it has said anything there is nothing to tell, and who asks is sent away, as one who finds no broker here.
Decides nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.broker.outcomes import GoElsewhere
from barnabas.model.errors import ErrorCode

if TYPE_CHECKING:
    from barnabas.broker.node import Node
    from barnabas.model.cluster import LiveBroker, Topic
    from barnabas.ports import Link

NOBODY: Final = -1


class Address(NamedTuple):
    """A broker as a client reaches it."""

    broker_id: int
    host: str
    port: int
    rack: str | None


class Leadership(NamedTuple):
    """Who leads a partition, as a client is told."""

    error_code: ErrorCode
    leader: int
    offline: list[int]


class ClusterView:
    """See the module."""

    def __init__(self, node: Node) -> None:
        """Know of nobody but this broker."""
        self._node = node
        #: The others and this one, by id; empty for a lone broker and before the controller has spoken.
        self.brokers: dict[int, LiveBroker] = {}
        self._controller_id = NOBODY

    @property
    def controller_id(self) -> int:
        """The controller as far as is known; a lone broker is its own."""
        return self._node.broker_id if self._node.is_lone else self._controller_id

    @controller_id.setter
    def controller_id(self, broker_id: int) -> None:
        self._controller_id = broker_id

    def live_ids(self) -> list[int]:
        """The brokers that live, in order."""
        return [self._node.broker_id] if self._node.is_lone else sorted(self.brokers)

    def addresses(self, link: Link) -> list[Address]:
        """Every broker that can be reached by the listener through which a client came.

        GoElsewhere before the controller has spoken: clients that are told of no brokers forget those that they know.
        """
        if not self.live_ids():
            raise GoElsewhere("the controller has not said yet who is in the cluster")
        found = [self.address_of(broker_id, link) for broker_id in self.live_ids()]
        return [address for address in found if address is not None]

    def address_of(self, broker_id: int, link: Link) -> Address | None:
        """Where a client reaches a broker; None if it is not there, or has no such listener."""
        node = self._node
        if broker_id == node.broker_id:
            return Address(broker_id, *node.address_for(link), node.rack)
        broker = self.brokers.get(broker_id)
        endpoint = None if broker is None else broker.endpoints.get(link.listener)
        if broker is None or endpoint is None:
            return None
        return Address(broker_id, *endpoint, broker.rack)

    def leadership(self, topic: Topic, index: int) -> Leadership:
        """Tell who leads a partition and which of its replicas cannot be used."""
        node, partition = self._node, topic.partitions[index]
        if node.is_lone:
            replica = node.replicas.get(topic.name, index)
            offline = list(partition.replicas) if replica is None or replica.offline else []
        else:
            offline = [
                broker_id
                for broker_id in partition.replicas
                if broker_id in partition.offline or broker_id not in self.brokers
            ]
        leader = partition.leader
        if leader == NOBODY or leader in offline:
            return Leadership(ErrorCode.LEADER_NOT_AVAILABLE, NOBODY, offline)
        return Leadership(ErrorCode.NONE, leader, offline)
