"""Settings of topics and brokers as the broker reports them, and changes to them.

One job: DescribeConfigs and IncrementalAlterConfigs through the admin client, as plain values.
Used by `config` and `topic`. Must not print. Documentation is not in the answers librdkafka
understands; it comes from our own table of Kafka's settings.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from barnabas.cli.connection import admin_api
from barnabas.cli.failure import Failure, failure, hint_for, nearest, reason

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from confluent_kafka import KafkaError

    from barnabas.cli.connection import Connection

TOPIC = "topic"
BROKER = "broker"
_SOURCES = {
    1: "topic",
    2: "broker",
    3: "cluster",
    4: "server.properties",
    5: "default",
    8: "group",
}
_DEFAULT_SOURCE = 5


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting in force: its value, where it comes from, and what it would be otherwise."""

    name: str
    value: str | None
    source: str
    default: str | None
    read_only: bool
    sensitive: bool
    synonyms: tuple[tuple[str, str | None, str], ...]

    @property
    def is_default(self) -> bool:
        """Has nobody set it?"""
        return self.source == "default"

    def as_dict(self) -> dict[str, Any]:
        """The stable keys of -o json."""
        return {
            "name": self.name,
            "value": self.value,
            "source": self.source,
            "default": self.default,
            "read_only": self.read_only,
            "sensitive": self.sensitive,
            "synonyms": [
                {"name": name, "value": value, "source": source}
                for name, value, source in self.synonyms
            ],
        }


@dataclass(frozen=True, slots=True)
class Change:
    """What an alter does to one setting. `after` None means: back to its default."""

    name: str
    before: str | int | None
    after: str | int | None

    def as_dict(self) -> dict[str, Any]:
        """The stable keys of -o json."""
        return {"name": self.name, "before": self.before, "after": self.after}


def _setting(entry: Any) -> Setting:  # noqa: ANN401 - confluent-kafka's ConfigEntry
    synonyms = tuple(
        (synonym.name, synonym.value, _SOURCES.get(synonym.source, "unknown"))
        for synonym in (entry.synonyms or {}).values()
    )
    defaults = [value for _, value, source in synonyms if source == "default"]
    is_default = entry.source == _DEFAULT_SOURCE
    return Setting(
        name=entry.name,
        value=entry.value,
        source=_SOURCES.get(entry.source, "unknown"),
        default=entry.value if is_default else next(iter(defaults), None),
        read_only=bool(entry.is_read_only),
        sensitive=bool(entry.is_sensitive),
        synonyms=synonyms,
    )


def _resource_type(kind: str) -> Any:  # noqa: ANN401 - librdkafka's enumeration
    types = admin_api().ResourceType
    return types.TOPIC if kind == TOPIC else types.BROKER


def read_settings(connection: Connection, kind: str, name: str) -> dict[str, Setting]:
    """All settings of one topic or broker, by name, sorted."""
    return read_all_settings(connection, kind, [name])[name]


def read_all_settings(
    connection: Connection, kind: str, names: Sequence[str]
) -> dict[str, dict[str, Setting]]:
    """All settings of several topics or brokers."""
    admin = connection.admin()
    if kind == BROKER:
        _check_brokers(connection, names)
    resources = [admin_api().ConfigResource(_resource_type(kind), name) for name in names]
    answers = admin.describe_configs(resources, request_timeout=connection.timeout_s)
    found = {}
    for resource, future in answers.items():
        entries = connection.result(future, f"{kind} {resource.name}")
        found[resource.name] = {key: _setting(entries[key]) for key in sorted(entries)}
    return found


def _check_brokers(connection: Connection, names: Sequence[str]) -> None:
    """librdkafka would wait for a broker that does not exist until the timeout."""
    from confluent_kafka import KafkaException

    try:
        known = connection.admin().list_topics(timeout=connection.timeout_s).brokers
    except KafkaException as error:
        connection.check_alive(error.args[0])
        raise failure("brokers", error.args[0]) from None
    for name in names:
        if not name.isdigit() or int(name) not in known:
            ids = ", ".join(str(broker) for broker in sorted(known))
            raise Failure(f"there is no broker {name}", f"broker ids here: {ids}")


def plan_changes(
    current: Mapping[str, Setting], to_set: Mapping[str, str], to_delete: Sequence[str]
) -> list[Change]:
    """What will differ. Names unknown to the broker are kept: the broker answers for them."""
    both = [name for name in to_delete if name in to_set]
    if both:
        raise click.UsageError(f"{both[0]} is both set and deleted")
    changes = [Change(name, _value(current, name), value) for name, value in to_set.items()]
    return changes + [Change(name, _value(current, name), None) for name in to_delete]


def _value(current: Mapping[str, Setting], name: str) -> str | None:
    return current[name].value if name in current else None


def alter(
    connection: Connection, kind: str, name: str, changes: Sequence[Change], *, dry_run: bool
) -> KafkaError | None:
    """Ask the broker for the changes (or only whether it would take them)."""
    api = admin_api()
    operations = api.AlterConfigOpType
    entries = [
        api.ConfigEntry(
            change.name,
            None if change.after is None else str(change.after),
            incremental_operation=operations.DELETE if change.after is None else operations.SET,
        )
        for change in changes
    ]
    resource = api.ConfigResource(_resource_type(kind), name, incremental_configs=entries)
    answers = connection.admin().incremental_alter_configs(
        [resource], validate_only=dry_run, request_timeout=connection.timeout_s
    )
    _, error = connection.outcome(answers[resource])
    return error


def alter_or_fail(
    connection: Connection,
    subject: tuple[str, str],
    changes: Sequence[Change],
    known: Mapping[str, Setting],
    *,
    dry_run: bool,
) -> None:
    """Alter the settings of `subject` (kind, name), or say why not and which name was meant."""
    kind, name = subject
    error = alter(connection, kind, name, changes, dry_run=dry_run)
    if error is None:
        return
    why = reason(error)
    hint = unknown_name_hint([change.name for change in changes], known) or hint_for(error)
    # A Barnabas broker names the nearest setting itself.
    raise Failure(f"{kind} {name}: {why}", None if hint and hint in why else hint)


def unknown_name_hint(names: Sequence[str], known: Mapping[str, object]) -> str | None:
    """`did you mean retention.ms?` for the first name the broker does not have."""
    for name in names:
        if name not in known:
            return nearest(name, known)
    return None
