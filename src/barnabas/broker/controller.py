"""The controller's office: what the machine that decides (`core/controller`) sees and does during one term.

Job: take what happened (`controller_events.py`), let the machine decide, write what it decided under the condition that no newer controller
is there, then tell the brokers (`telling.py`). One event at a time, each to its end. Must not decide anything about partitions.

| seen                                   | done                                                                     |
|----------------------------------------|--------------------------------------------------------------------------|
| the term begins                        | reads everything, tells everybody everything, goes on with what is undone |
| a write meets a newer version          | reads it again, and lets the machine decide again                        |
| a newer epoch, or the session is over  | gives the office up: nothing that is under way is told any more          |
| an older version than was written      | the store was put back: begins again with what it holds                  |
"""

from __future__ import annotations

import logging
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from barnabas.broker import cluster_znodes, store, znodes
from barnabas.broker import controller_events as events
from barnabas.broker.edge import call_all
from barnabas.broker.tasks import drive
from barnabas.broker.telling import Telling
from barnabas.core.controller.controller import Controller
from barnabas.core.controller.effects import Effects
from barnabas.core.controller.progress import StoreGoneBack
from barnabas.core.controller.settings import ControllerSettings
from barnabas.model.ids import TopicId, TopicPartition, topic_id_text
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
        #: Questions to the machine that are not answered yet. Each gets an answer, also if the term ends or its event fails.
        self._asked: dict[object, Done] = {}

    @property
    def epoch(self) -> int:
        """The epoch of this term."""
        return self.term.epoch

    def start(self) -> None:
        """Read everything, and begin."""
        self.submit(events.load)
        coordination = self._node.world.coordination
        self._watches = [
            coordination.watch(path, partial(self.submit, event))
            for path, event in (
                (cluster_znodes.BROKER_IDS, events.look_at_brokers),
                (znodes.TOPICS, events.look_at_topics),
                (cluster_znodes.IN_SYNC_CHANGES, events.look_at_in_sync_changes),
                (cluster_znodes.LOST_LOGS, events.look_at_lost_logs),
                (cluster_znodes.DELETE_TOPICS, events.look_at_deletions),
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
        asked = list(self._asked)
        call_all(
            [
                *(partial(done, False, None) for _condition, done in waiting),
                *(partial(self._answer, asker, None) for asker in asked),
            ]
        )

    def on_order_refused(self) -> None:
        """Hear that a broker believes in a later controller: there may be one."""
        self.submit(events.look_at_term)

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
                self.submit(events.check_imbalance)
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
        if isinstance(problem, events.Deposed):
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
            asker = object()

            def decide(machine: Controller) -> Effects:
                answer, effects = question(machine)

                # Answered at the end of the event, when everything that follows is written. If the term ends first, the outcome is unknown.
                def written(ok: bool, _error: BaseException | None) -> None:
                    self._answer(asker, answer if ok else None)

                self._waiting.append((lambda: True, written))
                return effects

            if self._is_closed:
                done(None, None)
            else:
                self._asked[asker] = done
                self.submit(events.plain(decide))

        return start

    def _answer(self, asker: object, answer: Any) -> None:  # noqa: ANN401
        done = self._asked.pop(asker, None)
        if done is not None:
            done(answer, None)

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
        self.submit(
            events.plain(lambda machine: machine.on_replica_errors(broker, offline, online))
        )

    def on_roles_refused(self, refused: list[TopicPartition]) -> None:
        """Take a broker's answer that it knows of later leaders."""
        self.submit(events.plain(lambda machine: machine.on_roles_refused(refused)))

    def on_log_ends(self, broker: int, ends: dict[TopicPartition, LogEnd]) -> None:
        """Take what a broker says of its logs."""
        self.submit(events.plain(lambda machine: machine.on_log_ends(broker, ends)))

    def on_stops_answered(self, done: Sequence[Stop], failed: Sequence[Stop]) -> None:
        """Take a broker's answer to what it was to give up."""
        self.submit(events.plain(lambda machine: machine.on_stopped(done)))
        if failed:
            self.submit(events.plain(lambda machine: machine.on_stop_errors(failed)))

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
                    raise events.Deposed from None
                return False
            except NotConnected:
                yield partial(self._node.pause, _RETRY_MS)
            except OutcomeUnknown:
                return False
            else:
                return True
        raise events.Deposed

    def _write_states(self, writes: Sequence[StateWrite]) -> Task[Effects]:
        operations = [self._state_operation(write) for write in writes]
        if (yield from self._commit(operations)):
            return self.machine.on_written(
                [(write, write.expected_version + 1) for write in writes]
            )
        if len(writes) == 1:
            states = yield from events.read_states(self._node, [writes[0].partition])
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
        return (yield from events.read_topics(self, [write.topic]))

    def _delete_topic(self, topic: str) -> Task[Effects]:
        """Delete a topic from the store, with retries. After a commit of unknown outcome the name may belong to a new topic: that one stays."""
        node, known = self._node, self.machine.view.topics.get(topic)
        wanted = cluster_znodes.deleted_operations(topic)
        while known is not None:
            found = yield from store.read_all(node, [operation.path for operation in wanted])
            there = found[cluster_znodes.topic_path(topic)]
            if there is not None and cluster_znodes.id_of_topic(there) != known.id:
                break
            operations = [operation for operation in wanted if found[operation.path] is not None]
            if not operations or (yield from self._commit(operations)):
                break
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
        unclean = events.unclean_setting(overrides)
        self.submit(events.plain(lambda machine: machine.on_topic_settings(topic, unclean)))

    def on_settings(self) -> None:
        """Hear that the broker's own settings have changed."""
        settings = _settings(self._node)
        self.submit(events.plain(lambda machine: machine.on_settings(settings)))

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
