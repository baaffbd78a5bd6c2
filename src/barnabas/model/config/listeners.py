"""Listener addresses: reading `listeners`, `advertised.listeners` and their protocols.

Job: turn the text of these settings into checked addresses.
Must not know: sockets, name resolution.
Invariants: names are in capitals and each is used once; no two listeners share a port, but for one
IPv4 and one IPv6 address; every listener has a security protocol.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.model.config.types import ConfigProblem

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PORT_MAX: Final = 65_535
_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
DEFAULT_PROTOCOL_MAP: Final = {name: name for name in _PROTOCOLS}
# A host may be empty, a name, an IPv4 address, or an IPv6 address in brackets (with a zone).
_ADDRESS = re.compile(
    r"(?P<name>[^:/]+)://(?:\[(?P<ip6>[0-9a-fA-F:.%\w]+)\]|(?P<host>[\w.-]*)):(?P<port>[0-9]{1,5})",
    re.ASCII,
)


class Listener(NamedTuple):
    """One address to listen on or to tell clients. An empty host means every address."""

    name: str
    protocol: str
    host: str
    port: int

    @property
    def is_encrypted(self) -> bool:
        """Tell whether clients speak TLS there."""
        return self.protocol in ("SSL", "SASL_SSL")

    @property
    def wants_login(self) -> bool:
        """Tell whether clients log in there, by SASL."""
        return self.protocol in ("SASL_PLAINTEXT", "SASL_SSL")

    def __str__(self) -> str:
        """Give the form of the settings."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


def parse_protocol_map(text: str) -> dict[str, str]:
    """Read `listener.security.protocol.map`."""
    protocols: dict[str, str] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, colon, protocol = (part.strip().upper() for part in entry.partition(":"))
        if not colon or not name or protocol not in _PROTOCOLS:
            raise _problem(
                "listener.security.protocol.map",
                f"'{entry}' is not NAME:PROTOCOL; protocols are {', '.join(_PROTOCOLS)}",
            )
        protocols[name] = protocol
    return protocols


def parse_listeners(
    text: str, protocols: Mapping[str, str] | None = None, setting: str = "listeners"
) -> tuple[Listener, ...]:
    """Read addresses to listen on. Names that are no protocol must be in `protocols`."""
    found = _parse(text, DEFAULT_PROTOCOL_MAP if protocols is None else protocols, setting)
    if not found:
        raise _problem(setting, "at least one listener is needed, such as PLAINTEXT://:9092")
    _check_ports(found, setting)
    return found


def parse_advertised(text: str, listeners: Sequence[Listener]) -> tuple[Listener, ...]:
    """Read the addresses clients are told, each for a listener there is."""
    setting = "advertised.listeners"
    protocols = {listener.name: listener.protocol for listener in listeners}
    found = _parse(text, protocols, setting)
    for listener in found:
        if listener.host in ("", "0.0.0.0", "::"):  # noqa: S104 (refused, not bound)
            raise _problem(setting, f"'{listener}' is no address a client can connect to")
    return found


def _parse(text: str, protocols: Mapping[str, str], setting: str) -> tuple[Listener, ...]:
    found: dict[str, Listener] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        listener = _parse_one(entry, protocols, setting)
        if listener.name in found:
            raise _problem(setting, f"the listener name {listener.name} is used twice")
        found[listener.name] = listener
    return tuple(found.values())


def _parse_one(entry: str, protocols: Mapping[str, str], setting: str) -> Listener:
    match = _ADDRESS.fullmatch(entry)
    if match is None or int(match["port"]) > PORT_MAX:
        raise _problem(
            setting,
            f"'{entry}' is no listener; expected is NAME://HOST:PORT, [HOST] for IPv6,"
            f" ports from 0 to {PORT_MAX}",
        )
    name = match["name"].upper()
    protocol = protocols.get(name)
    if protocol is None:
        raise _problem(
            setting,
            f"'{entry}' has no security protocol; known names are {', '.join(protocols)} "
            f"(add {name}:PLAINTEXT to listener.security.protocol.map?)",
        )
    return Listener(name, protocol, match["ip6"] or match["host"] or "", int(match["port"]))


def _check_ports(listeners: Sequence[Listener], setting: str) -> None:
    for position, listener in enumerate(listeners):
        for other in listeners[:position]:
            if listener.port == other.port != 0 and not _families_differ(listener, other):
                raise _problem(setting, f"{other} and {listener} use the same port")


def _families_differ(listener: Listener, other: Listener) -> bool:
    """Tell whether one is an IPv4 and one an IPv6 address; a name could be both."""
    return {_family(listener.host), _family(other.host)} == {4, 6}


def _family(host: str) -> int | None:
    if ":" in host:
        return 6
    return 4 if re.fullmatch(r"[0-9.]+", host, re.ASCII) else None


def _problem(setting: str, message: str) -> ConfigProblem:
    return ConfigProblem(setting, f"{setting}: {message}")
