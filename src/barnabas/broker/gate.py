"""The gate: whether who sent a request may do what it asks for. Handlers and `permissions.py` ask here and nowhere else.

Job: put a request's principal and address to the rules (`core.acl`), remember answers, tell denials to the audit log, and turn them
into Kafka's error codes. Must not know: what an API needs (`permissions.py`), where rules come from (`acl_store.py`).

A node without an authorizer has no gate (`node.gate is None`), and pays nothing for it.

Invariants: an answer is remembered only as long as the rules it rests on: a change lets go of all answers, and of the lanes
of requests that repeat (`repeats.py`), which were opened by requests that were allowed. Every denial of something that was asked for by
name is told, also one that is remembered.
"""

from __future__ import annotations

import logging
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from barnabas.broker import audit
from barnabas.model.acl import CLUSTER_NAME, Operation, ResourcePattern, ResourceType
from barnabas.model.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.call import Call
    from barnabas.core.acl import Acls, Decision
    from barnabas.model.principal import Principal

    Refuse = Callable[[Any, ErrorCode, str | None], Any]
    _Key = tuple[Principal, str, Operation, ResourceType, str]

#: Answers that are remembered, 200 bytes each; all go when there are more.
ANSWERS_MAX: Final = 65_536
#: Names that are longer are judged each time: a client may name anything, also what nobody has, and a name may have 32 KB.
REMEMBERED_NAME_MAX: Final = 255
_CODES: Final = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ResourceType.DELEGATION_TOKEN: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}
#: Kafka names no resource where any will do.
_ANY_NAME: Final = "NONE"


class Gate:
    """See the module. May be asked on other threads."""

    def __init__(self, acls: Acls) -> None:
        """Judge by these rules, which may change: then `forget` is called."""
        self._acls = acls
        self._answers: dict[_Key, Decision] = {}

    def forget(self) -> None:
        """The rules have changed."""
        # A new one, not the same emptied: whoever is judging on another thread may still write to the old one.
        self._answers = {}

    def allows(
        self,
        call: Call,
        operation: Operation,
        kind: ResourceType,
        name: str,
        *,
        quietly: bool = False,
    ) -> bool:
        """Tell whether a request may do this; `quietly` where nobody asked for it by name."""
        link, answers = call.link, self._answers
        key = (link.principal, link.peer_host, operation, kind, name)
        decision = answers.get(key)
        if decision is None:
            principal = str(link.principal)
            decision = self._acls.decide(principal, link.peer_host, operation, kind, name)
            if len(name) <= REMEMBERED_NAME_MAX:
                if len(answers) >= ANSWERS_MAX:
                    answers = self._answers = {}
                answers[key] = decision
        if not decision.is_allowed or audit.log.isEnabledFor(logging.DEBUG):
            _tell(call, operation, ResourcePattern(kind, name), decision, quietly=quietly)
        return decision.is_allowed

    def allows_any(self, call: Call, operation: Operation, kind: ResourceType) -> bool:
        """Tell whether a request may do this to anything of a kind."""
        link = call.link
        decision = self._acls.decide_any(str(link.principal), link.peer_host, operation, kind)
        _tell(call, operation, ResourcePattern(kind, _ANY_NAME), decision, quietly=False)
        return decision.is_allowed

    def allows_cluster(self, call: Call, operation: Operation, *, quietly: bool = False) -> bool:
        """Tell whether a request may do this to the cluster."""
        return self.allows(call, operation, ResourceType.CLUSTER, CLUSTER_NAME, quietly=quietly)

    def reader(self, call: Call) -> Callable[[str], bool]:
        """Tell of topics whether a request may read them; each is judged, and told, once."""
        return cache(lambda name: self.allows(call, Operation.READ, ResourceType.TOPIC, name))

    def demand(self, call: Call, operation: Operation, kind: ResourceType, name: str) -> None:
        """Raise KafkaError, which refuses the request as a whole, if it may not do this."""
        if not self.allows(call, operation, kind, name):
            raise denial(kind)

    def narrow(
        self,
        call: Call,
        refuse: Refuse,
        field: str,
        code: ErrorCode,
        is_allowed: Callable[[Any], bool],
    ) -> Any:  # noqa: ANN401
        """Take what is not allowed out of a list of the request; the answer to that, None if there is nothing."""
        request = call.request
        kept: list[Any] = []
        refused: list[Any] = []
        for one in getattr(request, field):
            (kept if is_allowed(one) else refused).append(one)
        if not refused:
            return None
        setattr(request, field, refused)
        answer = refuse(request, code, None)
        setattr(request, field, kept)
        return answer


def denial(kind: ResourceType) -> KafkaError:
    """Make the error that says that something of a kind may not be touched; it does not say whether it exists."""
    return KafkaError(_CODES[kind])


def _tell(
    call: Call,
    operation: Operation,
    resource: ResourcePattern,
    decision: Decision,
    *,
    quietly: bool,
) -> None:
    rule = (
        decision.why.value
        if decision.rule is None
        else f"{decision.rule.entry} on {decision.rule.resource}"
    )
    if decision.is_allowed:
        audit.allowed(call, operation.title, str(resource), rule)
    else:
        audit.denied(call, operation.title, str(resource), rule, quietly=quietly)
