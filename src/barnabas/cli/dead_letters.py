"""Dead letters, read from their topics: what they were, why they are there, and which were sent back already.

One job: records of a `.dlq` topic as letters, and choosing among them. Must not know how they are shown or sent. Headers are those of `pipelines/poison.py`.

Which letters were sent back is kept in `TOPIC.redriven`, a compacted topic with a record for each: its key is `PARTITION:OFFSET:TOPIC_ID` of the letter. It is written in the same transaction as
the record that was sent, so it is never wrong. A topic that is deleted and made again begins at offset 0 and has another id: notes of the one before say nothing of its letters.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.cli.consume import Range, Reader
from barnabas.cli.failure import Failure
from barnabas.cli.interrupt import Interrupt
from barnabas.cli.own_client import open_client
from barnabas.client.errors import ClientError, UnknownTopic, refusal
from barnabas.client.offsets import EARLIEST, LATEST
from barnabas.client.settings import READ_COMMITTED
from barnabas.model.ids import ZERO_TOPIC_ID, TopicId, TopicPartition, topic_id_text

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

    from barnabas.cli.connection import Connection
    from barnabas.cli.record import Headers, Record
    from barnabas.runtime.blocking_client import BlockingClient

SUFFIX: Final = ".dlq"
DONE_SUFFIX: Final = ".redriven"
_OURS: Final = "barnabas."
_GROUP: Final = "barnabas-cli"
_WHERE: Final = "`barnabas dlq list` shows those with dead letters"
#: Dead letters all have headers of ours: the first records tell whether a topic has such. A mistaken name may be that of a topic of millions.
_LOOKED_AT: Final = 100

Place = tuple[int, int]
"""Partition and offset in the dead-letter topic."""


class _TopicMissing(Failure):
    """There is no such topic."""


class Note(NamedTuple):
    """That a letter was sent back."""

    place: Place
    topic_id: str | None
    """Of the topic that the letter lies in; None where brokers tell none, and in notes from before ids were noted."""

    @classmethod
    def parse(cls, key: bytes | None) -> Note | None:
        """Read the key of a note; None if it is none."""
        partition, _, rest = (key or b"").decode("utf-8", "replace").partition(":")
        offset, _, topic_id = rest.partition(":")
        if not (partition.isdecimal() and offset.isdecimal()):
            return None
        return cls((int(partition), int(offset)), topic_id or None)

    @property
    def key(self) -> bytes:
        """The note as a key."""
        partition, offset = self.place
        place = f"{partition}:{offset}"
        return (f"{place}:{self.topic_id}" if self.topic_id else place).encode()

    def is_about(self, topic_id: str | None) -> bool:
        """Say whether the letter lies in the topic with this id. Where one of both is not known it does: to send letters twice is worse than to leave some."""
        return topic_id is None or self.topic_id in (None, topic_id)


@dataclass(frozen=True)
class Letter:
    """One dead letter."""

    record: Record
    told: dict[str, str]
    """What its headers say, by name without `barnabas.`."""
    is_redriven: bool = False

    @classmethod
    def of(cls, record: Record, done: Iterable[Place]) -> Letter:
        """Read the headers; what is no text is shown as far as it is."""
        told = {
            name.removeprefix(_OURS): (value or b"").decode("utf-8", "replace")
            for name, value in record.headers
            if name.startswith(_OURS)
        }
        return cls(record, told, (record.partition, record.offset) in done)

    @property
    def place(self) -> Place:
        """Where it lies."""
        return self.record.partition, self.record.offset

    @property
    def reason(self) -> str:
        """Why it is here."""
        return self.told.get("reason", "")

    @property
    def source(self) -> str | None:
        """The topic it came from, or should have gone to."""
        return self.told.get("topic") or None

    @property
    def source_partition(self) -> int | None:
        """The partition it came from."""
        text = self.told.get("partition", "")
        return int(text) if text.isdecimal() else None

    @property
    def is_cut(self) -> bool:
        """Was it too large even for the dead-letter topic, so that a part of it is gone?"""
        return any(f"{part}.bytes" in self.told for part in ("key", "value", "headers"))

    @property
    def headers(self) -> Headers:
        """The headers it had before."""
        return tuple(pair for pair in self.record.headers if not pair[0].startswith(_OURS))


@dataclass(frozen=True)
class Wanted:
    """Which letters are meant; what is not said does not matter."""

    reason: str | None = None
    since_ms: int | None = None
    places: frozenset[Place] = field(default_factory=frozenset)

    def takes(self, letter: Letter) -> bool:
        """Say whether this one is."""
        if self.reason and self.reason.lower() not in letter.reason.lower():
            return False
        if self.since_ms is not None and (letter.record.timestamp or 0) < self.since_ms:
            return False
        return not self.places or letter.place in self.places


def newest_of(letters: Iterable[Letter], count: int) -> list[Letter]:
    """Take the newest letters of all partitions, in the order of their times."""
    by_time = sorted(letters, key=lambda letter: (letter.record.timestamp or 0, letter.place))
    return by_time[-count:]


class Letters:
    """Reads the dead letters of a cluster."""

    def __init__(self, connection: Connection) -> None:
        """Take where to ask; nothing is opened yet."""
        self._connection = connection

    def topics(self) -> list[str]:
        """Name the dead-letter topics there are."""
        with open_client(self._connection) as client:
            return sorted(topic for topic in client.topics() if topic.endswith(SUFFIX))

    def check(self, topic: str) -> None:
        """Failure if a topic is not there, or has no dead letters: neither its name nor the headers of its first records say so."""
        with closing(self._records(topic)) as records:
            first = [Letter.of(record, ()) for record in islice(records, _LOOKED_AT)]
        if topic.endswith(SUFFIX) or any(letter.told for letter in first):
            return
        meant = topic + SUFFIX
        known = f"did you mean {meant}?" if meant in self.topics() else _WHERE
        raise Failure(f"{topic} is no topic of dead letters: it is not named SOURCE{SUFFIX}, and its records have no headers {_OURS}*", known)  # fmt: skip

    def read(self, topic: str) -> list[Letter]:
        """Read every letter of a topic, in the order of partitions and offsets; Failure if it is not there."""
        records = list(self._records(topic))
        done = self.done(topic)
        letters = [Letter.of(record, done) for record in records]
        return sorted(letters, key=lambda letter: letter.place)

    def done(self, topic: str) -> set[Place]:
        """Read which letters of a topic, as it is now, were sent back."""
        topic_id = self.topic_id(topic)
        return {note.place for note in self.notes(topic) if note.is_about(topic_id)}

    def notes(self, topic: str) -> set[Note]:
        """Read what is noted of a topic, and of those that had its name before."""
        found: set[Note] = set()
        try:
            for record in self._records(topic + DONE_SUFFIX):
                note = Note.parse(record.key)
                if note is not None:
                    (found.add if record.value is not None else found.discard)(note)
        except _TopicMissing:
            return set()
        return found

    def topic_id(self, topic: str) -> str | None:
        """Ask for the id of a topic; None if brokers tell none (Kafka before 2.8, or left on its protocol)."""
        try:
            with open_client(self._connection) as client:
                (found,) = client.metadata([topic]).topics
            if found.error_code:
                raise refusal(found.error_code, f"topic '{topic}'")
        except ClientError as problem:
            raise Failure(str(problem)) from None
        return None if found.topic_id == ZERO_TOPIC_ID else topic_id_text(TopicId(found.topic_id))

    def starts(self, topic: str) -> dict[int, int]:
        """Give the first offset that is left in each partition."""
        with open_client(self._connection) as client:
            return {partition: each.start for partition, each in _ranges(client, topic).items()}

    def _records(self, topic: str) -> Generator[Record, None, None]:
        from confluent_kafka import TopicPartition as Assigned

        try:
            with open_client(self._connection) as client:
                ranges = _ranges(client, topic)
        except UnknownTopic:
            raise _TopicMissing(f"there is no topic {topic}", _WHERE) from None
        except ClientError as problem:
            raise Failure(str(problem)) from None
        ranges = {partition: each for partition, each in ranges.items() if each.start != each.end}
        consumer = self._connection.consumer({
            "group.id": _GROUP, "enable.auto.commit": False, "enable.auto.offset.store": False, "enable.partition.eof": True,
            "auto.offset.reset": "error", "allow.auto.create.topics": False, "isolation.level": READ_COMMITTED,
        })  # fmt: skip
        try:
            consumer.assign([Assigned(topic, number, each.start) for number, each in ranges.items()])  # fmt: skip
            with Interrupt() as interrupt:
                reader = Reader(self._connection, consumer, topic, ranges, None, interrupt)
                for records in reader.batches():
                    yield from records
            if interrupt.pressed:
                raise KeyboardInterrupt
        finally:
            consumer.close()


def _ranges(client: BlockingClient, topic: str) -> dict[int, Range]:
    places = [TopicPartition(topic, number) for number in client.partitions([topic])[topic]]
    starts = client.list_offsets(dict.fromkeys(places, EARLIEST), READ_COMMITTED)
    ends = client.list_offsets(dict.fromkeys(places, LATEST), READ_COMMITTED)
    return {place.partition: Range(starts[place].offset, ends[place].offset) for place in places}
