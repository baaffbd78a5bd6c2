"""What the controller has to tell each broker: roles, what clients are told, what to give up.

Job: one request under way per broker, in order, repeated until it answers or its registration ends; made when it is sent, from what
is known then, so that nothing told is older than what was decided. Must not decide anything: `core/controller` does, and hears the answers.
"""

from __future__ import annotations

import logging
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from barnabas.broker.channel import Channel, Unreachable
from barnabas.broker.edge import report
from barnabas.broker.log_ends import ask_ends
from barnabas.broker.orders import DELETED
from barnabas.broker.tasks import drive
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import TopicPartition
from barnabas.wire.messages.leader_and_isr import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from barnabas.wire.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from barnabas.wire.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from barnabas.broker.controller import Office
    from barnabas.broker.node import Node
    from barnabas.broker.tasks import Task
    from barnabas.core.controller.effects import Effects, Forgotten, Stop
    from barnabas.core.controller.view import PartitionView
    from barnabas.model.cluster import LiveBroker
    from barnabas.wire.messages.leader_and_isr import LeaderAndIsrResponse
    from barnabas.wire.messages.stop_replica import StopReplicaResponse

log = logging.getLogger(__name__)

LEADER_AND_ISR_VERSION: Final = 7
STOP_REPLICA_VERSION: Final = 4
UPDATE_METADATA_VERSION: Final = 8
#: Partitions in one request: a large cluster is told in pieces.
PARTITIONS_MAX: Final = 5_000
#: Topics that are gone in one request.
GONE_MAX: Final = 500
#: How long to wait before a broker is told again that believes in a later controller.
REFUSED_MS: Final = 10_000
#: How long to leave a broker alone after a fault, of ours or of its own.
FAULT_PAUSE_MS: Final = 1_000
#: How long to wait before a broker is asked again for the ends of logs that it cannot tell.
UNKNOWN_END_MS: Final = 1_000
#: By their numbers.
_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


class Telling:
    """Everybody who is to be told, in one term of office."""

    def __init__(self, node: Node, office: Office) -> None:
        """Tell nobody yet."""
        self._node = node
        self._office = office
        self._listeners: dict[int, _Listener] = {}

    def on_brokers(self, live: Mapping[int, LiveBroker]) -> None:
        """Talk to those who live now; one that came back is another one."""
        for broker_id in list(self._listeners):
            listener = self._listeners[broker_id]
            if live.get(broker_id) != listener.broker:
                listener.close()
                del self._listeners[broker_id]
        for broker in live.values():
            if broker.id not in self._listeners:
                self._listeners[broker.id] = _Listener(self._node, self._office, broker)

    def carry_out(self, effects: Effects) -> None:
        """Let everybody know who is concerned."""
        self._give_orders(effects)
        for broker_id in effects.announce_all_to:
            listener = self._listeners.get(broker_id)
            if listener is not None:
                listener.news.update((p.id, None) for p in self._office.machine.view.partitions())
        for listener in self._listeners.values():
            for topic in effects.forgotten:
                listener.forget(topic)
            listener.news.update(effects.announce)
            listener.is_brokers_due = listener.is_brokers_due or effects.announce_brokers
            listener.go_on()

    def _give_orders(self, effects: Effects) -> None:
        for tell in effects.tell:
            listener = self._listeners.get(tell.broker)
            if listener is not None:
                is_new = tell.is_new or listener.roles.get(tell.partition, False)
                listener.roles[tell.partition] = is_new
                listener.forget_stops(tell.partition)
        for stop in effects.stop:
            listener = self._listeners.get(stop.broker)
            if listener is not None:
                listener.stops[stop] = None
        for ask in effects.ask:
            listener = self._listeners.get(ask.broker)
            if listener is not None:
                listener.asked[ask.partition] = None

    def close(self) -> None:
        """Tell nobody any more."""
        for listener in self._listeners.values():
            listener.close()
        self._listeners.clear()


class _Listener:
    """One broker, and what it has not been told yet."""

    def __init__(self, node: Node, office: Office, broker: LiveBroker) -> None:
        self.broker = broker
        self._node = node
        self._office = office
        endpoint = node.members.inter_broker_endpoint(broker)
        self._channel = Channel(
            node.world, broker.id, lambda: endpoint, f"controller-{node.broker_id}",
            node.config.get_int("controller.socket.timeout.ms"),
        )  # fmt: skip
        #: Partitions whose role it is to be told, and whether the replica is new.
        self.roles: dict[TopicPartition, bool] = {}
        self.news: dict[TopicPartition, None] = {}
        self.stops: dict[Stop, None] = {}
        #: Topics that the view has no longer, by id. The broker may not know that they are gone.
        self.gone: dict[bytes, Forgotten] = {}
        #: Ids of topics that are being deleted. The broker has been told that they are.
        self._told_deleted: dict[bytes, None] = {}
        #: Partitions of which it is to tell how far its log goes.
        self.asked: dict[TopicPartition, None] = {}
        self.is_brokers_due = True
        self._is_telling = False
        self._is_closed = False

    def close(self) -> None:
        self._is_closed = True
        self._channel.close()

    def forget_stops(self, partition: TopicPartition) -> None:
        """Drop what it was to give up and has a role in again."""
        for stop in [each for each in self.stops if each.partition == partition]:
            del self.stops[stop]

    def forget(self, topic: Forgotten) -> None:
        """Have the broker told that a topic is gone, unless it knows."""
        if topic.topic_id in self._told_deleted:
            del self._told_deleted[topic.topic_id]
        else:
            self.gone[topic.topic_id] = topic

    def go_on(self) -> None:
        """Tell what there is to tell, unless that is being done."""
        if self._is_telling or self._is_closed:
            return
        self._is_telling = True
        drive(self._tell(), self._on_end)

    def _on_end(self, _result: Any, problem: BaseException | None) -> None:  # noqa: ANN401
        self._is_telling = False
        if isinstance(problem, Exception) and not self._is_closed:
            node = self._node
            report(node.world, f"broker {self.broker.id} cannot be told", problem)
            node.world.timers.call_at(node.world.clock.monotonic_ms() + FAULT_PAUSE_MS, self.go_on)

    def _tell(self) -> Task[None]:
        while not self._is_closed and (
            self.is_brokers_due or self.roles or self.asked or self.gone or self.news or self.stops
        ):
            if self.is_brokers_due:
                self.is_brokers_due = False
                is_told = False
                try:
                    is_told = yield from self._tell_news([])
                finally:
                    self.is_brokers_due = self.is_brokers_due or not is_told
            elif self.roles:
                yield from self._tell_roles()
            elif self.asked:
                yield from self._ask_ends()
            elif self.gone:
                yield from self._tell_gone()
            elif self.news:
                some = list(self.news)[:PARTITIONS_MAX]
                for key in some:
                    del self.news[key]
                is_told = False
                try:
                    is_told = yield from self._tell_news(some)
                finally:
                    if not is_told:
                        self.news.update(dict.fromkeys(some))
            else:
                yield from self._tell_stops()

    def _ask(self, request: Any, version: int) -> Task[Any]:  # noqa: ANN401
        """Ask once; None if there was no answer, or the order does not count."""
        try:
            response = yield self._channel.asking(request, version)
        except Unreachable as problem:
            if not self._is_closed:
                log.warning("controller: %s", problem)
            return None
        code = ErrorCode(response.error_code)
        if code == ErrorCode.STALE_CONTROLLER_EPOCH:
            # As in Kafka its word alone ends no term: the store knows better what epoch it is.
            log.error(
                "broker %d refuses the orders of epoch %d: it has heard a later one",
                self.broker.id, self._office.epoch,
            )  # fmt: skip
            self._office.on_order_refused()
            yield partial(self._node.pause, REFUSED_MS)
            return None
        if code == ErrorCode.STALE_BROKER_EPOCH:
            self.close()  # it has registered again, and is told as another one
            return None
        if code:
            log.error(
                "broker %d refuses an order, which is repeated: %s", self.broker.id, code.name
            )
            yield partial(self._node.pause, FAULT_PAUSE_MS)
            return None
        return response

    # Roles

    def _tell_roles(self) -> Task[None]:
        some = dict(list(self.roles.items())[:PARTITIONS_MAX])
        for key in some:
            del self.roles[key]
        request = self._roles_request(some)
        if not request.topic_states:
            return
        is_told = False
        try:
            response = yield from self._ask(request, LEADER_AND_ISR_VERSION)
            if response is not None:
                self._on_roles_answered(request, response)
                is_told = True
        finally:
            if not is_told:
                for key, is_new in some.items():
                    self.roles[key] = is_new or self.roles.get(key, False)

    def _on_roles_answered(
        self, request: LeaderAndIsrRequest, response: LeaderAndIsrResponse
    ) -> None:
        names = {topic.topic_id: topic.topic_name for topic in request.topic_states}
        offline, online, refused = [], [], []
        for topic in response.topics:
            name = names.get(topic.topic_id)
            if name is None:
                continue  # not one that was asked about
            for partition in topic.partition_errors:
                key = TopicPartition(name, partition.partition_index)
                code = ErrorCode(partition.error_code)
                if code == ErrorCode.KAFKA_STORAGE_ERROR:
                    offline.append(key)
                elif code == ErrorCode.FENCED_LEADER_EPOCH:
                    refused.append(key)
                elif code:
                    log.warning("broker %d, %s: %s", self.broker.id, key, code.name)
                else:
                    online.append(key)
        self._office.on_roles_taken(self.broker.id, offline, online)
        if refused:
            log.error(
                "broker %d knows of later leader epochs of %d partitions than ZooKeeper, such as %s: all replicas are asked for their logs",
                self.broker.id, len(refused), refused[0],
            )  # fmt: skip
            self._office.on_roles_refused(refused)

    def _roles_request(self, some: Mapping[TopicPartition, bool]) -> LeaderAndIsrRequest:
        view = self._office.machine.view
        topics: dict[str, LeaderAndIsrTopicState] = {}
        leaders: dict[int, None] = {}
        for key, is_new in some.items():
            partition = view.partition(key)
            if partition is None or partition.leadership is None:
                continue
            topic = topics.get(key.topic)
            if topic is None:
                topic_id = view.topics[key.topic].id
                topic = topics[key.topic] = LeaderAndIsrTopicState(
                    topic_name=key.topic, topic_id=topic_id
                )
            topic.partition_states.append(_role(partition, is_new=is_new))
            leaders[partition.leader] = None
        known = [(id_, self._office.endpoint_of(id_)) for id_ in leaders]
        return LeaderAndIsrRequest(
            controller_id=self._node.broker_id,
            controller_epoch=self._office.epoch,
            broker_epoch=self.broker.epoch,
            topic_states=list(topics.values()),
            live_leaders=[
                LeaderAndIsrLiveLeader(broker_id=id_, host_name=at[0], port=at[1])
                for id_, at in known
                if at is not None
            ],
        )

    # How far its logs go

    def _ask_ends(self) -> Task[None]:
        some = list(self.asked)[:PARTITIONS_MAX]
        for key in some:
            del self.asked[key]
        try:
            ends = yield from ask_ends(self._channel, self._node.broker_id, some)
            self._office.on_log_ends(self.broker.id, ends)
        except Exception:
            self._ask_later(some)
            raise
        missing = [key for key in some if key not in ends]
        if missing:
            log.warning("broker %d does not tell how far %s goes", self.broker.id, missing[0])
            self._ask_later(missing)

    def _ask_later(self, some: Iterable[TopicPartition]) -> None:
        def again() -> None:
            view = self._office.machine.view
            known = ((key, view.partition(key)) for key in some)
            self.asked |= {
                key: None for key, p in known if p is not None and p.log_ends is not None
            }
            self.go_on()

        clock, timers = self._node.world.clock, self._node.world.timers
        timers.call_at(clock.monotonic_ms() + UNKNOWN_END_MS, again)

    # What clients are told

    def _tell_gone(self) -> Task[None]:
        """Tell which topics are gone. Of several topics that had the same name, a request names one; the others follow in the next."""
        some = {topic.topic: topic for topic in islice(self.gone.values(), GONE_MAX)}
        for topic in some.values():
            del self.gone[topic.topic_id]
        is_told = False
        try:
            request = self._metadata_request([_gone(topic) for topic in some.values()])
            is_told = (yield from self._ask(request, UPDATE_METADATA_VERSION)) is not None
        finally:
            if not is_told:
                self.gone.update((topic.topic_id, topic) for topic in some.values())

    def _tell_news(self, some: Iterable[TopicPartition]) -> Task[bool]:
        topics = self._topics_news(some)
        request = self._metadata_request(topics)
        if (yield from self._ask(request, UPDATE_METADATA_VERSION)) is None:
            return False
        view = self._office.machine.view
        for topic in topics:
            known = view.topics.get(topic.topic_name)
            is_there = known is not None and known.id == topic.topic_id
            if is_there and any(each.leader == DELETED for each in topic.partition_states):
                self._told_deleted[topic.topic_id] = None
        return True

    def _topics_news(self, some: Iterable[TopicPartition]) -> list[UpdateMetadataTopicState]:
        view = self._office.machine.view
        topics: dict[str, UpdateMetadataTopicState] = {}
        for key in some:
            partition = view.partition(key)
            if partition is None or partition.leadership is None:
                continue
            topic = topics.get(key.topic)
            if topic is None:
                topic_id = view.topics[key.topic].id
                topic = topics[key.topic] = UpdateMetadataTopicState(
                    topic_name=key.topic, topic_id=topic_id
                )
            topic.partition_states.append(
                _news(
                    partition,
                    view.offline_replicas(partition),
                    is_deleted=key.topic in view.deleting,
                )
            )
        return list(topics.values())

    def _metadata_request(self, topics: list[UpdateMetadataTopicState]) -> UpdateMetadataRequest:
        # Listeners of one name have one protocol, on whichever broker: else brokers could not reach each other.
        protocols = {each.name: each.protocol for each in self._node.config.listeners}
        return UpdateMetadataRequest(
            controller_id=self._node.broker_id,
            controller_epoch=self._office.epoch,
            broker_epoch=self.broker.epoch,
            topic_states=topics,
            live_brokers=[_broker(each, protocols) for each in self._office.live.values()],
        )

    # What to give up

    def _tell_stops(self) -> Task[None]:
        some = list(self.stops)[:PARTITIONS_MAX]
        for stop in some:
            del self.stops[stop]
        is_told = False
        try:
            response = yield from self._ask(self._stops_request(some), STOP_REPLICA_VERSION)
            if response is not None:
                self._on_stops_answered(some, response)
                is_told = True
        finally:
            if not is_told:
                self.stops.update(dict.fromkeys(some))

    def _stops_request(self, some: Iterable[Stop]) -> StopReplicaRequest:
        topics: dict[str, StopReplicaTopicState] = {}
        for stop in some:
            topic = topics.setdefault(
                stop.partition.topic, StopReplicaTopicState(topic_name=stop.partition.topic)
            )
            topic.partition_states.append(
                StopReplicaPartitionState(
                    partition_index=stop.partition.partition,
                    leader_epoch=stop.leader_epoch,
                    delete_partition=stop.delete,
                )
            )
        return StopReplicaRequest(
            controller_id=self._node.broker_id,
            controller_epoch=self._office.epoch,
            broker_epoch=self.broker.epoch,
            topic_states=list(topics.values()),
        )

    def _on_stops_answered(self, some: Iterable[Stop], response: StopReplicaResponse) -> None:
        failed = {
            TopicPartition(each.topic_name, each.partition_index)
            for each in response.partition_errors
            if each.error_code
        }
        self._office.on_stops_answered(
            [stop for stop in some if stop.partition not in failed],
            [stop for stop in some if stop.partition in failed],
        )


def _role(partition: PartitionView, *, is_new: bool) -> LeaderAndIsrPartitionState:
    leadership, assignment = partition.leadership, partition.in_force
    assert leadership is not None
    return LeaderAndIsrPartitionState(
        partition_index=partition.id.partition,
        controller_epoch=leadership.controller_epoch,
        leader=leadership.leader,
        leader_epoch=leadership.leader_epoch,
        isr=list(leadership.in_sync),
        partition_epoch=partition.version,
        replicas=list(assignment.replicas),
        adding_replicas=list(assignment.adding),
        removing_replicas=list(assignment.removing),
        is_new=is_new,
    )


def _gone(topic: Forgotten) -> UpdateMetadataTopicState:
    return UpdateMetadataTopicState(
        topic_name=topic.topic,
        topic_id=topic.topic_id,
        partition_states=[
            UpdateMetadataPartitionState(partition_index=index, leader=DELETED)
            for index in topic.partitions
        ],
    )


def _news(
    partition: PartitionView, offline: Iterable[int], *, is_deleted: bool
) -> UpdateMetadataPartitionState:
    leadership = partition.leadership
    assert leadership is not None
    return UpdateMetadataPartitionState(
        partition_index=partition.id.partition,
        controller_epoch=leadership.controller_epoch,
        leader=DELETED if is_deleted else leadership.leader,
        leader_epoch=leadership.leader_epoch,
        isr=list(leadership.in_sync),
        zk_version=partition.version,
        replicas=list(partition.in_force.replicas),
        offline_replicas=list(offline),
    )


def _broker(broker: LiveBroker, protocols: Mapping[str, str]) -> UpdateMetadataBroker:
    return UpdateMetadataBroker(
        id_=broker.id,
        rack=broker.rack,
        endpoints=[
            UpdateMetadataEndpoint(
                host=host,
                port=port,
                listener=name,
                security_protocol=_PROTOCOLS.index(protocols.get(name, _PROTOCOLS[0])),
            )
            for name, (host, port) in broker.endpoints.items()
        ],
    )
