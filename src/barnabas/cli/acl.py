"""`barnabas acl`: who may do what.

One job: the command line around DescribeAcls, CreateAcls and DeleteAcls. Works against any Kafka since 2.0.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce, wraps
from typing import TYPE_CHECKING, Any

import click

from barnabas.cli.acl_words import (
    as_json,
    for_consumer,
    for_producer,
    operation_of,
    principal_of,
    resource_of,
    row_of,
    shown,
)
from barnabas.cli.connection import connected
from barnabas.cli.failure import Failure
from barnabas.cli.output import emit, table
from barnabas.cli.own_client import open_client
from barnabas.client.errors import ClientError
from barnabas.core.acl import Acls, Why
from barnabas.model.acl import (
    AclBinding,
    AclEntry,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from barnabas.model.errors import ErrorCode
from barnabas.wire.messages.create_acls import AclCreation, CreateAclsRequest
from barnabas.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from barnabas.wire.messages.describe_acls import DescribeAclsRequest
from barnabas.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from barnabas.cli.connection import Connection
    from barnabas.runtime.blocking_client import BlockingClient

_BROKER = 4
_HEADINGS = ["PRINCIPAL", "PERMISSION", "OPERATION", "RESOURCE", "HOST"]


@click.group()
def acl() -> None:
    """Say who may do what: rules for topics, groups, transactional ids and the cluster."""


@acl.command("list")
@click.option("--principal", metavar="NAME", help="Rules for this one: alice, or User:alice.")
@click.option(
    "--resource",
    metavar="KIND:NAME",
    help="Rules that stand on this: topic:orders, topic:orders-*.",
)
@click.option(
    "--match",
    is_flag=True,
    help="With --resource: all rules that hold for it, by `*` and prefix, too.",
)
@connected
def list_(connection: Connection, principal: str | None, resource: str | None, match: bool) -> None:
    """List rules, all or some."""
    wanted = AclFilter(principal=None if principal is None else principal_of(principal))
    if resource is not None:
        kind, name, pattern = resource_of(resource, is_literal=match)
        pattern = PatternType.MATCH if match else pattern
        wanted = wanted._replace(kind=kind, name=name, pattern=pattern)
    with _client(connection) as client:
        found = sorted(_describe(client, wanted))
    _show(connection, found, "no rules")


@dataclass(frozen=True, slots=True)
class _Words:
    """What was typed: an operation and a resource, or what a client will do."""

    principal: str
    operation: str | None
    resource: str | None
    deny: bool
    host: str
    literal: bool
    producer: bool
    consumer: bool
    topics: tuple[str, ...]
    groups: tuple[str, ...]
    ids: tuple[str, ...]

    def bindings(self) -> list[AclBinding]:
        """Give the rules that are meant."""
        if self.producer or self.consumer:
            return self._of_client()
        if self.resource is None or self.operation is None:
            raise click.UsageError(
                "say what: an operation and a resource, as in `acl add alice read topic:orders`,"
                " or --producer or --consumer"
            )
        if self.topics or self.groups or self.ids:
            raise click.UsageError(
                "--topic, --group and --transactional-id go with --producer or --consumer"
            )
        permission = Permission.DENY if self.deny else Permission.ALLOW
        who, operation = principal_of(self.principal), operation_of(self.operation)
        entry = AclEntry(who, self.host, operation, permission)
        return [AclBinding(resource_of(self.resource, is_literal=self.literal), entry)]

    def _of_client(self) -> list[AclBinding]:
        if self.operation is not None or self.deny or self.literal:
            raise click.UsageError("--producer and --consumer say by themselves what is allowed")
        if not self.topics:
            raise click.UsageError("--producer and --consumer need a --topic; * is every topic")
        if self.consumer and not self.groups:
            raise click.UsageError("--consumer needs a --group; * is every group")
        if (self.groups and not self.consumer) or (self.ids and not self.producer):
            raise click.UsageError(
                "--group goes with --consumer, --transactional-id with --producer"
            )
        who, found = principal_of(self.principal), list[AclBinding]()
        if self.producer:
            found += for_producer(who, self.host, self.topics, self.ids)
        if self.consumer:
            found += for_consumer(who, self.host, self.topics, self.groups)
        return list(dict.fromkeys(found))


_OPTIONS = (
    click.argument("principal"),
    click.argument("operation", required=False),
    click.argument("resource", required=False),
    click.option("--deny", is_flag=True, help="Forbid it: that wins over all that allows it."),
    click.option("--host", default="*", metavar="ADDRESS", help="Only from there; * is anywhere."),
    click.option("--literal", is_flag=True, help="A * at the end of the name is part of it."),
    click.option("--producer", is_flag=True, help="All that a producer to --topic needs."),
    click.option("--consumer", is_flag=True, help="All that a consumer of --topic needs."),
    click.option("--topic", "topics", multiple=True, metavar="NAME", help="Of the client. Repeat."),
    click.option("--group", "groups", multiple=True, metavar="NAME", help="Of --consumer. Repeat."),
    click.option(
        "--transactional-id", "ids", multiple=True, metavar="ID", help="Of --producer. Repeat."
    ),
    click.option("--dry-run", is_flag=True, help="Say what would change and change nothing."),
)


def _changing(command: Callable[..., None]) -> Callable[..., None]:
    """Decorate a command: it gets the connection and the rules that its words mean."""

    @connected
    @wraps(command)
    def run(connection: Connection, dry_run: bool, **words: Any) -> None:  # noqa: ANN401 - click's own values
        command(connection, _Words(**words).bindings(), dry_run=dry_run)

    return reduce(lambda inner, option: option(inner), reversed(_OPTIONS), run)


@acl.command()
@_changing
def add(connection: Connection, bindings: list[AclBinding], *, dry_run: bool) -> None:
    """Add rules: `acl add alice read topic:orders`, or with --producer or --consumer."""
    if not dry_run:
        request = CreateAclsRequest(creations=[_creation(one) for one in bindings])
        with _client(connection) as client:
            answer = _ask(client, request)
        for result in answer.results:
            _check(result.error_code, result.error_message)
    _report(connection, bindings, "added", is_done=not dry_run)


@acl.command()
@_changing
def remove(connection: Connection, bindings: list[AclBinding], *, dry_run: bool) -> None:
    """Remove rules, named as `add` names them."""
    with _client(connection) as client:
        found = [one for binding in bindings for one in _describe(client, _filter(binding))]
        if not found:
            raise Failure("there is no such rule", "`barnabas acl list` shows the rules there are")
        if not dry_run:
            filters = [_delete_filter(_filter(one)) for one in found]
            answer = _ask(client, DeleteAclsRequest(filters=filters))
            for result in answer.filter_results:
                _check(result.error_code, result.error_message)
                for one in result.matching_acls:
                    _check(one.error_code, one.error_message)
    _report(connection, found, "removed", is_done=not dry_run)


@acl.command()
@click.argument("principal")
@click.argument("operation")
@click.argument("resource")
@click.option(
    "--host", default="127.0.0.1", metavar="ADDRESS", help="Where the client would connect from."
)
@connected
def check(connection: Connection, principal: str, operation: str, resource: str, host: str) -> None:
    """Tell whether somebody may do something, and why. Exit code 1 if not.

    The answer rests on the rules of the broker that is asked, its super.users and allow.everyone.if.no.acl.found.
    """
    who, what = principal_of(principal), operation_of(operation)
    kind, name, _ = resource_of(resource, is_literal=True)
    with _client(connection) as client:
        rules = _describe(client, AclFilter(kind, name, PatternType.MATCH))
        super_users, is_open = _settings(client)
    acls = Acls(super_users or frozenset(), open_without_rules=bool(is_open))
    for place in dict.fromkeys(rule.resource for rule in rules):
        acls.replace(place, [rule.entry for rule in rules if rule.resource == place])
    decision = acls.decide(who, host, what, kind, name)
    told = {
        "principal": who,
        "operation": what.title,
        "resource": shown(ResourcePattern(kind, name)),
        "host": host,
        "allowed": decision.is_allowed,
        "why": decision.why.value,
        "rule": None if decision.rule is None else as_json(decision.rule),
    }
    if connection.wants_table:
        click.echo(
            f"{'allowed' if decision.is_allowed else 'denied'}: {_explained(told, decision.rule)}"
        )
        if decision.why is Why.NOT_ALLOWED:
            _show_near(rules, who)
        if super_users is None and not decision.is_allowed:
            click.echo("this broker does not tell who its super users are: they may everything")
    else:
        emit(told, connection.output)
    if not decision.is_allowed:
        raise click.exceptions.Exit(1)


def _explained(told: dict[str, Any], rule: AclBinding | None) -> str:
    what = f"{told['principal']} {told['operation']} on {told['resource']} from {told['host']}"
    return f"{what}: {told['why']}" + (
        "" if rule is None else f": {rule.entry} on {shown(rule.resource)}"
    )


def _show_near(rules: Sequence[AclBinding], who: str) -> None:
    """Show what rules there are for somebody: one of them may have been meant to allow it."""
    near = [rule for rule in rules if rule.entry.principal in (who, "User:*")]
    if near:
        click.echo("rules for it on this resource:")
        click.echo(table(_HEADINGS, [row_of(one) for one in sorted(near)], indent="  "))


# What is asked


def _client(connection: Connection) -> BlockingClient:
    return open_client(connection)


def _ask(client: BlockingClient, request: Any) -> Any:  # noqa: ANN401 - a request, its response
    try:
        return client.ask(client.brokers()[0], request)
    except ClientError as problem:
        raise Failure(str(problem)) from None


def _describe(client: BlockingClient, wanted: AclFilter) -> list[AclBinding]:
    answer = _ask(
        client,
        DescribeAclsRequest(
            resource_type_filter=wanted.kind,
            resource_name_filter=wanted.name,
            pattern_type_filter=wanted.pattern,
            principal_filter=wanted.principal,
            host_filter=wanted.host,
            operation=wanted.operation,
            permission_type=wanted.permission,
        ),
    )
    _check(answer.error_code, answer.error_message)
    return [
        AclBinding(
            ResourcePattern(
                ResourceType(place.resource_type),
                place.resource_name,
                PatternType(place.pattern_type),
            ),
            AclEntry(
                one.principal,
                one.host,
                Operation(one.operation),
                Permission(one.permission_type),
            ),
        )
        for place in answer.resources
        for one in place.acls
    ]


def _settings(client: BlockingClient) -> tuple[frozenset[str] | None, bool | None]:
    """Give the super users and whether what has no rules is open, as far as the broker tells."""
    names = ["super.users", "allow.everyone.if.no.acl.found"]
    asked = DescribeConfigsResource(
        resource_type=_BROKER, resource_name=str(client.brokers()[0]), configuration_keys=names
    )
    (found,) = _ask(client, DescribeConfigsRequest(resources=[asked])).results
    values = {} if found.error_code else {one.name: one.value for one in found.configs}
    users, is_open = values.get(names[0]), values.get(names[1])
    return (
        None
        if users is None
        else frozenset(one.strip() for one in users.split(";") if one.strip()),
        None if is_open is None else is_open == "true",
    )


def _creation(binding: AclBinding) -> AclCreation:
    resource, entry = binding
    return AclCreation(
        resource_type=resource.kind,
        resource_name=resource.name,
        resource_pattern_type=resource.pattern,
        principal=entry.principal,
        host=entry.host,
        operation=entry.operation,
        permission_type=entry.permission,
    )


def _filter(binding: AclBinding) -> AclFilter:
    (kind, name, pattern), (who, host, operation, permission) = binding
    return AclFilter(kind, name, pattern, who, host, operation, permission)


def _delete_filter(wanted: AclFilter) -> DeleteAclsFilter:
    return DeleteAclsFilter(
        resource_type_filter=wanted.kind,
        resource_name_filter=wanted.name,
        pattern_type_filter=wanted.pattern,
        principal_filter=wanted.principal,
        host_filter=wanted.host,
        operation=wanted.operation,
        permission_type=wanted.permission,
    )


def _check(code: int, message: str | None) -> None:
    if code == ErrorCode.SECURITY_DISABLED:
        raise Failure(
            "the broker has no access rules: everybody may do everything",
            "start it with authorizer.class.name=kafka.security.authorizer.AclAuthorizer and super.users=User:NAME",
        )
    if code:
        error = ErrorCode(code)
        raise Failure(f"refused: {message or error.message} ({error.name})")


# What is told


def _show(connection: Connection, bindings: Sequence[AclBinding], otherwise: str) -> None:
    if not connection.wants_table:
        emit([as_json(one) for one in bindings], connection.output)
    elif bindings:
        click.echo(table(_HEADINGS, [row_of(one) for one in bindings]))
    else:
        click.echo(otherwise)


def _report(
    connection: Connection, bindings: Sequence[AclBinding], verb: str, *, is_done: bool
) -> None:
    if not connection.wants_table:
        rules = [as_json(one) for one in bindings]
        emit({"applied": is_done, "rules": rules}, connection.output)
        return
    for resource, entry in bindings:
        click.echo(f"{verb}: {entry} on {shown(resource)}")
    if not is_done:
        click.echo("looked only: nothing was changed")
