"""What must hold, whatever goes wrong: told by what clients sent, were told and read.

Job: keep what each partition is known to hold, and compare everything that is seen with it. Must not know how the node works;
of its insides only end offsets and recovery points are looked at, when it dies and when it is back.

| checker                     | promise                                                                            |
|-----------------------------|------------------------------------------------------------------------------------|
| acknowledged is kept        | what was acknowledged survives a dead process; a power loss takes only the unsynced tail |
| one value per offset        | an offset never holds two values                                                   |
| nothing twice               | an idempotent producer's record stands in the log once                             |
| order is kept               | a producer's records stand in the order in which it made them                      |
| no gaps                     | offsets follow each other                                                          |
| nothing invented            | every record was made by a producer for that partition                             |
| nothing above the watermark | a reader sees nothing at or above the high watermark                               |
| epochs never fall           | later records are of the same or a later leader epoch                             |
| the watermark never falls   | as one connection sees it                                                          |
| deleted is gone             | records that were deleted stay so, and no others go                               |
| young records stay          | what goes by retention.ms is older than that, unless clocks jump                   |
| old records go              | what is older goes, while the broker is well                                       |
| times are found             | looking up a timestamp gives the first record that is not older                   |
| sequences are known         | a sequence is refused only if records were lost                                    |
| failures are explained      | no request fails with an exception that the node did not expect                   |
| producer ids are fresh      | no two producers get one id                                                        |

After a power loss the log may end earlier than before, at or after the recovery point; offsets from there on start anew. A partition whose
topic flushes each batch before it is acknowledged must keep all that was. Replies on their way at the time of the crash count for the
life that sent them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from barnabas.sim.machine import Crash
from barnabas.sim.violation import Violation

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from barnabas.broker.node import Node

Key = tuple[str, int]


_EVERYTHING = 1 << 62


class Cut(NamedTuple):
    """A power loss that a partition went through: lives up to this one wrote nothing at or after the end."""

    life: int
    end_offset: int


@dataclass(slots=True)
class Promises:
    """How a producer's records must stand in the log."""

    once: bool
    in_order: bool


@dataclass(slots=True, frozen=True)
class Expiry:
    """How long records stay, by a clock that is right; None where nothing can be said of it."""

    retention_ms: int | None


@dataclass(slots=True)
class Ledger:
    """What is known of one partition."""

    #: The topic has each batch synced before it is acknowledged.
    flushed: bool = False
    #: Every record made for it, and who made it as its how-manieth.
    made: dict[bytes, tuple[str, int]] = field(default_factory=dict)
    acknowledged: dict[bytes, int] = field(default_factory=dict)
    held: dict[int, bytes] = field(default_factory=dict)
    cuts: list[Cut] = field(default_factory=list)
    #: Records below the first were deleted for sure, those from the second on were not.
    deleted: tuple[int, int] = (0, 0)
    #: How records go by themselves; None if they do not.
    expiry: Expiry | None = None
    #: When each record was made, if they go by time.
    made_ms: dict[bytes, int] = field(default_factory=dict)
    #: Records that may stand in the log twice, and out of order.
    forgiven: dict[bytes, None] = field(default_factory=dict)


@dataclass(slots=True)
class Left:
    """A log as a dying node had it, and what came after."""

    log_start_offset: int
    log_end_offset: int
    recovery_point: int
    power_lost: bool = False


class History:
    """All partitions, and the lives of the node."""

    def __init__(self, *, failures_explained: bool) -> None:
        """Know nothing; requests may fail for reasons unknown to the node if its store or disk fails."""
        self.failures_explained = failures_explained
        #: The true time.
        self.now_ms: Callable[[], int] = lambda: 0
        self.ledgers: dict[Key, Ledger] = {}
        self.promises: dict[str, Promises] = {}
        self._producer_ids: dict[int, str] = {}
        self._left: dict[Key, Left] = {}

    def add_partition(self, key: Key, *, flushed: bool, expiry: Expiry | None = None) -> None:
        """Watch a partition."""
        self.ledgers[key] = Ledger(flushed, expiry=expiry)

    # Producers

    def on_producer_id(self, producer: str, producer_id: int) -> None:
        """See an id handed out."""
        other = self._producer_ids.setdefault(producer_id, producer)
        if other != producer:
            raise Violation(
                "producer ids are fresh", f"{producer} and {other} both got {producer_id}"
            )

    def on_made(self, key: Key, producer: str, values: Sequence[bytes]) -> None:
        """See records made; they may be sent any number of times from now on."""
        ledger = self.ledgers[key]
        made = ledger.made
        for value in values:
            made[value] = (producer, len(made))
            ledger.made_ms[value] = self.now_ms()

    def on_acknowledged(
        self, key: Key, producer: str, life: int, base_offset: int, values: Sequence[bytes]
    ) -> None:
        """See records acknowledged by a life of the node."""
        ledger = self.ledgers[key]
        for offset, value in enumerate(values, base_offset):
            lost_by = _cut_of(ledger, life, offset)
            if lost_by is not None:
                if ledger.flushed:
                    raise _lost(
                        key,
                        offset,
                        value,
                        f"the log ends at {lost_by.end_offset} after a power loss",
                    )
                continue
            ledger.acknowledged[value] = offset
            self._hold(key, offset, value, f"{producer} was told that it holds")

    def on_sequence_refused(self, key: Key, producer: str, value: bytes) -> None:
        """See a sequence refused although everything before it was acknowledged."""
        if not self.ledgers[key].cuts:
            raise Violation(
                "sequences are known",
                f"{producer} got OUT_OF_ORDER_SEQUENCE_NUMBER for {_text(value)} on {_name(key)}, and nothing was lost",
            )

    def on_forgotten(self, key: Key, values: Sequence[bytes]) -> None:
        """See records sent anew of which the node cannot know, after a restart, that it has them."""
        self.ledgers[key].forgiven.update(dict.fromkeys(values))

    # Deletion of records

    def known_end(self, key: Key) -> int:
        """Return an offset up to which there are records, as far as producers were told."""
        return max(self.ledgers[key].acknowledged.values(), default=-1) + 1

    def on_deleting(self, key: Key, offset: int | None) -> None:
        """See a request to delete what is below an offset; None for all there is."""
        ledger = self.ledgers[key]
        sure, maybe = ledger.deleted
        ledger.deleted = sure, max(maybe, _EVERYTHING if offset is None else offset)

    def on_deleted(self, key: Key, log_start_offset: int) -> None:
        """See a deletion acknowledged."""
        ledger = self.ledgers[key]
        sure, maybe = ledger.deleted
        ledger.deleted = max(sure, log_start_offset), maybe

    def may_be_deleted(self, key: Key, offset: int) -> bool:
        """Tell whether a reader may find that the log starts after this offset."""
        ledger = self.ledgers[key]
        return ledger.expiry is not None or offset < ledger.deleted[1]

    def _check_start(self, key: Key, log_start_offset: int) -> None:
        ledger = self.ledgers[key]
        sure, maybe = ledger.deleted
        if ledger.expiry is not None and log_start_offset > maybe:
            self._check_expired(key, ledger, log_start_offset)
        elif not sure <= log_start_offset <= maybe:
            raise Violation(
                "deleted is gone",
                f"{_name(key)} starts at {log_start_offset}, but was cut at {sure}, and never asked to be above {maybe}",
            )

    def _check_expired(self, key: Key, ledger: Ledger, log_start_offset: int) -> None:
        """See that nothing went by time before its time."""
        assert ledger.expiry is not None
        retention_ms = ledger.expiry.retention_ms
        if retention_ms is None:
            return
        for value, offset in ledger.acknowledged.items():
            age_ms = self.now_ms() - ledger.made_ms[value]
            if ledger.deleted[1] <= offset < log_start_offset and age_ms < retention_ms:
                raise Violation(
                    "young records stay",
                    f"{_text(value)} at offset {offset} of {_name(key)} went after {age_ms} ms of {retention_ms}",
                )

    # Readers

    def on_read(
        self,
        key: Key,
        reader: str,
        life: int,
        fetch_offset: int,
        records: Sequence[tuple[int, bytes]],
        high_watermark: int,
    ) -> None:
        """See a fetch answered: the records from `fetch_offset` on."""
        expected = fetch_offset
        for offset, value in records:
            if offset != expected:
                raise Violation(
                    "no gaps",
                    f"{reader} got offset {offset} of {_name(key)} where {expected} comes next",
                )
            if offset >= high_watermark:
                raise Violation(
                    "nothing above the watermark",
                    f"{reader} got offset {offset} of {_name(key)}, the high watermark is {high_watermark}",
                )
            self._see(key, reader, life, offset, value)
            expected += 1

    def on_missing(self, key: Key, start: int, end: int) -> None:
        """See that there are no records at these offsets: there must not be any that somebody relies on."""
        for value, offset in self.ledgers[key].acknowledged.items():
            if start <= offset < end:
                raise _lost(key, offset, value, "nothing is there")

    def _see(self, key: Key, reader: str, life: int, offset: int, value: bytes) -> None:
        ledger = self.ledgers[key]
        if value not in ledger.made:
            raise Violation(
                "nothing invented",
                f"{reader} got {value[:60]!r} at offset {offset} of {_name(key)}, which nobody made",
            )
        if _cut_of(ledger, life, offset) is None:
            self._hold(key, offset, value, f"{reader} got")

    def on_watermark(self, key: Key, reader: str, before: int, now: int) -> None:
        """See a connection told a high watermark, and what it was told before."""
        if now < before:
            raise Violation(
                "the watermark never falls",
                f"{reader} was told {before} and then {now} for {_name(key)} on one connection",
            )

    def may_be_gone(self, key: Key, offset: int) -> bool:
        """Tell whether a reader may be told that an offset it was given is out of range."""
        return any(cut.end_offset <= offset for cut in self.ledgers[key].cuts)

    def _hold(self, key: Key, offset: int, value: bytes, who: str) -> None:
        held = self.ledgers[key].held.setdefault(offset, value)
        if held != value:
            raise Violation(
                "one value per offset",
                f"{who} {_text(value)} at offset {offset} of {_name(key)}, which held {_text(held)} before",
            )

    # The node's lives

    def on_down(self, node: Node, crash: Crash | None) -> None:
        """See a node die that was up."""
        self.on_failures(node)
        for replica in node.replicas:
            key = (replica.key.topic, replica.key.partition)
            if key in self.ledgers:
                log = replica.log
                self._left[key] = Left(log.log_start_offset, log.log_end_offset, log.recovery_point)

    def on_failures(self, node: Node) -> None:
        """Look at how many requests a node failed to answer for reasons it did not expect."""
        if node.metrics.failures and not self.failures_explained:
            raise Violation(
                "failures are explained",
                f"{node.metrics.failures} requests failed with an exception; --trace shows the node's log",
            )

    def on_crash(self, crash: Crash) -> None:
        """See any crash, also while the node was starting."""
        if crash is Crash.POWER:
            for left in self._left.values():
                left.power_lost = True

    @property
    def is_waiting(self) -> bool:
        """Tell whether a log that was there has not been seen since the last crash."""
        return bool(self._left)

    def on_up(self, node: Node, life: int) -> None:
        """See a node that is back, and compare its logs with those it left: those that it could open."""
        hosted = {(replica.key.topic, replica.key.partition): replica for replica in node.replicas}
        for key, left in list(self._left.items()):
            if key in hosted:
                del self._left[key]
                self._see_start(key, left, hosted[key].log.log_start_offset)
                self._compare(key, left, hosted[key].log.log_end_offset, life - 1)

    def _see_start(self, key: Key, left: Left, log_start_offset: int) -> None:
        """Compare where a log starts after a crash with what was deleted.

        The name of a first segment that was never synced may be lost, and that of a later one not: then the log
        starts there. Nothing that was promised is lost by it.
        """
        ledger = self.ledgers[key]
        nothing_synced = left.power_lost and left.recovery_point <= left.log_start_offset
        if nothing_synced and log_start_offset > ledger.deleted[1]:
            for value, offset in ledger.acknowledged.items():
                if ledger.flushed and left.log_start_offset <= offset < log_start_offset:
                    raise _lost(key, offset, value, f"the log starts at {log_start_offset}")
            ledger.deleted = log_start_offset, log_start_offset
        self._check_start(key, log_start_offset)

    def _compare(self, key: Key, left: Left, end_offset: int, life: int) -> None:
        if not left.power_lost:
            if end_offset < left.log_end_offset:
                raise Violation(
                    "acknowledged is kept",
                    f"{_name(key)} ended at {left.log_end_offset} and ends at {end_offset} after a restart",
                )
            return
        if end_offset < left.recovery_point:
            raise Violation(
                "acknowledged is kept",
                f"{_name(key)} was synced up to {left.recovery_point} and ends at {end_offset} after a power loss",
            )
        ledger = self.ledgers[key]
        for value, offset in list(ledger.acknowledged.items()):
            if offset >= end_offset:
                if ledger.flushed:
                    raise _lost(
                        key, offset, value, f"the log ends at {end_offset} after a power loss"
                    )
                del ledger.acknowledged[value]
        ledger.held = {at: value for at, value in ledger.held.items() if at < end_offset}
        ledger.cuts.append(Cut(life, end_offset))

    # The end

    def judge(self, key: Key, records: Sequence[tuple[int, bytes]], start_offset: int = 0) -> None:
        """Compare a partition, read whole from its start to its end, with all that is known of it."""
        ledger = self.ledgers[key]
        there = dict(records)
        self._check_start(key, start_offset)
        if records and ledger.expiry is not None and ledger.expiry.retention_ms is not None:
            raise Violation(
                "old records go",
                f"{_text(records[0][1])} is still in {_name(key)}, and nothing was made for long",
            )
        for value, offset in ledger.acknowledged.items():
            if offset >= start_offset and there.get(offset) != value:
                found = there.get(offset)
                raise _lost(
                    key, offset, value, f"there is {_text(found)}" if found else "nothing is there"
                )
        for offset, value in ledger.held.items():
            if offset >= start_offset and there.get(offset) != value:
                raise _lost(key, offset, value, "it was read there before")
        self._judge_order(key, records, was_cut=start_offset > 0)

    def _judge_order(
        self, key: Key, records: Sequence[tuple[int, bytes]], *, was_cut: bool
    ) -> None:
        """Look at the order of each producer's records, by where each stands first.

        The first stand of a record that was sent twice may have been deleted, with a part of its batch.
        """
        made, forgiven, seen = (
            self.ledgers[key].made,
            self.ledgers[key].forgiven,
            dict[bytes, int](),
        )
        last: dict[str, tuple[int, bytes]] = {}
        first: dict[str, int] = {}
        for offset, value in records:
            producer, number = made[value]
            promises = self.promises[producer]
            if value in seen:
                if promises.once and value not in forgiven:
                    raise Violation(
                        "nothing twice",
                        f"{_text(value)} stands at offsets {seen[value]} and {offset} of {_name(key)}",
                    )
                continue
            seen[value] = offset
            before = last.get(producer, (-1, b""))
            first.setdefault(producer, number)
            if was_cut and not promises.once and number < first[producer]:
                continue
            if number < before[0] and promises.in_order:
                raise Violation(
                    "order is kept",
                    f"{_text(value)} stands at offset {offset} of {_name(key)}, after {_text(before[1])}",
                )
            last[producer] = max(before, (number, value))


def _cut_of(ledger: Ledger, life: int, offset: int) -> Cut | None:
    """Find the power loss that took what a life of the node said about an offset."""
    for cut in ledger.cuts:
        if life <= cut.life and offset >= cut.end_offset:
            return cut
    return None


def _lost(key: Key, offset: int, value: bytes, why: str) -> Violation:
    return Violation(
        "acknowledged is kept", f"{_text(value)} at offset {offset} of {_name(key)} is lost: {why}"
    )


def _name(key: Key) -> str:
    return f"{key[0]}-{key[1]}"


def _text(value: bytes) -> str:
    return value.rstrip(b"x").decode(errors="replace")
