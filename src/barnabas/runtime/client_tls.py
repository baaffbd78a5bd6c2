"""TLS as a client's settings want it.

Job: from settings to an `ssl.SSLContext`; a sentence for files that cannot be used. Must not know connections.
"""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

from barnabas.client.errors import AuthenticationFailed

if TYPE_CHECKING:
    from barnabas.client.settings import ClientSettings


def tls_context(settings: ClientSettings) -> ssl.SSLContext:
    """Make the context: the machine's authorities unless others are named, TLS 1.2 or later."""
    authorities = settings.ssl_ca_location or settings.ssl_truststore_location
    try:
        context = ssl.create_default_context(
            cafile=authorities or None, cadata=settings.ssl_ca_pem or None
        )
    except (OSError, ValueError) as problem:
        raise _unusable("ssl.ca.location", authorities or "ssl.ca.pem", problem) from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = settings.ssl_identification == "https" and settings.ssl_verification
    if not settings.ssl_verification:
        context.verify_mode = ssl.CERT_NONE
    _show_ourselves(context, settings)
    return context


def _show_ourselves(context: ssl.SSLContext, settings: ClientSettings) -> None:
    certificate = settings.ssl_certificate_location or settings.ssl_keystore_location
    if not certificate:
        return
    try:
        # Without a password an encrypted key would be asked for at the terminal.
        context.load_cert_chain(
            certificate, settings.ssl_key_location or None, lambda: settings.ssl_key_password
        )
    except (OSError, ValueError) as problem:
        raise _unusable("ssl.certificate.location", certificate, problem) from None


def _unusable(name: str, value: str, problem: Exception) -> AuthenticationFailed:
    why = problem.strerror if isinstance(problem, OSError) and problem.strerror else str(problem)
    return AuthenticationFailed(f"{name}={value!r} cannot be used: {why}")
