"""Many connections that send a byte each now and then: what `bench.workloads.crowd` runs as a process.

Arguments: host, port, connections, bytes per second of each. Prints `ready` when all are connected and have begun. The bytes are those of a request, again and
again, so that nobody can tell them from a slow client; answers are thrown away. Ends with its standard input.
"""

from __future__ import annotations

import resource
import select
import socket
import struct
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

TURN_S = 0.001
#: Connections that are made before the broker is asked something: fewer than the smallest backlog.
AT_ONCE = 20
CONNECT_TIMEOUT_S = 60
#: ApiVersions, version 0: key, version, correlation id, no client id.
REQUEST = struct.pack(">ihhih", 10, 18, 0, 7, -1)


def main() -> None:
    """Connect, then send until nobody wants it any more."""
    host, port, connections, rate = sys.argv[1:]
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    crowd = connect((host, int(port)), int(connections))
    begin(crowd)
    print("ready", flush=True)
    trickle(crowd, float(rate))


def connect(address: tuple[str, int], count: int) -> list[socket.socket]:
    """Connect no faster than the broker takes connections: what its backlog has no room for would wait for seconds."""
    crowd = []
    for number in range(count):
        one = socket.create_connection(address, CONNECT_TIMEOUT_S)
        if number % AT_ONCE == 0 or number == count - 1:
            one.sendall(REQUEST)
            one.recv(65536)
        one.setblocking(False)
        crowd.append(one)
    return crowd


def begin(crowd: Sequence[socket.socket]) -> None:
    """Send the first bytes of a request, of each another part: else all of them would ask at once, every few seconds."""
    for number, one in enumerate(crowd):
        one.sendall(REQUEST[: number % len(REQUEST)])


def trickle(crowd: Sequence[socket.socket], rate: float) -> None:
    """Go on from where `begin` left off: send a byte of each in turn, evenly over the time."""
    sent, began_s = 0, time.monotonic()
    while not select.select([sys.stdin], [], [], TURN_S)[0]:
        due = int((time.monotonic() - began_s) * rate * len(crowd))
        for number in range(sent, due):
            rounds, at = divmod(number, len(crowd))
            byte = (at + rounds) % len(REQUEST)
            if byte == 0:
                drop_answer(crowd[at])
            crowd[at].send(REQUEST[byte : byte + 1])
        sent = due


def drop_answer(one: socket.socket) -> None:
    """Throw away what has come; the socket does not block."""
    try:
        one.recv(65536)
    except BlockingIOError:
        return


if __name__ == "__main__":
    main()
