"""What the controller orders: which partitions this broker leads, follows or gives up, and what it tells clients.

Job: carry orders out one after another, so that a later one never meets an earlier half done; refuse those of a controller that
has been replaced, or that were meant for an earlier life of this broker. Must not know why: `core/controller` decides.

Invariants: a replica leads only in an epoch that the controller gave it; an order with an older leader epoch changes nothing; nor does one
that its controller has given up: it can still arrive from a connection that was closed, after the orders that came over the next one.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Final

from barnabas.broker import log_opening, topic_deletion
from barnabas.broker.comparison import Comparison
from barnabas.broker.edge import call_all, report
from barnabas.broker.log_claims import log_id
from barnabas.broker.order_check import check_order, check_roles
from barnabas.broker.topic_learning import TopicLearning
from barnabas.broker.turns import Turns
from barnabas.model.cluster import LiveBroker, Partition
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import TopicPartition
from barnabas.ports import CoordinationError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from barnabas.broker.log_claims import LogId
    from barnabas.broker.node import Node
    from barnabas.broker.replicas import Replica
    from barnabas.broker.tasks import Done, Start, Task
    from barnabas.model.cluster import Topic
    from barnabas.wire.messages.leader_and_isr import (
        LeaderAndIsrPartitionState,
        LeaderAndIsrRequest,
        LeaderAndIsrTopicState,
    )
    from barnabas.wire.messages.stop_replica import StopReplicaPartitionState, StopReplicaRequest
    from barnabas.wire.messages.update_metadata import (
        UpdateMetadataPartitionState,
        UpdateMetadataRequest,
    )

log = logging.getLogger(__name__)

#: The leader of a partition whose topic is being deleted.
DELETED: Final = -2
#: Epochs of a StopReplica that need not be compared: none given, and a topic that is being deleted.
_ANY_EPOCH: Final = (-1, -2)
NOBODY: Final = -1
#: The broker epoch before the first registration.
NOT_REGISTERED: Final = -1
#: How long to wait before looking again whether this broker is registered, or a log still being cut.
_LOOK_AGAIN_MS: Final = 10

Codes = dict[TopicPartition, ErrorCode]


class Orders:
    """See the module."""

    def __init__(self, node: Node) -> None:
        """Have heard of no controller."""
        self._node = node
        self.controller_epoch = 0
        #: Controller epoch, broker epoch and number of the last order that counted.
        self._last = (0, NOT_REGISTERED, 0)
        #: Replicas that could not take their role: the epoch could not be written down for now.
        self._untaken: dict[LogId, None] = {}
        #: Leader epochs that were known when the store was found to have gone back: an order must be of a later one.
        self._outlived: dict[LogId, int] = {}
        #: Ids of topics that were known then: a store that does not have them has forgotten them.
        self._outlived_topics: dict[bytes, None] = {}
        #: One order at a time, and whoever else changes what is hosted and known.
        self.turns = Turns()
        #: Topics that are new here.
        self.learning = TopicLearning(node)
        #: What went while nobody could tell.
        self.comparison = Comparison(node)
        self._watchers: list[tuple[Callable[[], bool], Done]] = []

    def refusal(
        self, controller_id: int, controller_epoch: int, broker_epoch: int, number: int
    ) -> ErrorCode:
        """Tell whether an order does not count; one that does makes its sender the controller.

        `number` is its correlation id: these rise from one order to the next, over connections, as long as neither epoch changes.
        """
        if controller_epoch < self.controller_epoch:
            log.warning(
                "refused an order of broker %d, controller in epoch %d: now is %d",
                controller_id, controller_epoch, self.controller_epoch,
            )  # fmt: skip
            return ErrorCode.STALE_CONTROLLER_EPOCH
        if -1 < broker_epoch < self._node.members.broker_epoch:
            return ErrorCode.STALE_BROKER_EPOCH
        if broker_epoch >= 0:
            order = (controller_epoch, broker_epoch, number)
            if order < self._last:
                log.warning(
                    "refused order %d of broker %d: it came after order %d",
                    number, controller_id, self._last[2],
                )  # fmt: skip
                return ErrorCode.STALE_CONTROLLER_EPOCH
            self._last = order
        self.controller_epoch = controller_epoch
        self._node.cluster.controller_id = controller_id
        self.comparison.on_order(controller_epoch)
        return ErrorCode.NONE

    def _refuse(
        self, request: LeaderAndIsrRequest | StopReplicaRequest | UpdateMetadataRequest, number: int
    ) -> ErrorCode:
        if not self._node.members.may_be_ordered:
            return ErrorCode.STALE_BROKER_EPOCH  # it stops, and was not registered in time
        return self.refusal(
            request.controller_id, request.controller_epoch, request.broker_epoch, number
        )

    def _until_registered(self) -> Task[None]:
        """Wait with orders until this broker is registered. The controller may not know yet that the previous registration is over:
        an order for it would look like one for the next. As in Kafka none is taken before.
        """
        node, members = self._node, self._node.members
        while not members.may_be_ordered and not node.stopping:
            yield partial(node.pause, _LOOK_AGAIN_MS)

    # LeaderAndIsr

    def lead_and_follow(self, request: LeaderAndIsrRequest, number: int) -> Task[Codes | ErrorCode]:
        """Take over the roles that an order names; what became of each partition, or why the order does not count."""
        check_roles(request.topic_states)
        yield self.turns.take
        try:
            yield from self._until_registered()
            if code := self._refuse(request, number):
                return code
            epoch = self._node.members.broker_epoch
            yield from self._give_up_namesakes(request.topic_states)
            yield from self.learning.learn({t.topic_name: t.topic_id for t in request.topic_states})
            codes: Codes = {}
            topics = [each for each in request.topic_states if self._is_known(each, codes)]
            yield from self._open_missing(topics, codes)
            for topic in topics:
                for state in topic.partition_states:
                    key = TopicPartition(topic.topic_name, state.partition_index)
                    yield from self._until_cut(key)
                    members = self._node.members
                    if not members.may_be_ordered or members.broker_epoch != epoch:
                        yield from self._until_registered()
                        if code := self._refuse(request, number):
                            return code
                    if key not in codes:
                        codes[key] = self._take_role_alone(key, topic.topic_id, state)
            return codes
        finally:
            self.turns.give()

    def _give_up_namesakes(self, topics: Sequence[LeaderAndIsrTopicState]) -> Task[None]:
        """Give up replicas of topics that were deleted and made again without a word to this broker, if the store says so, too."""
        ids = {topic.topic_name: topic.topic_id for topic in topics}
        names = [
            name
            for name, id_ in ids.items()
            if any(replica.topic.id != id_ for replica in self._node.replicas.of_topic(name))
        ]
        try:
            yield from self.comparison.look_at(names)
        except (OSError, CoordinationError) as problem:
            log.warning("cannot find out whether %s was made again: %s", names[0], problem)

    def _is_known(self, topic: LeaderAndIsrTopicState, codes: Codes) -> bool:
        """Refuse the partitions of a topic whose settings make no sense."""
        known = self._node.topics.by_name.get(topic.topic_name)
        if known is not None and known.id == topic.topic_id:
            return True
        for state in topic.partition_states:
            key = TopicPartition(topic.topic_name, state.partition_index)
            codes[key] = ErrorCode.INVALID_CONFIG
        return False

    def _until_cut(self, key: TopicPartition) -> Task[None]:
        """Wait while a log is being cut for the leader before: in its next role it appends.

        A cut that only waits for the log's claim is not waited for: it is void with the tenure that this order ends.
        """
        replica = self._node.replicas.get(*key)
        while replica is not None and replica.is_cutting:
            yield partial(self._node.pause, _LOOK_AGAIN_MS)

    def _open_missing(self, topics: Sequence[LeaderAndIsrTopicState], codes: Codes) -> Task[None]:
        """Open or make the logs of replicas that are not hosted yet."""
        node = self._node
        for topic_state in topics:
            topic = node.topics.by_name[topic_state.topic_name]
            for state in topic_state.partition_states:
                _put_partition(topic, state.partition_index, _partition(state))
            missing = [
                state
                for state in topic_state.partition_states
                if node.replicas.get(topic.name, state.partition_index) is None
            ]
            for state in missing:
                key = TopicPartition(topic.name, state.partition_index)
                index = state.partition_index
                try:
                    replicas = yield from log_opening.open_replicas(
                        node, topic, range(index, index + 1), are_new=state.is_new
                    )
                except OSError as problem:
                    log.error("%s: cannot open its log: %s", key, problem)
                    log_opening.give_up(node, problem)
                    codes[key] = ErrorCode.KAFKA_STORAGE_ERROR
                    continue
                for replica in replicas:
                    node.replicas.add(replica)

    def _take_role_alone(
        self, key: TopicPartition, topic_id: bytes, told: LeaderAndIsrPartitionState
    ) -> ErrorCode:
        """Take one role. A fault keeps no other partition of the order from its role."""
        try:
            return self._take_role(key, topic_id, told)
        except Exception as fault:  # noqa: BLE001  (an edge: the partition's)
            report(self._node.world, f"the role of {key}", fault)
            return ErrorCode.UNKNOWN_SERVER_ERROR

    def _take_role(
        self, key: TopicPartition, topic_id: bytes, told: LeaderAndIsrPartitionState
    ) -> ErrorCode:
        node = self._node
        replica = node.replicas.get(*key)
        if replica is None:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if replica.topic.id != topic_id:
            return ErrorCode.INCONSISTENT_TOPIC_ID
        state = replica.state
        if self._is_past(replica, told):
            log.error(
                "%s: refused to be led by broker %d in epoch %d: here epoch %d is known, and the log has records of epoch %d."
                " If ZooKeeper was put back to an older state, the controller finds out who must lead",
                key, told.leader, told.leader_epoch, state.leader_epoch, replica.log.epochs.latest,
            )  # fmt: skip
            # Not STALE_CONTROLLER_EPOCH: Kafka's brokers answer that to an epoch that they have, too, which is no cause for alarm.
            return ErrorCode.FENCED_LEADER_EPOCH
        self._outlived.pop(log_id(replica), None)
        state.min_in_sync = replica.config.min_insync_replicas
        state.lag_max_ms = node.config.get_int("replica.lag.time.max.ms")
        try:
            if told.leader != node.broker_id:
                self._follow(replica, told)
            elif not replica.offline:
                self._lead(replica, told)
        except OSError as problem:
            replica.on_disk_error(problem, "begin an epoch")
            if not replica.offline:  # the disk is full, say: the controller is to ask again
                self._untaken[log_id(replica)] = None
                return ErrorCode.KAFKA_STORAGE_ERROR
        self._untaken.pop(log_id(replica), None)
        return ErrorCode.KAFKA_STORAGE_ERROR if replica.offline else ErrorCode.NONE

    def on_gone_back(self) -> None:
        """Hear that the store was put back to an older state: what it says of epochs that are known here may be about others."""
        self._outlived |= {
            log_id(replica): replica.state.leader_epoch for replica in self._node.replicas
        }
        self._outlived_topics |= dict.fromkeys(self._node.topics.by_id)

    def is_outlived(self, replica: Replica) -> bool:
        """Tell whether nothing newer was heard of a partition since the store was put back: what is known here and what it holds do not fit."""
        return log_id(replica) in self._outlived

    @property
    def outlived(self) -> list[TopicPartition]:
        """List these partitions."""
        return [replica.key for replica in self._node.replicas if self.is_outlived(replica)]

    def has_untaken(self) -> bool:
        """Tell whether a hosted replica could not take its role for a reason that may have passed."""
        return any(log_id(replica) in self._untaken for replica in self._node.replicas)

    def has_outlived(self, topic_id: bytes) -> bool:
        """Tell whether a topic was known when the store was put back: it may be missing there, and is not deleted."""
        return topic_id in self._outlived_topics

    def _is_past(self, replica: Replica, told: LeaderAndIsrPartitionState) -> bool:
        """Tell whether a role is older than what is known here: whoever took it would give up records of later leaders.

        Kafka compares what it was told since it started, and lets a broker lead in an epoch before the last one of its log.
        """
        state = replica.state
        if told.leader_epoch <= self._outlived.get(log_id(replica), -1):
            return True
        if told.leader_epoch == state.leader_epoch:
            return told.leader != state.leader
        return told.leader_epoch < max(state.leader_epoch, replica.log.epochs.latest)

    def _lead(self, replica: Replica, told: LeaderAndIsrPartitionState) -> None:
        node, state, log_ = self._node, replica.state, replica.log
        was_leader = state.is_leader
        if told.leader_epoch > state.leader_epoch:
            node.members.fetchers.leave(replica.key)
        is_news = replica.lead(
            leader_epoch=told.leader_epoch, partition_epoch=told.partition_epoch,
            replicas=told.replicas, in_sync=told.isr, now_ms=node.world.clock.monotonic_ms(),
        )  # fmt: skip
        if not is_news:
            return
        log.info(
            "%s: leads in epoch %d from offset %d, in sync %s",
            replica.key, told.leader_epoch, log_.log_end_offset, told.isr,
        )  # fmt: skip
        self._on_leading(replica, was_leader=was_leader)

    def _on_leading(self, replica: Replica, *, was_leader: bool) -> None:
        node, state, log_ = self._node, replica.state, replica.log
        if state.on_end_offset(log_.log_end_offset):
            replica.on_high_watermark()
        _let_look_again(replica)
        if not was_leader:
            node.coordinators.on_opened(replica)
            node.transactions.on_opened(replica)

    def lay_down(self) -> None:
        """Serve nothing that this broker leads until it is told to lead it: the session with the store is over, or may be.

        Exception: what a store that was put back has forgotten is still served, since no other broker leads it.
        """
        node = self._node
        led = [
            each
            for each in node.replicas
            if each.state.is_leader and not each.offline and not self.is_outlived(each)
        ]
        if led:
            log.warning("%d partitions that this broker leads are served no longer", len(led))
        # Whatever becomes of one of them, none goes on.
        call_all(partial(self._lay_one_down, replica) for replica in led)

    def _lay_one_down(self, replica: Replica) -> None:
        replica.lay_down()
        self._node.coordinators.on_following(replica)
        self._node.transactions.on_following(replica)
        _let_look_again(replica)

    def take_up(self) -> None:
        """Go on with what was laid down: the session was not over, so nobody else leads it."""
        node = self._node
        laid = [each for each in node.replicas if each.state.is_laid_down and not each.offline]
        for replica in laid:
            state = replica.state
            replica.lead(
                leader_epoch=state.leader_epoch, partition_epoch=state.partition_epoch,
                replicas=state.replicas, in_sync=state.in_sync, now_ms=node.world.clock.monotonic_ms(),
            )  # fmt: skip
            self._on_leading(replica, was_leader=False)
        if laid:
            log.warning("%d partitions that this broker leads are served again", len(laid))

    def _follow(self, replica: Replica, told: LeaderAndIsrPartitionState) -> None:
        node, state = self._node, replica.state
        before = (state.leader, state.leader_epoch)
        is_news = replica.follow(
            leader=told.leader, leader_epoch=told.leader_epoch,
            partition_epoch=told.partition_epoch, replicas=told.replicas, in_sync=told.isr,
        )  # fmt: skip
        if not is_news:
            return
        if before != (told.leader, told.leader_epoch):
            log.info(
                "%s: follows broker %d in epoch %d", replica.key, told.leader, told.leader_epoch
            )
            node.coordinators.on_following(replica)
            node.transactions.on_following(replica)
            if told.leader == NOBODY:
                node.members.fetchers.leave(replica.key)
            else:
                node.members.fetchers.follow(replica)
        _let_look_again(replica)

    # StopReplica

    def stop(self, request: StopReplicaRequest, number: int) -> Task[Codes | ErrorCode]:
        """Give partitions up; with `delete_partition` their logs, too."""
        yield self.turns.take
        try:
            yield from self._until_registered()
            if code := self._refuse(request, number):
                return code
            codes: Codes = {}
            to_delete: list[Replica] = []
            for topic in request.topic_states:
                for state in topic.partition_states:
                    key = TopicPartition(topic.topic_name, state.partition_index)
                    codes[key] = self._stop(key, state, to_delete)
            if to_delete:
                yield from topic_deletion.set_aside(self._node, to_delete)
            return codes
        finally:
            self.turns.give()

    def _stop(
        self, key: TopicPartition, told: StopReplicaPartitionState, to_delete: list[Replica]
    ) -> ErrorCode:
        node = self._node
        replica = node.replicas.get(*key)
        if replica is None:
            return ErrorCode.NONE
        epoch = replica.state.leader_epoch
        if told.leader_epoch not in _ANY_EPOCH and told.leader_epoch < epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if replica.offline and told.delete_partition:
            return ErrorCode.KAFKA_STORAGE_ERROR
        node.members.fetchers.leave(key)
        if told.delete_partition:
            self.give_up(replica)
            to_delete.append(replica)
        return ErrorCode.NONE

    def give_up(self, replica: Replica) -> None:
        """Host a replica no more; its log is to be set aside."""
        node = self._node
        node.members.fetchers.leave(replica.key)
        node.replicas.drop(replica.key)
        node.coordinators.on_following(replica)
        node.transactions.on_following(replica)

    # UpdateMetadata

    def update_metadata(self, request: UpdateMetadataRequest, number: int) -> Task[ErrorCode]:
        """Take over what clients are to be told of the cluster."""
        check_order(request.topic_states)
        yield self.turns.take
        try:
            yield from self._until_registered()
            if code := self._refuse(request, number):
                return code
            yield from self.learning.learn(
                {
                    topic.topic_name: topic.topic_id
                    for topic in request.topic_states
                    if any(state.leader != DELETED for state in topic.partition_states)
                }
            )
            self._take_brokers(request)
            for topic in request.topic_states:
                self._take_topic(topic.topic_name, topic.topic_id, topic.partition_states)
        finally:
            self.turns.give()
        self.call_watchers()
        return ErrorCode.NONE

    def _take_brokers(self, request: UpdateMetadataRequest) -> None:
        brokers = {
            broker.id_: LiveBroker(
                broker.id_,
                rack=broker.rack,
                endpoints={
                    endpoint.listener: (endpoint.host, endpoint.port)
                    for endpoint in broker.endpoints
                },
            )
            for broker in request.live_brokers
        }
        self._node.cluster.brokers = brokers
        self._node.transactions.on_brokers(brokers)

    def _take_topic(
        self, name: str, topic_id: bytes, states: Sequence[UpdateMetadataPartitionState]
    ) -> None:
        node = self._node
        topic = node.topics.by_name.get(name)
        if topic is None or topic.id != topic_id:  # deleted, and perhaps made again
            if any(state.leader == DELETED for state in states):
                node.coordinators.on_id_deleted(name, topic_id)
            return
        gone = 0
        for state in states:
            if state.leader == DELETED:
                gone += 1
            else:
                _put_partition(topic, state.partition_index, _metadata_partition(state))
        if gone:
            self.forget(topic)
        else:
            node.coordinators.on_topic_known(topic)
            node.transactions.on_topic_known(topic)
            node.coordinators.on_topics_changed(name)

    def forget(self, topic: Topic) -> None:
        """Tell nobody of a topic any more: it was deleted. `call_watchers` comes after the last one."""
        node = self._node
        node.topics.drop(topic)
        node.coordinators.on_topic_deleted(topic)
        node.transactions.on_topic_deleted(topic)

    # Waiting for what clients are told

    def told(self, condition: Callable[[], bool], deadline_ms: int) -> Start:
        """Wait in a task until what clients are told is so, or the time is over: the answer tells which."""

        def start(done: Done) -> None:
            if condition():
                done(True, None)
                return
            entry = (condition, done)
            self._watchers.append(entry)

            def expire() -> None:
                if entry in self._watchers:
                    self._watchers.remove(entry)
                    done(False, None)

            self._node.world.timers.call_at(deadline_ms, expire)

        return start

    def call_watchers(self) -> None:
        """Let those go on who waited for what clients are told now."""
        ready = [entry for entry in self._watchers if entry[0]()]
        for entry in ready:
            self._watchers.remove(entry)
        call_all(partial(done, True, None) for _condition, done in ready)


def _let_look_again(replica: Replica) -> None:
    """Wake everybody who relies on the role as it was."""
    replica.settle()
    replica.wake_readers()


def _put_partition(topic: Topic, index: int, partition: Partition) -> None:
    """Put a partition at its place; those before it that nobody has spoken of yet have no leader."""
    while len(topic.partitions) <= index:
        topic.partitions.append(Partition((), NOBODY))
    topic.partitions[index] = partition


def _partition(state: LeaderAndIsrPartitionState) -> Partition:
    return Partition(tuple(state.replicas), state.leader, state.leader_epoch, tuple(state.isr))


def _metadata_partition(state: UpdateMetadataPartitionState) -> Partition:
    return Partition(
        tuple(state.replicas),
        state.leader,
        state.leader_epoch,
        tuple(state.isr),
        tuple(state.offline_replicas),
    )
