"""What the tests of the controller share: a store, brokers that obey, and a host that does what the controller says.

Nothing happens by itself: what is to be written or sent waits in `writes` and, for each broker in order, in `lanes`, until `run` or a single
step takes it. Checked at every step: what a state may be, one leader per epoch, in one life of its broker, no log deleted that is in sync, nothing told
that is not stored.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from barnabas.core.controller.assignment import Assignment
from barnabas.core.controller.controller import Controller
from barnabas.core.controller.effects import Stop, TopicWrite
from barnabas.core.controller.settings import ControllerSettings
from barnabas.core.controller.view import (
    NO_LEADER,
    NOT_WRITTEN,
    Leadership,
    ReadState,
    ReadTopic,
    Snapshot,
)
from barnabas.model.cluster import LiveBroker
from barnabas.model.ids import TopicPartition


@dataclass
class Heard:
    """What a broker was told of a partition."""

    leadership: Leadership
    version: int
    assignment: Assignment
    is_new: bool


class Broker:
    """One that is registered, or not: its logs outlive it."""

    def __init__(self):
        self.logs = set()
        self.heard = {}


class Host:
    """A store, brokers, and the controller between them."""

    def __init__(self, *broker_ids, settings=None, racks=()):
        self.settings = settings or ControllerSettings()
        self.racks = dict(racks)
        self.zxid = 0
        self.epoch = 0
        self.live = {}
        self.brokers = {}
        self.topics = {}
        self.states = {}
        #: The transaction that wrote each state.
        self.written = {}
        self.deletions = {}
        self.unclean = {}
        #: (partition, epoch) -> leader, to see that there is never a second.
        self.leaders = {}
        #: (partition, epoch) -> registration of the leader that was told: after a restart it leads in another epoch.
        self.lives = {}
        #: What happened, one line each.
        self.events = []
        self.is_cautious = True
        for broker in broker_ids:
            self._register(broker)
        self.take_office()

    # The controller's host

    def take_office(self):
        """A new controller; whatever the last one had under way is lost."""
        self.epoch += 1
        self.writes = []
        self.lanes = {}
        self.controller = Controller(self.settings, self.epoch)
        self.do(self.controller.load(self.snapshot()))

    def snapshot(self):
        """All that the store holds."""
        return Snapshot(
            list(self.live.values()),
            [self.read_topic(name) for name in self.topics],
            {id_: self.read_state(id_) for id_ in self.states},
            list(self.deletions),
            dict(self.unclean),
        )

    def do(self, effects):
        """Put everything in its queue."""
        for name in effects.drop_deletions:
            self.deletions.pop(name, None)
        self.writes += effects.write_states + effects.write_topics + effects.delete_topics
        for order in effects.tell + effects.stop:
            assert order.broker in self.live, f"{order} to a broker that is not there"
            self.lanes.setdefault(order.broker, []).append(order)
        self.announced = list(effects.announce)

    def run(self):
        """Do what is queued, and what comes of it, until nothing is left."""
        for _ in range(10_000):
            busy = sorted(broker for broker, lane in self.lanes.items() if lane)
            if self.writes:
                self.write()
            elif busy:
                self.deliver(busy[0])
            else:
                return self
        raise AssertionError("it does not come to rest")

    def write(self, index=0, fate="done"):
        """Do one write of those that wait. The host may not learn its fate: `lost` before it was done, or `unheard` after."""
        write = self.writes.pop(index)
        confirmed = None if fate == "lost" else self._apply(write)
        if fate == "done" and confirmed is not None:
            self.do(confirmed())
        elif isinstance(write, str | TopicWrite):
            self.notify_topic(write if isinstance(write, str) else write.topic)
        else:
            self.do(self.controller.on_states({write.partition: self.read_state(write.partition)}))

    def _apply(self, write):
        """Do it if it may be done; what the controller is to be told then."""
        if isinstance(write, str):
            return self._delete_topic(write)
        if isinstance(write, TopicWrite):
            return self._write_topic(write)
        return self._write_state(write)

    def _write_state(self, write):
        id_ = write.partition
        there = self.states.get(id_, (None, NOT_WRITTEN))
        if id_.topic not in self.topics or there[1] != write.expected_version:
            return None
        self.put_state(id_, write.leadership, is_ours=True)
        version = self.states[id_][1]
        return lambda: self.controller.on_written([(write, version)])

    def _write_topic(self, write):
        topic_id, version, before = self.topics.get(write.topic, (None, -1, None))
        if version != write.expected_version or topic_id != write.topic_id:
            return None
        self.topics[write.topic] = (topic_id, version + 1, dict(write.partitions))
        for index, assignment in sorted(write.partitions.items()):
            if assignment != before[index]:
                self.events.append(f"{write.topic}-{index} is on {show_assignment(assignment)}")
        return lambda: self.controller.on_topic_written(write, version + 1)

    def _delete_topic(self, name):
        _, _, partitions = self.topics.pop(name)
        self.deletions.pop(name)
        self.unclean.pop(name, None)
        for index, assignment in partitions.items():
            id_ = TopicPartition(name, index)
            self.states.pop(id_, None)
            self.leaders = {key: leader for key, leader in self.leaders.items() if key[0] != id_}
            self.lives = {key: life for key, life in self.lives.items() if key[0] != id_}
            # A broker that was down when a partition was moved away finds out by itself that it has no place.
            for replica in assignment.replicas:
                assert id_ not in self.brokers[replica].logs, f"{id_} is still on {replica}"
        self.events.append(f"{name} is deleted")
        return lambda: self.controller.on_topics_gone([name])

    def put_state(self, id_, leadership, is_ours=False):
        """Write a state, after a look at whether it may be."""
        before, version = self.states.get(id_, (None, NOT_WRITTEN))
        replicas = self.topics[id_.topic][2][id_.partition].replicas
        assert leadership.in_sync
        assert len(set(leadership.in_sync)) == len(leadership.in_sync)
        assert set(leadership.in_sync) <= set(replicas) or not is_ours
        assert leadership.leader in (NO_LEADER, *leadership.in_sync)
        if before is not None:
            known = self.controller.view.partition(id_)
            if known is None or known.log_ends is None:
                assert leadership.leader_epoch == before.leader_epoch + is_ours
            else:
                assert leadership.leader_epoch > before.leader_epoch
        if leadership.leader != NO_LEADER:
            one = self.leaders.setdefault((id_, leadership.leader_epoch), leadership.leader)
            assert one == leadership.leader, "two leaders in one epoch"
            if self.is_cautious and before is not None:
                assert leadership.leader in before.in_sync or not is_ours
        self.zxid += 1
        self.states[id_], self.written[id_] = (leadership, version + 1), self.zxid
        self.events.append(f"{id_}: {show(leadership)}")

    # Brokers

    def deliver(self, broker):
        """Let a broker carry out the next order it was given."""
        order = self.lanes[broker].pop(0)
        id_, there = order.partition, self.brokers[broker]
        if isinstance(order, Stop):
            self._stop(order, there)
            return
        partition = self.controller.view.partition(id_)
        if partition is None or partition.leadership is None:
            return
        assert partition.version <= self.states[id_][1], "told what is not stored"
        if partition.leader == broker:
            life = self.live[broker].epoch
            first = self.lives.setdefault((id_, partition.leadership.leader_epoch), life)
            assert first == life, f"{broker} leads {id_} in the epoch of before its restart"
        known = there.heard.get(id_)
        if known is None or partition.leadership.leader_epoch >= known.leadership.leader_epoch:
            there.logs.add(id_)
            there.heard[id_] = Heard(
                partition.leadership, partition.version, partition.in_force, order.is_new
            )

    def _stop(self, stop, there):
        there.heard.pop(stop.partition, None)
        if not stop.delete:
            self.events.append(f"{stop.broker} stops {stop.partition}")
            return
        if stop.partition.topic not in self.deletions and stop.partition in self.states:
            assert stop.broker not in self.states[stop.partition][0].in_sync, "records are lost"
        if stop.partition in there.logs:
            self.events.append(f"{stop.broker} deletes {stop.partition}")
        there.logs.discard(stop.partition)
        self.do(self.controller.on_stopped([stop]))

    def change_in_sync(self, id_, in_sync):
        """The leader writes another in-sync set, if it is one and nobody else wrote meanwhile; the controller hears of it."""
        if id_ not in self.states:
            return False
        stored, version = self.states[id_]
        heard = self.brokers[stored.leader].heard.get(id_) if stored.leader in self.live else None
        if heard is None or (heard.leadership, heard.version) != (stored, version):
            return False
        allowed = [r for r in in_sync if r in heard.assignment.replicas]
        if stored.leader not in allowed or tuple(allowed) == stored.in_sync:
            return False
        self.put_state(id_, replace(stored, in_sync=tuple(allowed)))
        heard.leadership, heard.version = self.states[id_]
        self.do(self.controller.on_states({id_: self.read_state(id_)}))
        return True

    def catch_up(self, id_):
        """Every replica that lives and follows gets in sync."""
        stored, _ = self.states.get(id_, (None, 0))
        if stored is None:
            return False
        followers = [
            b for b in sorted(self.live) if b not in stored.in_sync and id_ in self.brokers[b].heard
        ]
        return self.change_in_sync(id_, (*stored.in_sync, *followers))

    def _register(self, broker):
        self.zxid += 1
        self.live[broker] = LiveBroker(broker, self.zxid, self.racks.get(broker))
        self.brokers.setdefault(broker, Broker()).heard = {}

    def start(self, *brokers):
        for broker in brokers:
            self._register(broker)
            self.lanes.pop(broker, None)
        self.do(self.controller.on_brokers(list(self.live.values())))
        return self

    def start_unseen(self, *brokers):
        """They restart, and the controller does not hear of it any more."""
        for broker in brokers:
            self._register(broker)
            self.lanes.pop(broker, None)
        return self

    def kill(self, *brokers):
        for broker in brokers:
            del self.live[broker]
            self.lanes.pop(broker, None)
        self.do(self.controller.on_brokers(list(self.live.values())))
        return self

    # What others write

    def create(self, name, *replica_lists):
        """A topic with these replicas; run to see it led."""
        self.zxid += 1
        partitions = {i: Assignment(tuple(replicas)) for i, replicas in enumerate(replica_lists)}
        self.topics[name] = (self.zxid.to_bytes(16, "big"), 0, partitions)
        return self.notify_topic(name)

    def notify_topic(self, name):
        if name in self.topics:
            self.do(self.controller.on_topics([self.read_topic(name)]))
        else:
            self.do(self.controller.on_topics_gone([name]))
        return self

    def delete(self, *names):
        self.deletions.update(dict.fromkeys(names))
        self.do(self.controller.on_topic_deletion(names))
        return self

    def read_topic(self, name):
        return ReadTopic(name, *self.topics[name])

    def read_state(self, id_):
        return ReadState(*self.states[id_], self.written[id_]) if id_ in self.states else None

    # Looking

    def state(self, id_):
        return show(self.states[id_][0]) if id_ in self.states else "no state"

    def leadership(self, id_):
        return self.states[id_][0]

    def assignment(self, id_):
        return self.topics[id_.topic][2][id_.partition]


def show(leadership):
    leader = "nobody" if leadership.leader == NO_LEADER else leadership.leader
    in_sync = ",".join(map(str, leadership.in_sync))
    return f"{leader} leads, epoch {leadership.leader_epoch}, in sync {in_sync}"


def show_assignment(assignment):
    text = ",".join(map(str, assignment.replicas))
    if assignment.adding:
        text += " adding " + ",".join(map(str, assignment.adding))
    if assignment.removing:
        text += " removing " + ",".join(map(str, assignment.removing))
    return text
