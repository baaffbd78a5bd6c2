"""Ports for servers that are stopped and started again.

Job: find a port that is free and stays so. Must not know who listens there. The kernel gives the ports of its own range to outgoing connections: a server that was given one of
those may find it taken when it comes back. The ports below that range are given to nobody who does not ask for them.
"""

from __future__ import annotations

import secrets
import socket
from pathlib import Path
from typing import Final

_RANGE: Final = "/proc/sys/net/ipv4/ip_local_port_range"
_USUAL_START: Final = 32768
#: Below it are ports of services that people know.
_FIRST: Final = 15000
_TRIES: Final = 200


def lasting_port(host: str, family: int = socket.AF_INET) -> int:
    """Return a port that is free now, and not one of those for outgoing connections if there are others."""
    end = _outgoing_start()
    for _ in range(_TRIES if end > _FIRST else 0):
        port = _FIRST + secrets.randbelow(end - _FIRST)
        try:
            socket.create_server((host, port), family=family).close()
        except OSError:
            continue
        return port
    with socket.create_server((host, 0), family=family) as taken:
        found: int = taken.getsockname()[1]
        return found


def _outgoing_start() -> int:
    try:
        return int(Path(_RANGE).read_text().split()[0])
    except (OSError, ValueError):
        return _USUAL_START
