"""The cluster's topics as the group machines see them: `core.group.topic_view` over the node's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.group.topic_view import TopicInfo
from barnabas.model.ids import TopicId

if TYPE_CHECKING:
    from collections.abc import Iterable

    from barnabas.broker.node import Node
    from barnabas.model.cluster import Topic


class GroupTopics:
    """Answers from the node's topics at the moment of asking."""

    __slots__ = ("_node",)

    def __init__(self, node: Node) -> None:
        """Look at this node's topics."""
        self._node = node

    def by_name(self, name: str) -> TopicInfo | None:
        """Give the topic of that name, or None."""
        return self._info(self._node.topics.by_name.get(name))

    def by_id(self, topic_id: TopicId) -> TopicInfo | None:
        """Give the topic of that id, or None."""
        return self._info(self._node.topics.by_id.get(topic_id))

    def names(self) -> Iterable[str]:
        """Give every topic's name."""
        return list(self._node.topics.by_name)

    def _info(self, topic: Topic | None) -> TopicInfo | None:
        if topic is None:
            return None
        rack = self._node.rack
        count = len(topic.partitions)
        racks = () if rack is None else ((rack,),) * count
        return TopicInfo(TopicId(topic.id), topic.name, count, racks)
