"""How this broker proves itself to others, as the settings of the listener that brokers use say.

Job: a TLS context and a login for each new connection. Must not know: connections. Invariants: what the settings and files are when a
connection begins counts; a context that cannot be read anew stays.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from barnabas.broker.peer_login import PeerLogin
from barnabas.core.sasl.mechanism import PLAIN, LoginClient
from barnabas.core.sasl.plain import PlainClient
from barnabas.core.sasl.scram import ScramClient
from barnabas.model.config.security_rules import jaas_of
from barnabas.runtime.tls_problem import TlsProblem

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from barnabas.model.config.broker_config import BrokerConfig

_NONCE_BYTES = 24

log = logging.getLogger(__name__)


class PeerSecurity:
    """What connections to other brokers begin with."""

    def __init__(self, config: Callable[[], BrokerConfig]) -> None:
        """Ask for the settings in force each time."""
        self._config = config
        self._context: ssl.SSLContext | None = None
        self._fingerprint: tuple[object, ...] = ()

    def tls(self) -> ssl.SSLContext | None:
        """Give the context of a new connection; None if brokers do without TLS. TlsProblem if there is none that can be used."""
        config = self._config()
        name = config.inter_broker_listener
        if not any(one.name == name and one.is_encrypted for one in config.listeners):
            return None
        # Imported here: a broker without TLS does without.
        from barnabas.runtime.tls import TlsSettings, client_context

        settings = TlsSettings(config, name)
        fingerprint = settings.fingerprint()
        if self._context is None or fingerprint != self._fingerprint:
            self._fingerprint = fingerprint
            try:
                self._context = client_context(settings)
            except TlsProblem as problem:
                if self._context is None:
                    raise
                log.error("connections to other brokers use what was read before: %s", problem)
        return self._context

    def login(self) -> PeerLogin | None:
        """Begin a login; None if brokers do without."""
        config = self._config()
        name = config.inter_broker_listener
        if not any(one.name == name and one.wants_login for one in config.listeners):
            return None
        mechanism = config.get_str("sasl.mechanism.inter.broker.protocol")
        options = jaas_of(config, name, mechanism).options
        user, password = options["username"], options["password"]
        client: LoginClient
        if mechanism == PLAIN:
            client = PlainClient(user, password)
        else:
            client = ScramClient(mechanism, user, password, os.urandom(_NONCE_BYTES).hex())
        return PeerLogin(mechanism, client)
