"""The rules between settings of the broker: values that are fine alone and wrong together.

Job: refuse a whole configuration that cannot be meant.
Must not know: the bounds of single settings, which their tables hold.
Invariants: a configuration that passes here can be run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from barnabas.model.config.types import ConfigProblem
from barnabas.model.principal import parse_principal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from barnabas.model.config.types import Value

# Pairs of settings, the first of which must not be larger than the second.
_ORDERED = (
    ("replica.fetch.wait.max.ms", "replica.socket.timeout.ms"),
    ("replica.fetch.wait.max.ms", "replica.lag.time.max.ms"),
    ("log.cleaner.min.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms"),
    ("group.min.session.timeout.ms", "group.max.session.timeout.ms"),
    ("group.consumer.min.session.timeout.ms", "group.consumer.session.timeout.ms"),
    ("group.consumer.session.timeout.ms", "group.consumer.max.session.timeout.ms"),
    ("group.consumer.min.assignment.interval.ms", "group.consumer.assignment.interval.ms"),
    ("group.consumer.assignment.interval.ms", "group.consumer.max.assignment.interval.ms"),
    ("group.consumer.min.heartbeat.interval.ms", "group.consumer.heartbeat.interval.ms"),
    ("group.consumer.heartbeat.interval.ms", "group.consumer.max.heartbeat.interval.ms"),
)


def check_rules(values: Mapping[str, Value], topic_defaults: Mapping[str, Value]) -> None:
    """Raise `ConfigProblem` for the first rule the values break."""
    _check_identity(values)
    _check_order(values)
    _check_times(topic_defaults)
    _check_sizes(values)
    _check_super_users(values)


def _check_super_users(values: Mapping[str, Value]) -> None:
    for one in str(values["super.users"]).split(";"):
        try:
            if one.strip():
                parse_principal(one.strip())
        except ValueError as problem:
            raise ConfigProblem("super.users", f"super.users: {problem}") from None


def _check_identity(values: Mapping[str, Value]) -> None:
    if values["node.id"] != values["broker.id"]:
        raise ConfigProblem(
            "broker.id",
            f"broker.id ({values['broker.id']}) and node.id ({values['node.id']}) differ; "
            "they name the same broker",
        )
    largest = cast("int", values["reserved.broker.max.id"])
    if values["zookeeper.connect"] is not None and cast("int", values["node.id"]) > largest:
        raise ConfigProblem(
            "node.id",
            f"node.id ({values['node.id']}) is more than reserved.broker.max.id ({largest}): "
            "choose a smaller one, or allow it by raising that setting",
        )


def _check_order(values: Mapping[str, Value]) -> None:
    for small, large in _ORDERED:
        if cast("int", values[small]) > cast("int", values[large]):
            raise ConfigProblem(
                small, f"{small} ({values[small]}) is more than {large} ({values[large]})"
            )


def _check_times(topic_defaults: Mapping[str, Value]) -> None:
    for name, broker_name, minimum in (
        ("retention.ms", "log.retention.ms", 1),
        ("segment.ms", "log.roll.ms", 1),
        ("segment.jitter.ms", "log.roll.jitter.ms", 0),
        ("flush.ms", "log.flush.interval.ms", 0),
    ):
        value = cast("int", topic_defaults[name])
        if value < minimum and not (name == "retention.ms" and value == -1):
            unlimited = ", or -1 for no limit" if name == "retention.ms" else ""
            raise ConfigProblem(
                broker_name,
                f"{broker_name}, or the coarser unit given for it, comes to {value} ms; "
                f"allowed is at least {minimum}{unlimited}",
            )


def _check_sizes(values: Mapping[str, Value]) -> None:
    queued = cast("int", values["queued.max.request.bytes"])
    largest = cast("int", values["socket.request.max.bytes"])
    if 0 < queued < largest:
        raise ConfigProblem(
            "queued.max.request.bytes",
            f"queued.max.request.bytes ({queued}) cannot hold one request of "
            f"socket.request.max.bytes ({largest})",
        )
    if not (values["log.dirs"] or values["log.dir"]):
        raise ConfigProblem("log.dirs", "log.dirs is empty; at least one directory is needed")
