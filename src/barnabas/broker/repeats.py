"""Requests that repeat: the same bytes as before, but for a few fields.

Job: recognise them by what repeats, hand what differs to their lane, and carry out together what the lanes of a turn have
taken (docs/adr/0004). A client that sends one record or one offset per request sends little else, and there the general
way costs several times what the work itself does. Must not know sockets, nor what a lane does.

A lane is opened by a request that the general way has just answered well, and has no rule of its own: whatever is not plain, or
would be refused, is left to the general way, untouched.

What went a lane is staged and written at the end of the turn, or before anything that must not overtake it: so what came
for one log in a turn leaves with one system call, on however many connections it came.

Invariants: requests of one connection are answered and written in order; nothing is answered before it is written; the bytes
answered and written are those of the general way (property tests hold the lanes to that).
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, Protocol

from barnabas.model.principal import ANONYMOUS

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator

    from barnabas.broker.call import Call
    from barnabas.broker.metrics import Metrics
    from barnabas.ports import Clock, Link

#: Lanes of one version that the node keeps, the oldest goes first: about 1 KB each.
LANES_MAX: Final = 16_384
#: Whose lanes the node keeps, where clients may not all do the same: the oldest goes first.
OWNERS_MAX: Final = 1024
#: What repeats may have this many bytes: a client id or tagged fields can be of any length, and it is kept.
PREFIX_BYTES_MAX: Final = 1024
#: Forms that a connection tries, one for each API, version and length of what repeats (say, of a topic's name).
FORMS_MAX: Final = 4
#: A frame's length, key and version, correlation id; then comes what repeats.
PREFIX_AT: Final = 12
_KIND: Final = Struct(">i").unpack_from


class Lane(Protocol):
    """Requests that are the same up to a certain point, and what differs behind it."""

    @property
    def api_key(self) -> int:
        """Whose requests these are."""

    @property
    def target(self) -> object:
        """What is written together: all lanes to one target are of one class."""

    def stage(self, view: memoryview, position: int, end: int, staging: Staging) -> Any:  # noqa: ANN401
        """Check what differs, view[position:end]; what is to be written, or None if it needs a closer look."""

    def write(self, run: list[Any], now_ms: int) -> Iterable[Any]:
        """Write what was staged for the target of this lane; what came of each."""

    def answer(self, correlation_id: int, item: Any, outcome: Any) -> bytes:  # noqa: ANN401
        """Count a request, and tell what came of it."""


#: What repeats may look like: its end, how to read it with what stands before, API key and version, and the lanes.
_Form = tuple[int, "Callable[..., tuple[int, int, int, bytes]]", int, dict[bytes, Lane]]


class Staging:
    """All lanes, and the requests of a turn that went one. Their memory must stay theirs until `write`."""

    __slots__ = (
        "_clock",
        "_lanes",
        "_metrics",
        "_on_fault",
        "monotonic_ms",
        "now_ms",
        "request_bytes_max",
        "sequences",
        "staged",
    )

    def __init__(
        self,
        clock: Clock,
        metrics: Metrics,
        request_bytes_max: int,
        on_fault: Callable[[str, Exception], None],
    ) -> None:
        """Start with none. `on_fault` is told of faults that are contained here."""
        self._on_fault = on_fault
        self._clock = clock
        self._metrics = metrics
        self.request_bytes_max = request_bytes_max
        #: Who sent it, its lane, its correlation id, and what is to be written.
        self.staged: list[tuple[Link, Lane, int, Any]] = []
        #: By partition and producer: the epoch and sequence that follow what is staged. Never gone through.
        self.sequences: dict[tuple[object, int], tuple[int, int]] = {}
        self._lanes: dict[tuple[int, Hashable], dict[bytes, Lane]] = {}
        #: The time of the turn by both clocks, by which requests are judged.
        self.now_ms = self.monotonic_ms = 0

    def lanes(self, kind: int, owner: Hashable = ANONYMOUS) -> dict[bytes, Lane]:
        """Give the lanes of one API version by what repeats in their requests: client id, topic, partition, acks.

        They are no connection's own: they belong to all that may do the same, which is what `owner` stands for.
        """
        lanes = self._lanes.get((kind, owner))
        if lanes is None:
            if len(self._lanes) >= OWNERS_MAX:
                self._lanes.pop(next(iter(self._lanes))).clear()  # connections hold it, too
            lanes = self._lanes[kind, owner] = {}
        return lanes

    def close_all(self) -> None:
        """Let everybody go the general way once: what a client may do has changed."""
        self.write()
        for lanes in self._lanes.values():
            lanes.clear()

    def close_lanes(self, targets: list[Any]) -> None:
        """Let go of what is here no more, once what was staged is written."""
        self.write()
        for lanes in self._lanes.values():
            for prefix in [prefix for prefix, lane in lanes.items() if lane.target in targets]:
                del lanes[prefix]

    def begin(self) -> None:
        """Look at the clock before the first of several requests."""
        if not self.staged:
            self.now_ms, self.monotonic_ms = self._clock.now_ms(), self._clock.monotonic_ms()

    def write(self) -> None:
        """Write what came for each target together, then answer in the order of the requests."""
        staged, self.staged = self.staged, []
        if not staged:
            return
        self.sequences.clear()
        try:
            self._write(staged)
        except Exception:
            for link, _, _, _ in staged:  # who cannot be answered must not wait for ever
                link.has_staged = False
                link.close()
            raise

    def _write(self, staged: list[tuple[Link, Lane, int, Any]]) -> None:
        runs: dict[object, list[Any]] = {}
        writers: list[Lane] = []
        for _, lane, _, item in staged:
            run = runs.get(lane.target)
            if run is None:
                runs[lane.target] = [item]
                writers.append(lane)
            else:
                run.append(item)
        outcomes: dict[object, Iterator[Any]] = {}
        requests, now_ms = self._metrics.requests, self.now_ms
        failed: dict[object, None] = {}
        for lane in writers:
            run = runs[lane.target]
            requests[lane.api_key] += len(run)
            try:
                outcomes[lane.target] = iter(lane.write(run, now_ms))
            except Exception as fault:  # noqa: BLE001  (an edge: those who wrote there)
                failed[lane.target] = None
                self._on_fault("what was staged cannot be written", fault)
        if failed:
            staged = self._close_failed(staged, failed, outcomes)
            if not staged:
                return
        link, answers = staged[0][0], b""
        for this_link, lane, correlation_id, item in staged:
            if this_link is not link:
                link.reply_repeated(answers)
                link, answers = this_link, b""
            answers += lane.answer(correlation_id, item, next(outcomes[lane.target]))
        link.reply_repeated(answers)

    def _close_failed(
        self,
        staged: list[tuple[Link, Lane, int, Any]],
        failed: dict[object, None],
        outcomes: dict[object, Iterator[Any]],
    ) -> list[tuple[Link, Lane, int, Any]]:
        """Close the links that wrote where it has failed: nobody knows what was written. Return the requests of the others."""
        closed = {link: None for link, lane, _, _ in staged if lane.target in failed}
        kept: dict[object, list[Any]] = {target: [] for target in outcomes}
        others = []
        for one in staged:
            link, lane = one[0], one[1]
            outcome = None if lane.target in failed else next(outcomes[lane.target])
            if link not in closed:
                others.append(one)
                kept[lane.target].append(outcome)
        for target, some in kept.items():
            outcomes[target] = iter(some)
        for link in closed:
            link.close()
        return others


class Repeats:
    """The requests that one connection repeats."""

    __slots__ = ("_forms", "_link", "_owner", "_staging")

    def __init__(self, link: Link, staging: Staging, owner: Hashable) -> None:
        """Start without a lane."""
        self._owner = owner
        self._link = link
        self._staging = staging
        self._forms: list[_Form] = []

    def find(self, frame: memoryview, end: int) -> Lane | None:
        """Look up the lane of a request, without its length, by what repeats up to `end`; recognise such ones from now on."""
        (kind,) = _KIND(frame)
        lanes = self._staging.lanes(kind, self._owner)
        form = (end + 4, _prefix_reader(end + 4 - PREFIX_AT), kind, lanes)
        if form not in self._forms:
            self._forms = [form, *self._forms[: FORMS_MAX - 1]]
        return lanes.get(bytes(frame[PREFIX_AT - 4 : end]))

    def add(self, frame: memoryview, end: int, lane: Lane) -> None:
        """Let requests that are the same up to there go this lane."""
        (kind,) = _KIND(frame)
        lanes = self._staging.lanes(kind, self._owner)
        if len(lanes) >= LANES_MAX:
            del lanes[next(iter(lanes))]
        lanes[bytes(frame[PREFIX_AT - 4 : end])] = lane

    def take(self, view: memoryview, position: int, end: int) -> int:
        """Stage the requests from `position` on as long as they repeat; return where they end.

        Their answers come by `Link.reply_repeated` when what is staged is written: that must be before another request of
        this link is handled, and before the memory is used again.
        """
        link, staging = self._link, self._staging
        staging.begin()
        while True:
            for length, read_prefix, kind, lanes in self._forms:
                if position + length < end:
                    size, this_kind, correlation_id, prefix = read_prefix(view, position)
                    if this_kind == kind and (lane := lanes.get(prefix)) is not None:
                        break
            else:
                return position
            frame_end = position + 4 + size
            if not position + length < frame_end <= end or size > staging.request_bytes_max:
                return position
            item = lane.stage(view, position + length, frame_end, staging)
            if item is None:
                return position
            staging.staged.append((link, lane, correlation_id, item))
            link.has_staged = True
            position = frame_end


@lru_cache(PREFIX_BYTES_MAX)
def _prefix_reader(size: int) -> Callable[..., Any]:
    return Struct(f">iii{size}s").unpack_from


def may_open(call: Call) -> bool:
    """Tell whether requests like this one, which was taken, may go a lane.

    Only in the turn in which it was decoded, judged and answered: a handler that has waited knows neither the bytes nor the rights, role
    and topic that count now. Not if any of it was denied, or if its sender has a quota, which counts requests one by one.
    """
    return not call.has_waited and call.denied is None and call.bill is None


def open_lane(
    call: Call, end: int, is_open: Callable[[Lane], bool], make: Callable[[], Lane]
) -> None:
    """Let the next requests that are like this one up to `end` go a lane, a new one if that which is there is not open."""
    assert may_open(call), "its handler asks before"
    if end > PREFIX_BYTES_MAX:
        return
    repeats: Repeats | None = call.link.lanes
    if repeats is None:
        repeats = call.link.lanes = Repeats(call.link, call.node.staging, _owner(call))
    lane = repeats.find(call.frame, end)
    if lane is None or not is_open(lane):
        repeats.add(call.frame, end, make())


def _owner(call: Call) -> Hashable:
    """Tell who shares lanes: connections of one principal, which has its quotas; with access rules, from one address."""
    return (
        call.link.principal
        if call.node.gate is None
        else (call.link.principal, call.link.peer_host)
    )
