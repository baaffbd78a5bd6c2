"""OAUTHBEARER (RFC 7628): a token that somebody else has signed.

Job: the broker's side of it. Must not know: what makes a token good (`token.py` does), where keys come from.
Invariants: a token that is not good is answered with why, as the RFC has it, and the login ends with the client's next message,
whatever that is; nobody logs in as one and acts as another.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

from barnabas.core.sasl.mechanism import Identity, LoginRefused

if TYPE_CHECKING:
    from collections.abc import Callable

_SEPARATOR: Final = "\x01"
_FIRST = re.compile(
    r"n,(?:a=(?P<authzid>[^,\0]+))?,\x01(?P<pairs>(?:[A-Za-z]+=[\x20-\x7e\t\r\n]*\x01)+)\x01"
)
_BEARER = re.compile(r"(?i:bearer) +(?P<token>[-_~+/.a-zA-Z0-9]+=*) *")


class TokenRefused(Exception):
    """A token that is not good; its text is for the log, and holds nothing of the token."""


class OAuthBearerServer:
    """The broker's side of one login."""

    def __init__(self, check: Callable[[str, int], Identity]) -> None:
        """Take who checks tokens: TokenRefused if one is not good."""
        self._check = check
        self._problem: str | None = None
        self.identity: Identity | None = None

    def answer(self, token: bytes, now_ms: int) -> bytes:
        """Take the token; if that was not good, the next message ends the login."""
        if self._problem is not None:
            raise LoginRefused(f"Authentication failed: {self._problem}")
        authorization_id, bearer = _read(token)
        try:
            identity = self._check(bearer, now_ms)
        except TokenRefused as refused:
            self._problem = f"the token was refused: {refused}"
            return json.dumps({"status": "invalid_token"}).encode()
        if authorization_id not in (None, identity.name):
            raise LoginRefused(
                "Authentication failed: Client requested an authorization id that is different from the token's principal name"
            )
        self.identity = identity
        return b""


def _read(message: bytes) -> tuple[str | None, str]:
    try:
        found = _FIRST.fullmatch(message.decode())
    except UnicodeDecodeError:
        found = None
    if found is not None:
        pairs = dict(pair.partition("=")[::2] for pair in found["pairs"].split(_SEPARATOR) if pair)
        bearer = _BEARER.fullmatch(pairs.get("auth", ""))
        if bearer is not None:
            return found["authzid"], bearer["token"]
    raise LoginRefused("Authentication failed: Invalid OAUTHBEARER client first message")
