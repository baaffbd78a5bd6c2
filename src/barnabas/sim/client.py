"""What every simulated client does: connect, ask, time out, hang up, connect again.

Job: turn generated messages into the bytes a real client sends, match replies to requests, and keep a connection.
Must not know what the requests are for: that is `producer`, `consumer` and `admin`.
Invariants: replies come in the order of the requests; every request is answered exactly once, with the response or with
None when its outcome is unknown (time-out, lost connection).

A client is driven by `step`: called when it is connected, after every reply, and by its own timers.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from barnabas.sim.violation import Violation
from barnabas.sim.world import MS, SECOND
from barnabas.wire import frame as frames
from barnabas.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.sim.network import Connection, Network
    from barnabas.sim.world import Booked

REQUEST_TIMEOUT_US: Final = 2 * SECOND
BACKOFF_US: Final = (5 * MS, 100 * MS)


class Asked(NamedTuple):
    """A request that waits for its reply."""

    correlation_id: int
    api_key: int
    version: int
    answered: Callable[[Any], None]
    timer: Booked


class Client:
    """One process that talks to the node over one connection."""

    def __init__(self, name: str, network: Network) -> None:
        """Start without a connection; `step` gets things going."""
        self.name = name
        self.network = network
        self.scheduler = network.scheduler
        self.chance = self.scheduler.chance(name)
        self.connection: Connection | None = None
        self.is_finished = False
        self._connecting = False
        self._correlation_id = 0
        self._asked: deque[Asked] = deque()
        self._wake: Booked | None = None

    # For subclasses

    def step(self) -> None:
        """Do what can be done now. Called only while connected."""
        raise NotImplementedError

    def on_lost(self) -> None:
        """Note that the connection is gone; every request has been answered with None."""

    @property
    def requests_in_flight(self) -> int:
        """Requests that wait for a reply."""
        return len(self._asked)

    def wake(self, delay_us: int = 0) -> None:
        """Book the next step; an earlier one that is booked stays."""
        if self._wake is None or self._wake.call is None:
            self._wake = self.scheduler.after(delay_us, f"{self.name} steps", self._on_wake)

    def wake_after_backoff(self) -> None:
        """Try again in a while."""
        self.wake(self.chance.randint(*BACKOFF_US))

    def ask(
        self,
        request: Any,  # noqa: ANN401
        version: int,
        answered: Callable[[Any], None],
        *,
        timeout_us: int = REQUEST_TIMEOUT_US,
    ) -> None:
        """Send a request; `answered` gets the response, or None when nobody knows what came of it."""
        correlation_id = self._send(request, version)
        timer = self.scheduler.after(timeout_us, f"{self.name} gives up", self._on_timeout)
        self._asked.append(Asked(correlation_id, request.API_KEY, version, answered, timer))

    def tell(self, request: Any, version: int) -> None:  # noqa: ANN401
        """Send a request that gets no reply."""
        self._send(request, version)

    def hang_up(self) -> None:
        """Close the connection from this side."""
        if self.connection is not None:
            self.connection.close()
            self._lose()

    def ask_metadata(self, topics: list[str] | None, answered: Callable[[Any], None]) -> None:
        """Ask about topics by name, or about all."""
        wanted = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
        self.ask(request, self.chance.choice((10, 12, 13)), answered)

    # Connecting

    def _on_wake(self) -> None:
        if self.is_finished:
            return
        if self.connection is not None:
            self.step()
        elif not self._connecting:
            self._connecting = True
            self.network.connect(self)

    def on_connected(self, connection: Connection) -> None:
        """Go on where the last connection ended."""
        self._connecting = False
        self.connection = connection
        self.step()

    def on_refused(self) -> None:
        """Try again later."""
        self._connecting = False
        self.wake_after_backoff()

    def on_closed(self, connection: Connection) -> None:
        """See the node's end go."""
        if connection is self.connection:
            self._lose()

    def _on_timeout(self) -> None:
        self.scheduler.note(f"{self.name} timed out")
        self.hang_up()

    def _lose(self) -> None:
        self.connection = None
        asked, self._asked = self._asked, deque()
        for one in asked:
            one.timer.cancel()
        for one in asked:
            one.answered(None)
        self.on_lost()
        self.wake_after_backoff()

    # Bytes

    def _send(self, request: Any, version: int) -> int:  # noqa: ANN401
        assert self.connection is not None
        self._correlation_id += 1
        head = frames.request_header(request.API_KEY, version, self._correlation_id, self.name)
        body = b"".join(bytes(part) for part in request.encode(version))
        self.connection.send(head + body)
        return self._correlation_id

    def on_frame(self, connection: Connection, frame: bytes) -> None:
        """Match a reply with the oldest request."""
        if connection is not self.connection:
            return
        if not self._asked:
            raise Violation(
                "replies are in order", f"{self.name} got a reply that it never asked for"
            )
        asked = self._asked.popleft()
        asked.timer.cancel()
        header = frames.response_header(asked.correlation_id, asked.api_key, asked.version)
        if frame[: len(header)] != header:
            raise Violation(
                "replies are in order",
                f"{self.name} expected the reply to request {asked.correlation_id}, got {frame[:5].hex()}",
            )
        _, response_type = frames.message_types(asked.api_key)
        asked.answered(response_type.decode(frame, asked.version, len(header)))
        if not self.is_finished and self.connection is connection:
            self.step()
