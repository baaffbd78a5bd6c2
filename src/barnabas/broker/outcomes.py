"""The ways in which a request ends without an answer."""

from typing import Final

#: Returned by a handler when the client asked for no answer (Produce with acks=0).
NO_REPLY: Final = object()


class CloseLink(ValueError):
    """Raised to end the connection: all that is left to tell a client that wants no answers."""


class GoElsewhere(CloseLink):
    """Raised to end a connection whose client did nothing wrong: another broker must answer it."""
