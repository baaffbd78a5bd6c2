"""What requests cost those who send them, and how long they must wait for it.

Job: find who shares a quota with whom (`core/quota_table.py`), count what their requests use, and say how long a client is to be
throttled. Throttling delays and tells: the answer goes out at once with its `throttle_time_ms`, and the link is not read for
as long (KIP-219). Must not know sockets, nor how the store keeps quotas.

Invariants: a client without a quota has no bill, and costs one look; a request is billed once; what brokers ask each other is never billed.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from barnabas.core import quota_table
from barnabas.core.quota import Rate, TokenBucket, Windows
from barnabas.core.quota_table import QuotaTable
from barnabas.model.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from barnabas.broker.call import Call
    from barnabas.broker.node import Node
    from barnabas.broker.tasks import Task
    from barnabas.core.quota_table import Entity
    from barnabas.model.config.broker_config import BrokerConfig
    from barnabas.ports import Clock

#: Clients, and shares of quotas, that are remembered; when there are more, half of them go, those that came first.
REMEMBERED_MAX: Final = 10_000
#: Characters of a client id that tell clients apart: it is remembered, and may have 32 KB.
CLIENT_ID_MAX: Final = 1_000
#: LeaderAndIsr, StopReplica, UpdateMetadata, ControlledShutdown, WriteTxnMarkers: brokers among themselves. SaslHandshake,
#: SaslAuthenticate: it is not known yet who that is.
_FREE: Final = frozenset((4, 5, 6, 7, 17, 27, 36))
_PRODUCE: Final = 0
_NS_PER_PERCENT: Final = 10_000_000


class Counted:
    """A limit, and what all who share it have used of it lately."""

    __slots__ = ("_delays", "_delays_ms", "limit", "rate")

    def __init__(self, windows: Windows, limit: float) -> None:
        """Have counted nothing."""
        self.limit = limit
        self.rate = Rate(windows)
        self._delays = Rate(windows)
        self._delays_ms = Rate(windows)

    def charge(self, value: float, now_ms: int) -> int:
        """Count what was used; return how long to wait for it."""
        self.rate.record(value, now_ms)
        return self.rate.throttle_ms(self.limit, now_ms)

    def note_delay(self, throttle_ms: int, now_ms: int) -> None:
        """Remember that somebody was throttled."""
        self._delays.record(1, now_ms)
        self._delays_ms.record(throttle_ms, now_ms)

    def delay_ms(self, now_ms: int) -> float:
        """Return how long those who were throttled lately had to wait, on average."""
        return self._delays_ms.total(now_ms) / max(self._delays.total(now_ms), 1)


class Permits(Counted):
    """Permits to change topics: counted, but refused by a bucket of tokens (KIP-599)."""

    __slots__ = ("bucket",)

    def __init__(self, windows: Windows, limit: float, now_ms: int) -> None:
        """Start with a full bucket."""
        super().__init__(windows, limit)
        self.bucket = TokenBucket(windows, limit, now_ms)

    def take(self, permits: int, now_ms: int, *, is_strict: bool) -> int:
        """Take permits; how long to wait if that was too much. Strictly, none are taken while any are owed."""
        self.bucket.bound = self.limit
        owed_ms = self.bucket.throttle_ms(now_ms)
        if is_strict and owed_ms:
            return owed_ms
        self.bucket.take(permits, now_ms)
        self.rate.record(permits, now_ms)
        return 0 if is_strict else self.bucket.throttle_ms(now_ms)


class _Shares:
    """What counts for one client, by kind; None where it has no limit."""

    __slots__ = ("fetch", "mutation", "produce", "request")

    def __init__(self, find: Callable[[str], Any]) -> None:
        self.produce: Counted | None = find(quota_table.PRODUCE)
        self.fetch: Counted | None = find(quota_table.FETCH)
        self.request: Counted | None = find(quota_table.REQUEST)
        self.mutation: Permits | None = find(quota_table.MUTATION)

    def __bool__(self) -> bool:
        return any((self.produce, self.fetch, self.request, self.mutation))


class Quotas:
    """The quotas in force on this broker."""

    def __init__(self, node: Node) -> None:
        """Limit nobody."""
        self._node = node
        self.table = QuotaTable()
        #: Whether there is any quota for users or client ids.
        self.is_on = False
        self.windows = windows_of(node.config, "quota")
        self._mutation_windows = windows_of(node.config, "controller.quota")
        #: A time longer than this is not asked of whoever used too much time: as in Kafka, one window.
        self.request_throttle_ms_max = self.windows.size_ms
        self._shares: dict[tuple[str, str], _Shares | None] = {}
        self._counted: dict[tuple[str, str | None, str | None], Counted] = {}

    def load(self, quotas: Mapping[Entity, Mapping[str, float]]) -> None:
        """Take what the store has, at the start."""
        for entity, limits in quotas.items():
            self.put(entity, limits)

    def put(self, entity: Entity, limits: Mapping[str, float]) -> None:
        """Put an entity's limits in force."""
        if not self.table.put(entity, limits):
            return
        self.is_on = self.table.limits_clients
        self._shares.clear()
        # Who repeats requests may have a quota now.
        self._node.staging.close_all()

    def begin(self, call: Call) -> None:
        """Open a bill for a request, if its sender has a quota."""
        if call.api_key in _FREE:
            return
        client_id = (call.client_id or "")[:CLIENT_ID_MAX]
        shares = self._shares_of(call.link.principal.name, client_id)
        if shares is not None:
            size_bytes = len(call.frame) if call.api_key == _PRODUCE else 0
            call.bill = Bill(self, shares, self._node.world.clock, size_bytes)

    def counted(self) -> Iterator[tuple[str, str | None, str | None, Counted]]:
        """Go through all that is counted: the quota's key, user, client id."""
        for (key, user, client_id), counted in self._counted.items():
            yield key, user, client_id, counted

    def _shares_of(self, user: str, client_id: str) -> _Shares | None:
        try:
            return self._shares[user, client_id]
        except KeyError:
            if len(self._shares) >= REMEMBERED_MAX:
                self._shares.clear()
            shares = _Shares(lambda key: self._find(key, user, client_id))
            self._shares[user, client_id] = found = shares if shares else None
            return found

    def _find(self, key: str, user: str, client_id: str) -> Counted | None:
        share = self.table.find(key, user, client_id)
        if share is None:
            return None
        place = key, share.user, share.client_id
        counted = self._counted.pop(place, None)
        if counted is None:
            if len(self._counted) >= REMEMBERED_MAX:
                self._forget_half()
            if key == quota_table.MUTATION:
                now_ms = self._node.world.clock.monotonic_ms()
                counted = Permits(self._mutation_windows, share.limit, now_ms)
            else:
                counted = Counted(self.windows, share.limit)
        counted.limit = share.limit
        self._counted[place] = counted
        return counted

    def _forget_half(self) -> None:
        """Forget what was counted for those who came first; who is still there comes again, and then shares what is counted from now on."""
        for place in list(islice(self._counted, len(self._counted) // 2)):
            del self._counted[place]
        self._shares.clear()


class Bill:
    """What one request has used so far, and how long its client is throttled for it."""

    __slots__ = (
        "_clock", "_owed_ms", "_quotas", "_shares", "_since_ns", "_size_bytes", "_throttle_ms", "_used_ns",
    )  # fmt: skip

    def __init__(self, quotas: Quotas, shares: _Shares, clock: Clock, size_bytes: int) -> None:
        """Begin to measure; `size_bytes` is what a producer sends."""
        self._quotas = quotas
        self._shares = shares
        self._clock = clock
        self._used_ns = 0
        self._since_ns = clock.monotonic_ns()
        self._size_bytes = size_bytes
        #: How long until permits are there again.
        self._owed_ms = 0
        #: Decided once, when the answer is made.
        self._throttle_ms: int | None = None

    def go_on(self) -> None:
        """Measure again, after waiting."""
        self._since_ns = self._clock.monotonic_ns()

    def rest(self) -> None:
        """Waiting costs nothing."""
        now_ns = self._clock.monotonic_ns()
        self._used_ns += now_ns - self._since_ns
        self._since_ns = now_ns

    def measured(self, task: Task[Any]) -> Task[Any]:
        """Run a task, measuring what it takes between its waits."""
        answer: Any = None
        problem: BaseException | None = None
        self.rest()
        while True:
            self.go_on()
            try:
                start = task.send(answer) if problem is None else task.throw(problem)
            except StopIteration as end:
                return end.value
            finally:
                self.rest()
            answer = problem = None
            try:
                answer = yield start
            except Exception as caught:  # noqa: BLE001  (the task gets it)
                problem = caught

    def limit_fetch(self, max_bytes: int) -> int:
        """Return how many bytes a fetch may ask for: what all windows but one allow, so that it can ever be within its quota."""
        share = self._shares.fetch
        if share is None:
            return max_bytes
        windows = self._quotas.windows
        return min(max_bytes, int(share.limit * (windows.number - 1) * windows.size_ms / 1000))

    def settle_fetch(self, size_bytes: int) -> int:
        """Decide about a fetch that found so much; if it is throttled it gets nothing, and that is not counted.

        A batch that is too large for its quota by itself goes through when nothing else did lately: else it never would.
        """
        share, now_ms = self._shares.fetch, self._clock.monotonic_ms()
        throttle_ms = 0
        if share is not None:
            is_first = share.rate.total(now_ms) <= 0
            throttle_ms = share.charge(size_bytes, now_ms)
            if is_first:
                throttle_ms = 0
        self._settle(share, throttle_ms, now_ms)
        if self._throttle_ms and share is not None:
            share.rate.record(-size_bytes, now_ms)
        return self._throttle_ms or 0

    def settle(self) -> int:
        """Decide how long the client is throttled, once the answer is known."""
        if self._throttle_ms is None:
            shares, now_ms = self._shares, self._clock.monotonic_ms()
            if self._size_bytes and shares.produce is not None:
                self._settle(
                    shares.produce, shares.produce.charge(self._size_bytes, now_ms), now_ms
                )
            else:
                self._settle(shares.mutation, self._owed_ms, now_ms)
        return self._throttle_ms or 0

    def take_permits(self, count: int, *, is_strict: bool) -> None:
        """Take permits for changes of topics; KafkaError if there are none."""
        permits = self._shares.mutation
        if permits is None:
            return
        owed_ms = permits.take(count, self._clock.monotonic_ms(), is_strict=is_strict)
        self._owed_ms = max(self._owed_ms, owed_ms)
        if is_strict and owed_ms:
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, None)

    def _settle(self, share: Counted | None, throttle_ms: int, now_ms: int) -> None:
        """Take the longer of two waits: for what was used, and for the time that took."""
        request_ms, request = 0, self._shares.request
        if request is not None:
            self.rest()
            request_ms = min(
                request.charge(self._used_ns / _NS_PER_PERCENT, now_ms),
                self._quotas.request_throttle_ms_max,
            )
        if request_ms >= throttle_ms:
            share, throttle_ms = request, request_ms
        if throttle_ms and share is not None:
            share.note_delay(throttle_ms, now_ms)
        self._throttle_ms = throttle_ms


def windows_of(config: BrokerConfig, kind: str) -> Windows:
    """Read over what windows a kind of quota is measured."""
    size_ms = config.get_int(f"{kind}.window.size.seconds") * 1000
    return Windows(config.get_int(f"{kind}.window.num"), size_ms)
