"""What happens to a controller: each event reads what it needs from the store, and returns what the machine makes of it.

Job: turn znodes into what `core/controller` understands. Must not write anything, except that the store was put back (`look_at_term`), nor decide.

| seen                                   | done                                                                     |
|----------------------------------------|--------------------------------------------------------------------------|
| a broker has heard of a later epoch    | and the store has not: it was put back. Begins again in a much later one |
| notices of brokers                     | reads what they are about, and forgets them                              |
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any

from barnabas.broker import cluster_znodes, store, znodes
from barnabas.core.controller.assignment import Assignment
from barnabas.core.controller.effects import Effects
from barnabas.core.controller.view import Leadership, ReadState, ReadTopic, Snapshot
from barnabas.model.ids import TopicPartition, topic_id_from_text
from barnabas.ports import CoordinationError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping, Sequence

    from barnabas.broker.controller import Office
    from barnabas.broker.node import Node
    from barnabas.broker.tasks import Task
    from barnabas.core.controller.controller import Controller
    from barnabas.ports import ZNode

    #: Something that happened: reads what it needs, and returns what follows.
    Event = Callable[[Office], Generator[Any, Any, Effects]]

log = logging.getLogger(__name__)


class Deposed(Exception):
    """There is a newer controller, or there must be: a text says why."""


def plain(decide: Callable[[Controller], Effects]) -> Event:
    """Make an event of something that needs no reading."""

    def event(office: Office) -> Generator[Any, Any, Effects]:
        yield from ()
        return decide(office.machine)

    return event


def load(office: Office) -> Generator[Any, Any, Effects]:
    """Read everything, when a term begins."""
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


def look_at_term(office: Office) -> Generator[Any, Any, Effects]:
    """Find out whether the office is still ours: somebody says that it is not."""
    found = yield partial(office.node.world.coordination.read, cluster_znodes.CONTROLLER_EPOCH)
    if cluster_znodes.read_term(found) != office.term:
        raise Deposed
    leap = office.node.members.controller.next_leap()
    if not leap:
        log.error("a broker says for ever that it has heard of a later controller: restart it")
        return Effects()
    raised = cluster_znodes.raise_epoch_operation(office.term, leap)
    try:
        yield partial(office.node.world.coordination.commit, [raised])
    except CoordinationError:
        raise Deposed from None
    raise Deposed("ZooKeeper was put back to an older state: a broker has heard of a later epoch")


def look_at_brokers(office: Office) -> Generator[Any, Any, Effects]:
    """Find who lives."""
    coordination = office.node.world.coordination
    tree = yield partial(coordination.read_tree, cluster_znodes.BROKER_IDS)
    before = set(office.live)
    brokers = office.take_brokers(cluster_znodes.read_brokers(tree))
    after = set(office.live)
    if before != after:
        log.info("brokers: %s; gone %s", sorted(after), sorted(before - after))
    return office.machine.on_brokers(brokers)


def look_at_topics(office: Office) -> Generator[Any, Any, Effects]:
    """Find topics that are new, or gone."""
    names = yield partial(office.node.world.coordination.read_children, znodes.TOPICS)
    known = office.machine.view.topics
    gone = [name for name in known if name not in (names or ())]
    new = [name for name in names or () if name not in known]
    effects = office.machine.on_topics_gone(gone)
    effects.extend((yield from read_topics(office, new)))
    return effects


def read_topics(office: Office, names: Iterable[str]) -> Generator[Any, Any, Effects]:
    """Read topics, and tell the machine of them."""
    paths = {cluster_znodes.topic_path(name): name for name in names}
    found = yield from store.read_all(office.node, list(paths))
    topics = [_topic(paths[path], node) for path, node in found.items() if node is not None]
    return office.machine.on_topics(topics)


def topics_changed(names: Sequence[str]) -> Event:
    """Make an event of topics that were just written."""
    return lambda office: read_topics(office, names)


def states_changed(keys: Sequence[TopicPartition]) -> Event:
    """Make an event of partitions whose state was just written."""

    def event(office: Office) -> Generator[Any, Any, Effects]:
        states = yield from read_states(office.node, keys)
        return office.machine.on_states(states)

    return event


def look_at_in_sync_changes(office: Office) -> Generator[Any, Any, Effects]:
    """Find partitions whose leaders have written another in-sync set."""
    notices = yield from office.read_notices(cluster_znodes.IN_SYNC_CHANGES)
    keys: dict[TopicPartition, None] = {}
    for notice in notices.values():
        for topic, index in cluster_znodes.read_in_sync_notice(notice):
            keys[TopicPartition(topic, index)] = None
    states = yield from read_states(office.node, list(keys))
    yield from office.forget_notices(notices)
    return office.machine.on_states(states)


def look_at_lost_logs(office: Office) -> Generator[Any, Any, Effects]:
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


def check_imbalance(office: Office) -> Generator[Any, Any, Effects]:
    """Let preferred replicas lead again where too few do."""
    yield from ()
    return office.machine.on_imbalance_check()


# Reading the store


def read_states(
    node: Node, keys: Iterable[TopicPartition]
) -> Task[dict[TopicPartition, ReadState | None]]:
    """Read who leads partitions; None for those that have no state."""
    paths = {cluster_znodes.state_path(*key): key for key in keys}
    found = yield from store.read_all(node, list(paths))
    return {paths[path]: None if read is None else _state(read) for path, read in found.items()}


def _state(node: ZNode) -> ReadState:
    stored = cluster_znodes.read_state(node)
    leadership = Leadership(
        stored.leader, stored.leader_epoch, stored.in_sync, stored.controller_epoch
    )
    return ReadState(leadership, stored.version, node.written)


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
            unclean = unclean_setting(znodes.read_config(node))
            if unclean is not None:
                found[path[len(prefix) :]] = unclean
    return found


def unclean_setting(overrides: Mapping[str, str]) -> bool | None:
    """Tell what a topic's settings say about leaders that are not in sync; None if nothing."""
    value = overrides.get("unclean.leader.election.enable")
    return None if value is None else value == "true"
