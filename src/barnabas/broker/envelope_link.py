"""The client of a request that another broker has forwarded, as the node sees it: a Link with the client's name and address.

Job: let the node serve the request as any other, and take its answer. Must not know who forwarded it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from barnabas.broker.tasks import Done
    from barnabas.model.principal import Principal
    from barnabas.ports import Link


class EnvelopeLink:
    """See the module."""

    def __init__(self, outer: Link, principal: Principal, peer_host: str, done: Done) -> None:
        """Have `done(parts, None)` called with the answer, or with None if there is none; `outer` is the forwarding broker's."""
        self.listener = outer.listener
        self.local_host = outer.local_host
        self.local_port = outer.local_port
        self.peer_host = peer_host
        self.lanes: Any = None
        self.principal = principal
        self.authenticator: Any = None
        self.frame_bytes_max = outer.frame_bytes_max
        self.has_staged = False
        self._outer = outer
        self._done: Done | None = done

    @property
    def is_open(self) -> bool:
        """Tell whether whoever unpacked the request waits for the answer, and can be answered."""
        return self._done is not None and self._outer.is_open

    @property
    def owns_frame(self) -> bool:
        """Tell that the request lies in the envelope, which is there until the answer."""
        return True

    def reply(self, buffers: list[Any]) -> None:
        """Give the answer to who unpacked the request."""
        self._end(buffers)

    def mute(self, delay_ms: int) -> None:
        """Leave it to the broker that has the connection: the answer says how long."""

    def reply_repeated(self, answers: bytes) -> None:
        """Nothing forwarded goes a lane."""
        raise AssertionError("a forwarded request went a lane")

    def close_when_sent(self) -> None:
        """The connection is another broker's."""

    def close(self) -> None:
        """Give no answer, unless there was one."""
        self._end(None)

    def _end(self, buffers: list[Any] | None) -> None:
        done, self._done = self._done, None
        if done is not None:
            done(buffers, None)
