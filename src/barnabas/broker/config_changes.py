"""Changing the settings of topics and of brokers while they run.

A change is planned on what stands in the coordination store, written there unless somebody else was faster
(`entity_config.py`), and then in force here at once. What is in force here may be older: other brokers change settings, too.
"""

from __future__ import annotations

import logging
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from barnabas.broker import audit, entity_config, znodes
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import topic_name_problem

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from barnabas.broker.call import Call
    from barnabas.broker.node import Node
    from barnabas.broker.tasks import Task
    from barnabas.model.cluster import Topic
    from barnabas.model.config.broker_config import BrokerConfig

log = logging.getLogger(__name__)


class ResourceType(IntEnum):
    """What has settings; the numbers are those of the requests."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class Plans(NamedTuple):
    """How a request changes what it names. Both raise KafkaError to refuse."""

    #: A topic's own settings in, the new ones out.
    topic: Callable[[Mapping[str, str]], dict[str, str]]
    #: A broker's settings in; its new dynamic ones, or with True those of all, out.
    broker: Callable[[BrokerConfig, bool], dict[str, str]]
    #: A group's own settings in, the new ones out.
    group: Callable[[Mapping[str, str]], dict[str, str]]


def find_topic(node: Node, name: str) -> Topic:
    """Return the topic of that name, or raise KafkaError."""
    problem = topic_name_problem(name)
    if problem is not None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
    topic = node.topics.by_name.get(name)
    if topic is None:
        raise no_topic(name)
    return topic


def no_topic(name: str) -> KafkaError:
    """Say that it is not there."""
    return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic '{name}'.")


def check_broker_name(node: Node, name: str) -> None:
    """Refuse a broker that is not this one; the empty name stands for all brokers."""
    if not name:
        return
    try:
        number = int(name)
    except ValueError:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}"
        ) from None
    if number != node.broker_id:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {node.broker_id} or an empty name for all brokers,"
            f" but received {name}",
        )


def duplicates(resources: Sequence[tuple[int, str]]) -> set[tuple[int, str]]:
    """Find the resources that one request names more than once: each of them is refused."""
    seen: set[tuple[int, str]] = set()
    twice: set[tuple[int, str]] = set()
    for resource in resources:
        (twice if resource in seen else seen).add(resource)
    return twice


def check_once(kind: int, name: str, twice: set[tuple[int, str]]) -> None:
    """Refuse a resource that is among the duplicates."""
    if (kind, name) in twice:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")


def unsupported_resource(kind: int) -> KafkaError:
    """Say which resources have settings here."""
    known = ", ".join(f"{one.value} ({one.name.lower()})" for one in ResourceType)
    return KafkaError(
        ErrorCode.INVALID_REQUEST, f"Resource type {kind} has no settings here; there are: {known}."
    )


def change(node: Node, kind: int, name: str, plans: Plans, *, validate_only: bool) -> Task[None]:
    """Change the settings of a topic, a broker or a group, or just check with `validate_only`; KafkaError if refused."""
    yield node.changes.take
    try:
        if kind == ResourceType.TOPIC:
            yield from _change_topic(node, name, plans, validate_only=validate_only)
        elif kind == ResourceType.BROKER:
            yield from _change_broker(node, name, plans, validate_only=validate_only)
        elif kind == ResourceType.GROUP:
            yield from _change_group(node, name, plans, validate_only=validate_only)
        else:
            raise unsupported_resource(kind)
    finally:
        node.changes.give()


def tell(call: Call, kind: int, name: str, settings: list[str]) -> None:
    """Tell the audit log what was changed; not to what: some values are passwords."""
    audit.changed(
        call, "alter", f"{ResourceType(kind).name.title()}Configs", name, settings=settings
    )


def _change_topic(node: Node, name: str, plans: Plans, *, validate_only: bool) -> Task[None]:
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "A topic's settings need the topic's name.")
    known = node.topics.by_name.get(name)
    # As in Kafka the settings are looked at first, also for a topic that is not there.
    plans.topic({} if known is None else known.overrides)
    find_topic(node, name)
    if validate_only:
        return
    # One that has just been deleted elsewhere must not leave settings behind.
    overrides = yield from entity_config.change(
        node, f"topics/{name}", plans.topic, missing=no_topic(name)
    )
    on_topic_changed(node, name, overrides)


def _change_broker(node: Node, name: str, plans: Plans, *, validate_only: bool) -> Task[None]:
    check_broker_name(node, name)
    cluster_wide = not name

    def plan(stored: dict[str, str]) -> dict[str, str]:
        config = node.config
        dynamic = config.dynamic if cluster_wide else stored
        default = stored if cluster_wide else config.dynamic_default
        return plans.broker(config.with_dynamic(dynamic, default), cluster_wide)

    if validate_only:
        plans.broker(node.config, cluster_wide)
        return
    place = znodes.ALL_BROKERS if cluster_wide else str(node.broker_id)
    texts = yield from entity_config.change(node, f"brokers/{place}", plan)
    on_broker_changed(node, place, texts)


def on_topic_changed(node: Node, name: str, overrides: dict[str, str]) -> None:
    """Put a topic's settings in force that are in the store."""
    if not node.is_lone:
        node.members.orders.learning.on_settings(name, overrides)
    topic = node.topics.by_name.get(name)
    if topic is None or topic.overrides == overrides:
        return
    topic.overrides = overrides
    _apply(node, topic)
    tell_office(node, name, overrides)
    log.info("settings of topic %s are now %s", name, overrides)


def tell_office(node: Node, name: str, overrides: Mapping[str, str]) -> None:
    """Let the controller know of a topic's settings, if this broker is it."""
    if node.office is not None:
        node.office.on_topic_settings(name, overrides)


def on_broker_changed(node: Node, place: str, texts: dict[str, str]) -> None:
    """Put dynamic settings in force that are in the store, if they are this broker's or everybody's."""
    config = node.config
    if place == znodes.ALL_BROKERS:
        if texts == config.dynamic_default:
            return
        node.config = config.with_dynamic(config.dynamic, texts)
    elif place == str(node.broker_id):
        if texts == config.dynamic:
            return
        node.config = config.with_dynamic(texts, config.dynamic_default)
    else:
        return
    for topic in node.topics.by_name.values():
        _apply(node, topic)
    node.coordinators.group_settings.on_broker_changed()
    if node.office is not None:
        node.office.on_settings()
    # Values stay out of the log: some are passwords.
    everybody = place == znodes.ALL_BROKERS
    log.info(
        "dynamic settings of %s are now %s",
        "all brokers" if everybody else f"broker {place}",
        sorted(texts),
    )


def _change_group(node: Node, name: str, plans: Plans, *, validate_only: bool) -> Task[None]:
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "A group's settings need the group's id.")
    settings = node.coordinators.group_settings
    if validate_only:
        plans.group(settings.texts(name) or {})
        return
    texts = yield from entity_config.change(node, znodes.group_entity(name), plans.group)
    settings.put(name, texts)
    log.info("settings of group %s are now %s", name, texts)


def _apply(node: Node, topic: Topic) -> None:
    config = node.log_config(topic.overrides)
    for replica in node.replicas.of_topic(topic.name):
        if replica.config is not config:
            replica.configure(config)
