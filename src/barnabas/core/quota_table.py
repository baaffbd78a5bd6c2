"""Whose quota it is: the limits that were set, and which of them counts for a client.

Job: Kafka's precedence. Must not know the store, requests, or what went by.

From the closest to the farthest, for each kind of quota by itself: a user's client, a user's clients by default, the user; then the client, the
clients and the users by default of users that have nothing of their own; then the client, clients by default. Who gets a default has
it alone: `users/<default>` is a limit for each user, not for all of them together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.model.address import usual

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: Stands for whoever has no quota of their own. No user, client id or address is empty.
DEFAULT: Final = ""

PRODUCE: Final = "producer_byte_rate"
FETCH: Final = "consumer_byte_rate"
REQUEST: Final = "request_percentage"
MUTATION: Final = "controller_mutation_rate"
CONNECTION: Final = "connection_creation_rate"

#: What a user or a client id can be limited in, and whether it is counted in whole numbers.
CLIENT_KEYS: Final = {PRODUCE: True, FETCH: True, REQUEST: False, MUTATION: False}
#: And an address.
ADDRESS_KEYS: Final = {CONNECTION: True}


class Entity(NamedTuple):
    """Who is limited: a user, a client id, both, or an address; DEFAULT in place of a name, None for what does not matter."""

    user: str | None = None
    client_id: str | None = None
    ip: str | None = None

    @property
    def keys(self) -> Mapping[str, bool]:
        """What it can be limited in."""
        return CLIENT_KEYS if self.ip is None else ADDRESS_KEYS


class Share(NamedTuple):
    """Who shares a limit: all connections of a user (client id None), of a client id (user None), or of both; and the limit."""

    user: str | None
    client_id: str | None
    limit: float


class QuotaTable:
    """The limits of all entities."""

    __slots__ = ("_limits",)

    def __init__(self) -> None:
        """Limit nobody."""
        self._limits: dict[Entity, dict[str, float]] = {}

    def put(self, entity: Entity, limits: Mapping[str, float]) -> bool:
        """Replace what is set for an entity; tell whether that is a change."""
        if entity.ip is not None:
            entity = Entity(ip=usual(entity.ip))
        if self._limits.get(entity, {}) == limits:
            return False
        if limits:
            self._limits[entity] = dict(limits)
        else:
            del self._limits[entity]
        return True

    def items(self) -> Iterator[tuple[Entity, Mapping[str, float]]]:
        """Go through what is set."""
        yield from self._limits.items()

    @property
    def limits_clients(self) -> bool:
        """Tell whether anything is set for users or client ids."""
        return any(entity.ip is None for entity in self._limits)

    def find(self, key: str, user: str, client_id: str) -> Share | None:
        """Return the limit that counts for a client, and with whom it is shared; None if there is no limit."""
        for entity, share_user, share_client in (
            (Entity(user, client_id), user, client_id),
            (Entity(user, DEFAULT), user, client_id),
            (Entity(user), user, None),
            (Entity(DEFAULT, client_id), user, client_id),
            (Entity(DEFAULT, DEFAULT), user, client_id),
            (Entity(DEFAULT), user, None),
            (Entity(None, client_id), None, client_id),
            (Entity(None, DEFAULT), None, client_id),
        ):
            limit = self._limits.get(entity, {}).get(key)
            if limit is not None:
                return Share(share_user, share_client, limit)
        return None

    def find_address(self, ip: str) -> float | None:
        """Return how many connections per second an address may open; None if there is no limit."""
        for entity in (Entity(ip=usual(ip)), Entity(ip=DEFAULT)):
            limit = self._limits.get(entity, {}).get(CONNECTION)
            if limit is not None:
                return limit
        return None
