"""What every login mechanism has in common.

Job: the names, the outcome, the refusal. A machine takes the client's tokens one by one and answers each; once
`identity` is set the login is done. Must not know: what carries the tokens, who may log in.
Invariants: a refusal's words are the same whatever was wrong with the name or the secret.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

PLAIN: Final = "PLAIN"
SCRAM_SHA_256: Final = "SCRAM-SHA-256"
SCRAM_SHA_512: Final = "SCRAM-SHA-512"
OAUTHBEARER: Final = "OAUTHBEARER"
MECHANISMS: Final = (PLAIN, SCRAM_SHA_256, SCRAM_SHA_512, OAUTHBEARER)


class LoginRefused(Exception):
    """The login has failed; its text is fit for the client, and says nothing of who exists or what is secret."""


@dataclass(slots=True, frozen=True)
class Identity:
    """Who logged in, and until when that holds; None is without an end."""

    name: str
    expires_ms: int | None = None


class LoginServer(Protocol):
    """The broker's side of one login."""

    #: None until the login is done.
    identity: Identity | None

    def answer(self, token: bytes, now_ms: int) -> bytes:
        """Take the client's next token; LoginRefused if that is the end."""


class LoginClient(Protocol):
    """The other side, for connections that a broker opens."""

    is_done: bool

    def next_token(self, challenge: bytes | None) -> bytes:
        """Give the next token; the challenge is None at first. LoginRefused if the server is not who it should be."""
