"""PLAIN (RFC 4616): a name and a password, as they are.

Job: both sides of it. Must not know: where passwords come from. Invariants: an unknown name costs what a wrong password
costs; nobody logs in as one and acts as another (CVE-2017-12610).
"""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING, Final

from barnabas.core.sasl.mechanism import Identity, LoginRefused

if TYPE_CHECKING:
    from collections.abc import Mapping

REFUSAL: Final = "Authentication failed: Invalid username or password"
_PARTS: Final = 3


class PlainServer:
    """Checks one token against known passwords."""

    def __init__(self, passwords: Mapping[str, str]) -> None:
        """Take the passwords by name."""
        self._passwords = passwords
        self.identity: Identity | None = None

    def answer(self, token: bytes, now_ms: int) -> bytes:
        """Take the only token."""
        authorization_id, name, password = _read(token)
        expected = self._passwords.get(name)
        # Digests have one length: comparing them tells nothing of that of the password.
        is_right = hmac.compare_digest(_digest(password), _digest(expected or ""))
        if not is_right or not expected:
            raise LoginRefused(REFUSAL)
        if authorization_id not in ("", name):
            raise LoginRefused(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        self.identity = Identity(name)
        return b""


class PlainClient:
    """Sends a name and a password."""

    def __init__(self, name: str, password: str) -> None:
        """Take them."""
        self._token = f"\0{name}\0{password}".encode()
        self.is_done = False

    def next_token(self, challenge: bytes | None) -> bytes:
        """Give the only token."""
        self.is_done = challenge is not None
        return b"" if self.is_done else self._token


def _read(token: bytes) -> tuple[str, str, str]:
    try:
        parts = token.decode().split("\0")
    except UnicodeDecodeError:
        parts = []
    if len(parts) != _PARTS or not parts[1] or not parts[2]:
        raise LoginRefused("Authentication failed: Invalid SASL/PLAIN response")
    return parts[0], parts[1], parts[2]


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()
