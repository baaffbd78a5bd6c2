"""Carrying decisions through: written, confirmed, told, looked at again.

Job: bring partitions and topics from what the view says to what the rules say, one write at a time for each. Must not know: which event it was.

    look  ->  write under way  ->  in the store  ->  told  ->  look again

Invariants: a partition has at most one state write under way, a topic at most one of assignments; the view changes only by what is in the
store; a partition of a topic that is being deleted is led by nobody new.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.controller import deletion, reassignment
from barnabas.core.controller.effects import Ask, Forgotten, StateWrite, Stop, Tell, TopicWrite
from barnabas.core.controller.election import decide_leadership
from barnabas.core.controller.view import NO_LEADER, NOT_WRITTEN, PartitionView, TopicView
from barnabas.model.ids import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from barnabas.core.controller.effects import Effects
    from barnabas.core.controller.view import ClusterView, Leadership, ReadState, ReadTopic


class StoreGoneBack(Exception):
    """A write was refused, and the store holds an older version than the one known: it was put back, and must be read anew as a whole."""


class Progress:
    """What is under way, and what comes of it."""

    def __init__(self, view: ClusterView, controller_epoch: int) -> None:
        """Start with nothing under way."""
        self._view = view
        self._controller_epoch = controller_epoch
        #: How often a leader was chosen, and how often one that was not in sync.
        self.leader_elections = 0
        self.unclean_leader_elections = 0
        self._writing: dict[TopicPartition, StateWrite] = {}
        self._writing_topics: dict[str, TopicWrite] = {}
        #: Topics whose znodes are being deleted.
        self._erasing: set[str] = set()

    # Looking

    def look_at(self, partitions: Iterable[PartitionView], effects: Effects) -> None:
        """Decide on these partitions and their topics anew."""
        doomed: dict[str, TopicView] = {}
        moving: dict[str, TopicView] = {}
        for partition in partitions:
            name = partition.id.topic
            topic = self._view.topics[name]
            if name in self._view.deleting:
                doomed[name] = topic
                continue
            self._look_at_leadership(partition, effects)
            # Looking at assignments takes a topic as a whole, so only where there is something to see.
            if topic.wishes or partition.settling is not None:
                moving[name] = topic
        for topic in doomed.values():
            self._look_at_deletion(topic, effects)
        for topic in moving.values():
            self._look_at_assignments(topic, effects)

    def _look_at_leadership(self, partition: PartitionView, effects: Effects) -> None:
        if partition.id in self._writing:
            return
        decision = decide_leadership(partition, self._view, self._controller_epoch)
        partition.election = None
        if decision is None:
            partition.fenced.clear()
            self._tell_untold(partition, effects)
            return
        write = StateWrite(
            partition.id,
            decision.leadership,
            partition.version,
            partition.assignment,
            decision.settling,
            frozenset(partition.fenced),
            decision.is_unclean,
        )
        self._writing[partition.id] = write
        effects.write_states.append(write)

    def _look_at_assignments(self, topic: TopicView, effects: Effects) -> None:
        if topic.name in self._writing_topics:
            return
        planned = reassignment.plan_assignments(topic, self._view)
        if all(planned[i] == p.assignment for i, p in topic.partitions.items()):
            topic.wishes.clear()
            return
        write = TopicWrite(topic.name, topic.id, topic.version, planned)
        self._writing_topics[topic.name] = write
        effects.write_topics.append(write)

    def _look_at_deletion(self, topic: TopicView, effects: Effects) -> None:
        if topic.name not in self._erasing and deletion.is_gone(topic):
            self._erasing.add(topic.name)
            effects.delete_topics.append(topic.name)

    # What is in the store

    def confirm(
        self, partition: PartitionView, write: StateWrite, version: int, effects: Effects
    ) -> None:
        """Take a state that we have written: its replicas are told, and those it leaves behind are stopped."""
        assert write.leadership.in_sync
        before, was_told = partition.leadership, partition.told
        self._count(before, write)
        partition.leadership, partition.version = write.leadership, version
        partition.fenced -= write.fenced
        partition.untold.clear()
        partition.log_ends = None
        partition.told = write.told
        # Another move may have begun while this was being written: then the next look writes again.
        if write.assignment == partition.assignment:
            partition.settling = write.settling
        if partition.id.topic in self._view.deleting:
            return
        known = was_told.replicas if was_told is not None else partition.assignment.origin
        for broker in write.told.replicas:
            if broker in self._view.brokers and broker not in self._view.shutting_down:
                is_new = before is None or broker not in known
                effects.tell.append(Tell(broker, partition.id, is_new))
        self._tell_who_shuts_down(partition, before, effects)
        effects.announce[partition.id] = None
        self.stop_logs(partition, effects)

    def take_state(
        self, partition: PartitionView, read: ReadState | None, effects: Effects
    ) -> None:
        """Take a state as it was read; a write of ours that was under way has been refused, unless this is it."""
        write = self._writing.pop(partition.id, None)
        if read is None:
            if write is not None:
                partition.leadership, partition.version = None, NOT_WRITTEN
        elif write is not None and read.version < partition.version:
            raise StoreGoneBack(f"{partition.id}: {read.version} after version {partition.version}")
        elif read.version > partition.version:
            if write is not None and read.leadership == write.leadership:
                self.confirm(partition, write, read.version, effects)
                return
            if read.leadership.leader_epoch != _epoch_of(partition):
                partition.told = None
            partition.leadership, partition.version = read.leadership, read.version
            partition.fenced |= self._view.restarted_since(read)
            effects.announce[partition.id] = None

    def take_topic(self, read: ReadTopic, effects: Effects) -> TopicView:
        """Take a topic as it was read or written; a write of ours that was under way is over."""
        write = self._writing_topics.pop(read.name, None)
        topic = self._view.topics.get(read.name)
        if topic is None or topic.id != read.id:
            self.forget_topic(read.name, effects)
            topic = self._view.topics[read.name] = TopicView(read.name, read.id, NOT_WRITTEN)
        if write is not None and read.version < topic.version:
            raise StoreGoneBack(f"{read.name}: {read.version} after version {topic.version}")
        if read.version <= topic.version or read.name in self._view.deleting:
            return topic
        topic.version = read.version
        for index, assignment in sorted(read.partitions.items()):
            known = topic.partitions.get(index)
            if known is None:
                id_ = TopicPartition(read.name, index)
                topic.partitions[index] = PartitionView(id_, assignment)
            else:
                known.reassign(assignment)
        return topic

    def take_write(self, write: StateWrite) -> PartitionView | None:
        """Note that a write is over; its partition, if there still is one."""
        self._writing.pop(write.partition, None)
        return self._view.partition(write.partition)

    def forget_topic(self, name: str, effects: Effects) -> None:
        """A topic is not in the store any more."""
        topic = self._view.topics.pop(name, None)
        if topic is not None and topic.partitions:
            effects.forgotten.append(Forgotten(name, topic.id, tuple(topic.partitions)))
        self._view.deleting.pop(name, None)
        self._view.unclean.pop(name, None)
        self._writing_topics.pop(name, None)
        self._erasing.discard(name)
        for partition in topic.partitions.values() if topic else ():
            self._writing.pop(partition.id, None)

    # Telling

    def tell_everything(self, brokers: Collection[int], effects: Effects) -> None:
        """Tell some brokers what they hold."""
        for partition in self._view.kept_partitions():
            partition.untold.update(brokers)
            self._tell_untold(partition, effects)

    def _tell_untold(self, partition: PartitionView, effects: Effects) -> None:
        """Tell a partition to those who wait for it. What is being written is told when it is, or else once nothing is to be written
        any more; in doubt nobody is told to lead.
        """
        if partition.id in self._writing:
            return
        untold = partition.untold.intersection(self._view.brokers)
        partition.untold.clear()
        if partition.leadership is None:
            return
        for broker in partition.in_force.replicas:
            leads_in_doubt = partition.log_ends is not None and broker == partition.leader
            if broker in untold and not leads_in_doubt:
                effects.tell.append(Tell(broker, partition.id, is_new=False))

    def stop_logs(self, partition: PartitionView, effects: Effects) -> None:
        """Order replicas that have no place any more to delete their logs."""
        for stop in deletion.stops_of(partition, self._view):
            partition.stops[stop.broker] = stop
            effects.stop.append(stop)

    def ask_logs(
        self, partition: PartitionView, brokers: Collection[int], effects: Effects
    ) -> None:
        """Ask those of these brokers how far their logs go that have one."""
        for broker in partition.in_force.replicas:
            if broker in brokers and broker in self._view.brokers:
                effects.ask.append(Ask(broker, partition.id))

    def _tell_who_shuts_down(
        self, partition: PartitionView, before: Leadership | None, effects: Effects
    ) -> None:
        """Tell brokers that shut down who leads instead, and stop them there: a follower would come back into the in-sync set."""
        assert partition.leadership is not None
        old_leader = NO_LEADER if before is None else before.leader
        leader, epoch = partition.leader, partition.leadership.leader_epoch
        for broker in sorted({leader, old_leader} & self._view.shutting_down):
            effects.tell.append(Tell(broker, partition.id, is_new=False))
            if broker != leader:
                effects.stop.append(Stop(broker, partition.id, epoch, delete=False))

    def _count(self, before: Leadership | None, write: StateWrite) -> None:
        leader = write.leadership.leader
        if leader != NO_LEADER and (before is None or before.leader != leader):
            self.leader_elections += 1
        self.unclean_leader_elections += write.is_unclean


def _epoch_of(partition: PartitionView) -> int:
    return -1 if partition.leadership is None else partition.leadership.leader_epoch
