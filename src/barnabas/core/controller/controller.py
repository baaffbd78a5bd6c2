"""The controller: keeps every partition led, moved and deleted as the cluster changes.

Job: take in what happened, keep the view, and say what must be written and told. Must not know: the store's paths, requests, connections, time.

It is level-triggered: an event only says what is so now. Whatever it touches is decided anew from the whole view, so an event that was
missed, came twice or came late does no harm. One write per partition, and one per topic, is under way at a time:

| the host reports                          | then                                                                     |
|-------------------------------------------|--------------------------------------------------------------------------|
| `on_written`, `on_topic_written`          | the view has it, brokers are told, and it is looked at again             |
| `on_states`, `on_topics`: what is there   | the write was refused, or its fate was unknown, or somebody else wrote: the view has what is there, and it is decided again |

A host that is refused because of the controller's epoch drops the machine: it is not the controller any more.

Invariants: nothing is told that is not in the store; a partition's epoch rises with each of our writes; what must outlive this
controller is in the store before anything depends on it, so that `load` goes on from any point.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.controller import balance, election, reassignment
from barnabas.core.controller.effects import Effects, Stop
from barnabas.core.controller.progress import Progress
from barnabas.core.controller.verdict import PLANNED
from barnabas.core.controller.view import (
    NO_LEADER,
    ClusterView,
    ElectionType,
    PartitionView,
    ReadTopic,
)
from barnabas.model.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from barnabas.core.controller.assignment import Replicas
    from barnabas.core.controller.effects import StateWrite, TopicWrite
    from barnabas.core.controller.settings import ControllerSettings
    from barnabas.core.controller.verdict import Verdict
    from barnabas.core.controller.view import LogEnd, ReadState, Snapshot
    from barnabas.model.cluster import LiveBroker
    from barnabas.model.ids import TopicPartition


class Controller:
    """One term of office: made when the election is won, dropped when it is lost."""

    def __init__(self, settings: ControllerSettings, epoch: int) -> None:
        """Start empty; `load` comes first. The epoch is that of this term."""
        self.view = ClusterView(settings)
        self.progress = Progress(self.view, epoch)

    # Taking office

    def load(self, snapshot: Snapshot) -> Effects:
        """Begin with what the store holds: all brokers are told everything, and what was left undone goes on."""
        view, effects = self.view, Effects(announce_brokers=True)
        view.brokers = {broker.id: broker for broker in snapshot.brokers}
        view.unclean = dict(snapshot.unclean)
        for read in snapshot.topics:
            self.progress.take_topic(read, effects)
        for partition in view.partitions():
            state = snapshot.states.get(partition.id)
            if state is not None:
                partition.leadership, partition.version = state.leadership, state.version
                partition.fenced = view.restarted_since(state)
            # Whether the replicas of a move know of it cannot be seen: they are told with a new epoch.
            partition.told = None if partition.assignment.is_moving else partition.assignment
        effects.extend(self.on_roles_refused(snapshot.doubted))
        effects.announce_all_to += sorted(view.brokers)
        self._begin_deletions(snapshot.deletions, effects)
        self.progress.look_at(view.partitions(), effects)
        self.progress.tell_everything(view.brokers, effects)
        return effects

    # What the store tells

    def on_brokers(self, live: Iterable[LiveBroker]) -> Effects:
        """All brokers that are registered now. One with another epoch went away and came back."""
        view, effects = self.view, Effects(announce_brokers=True)
        before, view.brokers = view.brokers, {broker.id: broker for broker in live}
        ended = _registrations(before, view.brokers)
        begun = _registrations(view.brokers, before)
        view.shutting_down -= ended
        touched = []
        changed = ended | begun
        for partition in view.partitions():
            # Also where it has no replica: one may be moved there, and would be taken for lost with a disk that is well again.
            partition.offline -= changed
            # What it has deleted it may have made again: it started when the store still had the topic.
            partition.stopped -= begun
            if changed.intersection(partition.assignment.replicas):
                partition.fenced |= ended.intersection(partition.in_sync)
                touched.append(partition)
                if partition.log_ends is not None:
                    partition.log_ends = {
                        broker: end
                        for broker, end in partition.log_ends.items()
                        if broker not in ended
                    }
                    self.progress.ask_logs(partition, begun, effects)
        self._look_and_announce(touched, effects)
        effects.announce_all_to += sorted(begun)
        self.progress.tell_everything(begun, effects)
        for partition in touched:
            self.progress.stop_logs(partition, effects)
        return effects

    def on_topics(self, topics: Iterable[ReadTopic]) -> Effects:
        """Topics as they stand in the store: new ones, and those that may have changed."""
        effects = Effects()
        for read in topics:
            topic = self.progress.take_topic(read, effects)
            self.progress.look_at(topic.partitions.values(), effects)
        return effects

    def on_topics_gone(self, names: Iterable[str]) -> Effects:
        """Topics that the store does not have any more: our deletion is done, or somebody else's."""
        effects = Effects()
        for name in names:
            self.progress.forget_topic(name, effects)
        return effects

    def on_states(self, states: Mapping[TopicPartition, ReadState | None]) -> Effects:
        """States as they stand in the store: after leaders changed in-sync sets, or after a write of ours went wrong."""
        effects, touched = Effects(), []
        for id_, read in states.items():
            partition = self.view.partition(id_)
            if partition is not None:
                self.progress.take_state(partition, read, effects)
                touched.append(partition)
        self.progress.look_at(touched, effects)
        return effects

    def on_topic_deletion(self, names: Iterable[str]) -> Effects:
        """Names under /admin/delete_topics; those that are known already may be among them."""
        effects = Effects()
        self._begin_deletions(names, effects)
        return effects

    def on_settings(self, settings: ControllerSettings) -> Effects:
        """The broker's settings changed."""
        self.view.settings = settings
        return self._look_at_leaderless(self.view.partitions())

    def on_topic_settings(self, topic: str, unclean: bool | None) -> Effects:
        """A topic's own `unclean.leader.election.enable`; None if it has none."""
        if unclean is None:
            self.view.unclean.pop(topic, None)
        else:
            self.view.unclean[topic] = unclean
        known = self.view.topics.get(topic)
        return self._look_at_leaderless(known.partitions.values() if known else ())

    # What became of writes

    def on_written(self, writes: Iterable[tuple[StateWrite, int]]) -> Effects:
        """States that are in the store now, with their versions."""
        effects, touched = Effects(), []
        for write, version in writes:
            partition = self.progress.take_write(write)
            if partition is not None and version > partition.version:
                self.progress.confirm(partition, write, version, effects)
                touched.append(partition)
        self.progress.look_at(touched, effects)
        return effects

    def on_topic_written(self, write: TopicWrite, version: int) -> Effects:
        """A topic's assignments are in the store now."""
        topic = self.view.topics.get(write.topic)
        if topic is None or topic.id != write.topic_id:
            return Effects()
        return self.on_topics([ReadTopic(write.topic, write.topic_id, version, write.partitions)])

    # What brokers tell

    def on_replica_errors(
        self,
        broker: int,
        offline: Iterable[TopicPartition],
        online: Iterable[TopicPartition] = (),
    ) -> Effects:
        """What a LeaderAndIsr answer says of log directories: replicas on one that failed, and replicas that are well."""
        effects, touched = Effects(), []
        for partition in filter(None, map(self.view.partition, online)):
            if broker in partition.offline:
                partition.offline.discard(broker)
                touched.append(partition)
        for partition in filter(None, map(self.view.partition, offline)):
            if broker not in partition.offline:
                partition.offline.add(broker)
                touched.append(partition)
        self._look_and_announce(touched, effects)
        return effects

    def on_roles_refused(self, partitions: Iterable[TopicPartition]) -> Effects:
        """A broker knows of later leader epochs of these than the store: what the store says of who is in sync does not count."""
        effects = Effects()
        for partition in filter(None, map(self.view.partition, partitions)):
            if partition.log_ends is None and partition.leadership is not None:
                partition.log_ends = {}
                self.progress.ask_logs(partition, self.view.brokers, effects)
        return effects

    def on_log_ends(self, broker: int, ends: Mapping[TopicPartition, LogEnd]) -> Effects:
        """A broker says how far its logs go."""
        effects, touched = Effects(), []
        for id_, end in ends.items():
            partition = self.view.partition(id_)
            if partition is not None and partition.log_ends is not None:
                partition.log_ends[broker] = end
                touched.append(partition)
        self.progress.look_at(touched, effects)
        return effects

    def on_log_dir_failure(self, broker: int) -> Effects:
        """A broker lost a log directory: it is told its partitions again, and its answer names those that are lost."""
        effects = Effects()
        self.progress.tell_everything({broker}, effects)
        return effects

    def on_stopped(self, stops: Iterable[Stop]) -> Effects:
        """Orders that brokers have carried out."""
        effects, touched = Effects(), []
        for stop in stops:
            partition = self.view.partition(stop.partition)
            if partition is not None and self._is_in_force(stop):
                partition.stopped.add(stop.broker)
                touched.append(partition)
        self.progress.look_at(touched, effects)
        return effects

    def on_stop_errors(self, stops: Iterable[Stop]) -> Effects:
        """Orders that brokers could not carry out, as a log directory failed: they are given again when the broker comes back."""
        effects = Effects()
        for stop in stops:
            if self._is_in_force(stop):
                effects.extend(self.on_replica_errors(stop.broker, [stop.partition]))
        return effects

    # What people ask for

    def on_reassign(
        self, targets: Mapping[TopicPartition, Replicas | None]
    ) -> tuple[dict[TopicPartition, Verdict], Effects]:
        """AlterPartitionReassignments; None cancels. Answer when what follows is written: before, nobody remembers it."""
        effects, touched = Effects(), []
        verdicts = {id_: reassignment.judge(id_, to, self.view) for id_, to in targets.items()}
        for id_, verdict in verdicts.items():
            if verdict is PLANNED:
                topic = self.view.topics[id_.topic]
                topic.wishes[id_.partition] = targets[id_]
                touched.append(topic.partitions[id_.partition])
        self.progress.look_at(touched, effects)
        return verdicts, effects

    def on_elect(
        self, kind: ElectionType, partitions: Iterable[TopicPartition] | None
    ) -> tuple[dict[TopicPartition, Verdict], Effects]:
        """ElectLeaders; None means all partitions that need it. Answer when what follows is written."""
        ids = [p.id for p in self.view.kept_partitions()] if partitions is None else partitions
        verdicts, chosen = {}, []
        for id_ in ids:
            partition = self.view.partition(id_)
            verdict = election.judge(kind, partition, self.view)
            if partitions is not None or verdict.code is not ErrorCode.ELECTION_NOT_NEEDED:
                verdicts[id_] = verdict
            if partition is not None and verdict is PLANNED:
                chosen.append(partition)
        return verdicts, self._elect(kind, chosen)

    def on_imbalance_check(self) -> Effects:
        """The time of `leader.imbalance.check.interval.seconds` is over."""
        return self._elect(ElectionType.PREFERRED, balance.imbalanced(self.view))

    def on_shutdown_request(self, broker: int, broker_epoch: int) -> tuple[ErrorCode, Effects]:
        """ControlledShutdown: leaders go elsewhere, followers stop. Answer with `view.led_by` when what follows is written."""
        effects = Effects()
        known = self.view.brokers.get(broker)
        if known is None:
            return ErrorCode.BROKER_NOT_AVAILABLE, effects
        if broker_epoch < known.epoch:
            return ErrorCode.STALE_BROKER_EPOCH, effects
        self.view.shutting_down.add(broker)
        touched = []
        for partition in self.view.kept_partitions():
            replicas, leadership = partition.assignment.replicas, partition.leadership
            if broker in replicas and len(replicas) > 1 and leadership is not None:
                touched.append(partition)
                if leadership.leader != broker:
                    stop = Stop(broker, partition.id, leadership.leader_epoch, delete=False)
                    effects.stop.append(stop)
        self.progress.look_at(touched, effects)
        return ErrorCode.NONE, effects

    # Shared by several

    def _is_in_force(self, stop: Stop) -> bool:
        """Tell whether this is the order that stands: an answer to one of before says nothing of the present."""
        partition = self.view.partition(stop.partition)
        return partition is not None and partition.stops.get(stop.broker) == stop

    def _begin_deletions(self, names: Iterable[str], effects: Effects) -> None:
        for name in names:
            topic = self.view.topics.get(name)
            if topic is None or not self.view.settings.delete_topic_enable:
                effects.drop_deletions.append(name)
            elif name not in self.view.deleting:
                self.view.deleting[name] = None
                topic.wishes.clear()
                for partition in topic.partitions.values():
                    partition.stopped.clear()
                    self.progress.stop_logs(partition, effects)
                self._look_and_announce(topic.partitions.values(), effects)

    def _look_and_announce(self, partitions: Iterable[PartitionView], effects: Effects) -> None:
        touched = list(partitions)
        effects.announce.update(dict.fromkeys(p.id for p in touched))
        self.progress.look_at(touched, effects)

    def _look_at_leaderless(self, partitions: Iterable[PartitionView]) -> Effects:
        effects = Effects()
        self.progress.look_at([p for p in partitions if p.leader == NO_LEADER], effects)
        return effects

    def _elect(self, kind: ElectionType, partitions: Iterable[PartitionView]) -> Effects:
        effects, chosen = Effects(), list(partitions)
        for partition in chosen:
            partition.election = kind
        self.progress.look_at(chosen, effects)
        return effects


def _registrations(here: Mapping[int, LiveBroker], there: Mapping[int, LiveBroker]) -> set[int]:
    """Brokers whose registration is here, and not there."""
    return {id_ for id_, b in here.items() if id_ not in there or there[id_].epoch != b.epoch}
