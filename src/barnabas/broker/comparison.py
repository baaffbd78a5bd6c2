"""What a broker hosts and knows, held against the store: once after each registration, and once for each controller.

Job: find topics and replicas that went while nobody could tell this broker so, and give them up. Must not know why: `core/controller` decides where
replicas are, and tells those who are there.

| the store says of a replica that is hosted here                       | its log                                                          |
|-----------------------------------------------------------------------|------------------------------------------------------------------|
| its partition is elsewhere, with leaders after all that are known here | is deleted, as by the StopReplica that was missed                |
| its topic is gone, or another one has its name, or it is elsewhere and no later leader is known | is set aside as `-stray` and kept, as at a start: the store may have been put back |
| the same, and the store is known to have been put back since           | stays, and is served: the store has forgotten what it was         |

A controller tells a broker about everything that happens once it knows of that registration, and of nothing that was over before. So the comparison
begins with its first order. It runs beside the orders: a broker that registers again leads nothing but what it is told afterwards
(`members.py`), so what is given up here serves nobody.

Invariants: only what was known here before the store was read is given up, and no replica whose tenure ended meanwhile, because another role was ordered.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from barnabas.broker import cluster_znodes, store, topic_deletion, znodes
from barnabas.broker.tasks import drive
from barnabas.model.ids import topic_id_from_text
from barnabas.ports import Check, CoordinationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from barnabas.broker.node import Node
    from barnabas.broker.replicas import Replica
    from barnabas.broker.tasks import Task
    from barnabas.broker.tenure import Tenure
    from barnabas.model.cluster import Topic
    from barnabas.ports import ZNode

log = logging.getLogger(__name__)

#: How long to wait before the store is asked again that could not be reached.
_RETRY_MS: Final = 200
NEVER: Final = (-1, -1)


class Comparison:
    """See the module."""

    def __init__(self, node: Node) -> None:
        """Have compared nothing."""
        self._node = node
        #: Controller epoch and broker epoch of the comparison that is wanted, and of the last one that was completed.
        self._wanted = self._done = NEVER
        self._is_running = False

    def on_order(self, controller_epoch: int) -> None:
        """Take note of an order that counts. The first one from a controller, or after a registration, starts a comparison."""
        wanted = (controller_epoch, self._node.members.broker_epoch)
        if wanted == self._wanted:
            return
        self._wanted = wanted
        if not self._is_running:
            self._is_running = True
            drive(self._run(), self._on_end)

    def _on_end(self, _result: Any, problem: BaseException | None) -> None:  # noqa: ANN401
        self._is_running = False
        if problem is not None:
            log.error("what is hosted cannot be compared with the store", exc_info=problem)

    def _run(self) -> Task[None]:
        node = self._node
        while self._done != self._wanted and not node.stopping:
            wanted = self._wanted
            try:
                yield from self._compare()
            except (OSError, CoordinationError) as problem:
                log.warning("what is hosted here cannot be compared with the store: %s", problem)
                yield partial(node.pause, _RETRY_MS)
            else:
                self._done = wanted

    def _compare(self) -> Task[None]:
        node = self._node
        topics = list(node.topics.by_name.values())
        hosted = [(replica, replica.tenure) for replica in node.replicas]
        # A commit that changes nothing: what is read after it is no older than what controllers have told until now.
        yield partial(node.world.coordination.commit, [Check(znodes.CLUSTER_ID)])
        names = yield partial(node.world.coordination.read_children, znodes.TOPICS)
        gone = _without(topics, set(names or ()))
        stored = yield from self._read_topics(replica for replica, _tenure in hosted)
        strays = [one for one in hosted if self._is_stray(one[0], stored)]
        if gone or strays:
            yield from self._give_up(gone, strays)

    def look_at(self, names: Iterable[str]) -> Task[None]:
        """Give up replicas of these topics if the store assigns them to other brokers or has another topic id. An order calls this in its turn."""
        hosted = [replica for name in names for replica in self._node.replicas.of_topic(name)]
        if not hosted:
            return
        yield partial(self._node.world.coordination.commit, [Check(znodes.CLUSTER_ID)])
        yield from self._drop(hosted)

    def _read_topics(self, hosted: Iterable[Replica]) -> Task[dict[str, ZNode | None]]:
        names = dict.fromkeys(replica.key.topic for replica in hosted)
        return (yield from store.read_all(self._node, [*map(cluster_znodes.topic_path, names)]))

    def _is_stray(self, replica: Replica, stored: Mapping[str, ZNode | None]) -> bool:
        found = stored[cluster_znodes.topic_path(replica.key.topic)]
        if found is None:
            return True
        try:
            topic = cluster_znodes.read_topic(found)
        except znodes.SENSELESS as problem:
            log.error("where %s should be makes no sense: %r", replica.key, problem)
            return False
        holders = topic.replicas.get(replica.key.partition, ())
        return (
            topic_id_from_text(topic.id_text) != replica.topic.id
            or self._node.broker_id not in holders
        )

    def _give_up(self, gone: list[Topic], strays: list[tuple[Replica, Tenure]]) -> Task[None]:
        node = self._node
        orders = node.members.orders
        yield orders.turns.take
        try:
            yield from self._drop([replica for replica, tenure in strays if not tenure.is_over])
            for topic in gone:
                is_known = node.topics.by_id.get(topic.id) is topic
                if is_known and not orders.has_outlived(topic.id):
                    log.warning("topic %s was deleted while this broker was away", topic.name)
                    orders.forget(topic)
        finally:
            orders.turns.give()
        orders.call_watchers()

    def _drop(self, hosted: list[Replica]) -> Task[None]:
        """Read the store again, and give up those replicas that are strays by what it has now."""
        node = self._node
        if not hosted:
            return
        stored = yield from self._read_topics(hosted)
        strays = [each for each in hosted if self._is_stray(each, stored)]
        states = [cluster_znodes.state_path(*replica.key) for replica in strays]
        found = yield from store.read_all(node, states)
        left: list[Replica] = []
        kept: list[Replica] = []
        for replica, path in zip(strays, states, strict=True):
            if replica.offline:
                continue  # its disk failed, or it was dropped meanwhile
            is_left = _is_left_behind(replica, stored, found[path])
            if not is_left and node.members.orders.is_outlived(replica):
                continue
            log.warning(
                "%s is not here by the store: its log is %s",
                replica.key, "deleted" if is_left else "set aside as -stray, and kept",
            )  # fmt: skip
            node.members.orders.give_up(replica)
            (left if is_left else kept).append(replica)
        if left:
            yield from topic_deletion.set_aside(node, left)
        if kept:
            yield from topic_deletion.set_aside(node, kept, are_strays=True)


def _without(topics: Iterable[Topic], names: set[str]) -> list[Topic]:
    return [topic for topic in topics if topic.name not in names]


def _is_left_behind(
    replica: Replica, stored: Mapping[str, ZNode | None], state: ZNode | None
) -> bool:
    """Tell whether the others went on without this replica: then they have all that was committed."""
    topic = stored[cluster_znodes.topic_path(replica.key.topic)]
    if topic is None or state is None:
        return False
    if topic_id_from_text(cluster_znodes.read_topic(topic).id_text) != replica.topic.id:
        return False
    known = max(replica.state.leader_epoch, replica.log.epochs.latest)
    try:
        return cluster_znodes.read_state(state).leader_epoch > known
    except znodes.SENSELESS as problem:
        log.error("who leads %s makes no sense in the store: %r", replica.key, problem)
        return False
