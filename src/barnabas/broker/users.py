"""Users that log in by SCRAM: what is kept of their passwords, as it stands under `/config/users`.

Job: know every credential that is in the store, and change them there. The same places hold users' quotas, which stay as they are.
Must not know: how a login goes. Invariants: nothing here is ever logged or put into an error.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from barnabas.broker import entity_config
from barnabas.core.sasl.scram_credential import HASHES, credential_text, parse_credential

if TYPE_CHECKING:
    from collections.abc import Mapping

    from barnabas.broker.node import Node
    from barnabas.broker.tasks import Task
    from barnabas.core.sasl.scram_credential import ScramCredential
    from barnabas.ports import ZNode

KIND: Final = "users"

log = logging.getLogger(__name__)


class Users:
    """Credentials by user name and mechanism."""

    def __init__(self, node: Node) -> None:
        """Know none yet."""
        self._node = node
        self._credentials: dict[str, dict[str, ScramCredential]] = {}

    def load(self, tree: Mapping[str, ZNode]) -> None:
        """Take all that the store has."""
        for part, texts in entity_config.read_below(tree, KIND).items():
            if "/" not in part:  # what stands further below are quotas of a user's clients
                self.put(entity_config.desanitized(part), texts)

    def put(self, name: str, texts: Mapping[str, str]) -> None:
        """Take what stands at one user's place."""
        found = {}
        for mechanism in HASHES:
            if mechanism in texts:
                try:
                    found[mechanism] = parse_credential(texts[mechanism])
                except ValueError as problem:
                    log.error("user %s cannot log in with %s: %s", name, mechanism, problem)
        if found:
            self._credentials[name] = found
        else:
            self._credentials.pop(name, None)

    def find(self, mechanism: str, name: str) -> ScramCredential | None:
        """Give what is kept of a user's password."""
        return self._credentials.get(name, {}).get(mechanism)

    def mechanisms(self, name: str) -> dict[str, ScramCredential]:
        """Give all that is kept of a user."""
        return self._credentials.get(name, {})

    def names(self) -> list[str]:
        """List who can log in."""
        return sorted(self._credentials)

    def change(self, name: str, changes: Mapping[str, ScramCredential | None]) -> Task[None]:
        """Set or, with None, take away what a user logs in with, in the store and here."""

        def plan(texts: entity_config.Texts) -> entity_config.Texts:
            kept = {key: text for key, text in texts.items() if key not in changes}
            new = {key: credential_text(one) for key, one in changes.items() if one is not None}
            return {**kept, **new}

        texts = yield from entity_config.change(
            self._node, f"{KIND}/{entity_config.sanitized(name)}", plan
        )
        self.put(name, texts)
