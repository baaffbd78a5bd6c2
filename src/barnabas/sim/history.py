"""What clients of a log saw, and what must not be in it: Jepsen's checks of a Kafka, over any history.

Job: take operations as their clients know them, from the simulation or from real processes, and name every anomaly. Must not
know brokers, wires or time. An operation is a send, a poll, or a transaction of both; it ended well (`OK`), without effect
(`FAIL`), or nobody knows how (`INFO`). Those of one process follow each other; processes are as they come.

| anomaly                | what was seen                                                                          |
|------------------------|----------------------------------------------------------------------------------------|
| inconsistent-offsets   | one offset, two values                                                                 |
| duplicate              | one value, two offsets                                                                 |
| lost-write             | acknowledged, and others behind it were polled, it never                               |
| unseen                 | acknowledged, and not polled although everything was read in the end                   |
| poll-skip, int-…       | a process passed over a record that is there; int: within one operation                |
| nonmonotonic-poll, …   | a process went back without a seek                                                     |
| nonmonotonic-send, …   | a process's later send has the lower offset                                            |
| G1a                    | a value was polled whose operation failed                                              |
| precommitted-read      | an operation polled what it sent itself                                                |
| G1c                    | operations that each polled what the next one sent, in a circle                        |

Writes of several transactions may lie between each other, and within one there may be gaps: both are legal in Kafka (G0, int-send-skip).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

Key = tuple[str, int]


class Outcome(Enum):
    """How an operation ended."""

    OK = "ok"
    INFO = "info"
    FAIL = "fail"


class Send(NamedTuple):
    """A record was sent; `offset` is None if nobody said where it is."""

    key: Key
    value: bytes
    offset: int | None = None


class Poll(NamedTuple):
    """Records of one partition were polled, (offset, value) each, in the order in which they came."""

    key: Key
    records: tuple[tuple[int, bytes], ...]


class Seek(NamedTuple):
    """The process goes on somewhere else in a partition."""

    key: Key


Step = Send | Poll | Seek


@dataclass(slots=True, frozen=True)
class Operation:
    """What one process did at once."""

    process: str
    steps: tuple[Step, ...]
    outcome: Outcome = Outcome.OK


class Anomaly(NamedTuple):
    """Something that must not be."""

    kind: str
    what: str
    #: The record it is about, where it is about one.
    record: tuple[Key, bytes] | None = None


class History:
    """Operations in the order in which they ended."""

    def __init__(self) -> None:
        """Start with none."""
        self.operations: list[Operation] = []

    def add(self, process: str, *steps: Step, outcome: Outcome = Outcome.OK) -> None:
        """Note what a process did."""
        self.operations.append(Operation(process, steps, outcome))

    def anomalies(self, *, all_was_read: bool) -> list[Anomaly]:
        """Name everything that must not be; `all_was_read`: every partition was polled to its end after the last send."""
        known = _Known(self.operations)
        found = [*known.offsets_and_values(), *known.lost(all_was_read=all_was_read)]
        found += _aborted_reads(self.operations, known)
        found += _order(self.operations, known)
        found += _circles(self.operations, known)
        return found


class _Known:
    """Where values are, who sent them, and which were polled."""

    def __init__(self, operations: list[Operation]) -> None:
        self.values: dict[Key, dict[int, dict[bytes, None]]] = defaultdict(dict)
        self.offsets: dict[tuple[Key, bytes], dict[int, None]] = defaultdict(dict)
        self.senders: dict[tuple[Key, bytes], int] = {}
        self.polled: dict[tuple[Key, bytes], None] = {}
        self.polled_to: dict[Key, int] = {}
        self.acknowledged: list[Send] = []
        for number, operation in enumerate(operations):
            for step in operation.steps:
                if isinstance(step, Send):
                    self._send(number, operation, step)
                elif isinstance(step, Poll):
                    self._poll(step)
        acknowledged = {(send.key, send.value) for send in self.acknowledged}
        #: Offsets at which something is that readers may see, in order.
        self.visible = {key: sorted(self._visible(key, acknowledged)) for key in self.values}

    def _send(self, number: int, operation: Operation, step: Send) -> None:
        self.senders[step.key, step.value] = number
        if operation.outcome is Outcome.OK:
            self.acknowledged.append(step)
        if step.offset is not None:
            self._put(step.key, step.offset, step.value)

    def _poll(self, step: Poll) -> None:
        for offset, value in step.records:
            self._put(step.key, offset, value)
            self.polled[step.key, value] = None
            self.polled_to[step.key] = max(offset, self.polled_to.get(step.key, -1))

    def _put(self, key: Key, offset: int, value: bytes) -> None:
        self.values[key].setdefault(offset, {})[value] = None
        self.offsets[key, value][offset] = None

    def _visible(self, key: Key, acknowledged: set[tuple[Key, bytes]]) -> Iterator[int]:
        for offset, values in self.values[key].items():
            if any((key, one) in self.polled or (key, one) in acknowledged for one in values):
                yield offset

    def offsets_and_values(self) -> Iterator[Anomaly]:
        for key, values_at in self.values.items():
            for offset, values in values_at.items():
                if len(values) > 1:
                    told = ", ".join(map(_told, values))
                    yield Anomaly("inconsistent-offsets", f"{_at(key, offset)} holds {told}")
        for (key, value), offsets in self.offsets.items():
            if len(offsets) > 1:
                what = f"{_told(value)} is at {_name(key)} {list(offsets)}"
                yield Anomaly("duplicate", what, (key, value))

    def lost(self, *, all_was_read: bool) -> Iterator[Anomaly]:
        for send in self.acknowledged:
            if (send.key, send.value) in self.polled:
                continue
            where = f"{_told(send.value)}, acknowledged at {_at(send.key, send.offset)}"
            if send.offset is not None and send.offset < self.polled_to.get(send.key, -1):
                yield Anomaly("lost-write", f"{where}, was never polled, others behind it were")
            elif all_was_read:
                yield Anomaly("unseen", f"{where}, was never polled")


def _aborted_reads(operations: list[Operation], known: _Known) -> Iterator[Anomaly]:
    for number, operation in enumerate(operations):
        for key, value in _polled_values(operation):
            sender = known.senders.get((key, value))
            if sender is None:
                continue
            told = f"{operation.process} polled {_told(value)} of {_name(key)}"
            if operations[sender].outcome is Outcome.FAIL:
                yield Anomaly("G1a", f"{told}, whose operation failed")
            if sender == number:
                yield Anomaly("precommitted-read", f"{told}, which it sent in the same operation")


def _polled_values(operation: Operation) -> Iterator[tuple[Key, bytes]]:
    for step in operation.steps:
        if isinstance(step, Poll):
            for _offset, value in step.records:
                yield step.key, value


class _Place(NamedTuple):
    """Where a process was last, and in which operation it came there."""

    offset: int
    operation: int


def _order(operations: list[Operation], known: _Known) -> Iterator[Anomaly]:
    """Follow each process through each partition."""
    polled: dict[tuple[str, Key], _Place] = {}
    sent: dict[tuple[str, Key], _Place] = {}
    for number, operation in enumerate(operations):
        for step in operation.steps:
            who = (operation.process, step.key)
            if isinstance(step, Seek):
                polled.pop(who, None)
            elif isinstance(step, Poll):
                for offset, _value in step.records:
                    before = polled.get(who)
                    polled[who] = here = _Place(offset, number)
                    yield from _poll_order(operation.process, step.key, before, here, known)
            elif step.offset is not None and operation.outcome is Outcome.OK:
                before = sent.get(who)
                sent[who] = here = _Place(step.offset, number)
                if before is not None and before.offset >= here.offset:
                    yield _out_of_order(
                        "nonmonotonic-send", operation.process, step.key, before, here
                    )


def _poll_order(
    process: str, key: Key, before: _Place | None, here: _Place, known: _Known
) -> Iterator[Anomaly]:
    if before is None:
        return
    if before.offset >= here.offset:
        yield _out_of_order("nonmonotonic-poll", process, key, before, here)
        return
    visible = known.visible[key]
    between = bisect_left(visible, here.offset) - bisect_right(visible, before.offset)
    if between:
        yield _out_of_order("poll-skip", process, key, before, here)


def _out_of_order(kind: str, process: str, key: Key, before: _Place, here: _Place) -> Anomaly:
    kind = f"int-{kind}" if before.operation == here.operation else kind
    return Anomaly(kind, f"{process} came from {before.offset} to {_at(key, here.offset)}")


def _circles(operations: list[Operation], known: _Known) -> Iterator[Anomaly]:
    """Find operations that each depend on the next by what was polled."""
    readers: dict[int, dict[int, None]] = defaultdict(dict)
    for number, operation in enumerate(operations):
        for polled in _polled_values(operation):
            sender = known.senders.get(polled)
            if sender is not None and sender != number:
                readers[sender][number] = None
    # Only operations that do both can be in a circle: few, so that leaving out who is in none, again and again, will do.
    edges = {one: dict(others) for one, others in readers.items()}
    while True:
        left = {one: {o: None for o in others if o in edges} for one, others in edges.items()}
        left = {one: others for one, others in left.items() if others}
        if left == edges:
            break
        edges = left
    if edges:
        names = ", ".join(f"{operations[one].process}#{one}" for one in sorted(edges))
        yield Anomaly("G1c", f"among {names} each polled what another of them sent")


def _name(key: Key) -> str:
    return f"{key[0]}-{key[1]}"


def _at(key: Key, offset: int | None) -> str:
    return f"{_name(key)} offset {'unknown' if offset is None else offset}"


def _told(value: bytes) -> str:
    return value[:40].decode(errors="replace").rstrip("x")
