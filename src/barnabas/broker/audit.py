"""The audit log: who changed what, who was denied what, and from where logins were refused.

Job: one line per event, a JSON object, on the logger `barnabas.audit`, which is there whether or not there are access rules. As in
Kafka's authorizer log, a denial is told at INFO where something was asked for by its name; what is left out of a list, or
only looked up to tell a client what it may do, at DEBUG, and so is what is allowed. Must not know: rules.

Invariants: no value of a setting, no password, no record is ever told: a change names what was changed, not to what. JSON keeps
an event on its line, whatever a client has put into a name, and a line is short whatever its length.
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any, Final

from barnabas.wire.messages.index import APIS

if TYPE_CHECKING:
    from barnabas.broker.call import Call
    from barnabas.ports import Link

log = logging.getLogger("barnabas.audit")

#: Characters of a client's id that are told.
_CLIENT_ID_MAX: Final = 100
#: Of what was asked for: longer than any name that is allowed, and a client cannot fill the disk with names.
_RESOURCE_MAX: Final = 512


def changed(call: Call, action: str, kind: str, name: str, /, **details: Any) -> None:  # noqa: ANN401
    """Tell that a request has changed something: `create` a `Topic`; details by their names."""
    _tell(logging.INFO, "changed", call, action=action, resource=f"{kind}:{name}", **details)


def denied(call: Call, operation: str, resource: str, rule: str, *, quietly: bool) -> None:
    """Tell that somebody may not do something."""
    level = logging.DEBUG if quietly else logging.INFO
    _tell(level, "denied", call, operation=operation, resource=resource, rule=rule)


def allowed(call: Call, operation: str, resource: str, rule: str) -> None:
    """Tell that somebody may do something: for those who look closely."""
    _tell(logging.DEBUG, "allowed", call, operation=operation, resource=resource, rule=rule)


def login_refused(link: Link, mechanism: str, reason: str) -> None:
    """Tell that somebody did not prove who they are; whom they claimed to be may be anybody's name, or a password in its place."""
    line = {
        "event": "login refused",
        "host": link.peer_host,
        "listener": link.listener,
        "mechanism": mechanism,
        "reason": reason[:_RESOURCE_MAX],
    }
    log.info("%s", json.dumps(line))


def _tell(level: int, event: str, call: Call, **what: Any) -> None:  # noqa: ANN401
    if not log.isEnabledFor(level):
        return
    link = call.link
    if len(what["resource"]) > _RESOURCE_MAX:
        what["resource"] = f"{what['resource'][:_RESOURCE_MAX]}..."
    line = {
        "event": event,
        "principal": str(link.principal),
        "host": link.peer_host,
        "listener": link.listener,
        "client_id": (call.client_id or "")[:_CLIENT_ID_MAX],
        "request": APIS[call.api_key].name,
        **what,
    }
    log.log(level, "%s", json.dumps(line))
