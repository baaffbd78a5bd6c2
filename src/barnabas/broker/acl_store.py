"""The access rules of this broker: those of the store, followed as they change.

Job: load the rules, change them in the store and here, and hear from other brokers' changes. Must not know: who may change them,
what a rule means (`core.acl`).

Invariants: what is in force is what the store has, read or written, per resource and whole. A change is in force here before it is
answered; with it go all remembered answers, and the lanes of requests that repeat. Two brokers that change the rules of one resource at once both
get their way: whoever is second reads again.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Final

from barnabas.broker import acl_znodes, store
from barnabas.broker.gate import Gate
from barnabas.broker.notices import Notices
from barnabas.core.acl import Acls
from barnabas.model.acl import (
    CLUSTER_NAME,
    AclBinding,
    AclEntry,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.principal import parse_principal
from barnabas.ports import CoordinationError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from barnabas.broker.node import Node
    from barnabas.broker.tasks import Task
    from barnabas.ports import ZNode

    #: The rules of a resource in, those that it is to have out.
    Plan = Callable[[list[AclEntry]], list[AclEntry]]

log = logging.getLogger(__name__)

#: How often to try again where others change the rules of the same resource, as in Kafka.
_TRIES: Final = 11
_RACES: Final = ("BAD_VERSION", "NODE_EXISTS", "NO_NODE")


class AclStore:
    """See the module."""

    def __init__(self, node: Node) -> None:
        """Start without rules, which denies everything to everybody but super users."""
        self._node = node
        config = node.config
        self.acls = Acls(
            _super_users(str(config.get("super.users") or "")),
            open_without_rules=config.get_bool("allow.everyone.if.no.acl.found"),
        )
        self.gate = Gate(self.acls)
        self._notices = [
            Notices(node, path, self._on_notice, self._read_all)
            for path in (acl_znodes.LITERAL_CHANGES, acl_znodes.EXTENDED_CHANGES)
        ]

    def load(self, tree: Mapping[str, ZNode]) -> None:
        """Take everything that the store has, and nothing else."""
        found = acl_znodes.read_all(tree)
        for resource in self.acls.resources():
            if resource not in found:
                self.acls.replace(resource, ())
        for resource, entries in found.items():
            self.acls.replace(resource, entries)
        self._on_changed()

    def follow(self) -> None:
        """Hear what other brokers change."""
        for notices in self._notices:
            notices.start()

    def stop(self) -> None:
        """Hear no more."""
        for notices in self._notices:
            notices.stop()

    # Changes

    def create(self, bindings: Sequence[AclBinding]) -> Task[list[KafkaError | None]]:
        """Add rules; for each why it could not be, or None."""
        problems = [_problem(binding) for binding in bindings]
        wanted: dict[ResourcePattern, list[int]] = {}
        for number, binding in enumerate(bindings):
            if problems[number] is None:
                wanted.setdefault(binding.resource, []).append(number)
        for resource, numbers in wanted.items():
            more = [bindings[number].entry for number in numbers]
            problem = yield from self._change(resource, partial(_added, more))
            for number in numbers:
                problems[number] = problem
        return problems

    def delete(
        self, filters: Sequence[AclFilter]
    ) -> Task[list[dict[AclBinding, KafkaError | None]]]:
        """Take rules away; for each filter those that it met first, and why one could not be."""
        deleted: list[dict[AclBinding, KafkaError | None]] = [{} for _ in filters]
        for resource in self._meant(filters):
            removal = _Removal(resource, filters)
            problem = yield from self._change(resource, removal)
            for binding, number in removal.met.items():
                deleted[number][binding] = problem
        return deleted

    def _meant(self, filters: Sequence[AclFilter]) -> list[ResourcePattern]:
        """Name the resources whose rules may go: those that are known here, and those that are named, which others may have made."""
        named = [
            ResourcePattern(one.kind, one.name, pattern)
            for one in filters
            if one.kind is not ResourceType.ANY
            and one.name
            and acl_znodes.name_problem(one.name) is None
            for pattern in (PatternType.LITERAL, PatternType.PREFIXED)
            if one.pattern in (pattern, PatternType.ANY)
        ]
        known = [
            resource
            for resource in self.acls.resources()
            if any(one.matches_resource(resource) for one in filters)
        ]
        return list(dict.fromkeys(known + named))

    def _change(self, resource: ResourcePattern, plan: Plan) -> Task[KafkaError | None]:
        """Change the rules of one resource in the store, then here; why that could not be, or None."""
        node, path = self._node, acl_znodes.path_of(resource)
        try:
            for _ in range(_TRIES):
                found = yield partial(node.world.coordination.read, path)
                old = acl_znodes.read(found)
                new = plan(old)
                operation = acl_znodes.write(resource, new, found) if new != old else None
                if operation is not None:
                    notices = [] if node.is_lone else [acl_znodes.notice(resource)]
                    try:
                        yield from store.commit(node, [operation, *notices])
                    except CoordinationError as refusal:
                        if refusal.kind in _RACES:
                            continue
                        return KafkaError(
                            ErrorCode.INVALID_REQUEST, f"the store refuses it: {refusal}"
                        )
                self._put(resource, new)
                return None
        except KafkaError as problem:
            return problem
        except OSError as problem:
            return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(problem))
        return KafkaError(
            ErrorCode.REQUEST_TIMED_OUT, f"others keep changing the rules of {resource}; try again"
        )

    def _put(self, resource: ResourcePattern, entries: list[AclEntry]) -> None:
        if tuple(entries) != self.acls.get(resource):
            self.acls.replace(resource, entries)
            self._on_changed()
            log.info("%s has %d rules now", resource, len(entries))

    def _on_changed(self) -> None:
        self.gate.forget()
        self._node.staging.close_all()

    # Other brokers' changes

    def _on_notice(self, notice: ZNode) -> Task[None]:
        resource = acl_znodes.read_notice(notice)
        found = yield partial(self._node.world.coordination.read, acl_znodes.path_of(resource))
        self._put(resource, acl_znodes.read(found))

    def _read_all(self) -> Task[None]:
        tree: dict[str, ZNode] = {}
        for root in acl_znodes.ROOTS:
            tree |= yield partial(self._node.world.coordination.read_tree, root)
        self.load(tree)


class _Removal:
    """Takes from the rules of a resource those that a filter meets, and notes the first filter that did."""

    def __init__(self, resource: ResourcePattern, filters: Sequence[AclFilter]) -> None:
        self._resource = resource
        self._filters = [
            (number, one) for number, one in enumerate(filters) if one.matches_resource(resource)
        ]
        self.met: dict[AclBinding, int] = {}

    def __call__(self, old: list[AclEntry]) -> list[AclEntry]:
        self.met.clear()
        for entry in old:
            for number, one in self._filters:
                if one.matches_entry(entry):
                    self.met.setdefault(AclBinding(self._resource, entry), number)
        return [entry for entry in old if AclBinding(self._resource, entry) not in self.met]


def _super_users(text: str) -> frozenset[str]:
    return frozenset(str(parse_principal(one.strip())) for one in text.split(";") if one.strip())


def _added(more: list[AclEntry], old: list[AclEntry]) -> list[AclEntry]:
    return list(dict.fromkeys([*old, *more]))


def _problem(binding: AclBinding) -> KafkaError | None:
    """Say what is wrong with a rule that somebody wants."""
    (kind, name, pattern), entry = binding
    text = None
    if kind is ResourceType.CLUSTER and name != CLUSTER_NAME:
        text = f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    elif not name:
        text = "Invalid empty resource name"
    elif kind < ResourceType.TOPIC:
        text = f"a rule cannot be on {kind.title}"
    elif pattern not in (PatternType.LITERAL, PatternType.PREFIXED):
        text = f"a rule's pattern is Literal or Prefixed, not {pattern.title}"
    elif entry.operation < Operation.ALL:
        text = f"a rule cannot be about {entry.operation.title}"
    elif entry.permission < Permission.DENY:
        text = f"a rule is Allow or Deny, not {entry.permission.title}"
    else:
        text = acl_znodes.name_problem(name) or _principal_problem(entry.principal)
    return None if text is None else KafkaError(ErrorCode.INVALID_REQUEST, text)


def _principal_problem(principal: str) -> str | None:
    try:
        parse_principal(principal)
    except ValueError as problem:
        return str(problem)
    return None
