"""The controller's office: who holds it, and what the machine that decides (`core/controller`) sees and does.

Job: stand for election when nobody is controller; in office, read what changed in the store, let the machine decide, write what
it decided under the condition that no newer controller is there, then tell the brokers (`telling.py`). One event at a time, each to its end.
Must not decide anything about partitions.

| seen                                   | done                                                                     |
|----------------------------------------|--------------------------------------------------------------------------|
| nobody is controller                   | tries to be, in the epoch after the last                                 |
| the office is ours                     | reads everything, tells everybody everything, goes on with what is undone |
| a write meets a newer version          | reads it again, and lets the machine decide again                        |
| a newer epoch, or the session is over  | gives the office up: nothing that is under way is told any more          |
| a broker has heard of a later epoch    | and the store has not: it was put back. Begins again in a much later one |
| an older version than was written      | the store was put back: begins again with what it holds                  |
"""

from __future__ import annotations

import logging
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from barnabas.broker import cluster_znodes, store, znodes
from barnabas.broker.cluster_view import NOBODY
from barnabas.broker.tasks import drive
from barnabas.broker.telling import Telling
from barnabas.core.controller.assignment import Assignment
from barnabas.core.controller.controller import Controller
from barnabas.core.controller.effects import Effects
from barnabas.core.controller.progress import StoreGoneBack
from barnabas.core.controller.settings import ControllerSettings
from barnabas.core.controller.view import Leadership, ReadState, ReadTopic, Snapshot
from barnabas.model.ids import TopicId, TopicPartition, topic_id_from_text, topic_id_text
from barnabas.ports import (
    CoordinationError,
    Create,
    Delete,
    NotConnected,
    OutcomeUnknown,
    SetData,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence

    from barnabas.broker.cluster_znodes import Term
    from barnabas.broker.node import Node
    from barnabas.broker.tasks import Done, Task
    from barnabas.core.controller.effects import StateWrite, Stop, TopicWrite
    from barnabas.core.controller.view import LogEnd
    from barnabas.model.cluster import LiveBroker
    from barnabas.ports import Operation, Watch, ZNode

    #: Something that happened: reads what it needs, and returns what follows.
    Event = Callable[["Office"], Generator[Any, Any, Effects]]

log = logging.getLogger(__name__)

#: States written in one transaction.
_WRITES_MAX: Final = 500
#: How long to wait before the store is asked again that could not be reached.
_RETRY_MS: Final = 200
#: How long a controller that has failed stays away from the office.
_AGAIN_MS: Final = 1_000


#: How far to go ahead when a broker has heard of a later epoch than the store holds. As often as that, and no more: nobody needs to
#: obey a broker that says it for ever.
_LEAPS: Final = (10, 1_000, 100_000)


class _Deposed(Exception):
    """There is a newer controller, or there must be: a text says why."""


class ControllerSeat:
    """Looks who is controller, and takes the office when it is free."""

    def __init__(self, node: Node) -> None:
        """Have no office."""
        self._node = node
        self.office: Office | None = None
        self._watch: Watch | None = None
        self._is_looking = False
        self._look_again = False
        self._leaps = list(_LEAPS)

    @property
    def is_here(self) -> bool:
        """Tell whether this broker is controller, and ready to decide."""
        return self.office is not None and self.office.is_loaded

    def next_leap(self) -> int:
        """Return by how much to raise the epoch of a store that was put back; 0 when that was done often enough."""
        return self._leaps.pop(0) if self._leaps else 0

    def start(self) -> None:
        """Look, and look again whenever something may have changed."""
        coordination = self._node.world.coordination
        self._watch = coordination.watch(cluster_znodes.CONTROLLER, self.look)
        self.look()

    def stop(self) -> None:
        """Give the office up and look no more; the session's end lets others know."""
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        self.leave("the broker stops")

    def look(self) -> None:
        """Find out who is controller."""
        self._look_again = True
        if not self._is_looking and self._watch is not None:
            self._is_looking = True
            drive(self._look(), self._on_looked)

    def _on_looked(self, _result: Any, problem: BaseException | None) -> None:  # noqa: ANN401
        self._is_looking = False
        if problem is not None:
            log.error("cannot find out who is controller", exc_info=problem)

    def _look(self) -> Task[None]:
        node = self._node
        while self._look_again and not node.stopping:
            self._look_again = False
            try:
                yield from self._look_once()
            except (NotConnected, OutcomeUnknown) as problem:
                log.warning("cannot find out who is controller: %s", problem)
                yield partial(node.pause, _RETRY_MS)
                self._look_again = True

    def _look_once(self) -> Task[None]:
        node, coordination = self._node, self._node.world.coordination
        found = yield partial(coordination.read, cluster_znodes.CONTROLLER)
        holder = cluster_znodes.read_controller(found)
        if found is None:
            self.leave("nobody is controller")
            yield from self._stand_for_election()
        elif holder != node.broker_id or found.owner != node.members.session_id:
            # Also our own of a session that is over: it vanishes soon, and is looked at again.
            self.leave(f"broker {holder} is controller")
            if holder is not None:
                node.cluster.controller_id = holder
        elif self.office is None:
            node_ = yield partial(coordination.read, cluster_znodes.CONTROLLER_EPOCH)
            term = cluster_znodes.read_term(node_)
            assert term is not None
            self._take_office(term)

    def _stand_for_election(self) -> Task[None]:
        node, coordination = self._node, self._node.world.coordination
        if not node.members.is_registered:
            return  # it is looked again after that
        found = yield partial(coordination.read, cluster_znodes.CONTROLLER_EPOCH)
        before = cluster_znodes.read_term(found)
        now_ms = node.world.clock.now_ms()
        # The store may have been put back: brokers that live refuse orders of an epoch before the last one they heard of.
        last = max(node.members.orders.controller_epoch, 0 if before is None else before.epoch)
        operations = cluster_znodes.elect_operations(node.broker_id, before, last + 1, now_ms)
        self._look_again = True  # whoever won is found by looking
        try:
            yield partial(coordination.commit, operations)
        except CoordinationError:
            return
        log.info("elected as controller in epoch %d", last + 1)

    def _take_office(self, term: Term) -> None:
        self._node.cluster.controller_id = self._node.broker_id
        self.office = Office(self._node, term, self._on_deposed)
        self.office.start()

    def _on_deposed(self, reason: str) -> None:
        self.leave(reason)
        # Whoever follows is heard of at once; if nobody does, what has failed here is tried again.
        clock = self._node.world.clock
        self._node.world.timers.call_at(clock.monotonic_ms() + _AGAIN_MS, self.look)

    def leave(self, reason: str) -> None:
        """Give the office up, if it is ours."""
        if self.office is not None:
            log.warning("no longer controller: %s", reason)
            self.office.close()
            self.office = None
            self._node.cluster.controller_id = NOBODY


class Office:
    """One term as controller."""

    def __init__(self, node: Node, term: Term, on_deposed: Callable[[str], None]) -> None:
        """Begin a term."""
        self._node = node
        self.term = term
        self._on_deposed = on_deposed
        self.machine = Controller(_settings(node), term.epoch)
        #: Who lives, with endpoints.
        self.live: dict[int, LiveBroker] = {}
        self._telling = Telling(node, self)
        self._events: deque[Event] = deque()
        self._is_working = False
        self._is_closed = False
        self.is_loaded = False
        self._watches: list[Watch] = []
        self._waiting: list[tuple[Callable[[], bool], Done]] = []

    @property
    def epoch(self) -> int:
        """The epoch of this term."""
        return self.term.epoch

    def start(self) -> None:
        """Read everything, and begin."""
        self.submit(_load)
        coordination = self._node.world.coordination
        self._watches = [
            coordination.watch(path, partial(self.submit, event))
            for path, event in (
                (cluster_znodes.BROKER_IDS, _look_at_brokers),
                (znodes.TOPICS, _look_at_topics),
                (cluster_znodes.IN_SYNC_CHANGES, _look_at_in_sync_changes),
                (cluster_znodes.LOST_LOGS, _look_at_lost_logs),
                (cluster_znodes.DELETE_TOPICS, look_at_deletions),
            )
        ]
        self._book_imbalance_check()

    def close(self) -> None:
        """End the term: nothing is written or told any more."""
        self._is_closed = True
        for watch in self._watches:
            watch.cancel()
        self._telling.close()
        self._events.clear()
        waiting, self._waiting = self._waiting, []
        for _condition, done in waiting:
            done(False, None)

    def on_order_refused(self) -> None:
        """Hear that a broker believes in a later controller: there may be one."""
        self.submit(_look_at_term)

    def endpoint_of(self, broker_id: int) -> tuple[str, int] | None:
        """Where a broker is reached by others."""
        broker = self.live.get(broker_id)
        return None if broker is None else self._node.members.inter_broker_endpoint(broker)

    def _book_imbalance_check(self) -> None:
        node = self._node
        if not node.config.get_bool("auto.leader.rebalance.enable"):
            return
        interval_ms = node.config.get_int("leader.imbalance.check.interval.seconds") * 1000

        def due() -> None:
            if not self._is_closed:
                self.submit(_check_imbalance)
                self._book_imbalance_check()

        node.world.timers.call_at(node.world.clock.monotonic_ms() + interval_ms, due)

    # Events, one after another

    def submit(self, event: Event) -> None:
        """Let something be dealt with, after what came before it; the same thing twice in the queue is once."""
        if self._is_closed or event in self._events:
            return
        self._events.append(event)
        if not self._is_working:
            self._is_working = True
            drive(self._work(), self._on_worked)

    def _on_worked(self, _result: Any, problem: BaseException | None) -> None:  # noqa: ANN401
        self._is_working = False
        if problem is None or self._is_closed:
            return
        if isinstance(problem, _Deposed):
            self._on_deposed(str(problem) or "another broker was elected")
        elif isinstance(problem, StoreGoneBack):
            self._on_deposed(f"ZooKeeper was put back to an older state ({problem})")
        else:
            log.critical("the controller failed; it begins anew", exc_info=problem)
            self._on_deposed("it failed")

    def _work(self) -> Task[None]:
        while self._events and not self._is_closed:
            event = self._events.popleft()
            try:
                effects = yield from event(self)
            except (NotConnected, OutcomeUnknown) as problem:
                log.warning("controller: the store cannot be read: %s", problem)
                yield partial(self._node.pause, _RETRY_MS)
                self._events.appendleft(event)
                continue
            yield from self._carry_out(effects)
            self._answer_waiting()

    def ask(self, question: Callable[[Controller], tuple[Any, Effects]]) -> Callable[[Done], None]:
        """Have the machine decide on a request, from within a task; the answer is what it says, None if the term ended."""

        def start(done: Done) -> None:
            def decide(machine: Controller) -> Effects:
                answer, effects = question(machine)
                # Answered at the end of the event, when everything that follows is written.
                self._waiting.append((lambda: True, lambda _ok, _error: done(answer, None)))
                return effects

            if self._is_closed:
                done(None, None)
            else:
                self.submit(_plain(decide))

        return start

    def until(self, condition: Callable[[], bool], deadline_ms: int) -> Callable[[Done], None]:
        """Wait in a task until the machine has come so far; False if the time, or the term, is over."""

        def start(done: Done) -> None:
            if self._is_closed or condition():
                done(not self._is_closed, None)
                return
            entry = (condition, done)
            self._waiting.append(entry)

            def expire() -> None:
                if entry in self._waiting:
                    self._waiting.remove(entry)
                    done(False, None)

            self._node.world.timers.call_at(deadline_ms, expire)

        return start

    def _answer_waiting(self) -> None:
        ready = [entry for entry in self._waiting if entry[0]()]
        for entry in ready:
            self._waiting.remove(entry)
            entry[1](True, None)

    # What brokers answer

    def on_roles_taken(
        self, broker: int, offline: list[TopicPartition], online: list[TopicPartition]
    ) -> None:
        """Take a broker's answer to its roles."""
        self.submit(_plain(lambda machine: machine.on_replica_errors(broker, offline, online)))

    def on_roles_refused(self, refused: list[TopicPartition]) -> None:
        """Take a broker's answer that it knows of later leaders."""
        self.submit(_plain(lambda machine: machine.on_roles_refused(refused)))

    def on_log_ends(self, broker: int, ends: dict[TopicPartition, LogEnd]) -> None:
        """Take what a broker says of its logs."""
        self.submit(_plain(lambda machine: machine.on_log_ends(broker, ends)))

    def on_stops_answered(self, done: Sequence[Stop], failed: Sequence[Stop]) -> None:
        """Take a broker's answer to what it was to give up."""
        self.submit(_plain(lambda machine: machine.on_stopped(done)))
        if failed:
            self.submit(_plain(lambda machine: machine.on_stop_errors(failed)))

    # What the machine wants

    def _carry_out(self, effects: Effects) -> Task[None]:
        """Write, tell, and go on with what follows from it, until nothing does."""
        while not self._is_closed:
            self._telling.carry_out(effects)
            following = Effects()
            for some in _pieces(effects.write_states):
                following.extend((yield from self._write_states(some)))
            for write in effects.write_topics:
                following.extend((yield from self._write_topic(write)))
            for topic in effects.delete_topics:
                following.extend((yield from self._delete_topic(topic)))
            for topic in effects.drop_deletions:
                yield from self._drop_deletion(topic)
            if following == Effects():
                return
            effects = following

    def _commit(self, operations: Sequence[Operation]) -> Task[bool]:
        """Write as controller. False if something was not as expected, or nobody knows: read it again."""
        while not self._is_closed:
            try:
                yield partial(self._node.world.coordination.commit, [self.fence, *operations])
            except CoordinationError as refusal:
                if refusal.path == cluster_znodes.CONTROLLER_EPOCH:
                    raise _Deposed from None
                return False
            except NotConnected:
                yield partial(self._node.pause, _RETRY_MS)
            except OutcomeUnknown:
                return False
            else:
                return True
        raise _Deposed

    def _write_states(self, writes: Sequence[StateWrite]) -> Task[Effects]:
        operations = [self._state_operation(write) for write in writes]
        if (yield from self._commit(operations)):
            return self.machine.on_written(
                [(write, write.expected_version + 1) for write in writes]
            )
        if len(writes) == 1:
            states = yield from _read_states(self._node, [writes[0].partition])
            return self.machine.on_states(states)
        effects = Effects()
        for write in writes:  # one of them does not fit: find out which
            effects.extend((yield from self._write_states([write])))
        return effects

    def _state_operation(self, write: StateWrite) -> Operation:
        leadership = write.leadership
        path = cluster_znodes.state_path(*write.partition)
        data = cluster_znodes.state_data(
            leadership.leader, leadership.leader_epoch, leadership.in_sync, self.epoch
        )
        if write.expected_version < 0:
            return Create(path, data)
        return SetData(path, data, write.expected_version)

    def _write_topic(self, write: TopicWrite) -> Task[Effects]:
        data = cluster_znodes.topic_data(
            cluster_znodes.StoredTopic(
                topic_id_text(TopicId(write.topic_id)),
                {index: a.replicas for index, a in write.partitions.items()},
                {index: a.adding for index, a in write.partitions.items() if a.adding},
                {index: a.removing for index, a in write.partitions.items() if a.removing},
            )
        )
        path = cluster_znodes.topic_path(write.topic)
        if (yield from self._commit([SetData(path, data, write.expected_version)])):
            return self.machine.on_topic_written(write, write.expected_version + 1)
        return (yield from _read_topics(self, [write.topic]))

    def _delete_topic(self, topic: str) -> Task[Effects]:
        node = self._node
        wanted = cluster_znodes.deleted_operations(topic)
        found = yield from store.read_all(node, [operation.path for operation in wanted])
        operations = [operation for operation in wanted if found[operation.path] is not None]
        if operations and not (yield from self._commit(operations)):
            return (yield from self._delete_topic(topic))
        log.info("deleted topic %s", topic)
        return self.machine.on_topics_gone([topic])

    def _drop_deletion(self, topic: str) -> Task[None]:
        yield from self._commit([Delete(f"{cluster_znodes.DELETE_TOPICS}/{topic}")])

    def take_brokers(self, found: Mapping[int, LiveBroker]) -> list[LiveBroker]:
        """Note who lives, and talk to them."""
        self.live = dict(found)
        self._telling.on_brokers(self.live)
        return list(self.live.values())

    def on_topic_settings(self, topic: str, overrides: Mapping[str, str]) -> None:
        """Hear of a topic's settings: whether one that is not in sync may lead it may be among them."""
        unclean = _unclean(overrides)
        self.submit(_plain(lambda machine: machine.on_topic_settings(topic, unclean)))

    def on_settings(self) -> None:
        """Hear that the broker's own settings have changed."""
        settings = _settings(self._node)
        self.submit(_plain(lambda machine: machine.on_settings(settings)))

    def read_notices(self, parent: str) -> Task[dict[str, ZNode]]:
        """Read what brokers have put at a place, by path."""
        tree = yield partial(self._node.world.coordination.read_tree, parent)
        return {path: node for path, node in tree.items() if path.startswith(parent + "/")}

    def forget_notices(self, paths: Iterable[str]) -> Task[None]:
        """Take away notices that have been dealt with."""
        for path in paths:
            yield from self._commit([Delete(path)])

    @property
    def fence(self) -> Operation:
        """What lets a commit fail once there is a newer controller."""
        return cluster_znodes.fence(self.term)

    @property
    def node(self) -> Node:
        """The broker that holds the office."""
        return self._node


def _settings(node: Node) -> ControllerSettings:
    config = node.config
    return ControllerSettings(
        config.get_bool("unclean.leader.election.enable"),
        config.get_bool("delete.topic.enable"),
        config.get_int("leader.imbalance.per.broker.percentage"),
    )


def _pieces(writes: Sequence[StateWrite]) -> Iterator[Sequence[StateWrite]]:
    for start in range(0, len(writes), _WRITES_MAX):
        yield writes[start : start + _WRITES_MAX]


# Events


def _plain(decide: Callable[[Controller], Effects]) -> Event:
    """Make an event of something that needs no reading."""

    def event(office: Office) -> Generator[Any, Any, Effects]:
        yield from ()
        return decide(office.machine)

    return event


def _load(office: Office) -> Generator[Any, Any, Effects]:
    coordination = office.node.world.coordination
    tree = yield partial(coordination.read_tree, "/brokers")
    settings = yield partial(coordination.read_tree, znodes.TOPIC_CONFIGS)
    deletions = yield partial(coordination.read_children, cluster_znodes.DELETE_TOPICS)
    brokers = office.take_brokers(cluster_znodes.read_brokers(tree))
    topics = _topics_in(tree)
    states = {
        key: _state(tree[path])
        for topic in topics
        for index in topic.partitions
        if (path := cluster_znodes.state_path(*(key := TopicPartition(topic.name, index)))) in tree
    }
    log.info(
        "controller in epoch %d: %d brokers, %d topics, %d partitions",
        office.epoch, len(brokers), len(topics), len(states),
    )  # fmt: skip
    office.is_loaded = True
    return office.machine.load(
        Snapshot(
            brokers,
            topics,
            states,
            deletions or (),
            _unclean_topics(settings),
            doubted=office.node.members.orders.outlived,
        )
    )


def _look_at_term(office: Office) -> Generator[Any, Any, Effects]:
    """Find out whether the office is still ours: somebody says that it is not."""
    found = yield partial(office.node.world.coordination.read, cluster_znodes.CONTROLLER_EPOCH)
    if cluster_znodes.read_term(found) != office.term:
        raise _Deposed
    leap = office.node.members.controller.next_leap()
    if not leap:
        log.error("a broker says for ever that it has heard of a later controller: restart it")
        return Effects()
    raised = cluster_znodes.raise_epoch_operation(office.term, leap)
    try:
        yield partial(office.node.world.coordination.commit, [raised])
    except CoordinationError:
        raise _Deposed from None
    raise _Deposed("ZooKeeper was put back to an older state: a broker has heard of a later epoch")


def _look_at_brokers(office: Office) -> Generator[Any, Any, Effects]:
    coordination = office.node.world.coordination
    tree = yield partial(coordination.read_tree, cluster_znodes.BROKER_IDS)
    before = set(office.live)
    brokers = office.take_brokers(cluster_znodes.read_brokers(tree))
    after = set(office.live)
    if before != after:
        log.info("brokers: %s; gone %s", sorted(after), sorted(before - after))
    return office.machine.on_brokers(brokers)


def _look_at_topics(office: Office) -> Generator[Any, Any, Effects]:
    """Find topics that are new, or gone."""
    names = yield partial(office.node.world.coordination.read_children, znodes.TOPICS)
    known = office.machine.view.topics
    gone = [name for name in known if name not in (names or ())]
    new = [name for name in names or () if name not in known]
    effects = office.machine.on_topics_gone(gone)
    effects.extend((yield from _read_topics(office, new)))
    return effects


def _read_topics(office: Office, names: Iterable[str]) -> Generator[Any, Any, Effects]:
    paths = {cluster_znodes.topic_path(name): name for name in names}
    found = yield from store.read_all(office.node, list(paths))
    topics = [_topic(paths[path], node) for path, node in found.items() if node is not None]
    return office.machine.on_topics(topics)


def topics_changed(names: Sequence[str]) -> Event:
    """Make an event of topics that were just written."""
    return lambda office: _read_topics(office, names)


def states_changed(keys: Sequence[TopicPartition]) -> Event:
    """Make an event of partitions whose state was just written."""

    def event(office: Office) -> Generator[Any, Any, Effects]:
        states = yield from _read_states(office.node, keys)
        return office.machine.on_states(states)

    return event


def _look_at_in_sync_changes(office: Office) -> Generator[Any, Any, Effects]:
    notices = yield from office.read_notices(cluster_znodes.IN_SYNC_CHANGES)
    keys: dict[TopicPartition, None] = {}
    for notice in notices.values():
        for topic, index in cluster_znodes.read_in_sync_notice(notice):
            keys[TopicPartition(topic, index)] = None
    states = yield from _read_states(office.node, list(keys))
    yield from office.forget_notices(notices)
    return office.machine.on_states(states)


def _look_at_lost_logs(office: Office) -> Generator[Any, Any, Effects]:
    """Find brokers that have lost logs with their disk; which ones, their answers tell."""
    notices = yield from office.read_notices(cluster_znodes.LOST_LOGS)
    yield from office.forget_notices(notices)
    effects = Effects()
    for broker in dict.fromkeys(map(cluster_znodes.read_lost_logs_notice, notices.values())):
        log.warning("broker %d has lost logs: it is asked which", broker)
        effects.extend(office.machine.on_log_dir_failure(broker))
    return effects


def look_at_deletions(office: Office) -> Generator[Any, Any, Effects]:
    """Find topics that are to be deleted."""
    names = yield partial(
        office.node.world.coordination.read_children, cluster_znodes.DELETE_TOPICS
    )
    return office.machine.on_topic_deletion(names or ())


def _check_imbalance(office: Office) -> Generator[Any, Any, Effects]:
    yield from ()
    return office.machine.on_imbalance_check()


# Reading the store


def _read_states(
    node: Node, keys: Iterable[TopicPartition]
) -> Task[dict[TopicPartition, ReadState | None]]:
    paths = {cluster_znodes.state_path(*key): key for key in keys}
    found = yield from store.read_all(node, list(paths))
    return {paths[path]: None if read is None else _state(read) for path, read in found.items()}


def _state(node: ZNode) -> ReadState:
    stored = cluster_znodes.read_state(node)
    leadership = Leadership(
        stored.leader, stored.leader_epoch, stored.in_sync, stored.controller_epoch
    )
    return ReadState(leadership, stored.version)


def _topics_in(tree: Mapping[str, ZNode]) -> list[ReadTopic]:
    prefix = znodes.TOPICS + "/"
    return [
        _topic(path[len(prefix) :], node)
        for path, node in tree.items()
        if path.startswith(prefix) and "/" not in path[len(prefix) :]
    ]


def _topic(name: str, node: ZNode) -> ReadTopic:
    stored = cluster_znodes.read_topic(node)
    partitions = {
        index: Assignment(replicas, stored.adding.get(index, ()), stored.removing.get(index, ()))
        for index, replicas in stored.replicas.items()
    }
    return ReadTopic(name, topic_id_from_text(stored.id_text), node.version, partitions)


def _unclean_topics(tree: Mapping[str, ZNode]) -> dict[str, bool]:
    prefix = znodes.TOPIC_CONFIGS + "/"
    found: dict[str, bool] = {}
    for path, node in tree.items():
        if path.startswith(prefix):
            unclean = _unclean(znodes.read_config(node))
            if unclean is not None:
                found[path[len(prefix) :]] = unclean
    return found


def _unclean(overrides: Mapping[str, str]) -> bool | None:
    value = overrides.get("unclean.leader.election.enable")
    return None if value is None else value == "true"
