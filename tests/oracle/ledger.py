"""What clients sent, what they were told of it, and whether the partitions hold exactly that.

Job: judge. Knows no brokers, clients or files, and no time but what it is told. Every record of the load names its topic, partition, client
and number (`records.py`); the numbers of one client in one partition, a stream, count from 0.

| rule          | what is found in a partition                                                                     |
|---------------|--------------------------------------------------------------------------------------------------|
| named         | every value is a record of the load, whole                                                       |
| in its place  | it stands in the topic and partition that it names, in the life of the topic that it was sent to |
| sent          | its client has sent it                                                                           |
| at most once  | unless its client repeats requests without being idempotent                                      |
| in order      | the numbers of a stream ascend where they stand for the first time                               |
| not lost      | what was acknowledged is there, at the offset that was told                                      |
| permitted     | nothing that was sent, from the first try to the last, while its client had no right to          |
| committed     | who reads committed records sees those of committed transactions, and none of aborted ones       |

What was sent and not acknowledged may be there. Memory: nine bytes for each record, and some words for each burst and each batch.
"""

from __future__ import annotations

import zlib
from array import array
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from oracle.records import Name, parse

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: The rule of which a breach explains the others: what stands in a wrong place is lost in its own.
PLACE = "in its place"
#: A verdict tells of so many faults; the first is what matters.
FAULTS_TOLD = 5
NOWHERE = -1


class Said(IntEnum):
    """What its client was told of a record."""

    NOTHING = 0
    ACKNOWLEDGED = 1
    FAILED = 2


class End(IntEnum):
    """How a transaction ended."""

    UNKNOWN = 0
    COMMITTED = 1
    ABORTED = 2


@dataclass(frozen=True)
class Promise:
    """What the settings of a client promise."""

    #: A record is never there twice: the client is idempotent or does not try again.
    at_most_once: bool = True
    #: What it takes for acknowledged is there: not with acks=0 where connections break, nor with acks=1 where leaders change.
    keeps: bool = True
    #: acks=0: that it was sent is all that is known.
    is_silent: bool = False
    is_transactional: bool = False


@dataclass(frozen=True)
class Fault:
    """One thing that must not be."""

    rule: str
    what: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.what}"


class _Burst(NamedTuple):
    """Records of one stream that were sent together: from the number `first` on, up to the next burst's."""

    first: int
    start_ms: int
    life: int | None
    transaction: int | None


@dataclass
class _Stream:
    """What one client sent to one partition."""

    said: bytearray = field(default_factory=bytearray)
    bursts: list[_Burst] = field(default_factory=list)
    #: When each burst was over; none for the last one, if its client never said so.
    ends_ms: list[int] = field(default_factory=list)
    #: First number, count and first offset of what was acknowledged together.
    acks: list[tuple[int, int, int]] = field(default_factory=list)

    def burst_of(self, number: int) -> int:
        low, high = 0, len(self.bursts)
        while high - low > 1:
            middle = (low + high) // 2
            if self.bursts[middle].first <= number:
                low = middle
            else:
                high = middle
        return low

    def end_ms(self, burst: int) -> float:
        return self.ends_ms[burst] if burst < len(self.ends_ms) else float("inf")


class Span(NamedTuple):
    """A time, by the clock of the machine: from an answer to the next question."""

    start_ms: float
    end_ms: float


@dataclass
class Figures:
    """How much was judged."""

    clients: int = 0
    sent: int = 0
    acknowledged: int = 0
    failed: int = 0
    transactions: int = 0
    read: int = 0

    def __str__(self) -> str:
        return (
            f"{self.clients} clients sent {self.sent} records, {self.acknowledged} acknowledged, {self.failed} failed, "
            f"in {self.transactions} transactions and outside; {self.read} read back"
        )


class Ledger:
    """See the module. Clients are told apart by name, partitions by topic and index."""

    def __init__(self) -> None:
        self.figures = Figures()
        self._promises: dict[str, Promise] = {}
        self._streams: dict[tuple[str, int], dict[str, _Stream]] = {}
        self._ends: dict[str, list[End]] = {}
        self._open: dict[str, list[_Stream]] = {}
        self._is_in_transaction: dict[str, bool] = {}
        self._denied: dict[tuple[str, str], list[Span]] = {}
        self._reborn: dict[str, list[Span]] = {}

    # What clients tell

    def add_client(self, client: str, promise: Promise) -> None:
        """Take note of a client before it sends."""
        assert client not in self._promises
        self._promises[client] = promise
        self._ends[client] = []
        self._open[client] = []
        self._is_in_transaction[client] = False
        self.figures.clients += 1

    def sent(
        self,
        client: str,
        topic: str,
        partition: int,
        first: int,
        count: int,
        at_ms: int,
        life: int | None = None,
    ) -> None:
        """`client` begins to send a burst; `life` is that of the topic, if the client names it by id."""
        streams = self._streams.setdefault((topic, partition), {})
        stream = streams.setdefault(client, _Stream())
        assert first == len(stream.said), f"{client} counts from {len(stream.said)}, not {first}"
        transaction = len(self._ends[client]) if self._is_in_transaction[client] else None
        stream.bursts.append(_Burst(first, at_ms, life, transaction))
        stream.said.extend(bytes(count))
        self._open[client].append(stream)
        self.figures.sent += count

    def acknowledged(
        self, client: str, topic: str, partition: int, first: int, count: int, offset: int = NOWHERE
    ) -> None:
        """Records that follow each other were acknowledged, at offsets that follow each other from `offset` on, if that was told."""
        stream = self._streams[topic, partition][client]
        assert first + count <= len(stream.said), f"{client} was told of what it never sent"
        stream.said[first : first + count] = bytes([Said.ACKNOWLEDGED]) * count
        # Some libraries invent offsets where nobody told them any.
        if offset >= 0 and not self._promises[client].is_silent:
            stream.acks.append((first, count, offset))
        self.figures.acknowledged += count

    def failed(self, client: str, topic: str, partition: int, first: int, count: int) -> None:
        """Records were given up."""
        stream = self._streams[topic, partition][client]
        stream.said[first : first + count] = bytes([Said.FAILED]) * count
        self.figures.failed += count

    def ended(self, client: str, at_ms: int) -> None:
        """Everything that was sent so far is acknowledged or given up."""
        for stream in self._open[client]:
            stream.ends_ms += [at_ms] * (len(stream.bursts) - len(stream.ends_ms))
        self._open[client].clear()

    def began(self, client: str) -> None:
        """A transaction begins."""
        self._is_in_transaction[client] = True

    def finished(self, client: str, end: End) -> None:
        """A transaction has ended."""
        self._ends[client].append(end)
        self._is_in_transaction[client] = False
        self.figures.transactions += 1

    # What others did meanwhile

    def denied(self, client: str, topic: str, since_ms: float, until_ms: float) -> None:
        """`client` had no right to write to the topic: from the answer to the revocation until a grant was asked for."""
        self._denied.setdefault((client, topic), []).append(Span(since_ms, until_ms))

    def reborn(self, topic: str, since_ms: float, until_ms: float) -> None:
        """A topic was deleted (asked for at `since_ms`) and made again (answered at `until_ms`)."""
        self._reborn.setdefault(topic, []).append(Span(since_ms, until_ms))

    # The verdict

    def partitions(self) -> list[tuple[str, int]]:
        """Where anything was sent."""
        return sorted(self._streams)

    def awaits(self, topic: str, partition: int) -> int:
        """Count what must be there and may still be on its way, since its clients asked for no answer."""
        streams = self._streams.get((topic, partition), {})
        promises = self._promises
        if not any(promises[client].keeps and promises[client].is_silent for client in streams):
            return 0
        return sum(
            stream.said.count(Said.ACKNOWLEDGED)
            for client, stream in streams.items()
            if promises[client].keeps
        )

    def has_transactions(self, topic: str, partition: int) -> bool:
        """Tell whether who reads committed records may see less."""
        return any(
            self._promises[client].is_transactional
            for client in self._streams.get((topic, partition), {})
        )

    def audit(
        self,
        topic: str,
        partition: int,
        records: Iterable[tuple[int, bytes]],
        *,
        is_committed: bool = False,
        life: int | None = None,
    ) -> Iterator[Fault]:
        """Go through all that a partition holds, (offset, value) in order; or through what is committed of it."""
        audit = _Audit(self, topic, partition, is_committed=is_committed, life=life)
        for offset, value in records:
            self.figures.read += 1
            fault = audit.look(offset, value)
            if fault is not None:
                yield fault
        yield from audit.missing()

    def _end_of(self, client: str, burst: _Burst) -> End | None:
        """How the transaction of a burst ended; None if it was in none."""
        if burst.transaction is None:
            return None
        ends = self._ends[client]
        return ends[burst.transaction] if burst.transaction < len(ends) else End.UNKNOWN


class _Audit:
    """One pass through one partition."""

    def __init__(
        self, ledger: Ledger, topic: str, partition: int, *, is_committed: bool, life: int | None
    ) -> None:
        self._ledger = ledger
        self._topic, self._partition = topic, partition
        self._is_committed = is_committed
        self._life = life
        self._streams = ledger._streams.get((topic, partition), {})
        #: Where each number stands for the first time.
        self._found = {
            client: array("q", [NOWHERE]) * len(stream.said)
            for client, stream in self._streams.items()
        }
        self._last: dict[str, int] = {}
        self._offset = -1
        self._births = ledger._reborn.get(topic, [])

    @property
    def _here(self) -> str:
        return f"{self._topic}-{self._partition}"

    def look(self, offset: int, value: bytes) -> Fault | None:
        """Judge the next record."""
        before, self._offset = self._offset, offset
        if offset <= before:
            return Fault("in order", f"offset {offset} of {self._here} comes behind {before}")
        name = parse(value)
        if name is None:
            return Fault(
                "named", f"{self._here} offset {offset} holds {value[:60]!r}, which nobody sent"
            )
        fault = self._look_at_place(name, offset) or self._look_at_stream(name, offset)
        if fault is None and zlib.crc32(name.padding) != name.checksum:
            return Fault("named", f"{name} at {self._here} offset {offset} is not as it was sent")
        return fault

    def _look_at_place(self, name: Name, offset: int) -> Fault | None:
        if (name.topic, name.partition) != (self._topic, self._partition):
            return Fault(PLACE, f"{name} stands in {self._here} at offset {offset}")
        stream = self._streams.get(name.client)
        if stream is None or name.number >= len(stream.said):
            return Fault(
                "sent", f"{name} stands in {self._here} at offset {offset}, and was never sent"
            )
        return None

    def _look_at_stream(self, name: Name, offset: int) -> Fault | None:
        client, number = name.client, name.number
        found = self._found[client]
        where = f"{name} at {self._here} offset {offset}"
        if found[number] != NOWHERE:
            if self._ledger._promises[client].at_most_once:
                return Fault("at most once", f"{where} stands at {found[number]} already")
            return None
        found[number] = offset
        last = self._last.get(client, -1)
        if number < last:
            return Fault("in order", f"{where} comes behind number {last}")
        self._last[client] = number
        return self._look_at_burst(name, where)

    def _look_at_burst(self, name: Name, where: str) -> Fault | None:
        stream = self._streams[name.client]
        index = stream.burst_of(name.number)
        burst = stream.bursts[index]
        if self._life is not None and burst.life is not None and burst.life != self._life:
            what = f"{where} was sent to life {burst.life} of the topic, and stands in life {self._life}"
            return Fault(PLACE, what)
        if any(stream.end_ms(index) < birth.start_ms for birth in self._births):
            return Fault(PLACE, f"{where} was sent before the topic was deleted")
        spans = self._ledger._denied.get((name.client, self._topic), ())
        if any(s.start_ms <= burst.start_ms and stream.end_ms(index) <= s.end_ms for s in spans):
            return Fault("permitted", f"{where} was sent when {name.client} had no right to write")
        if self._is_committed and self._ledger._end_of(name.client, burst) is End.ABORTED:
            return Fault("committed", f"{where} was aborted, and is read as committed")
        return None

    def missing(self) -> Iterator[Fault]:
        """Name what was acknowledged and is not where it should be."""
        for client, stream in self._streams.items():
            promise = self._ledger._promises[client]
            if promise.keeps:
                yield from self._lost(client, stream)
                if promise.at_most_once:
                    yield from self._elsewhere(client, stream)

    def _lost(self, client: str, stream: _Stream) -> Iterator[Fault]:
        found = self._found[client]
        for index, burst in enumerate(stream.bursts):
            end = (
                stream.bursts[index + 1].first
                if index + 1 < len(stream.bursts)
                else len(stream.said)
            )
            if self._may_be_gone(client, burst):
                continue
            for number in range(burst.first, end):
                if found[number] == NOWHERE and stream.said[number] == Said.ACKNOWLEDGED:
                    name = f"{self._here} {client} {number}"
                    yield Fault(
                        "not lost",
                        f"{name} was acknowledged and is not there{self._told_at(stream, number)}",
                    )

    def _may_be_gone(self, client: str, burst: _Burst) -> bool:
        if self._life is not None and burst.life is not None and burst.life != self._life:
            return True
        if any(burst.start_ms < birth.end_ms for birth in self._births):
            return True
        end = self._ledger._end_of(client, burst)
        return self._is_committed and end not in (None, End.COMMITTED)

    def _elsewhere(self, client: str, stream: _Stream) -> Iterator[Fault]:
        found = self._found[client]
        for first, count, offset in stream.acks:
            here = found[first : first + count]
            if here == array("q", range(offset, offset + count)):
                continue
            if self._may_be_gone(client, stream.bursts[stream.burst_of(first)]):
                continue
            for at, stands in enumerate(here):
                if stands not in (NOWHERE, offset + at):  # what is lost is told already
                    told = f"{self._here} {client} {first + at} was acknowledged at {offset + at}"
                    yield Fault("not lost", f"{told} and stands at {stands}")

    @staticmethod
    def _told_at(stream: _Stream, number: int) -> str:
        for first, count, offset in stream.acks:
            if first <= number < first + count:
                return f" (offset {offset + number - first})"
        return ""


def verdict(faults: Iterable[Fault]) -> str | None:
    """Tell some faults, those first that name a record in a wrong place; None if there is none."""
    misplaced: list[str] = []
    others: list[str] = []
    count = 0
    for fault in faults:
        count += 1
        told = misplaced if fault.rule == PLACE else others
        if len(told) < FAULTS_TOLD:
            told.append(str(fault))
    return f"{count} faults; " + "; ".join([*misplaced, *others][:FAULTS_TOLD]) if count else None
