"""Which versions of a request the conversations here can speak.

Versions of Kafka 3.0 and later: its FindCoordinator and OffsetFetch take several at once. Versions that name topics by id are left
out: names are what users give, and a topic made anew is seen by its offsets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.client.errors import UnsupportedByBroker
from barnabas.wire.messages.index import APIS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from barnabas.wire.primitives import Message

_KEYS: Final = {api.name: key for key, api in APIS.items()}
_SPOKEN: Final = {
    _KEYS["Produce"]: (9, 12),
    _KEYS["Fetch"]: (11, 12),
    _KEYS["ListOffsets"]: (4, 11),
    _KEYS["Metadata"]: (7, 13),
    _KEYS["OffsetCommit"]: (7, 9),
    _KEYS["OffsetFetch"]: (8, 9),
    _KEYS["FindCoordinator"]: (4, 6),
    _KEYS["TxnOffsetCommit"]: (3, 5),
    #: From 4 on only brokers may send it.
    _KEYS["AddPartitionsToTxn"]: (0, 3),
}


def choose(
    request: Message, served: Mapping[int, tuple[int, int]], version_max: int | None = None
) -> int:
    """Choose the newest version that both sides know; UnsupportedByBroker if there is none."""
    lowest, highest = _SPOKEN.get(request.API_KEY, (request.MIN_VERSION, request.MAX_VERSION))
    if version_max is not None:
        highest = min(highest, version_max)
    served_lowest, served_highest = served.get(request.API_KEY, (0, -1))
    version = min(highest, served_highest)
    if version < max(lowest, served_lowest):
        name = type(request).__name__.removesuffix("Request")
        raise UnsupportedByBroker(f"the broker does not serve {name} in a version known here")
    return version
