"""Addresses of hosts, written in one way.

Job: that two texts of one address are the same text. Java, and so Kafka's rules and quotas, write IPv6 in full; a listener for both
families gives addresses of the old one in the form of the new. Must not know names of hosts: nothing is looked up.
"""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from typing import Final

#: Texts whose usual form is remembered.
_REMEMBERED_MAX: Final = 4096


@lru_cache(_REMEMBERED_MAX)
def usual(text: str) -> str:
    """Write an address as people do, without a zone; what is no address stays as it is."""
    try:
        found = ip_address(text.partition("%")[0])
    except ValueError:
        return text
    if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(found)
