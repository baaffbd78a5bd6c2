"""Who somebody is: what a login, or a certificate, ends in, and what rules and quotas are about.

Job: the value and its text, `User:alice`. Must not know: how somebody proved it. Invariants: the kind has no colon, so
that each text names one principal.
"""

from __future__ import annotations

from typing import Final, NamedTuple

USER: Final = "User"


class Principal(NamedTuple):
    """A kind, in practice always `User`, and a name, which may be any text."""

    kind: str
    name: str

    def __str__(self) -> str:
        """Give the form of ACLs and of `super.users`."""
        return f"{self.kind}:{self.name}"


#: Who comes without a proof: everybody on a listener that asks for none.
ANONYMOUS: Final = Principal(USER, "ANONYMOUS")


def parse_principal(text: str) -> Principal:
    """Read KIND:NAME; ValueError if it is none."""
    kind, colon, name = text.partition(":")
    if not (kind and colon and name):
        raise ValueError(f"'{text}' is no principal; expected is a kind and a name: User:alice")
    return Principal(kind, name)
