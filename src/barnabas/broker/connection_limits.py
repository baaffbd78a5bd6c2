"""How many connections there may be, and how fast new ones may come: in all, per listener, per address.

Job: count, and decide about each new connection. Who is above a number, or an address above its rate, is refused; above the rate of the
broker or of a listener a connection is taken, and the next one waits (as Kafka's acceptor does). Must not know sockets.

The listener that brokers use among themselves is not held up by what clients do on others: the limits of the whole broker do not
count for it, its own do.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from barnabas.broker.quiet import Quiet
from barnabas.broker.quotas import REMEMBERED_MAX, windows_of
from barnabas.core.quota import Rate
from barnabas.model.address import usual
from barnabas.model.config.types import INT_MAX

if TYPE_CHECKING:
    from barnabas.broker.node import Node

log = logging.getLogger(__name__)


class Verdict(NamedTuple):
    """What becomes of a new connection."""

    is_taken: bool
    #: How long the next one on this listener waits, or how long the refusal is kept back.
    delay_ms: int = 0


class ConnectionLimits:
    """The connections of one broker, counted."""

    def __init__(self, node: Node) -> None:
        """Start with none."""
        self._node = node
        self._windows = windows_of(node.config, "quota")
        self._total = 0
        self._by_address: dict[str, int] = {}
        self._by_listener: dict[str, int] = {}
        self._rate = Rate(self._windows)
        self._listener_rates: dict[str, Rate] = {}
        self._address_rates: dict[str, Rate] = {}
        self._quiet = Quiet()

    def take(self, listener: str, address: str) -> Verdict:
        """Decide about a new connection, and count it if it is taken: `give` it back when it is closed."""
        now_ms = self._node.world.clock.monotonic_ms()
        address = usual(address)
        reason = self._full(listener, address)
        if reason is not None:
            self._tell(reason, now_ms)
            return Verdict(is_taken=False)
        delay_ms = self._address_delay_ms(address, now_ms)
        if delay_ms:
            self._tell(f"{address} opens more than its connection_creation_rate allows", now_ms)
            return Verdict(is_taken=False, delay_ms=delay_ms)
        self._total += 1
        self._by_address[address] = self._by_address.get(address, 0) + 1
        self._by_listener[listener] = self._by_listener.get(listener, 0) + 1
        return Verdict(is_taken=True, delay_ms=self._delay_ms(listener, now_ms))

    def give(self, listener: str, address: str) -> None:
        """Count a connection no more."""
        self._total -= 1
        for counts, key in ((self._by_address, usual(address)), (self._by_listener, listener)):
            counts[key] -= 1
            if not counts[key]:
                del counts[key]

    def _full(self, listener: str, address: str) -> str | None:
        # Settings are asked for each time: they change at run time.
        config = self._node.config
        own_max = config.of_listener("max.connections", listener)
        if not self._is_of_brokers(listener):
            connections_max = config.get_int("max.connections")
            if self._total >= connections_max:
                return f"max.connections={connections_max} is reached"
        elif own_max == config.get_int("max.connections"):
            own_max = INT_MAX
        assert isinstance(own_max, int)
        if self._by_listener.get(listener, 0) >= own_max:
            return f"listener.name.{listener.lower()}.max.connections={own_max} is reached"
        if self._by_address.get(address, 0) >= self._address_max(address):
            return f"max.connections.per.ip is reached by {address}"
        return None

    def _address_max(self, address: str) -> int:
        config = self._node.config
        for override in config.get_str("max.connections.per.ip.overrides").split(","):
            name, _, count = override.strip().rpartition(":")
            if usual(name) == address:
                return int(count)
        return config.get_int("max.connections.per.ip")

    def _address_delay_ms(self, address: str, now_ms: int) -> int:
        """Count a connection of an address that has a quota; how long until it may open one, and then this is not counted."""
        limit = self._node.quotas.table.find_address(address)
        if limit is None:
            return 0
        rates = self._address_rates
        rate = rates.pop(address, None) or Rate(self._windows)
        if len(rates) >= REMEMBERED_MAX:
            del rates[next(iter(rates))]
        rates[address] = rate
        delay_ms = self._counted_ms(rate, limit, now_ms)
        if delay_ms:
            rate.record(-1, now_ms)
        return delay_ms

    def _delay_ms(self, listener: str, now_ms: int) -> int:
        config = self._node.config
        limit = config.get_int("max.connection.creation.rate")
        own_limit = config.of_listener("max.connection.creation.rate", listener)
        assert isinstance(own_limit, int)
        delay_ms = 0
        if not self._is_of_brokers(listener):
            delay_ms = self._counted_ms(self._rate, limit, now_ms)
        elif own_limit == limit:
            return 0
        own_rate = self._listener_rates.setdefault(listener, Rate(self._windows))
        return max(delay_ms, self._counted_ms(own_rate, own_limit, now_ms))

    def _counted_ms(self, rate: Rate, limit: float, now_ms: int) -> int:
        """Count one; as in Kafka the wait is one window at most."""
        if limit >= INT_MAX:
            return 0
        rate.record(1, now_ms)
        return min(rate.throttle_ms(max(limit, 1), now_ms), self._windows.size_ms)

    def _is_of_brokers(self, listener: str) -> bool:
        config = self._node.config
        return len(config.listeners) > 1 and listener == config.inter_broker_listener

    def _tell(self, reason: str, now_ms: int) -> None:
        # One line for all addresses: there may be any number of them.
        ending = self._quiet.ending("refused", now_ms)
        if ending is not None:
            log.warning("refusing connections: %s%s", reason, ending)
