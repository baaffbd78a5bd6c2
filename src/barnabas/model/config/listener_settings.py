"""Settings that one listener, or one login mechanism of it, has for itself: `listener.name.internal.ssl.keystore.location`.

Job: which setting such a name is about, and in which order names are asked. Must not know: values.
Invariants: the listener's name stands in small letters, as Kafka writes it; only settings in `OF_ONE_LISTENER` have such names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

PREFIX: Final = "listener.name."
#: How the settings begin that a listener may have for itself.
OF_ONE_LISTENER: Final = (
    "ssl.",
    "sasl.",
    "connections.max.reauth.ms",
    "max.connection.creation.rate",
    "max.connections",
)
_MECHANISMS: Final = ("gssapi", "plain", "scram-sha-256", "scram-sha-512", "oauthbearer")


class ListenerSetting(NamedTuple):
    """What a name with a listener in it is about."""

    listener: str
    #: In small letters; None if it is for all of the listener.
    mechanism: str | None
    base: str


def split_name(name: str) -> ListenerSetting | None:
    """Take a name apart; None if it has no listener in it."""
    if not name.startswith(PREFIX):
        return None
    rest = name[len(PREFIX) :]
    listener, dot, base = rest.partition(".")
    # A listener's name may have dots of its own.
    while dot and not base.startswith((*OF_ONE_LISTENER, *(f"{one}." for one in _MECHANISMS))):
        more, dot, base = base.partition(".")
        listener = f"{listener}.{more}"
    if not dot:
        return None
    mechanism, _, after = base.partition(".")
    if mechanism in _MECHANISMS:
        return ListenerSetting(listener, mechanism, after)
    return ListenerSetting(listener, None, base)


def names_of(base: str, listener: str, mechanism: str | None = None) -> Iterator[str]:
    """Give the names under which a setting of a listener may stand, the one that counts most first."""
    own = f"{PREFIX}{listener.lower()}."
    if mechanism is not None:
        yield f"{own}{mechanism.lower()}.{base}"
    yield own + base
    yield base
