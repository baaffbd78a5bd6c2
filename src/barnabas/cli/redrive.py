"""Sending dead letters back where they came from, each once.

One job: transactions of records and of notes that they were sent. Must not know a command line.

A letter's record and its note in `TOPIC.redriven` are of one transaction: both are there or neither, whenever this is killed. One transactional id for each dead-letter topic: who begins
later fences who began before, and reads the notes only after that. So two at once, or one after a kill, send nothing twice. The id's rights: Write on both topics, Describe and Write on
the transactional id `barnabas-redrive-TOPIC`; with DescribeConfigs on the topics, letters that these would refuse are known before and left out.

What topics would refuse is asked without writing, by `looked_at`: whoever only wants to know what would be sent (`--dry-run`) gets the answer that a run goes by.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.cli.connection import admin_api, wait_until
from barnabas.cli.dead_letters import DONE_SUFFIX, Note
from barnabas.cli.failure import Failure, failure
from barnabas.cli.own_client import open_client
from barnabas.client.errors import ClientError, UnknownTopic
from barnabas.client.topics import TopicLimits
from barnabas.wire.batch import Record as BatchRecord
from barnabas.wire.batch import build

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from confluent_kafka import KafkaError, Producer

    from barnabas.cli.connection import Connection
    from barnabas.cli.dead_letters import Letter, Letters, Wanted
    from barnabas.client.errors import Refused

#: A transaction holds back readers of the topic until it ends.
_LETTERS_PER_TRANSACTION: Final = 500
#: As large as librdkafka can: what a topic takes is its broker's to say, and letters may be larger than the million that is the default.
_LETTER_BYTES_MAX: Final = 1_000_000_000
_ID: Final = "barnabas-redrive-"
#: librdkafka sends no more than this as one batch, but for a record that is larger by itself.
_BATCH_BYTES: Final = 1_000_000


@dataclass(frozen=True)
class Plan:
    """What would be sent where, and what cannot be."""

    sent: list[tuple[Letter, str]]
    homeless: list[Letter]
    """Nothing tells where they came from."""
    cut: list[Letter]
    """A part of them is gone: what is left is not the record that it was."""
    done: int
    """Letters that are meant and were sent back before."""
    refused: list[tuple[Letter, str]] = field(default_factory=list)
    """Letters that their topic does not take, and why; known once it was asked."""


class Target(NamedTuple):
    """What is known of a topic that letters would go to."""

    partition_count: int = 0
    limits: TopicLimits = TopicLimits(None, None)
    problem: str | None = None
    """Why it takes no letter at all."""


def plan(letters: Sequence[Letter], wanted: Wanted, to: str | None) -> Plan:
    """Choose the letters, and a topic for each."""
    meant = [letter for letter in letters if wanted.takes(letter)]
    left = [letter for letter in meant if not letter.is_redriven]
    placed = [(letter, to or letter.source) for letter in left if not letter.is_cut]
    return Plan(
        sent=[(letter, topic) for letter, topic in placed if topic],
        homeless=[letter for letter, topic in placed if not topic],
        cut=[letter for letter in left if letter.is_cut],
        done=len(meant) - len(left),
    )


def looked_at(connection: Connection, chosen: Plan) -> tuple[Plan, dict[str, Target]]:
    """Ask the topics of a plan what they take, and leave out of it what they would refuse; nothing is written."""
    topics = sorted({topic for _, topic in chosen.sent})
    if not topics:
        return chosen, {}
    try:
        with open_client(connection) as client:
            closed = client.closed_topics(topics)
            found = client.partitions(topic for topic in topics if topic not in closed)
            targets = {topic: Target(len(numbers), client.topic_limits(topic)) for topic, numbers in found.items()}  # fmt: skip
    except ClientError as problem:
        raise Failure(str(problem)) from None
    targets |= {topic: Target(problem=_told(problem)) for topic, problem in closed.items()}
    return without_refused(chosen, targets), targets


def _told(problem: Refused) -> str:
    """Say why a topic is closed, in words that fit behind a letter."""
    return f"there is no topic {problem.topic}" if isinstance(problem, UnknownTopic) else str(problem)  # fmt: skip


def without_refused(chosen: Plan, targets: Mapping[str, Target]) -> Plan:
    """Leave out letters that their topic would refuse: one of them would fail its whole transaction, in every run."""
    found = [(letter, topic, _refusal(letter, topic, targets[topic])) for letter, topic in chosen.sent]  # fmt: skip
    return replace(
        chosen,
        sent=[(letter, topic) for letter, topic, why in found if why is None],
        refused=[(letter, why) for letter, _, why in found if why is not None],
    )


def _refusal(letter: Letter, topic: str, target: Target) -> str | None:
    if target.problem is not None:
        return target.problem
    record, limits = letter.record, target.limits
    if limits.is_compacted and record.key is None:
        return f"{topic} is compacted and takes no records without a key"
    size_bytes = len(build([BatchRecord(0, 0, record.key, record.value, letter.headers)]))
    if limits.max_message_bytes is not None and size_bytes > limits.max_message_bytes:
        return f"{topic} takes {limits.max_message_bytes:,} bytes (max.message.bytes), this has {size_bytes:,}"
    return None


class Redrive:
    """Sends letters of one dead-letter topic."""

    def __init__(
        self, connection: Connection, topic: str, *, keep_timestamps: bool = False
    ) -> None:
        """Take what is sent from where."""
        self._connection = connection
        self._topic = topic
        self._keep_timestamps = keep_timestamps
        self._topic_id: str | None = None
        self._problem: KafkaError | None = None
        self._targets: dict[str, Target] = {}

    def run(
        self, letters: Letters, choose: Callable[[Sequence[Letter]], Plan], on_sent: Callable[[int], object]
    ) -> Plan:  # fmt: skip
        """Choose among the letters once nobody else sends them, and send; returns what became of them. Failure if sending fails: then none of the last transaction was sent."""
        from confluent_kafka import KafkaException

        self._create_notes()
        producer = self._connection.producer({
            "transactional.id": f"{_ID}{self._topic}", "partitioner": "murmur2_random", "linger.ms": 5, "batch.size": _BATCH_BYTES, "message.max.bytes": _LETTER_BYTES_MAX,
        })  # fmt: skip
        try:
            producer.init_transactions(self._connection.timeout_s)
            self._topic_id = letters.topic_id(self._topic)
            chosen, self._targets = looked_at(self._connection, choose(letters.read(self._topic)))
            for start in range(0, len(chosen.sent), _LETTERS_PER_TRANSACTION):
                batch = chosen.sent[start : start + _LETTERS_PER_TRANSACTION]
                self._send(producer, batch)
                on_sent(len(batch))
            self._forget_old(producer, letters)
        except KafkaException as raised:
            raise failure(f"sending letters of {self._topic}", raised.args[0]) from None
        except BufferError:
            raise Failure(
                f"sending letters of {self._topic}: what waits to be sent leaves no room for a letter",
                "-X queue.buffering.max.kbytes=... lets more wait",
            ) from None
        return chosen

    def _send(self, producer: Producer, batch: Sequence[tuple[Letter, str]]) -> None:
        with self._transaction(producer):
            for letter, topic in batch:
                target = self._targets[topic]
                self._produce(producer, letter, topic, target.partition_count)
                self._note(producer, Note(letter.place, self._topic_id), topic.encode())
                producer.poll(0)
                # A batch of several could be more than the topic takes, though none of them is.
                if (target.limits.max_message_bytes or _BATCH_BYTES) < _BATCH_BYTES:
                    self._wait(producer)

    @contextmanager
    def _transaction(self, producer: Producer) -> Iterator[None]:
        """One transaction: it ends as a whole, whatever becomes of this process, and at once if anything goes wrong, so that no reader waits for its end."""
        from confluent_kafka import KafkaException

        self._problem = None
        producer.begin_transaction()
        try:
            yield
            self._wait(producer)
            if self._problem is not None:
                raise KafkaException(self._problem)
            producer.commit_transaction(self._connection.timeout_s)
        except BaseException as raised:
            with suppress(KafkaException):  # what went wrong first is told
                producer.abort_transaction(self._connection.timeout_s)
            if isinstance(raised, KafkaException) and self._problem is not None:
                # Once a record is refused, librdkafka says of each call only that it is in no state for it.
                raise KafkaException(self._problem) from None
            raise

    def _wait(self, producer: Producer) -> None:
        """Until everything is acknowledged, or something is refused: after that nothing more is sent."""
        wait_until(lambda: not producer.flush(0) or self._problem is not None, self._connection.timeout_s)  # fmt: skip

    def _produce(self, producer: Producer, letter: Letter, topic: str, count: int) -> None:
        """The record as it was, to the partition it came from, if that is there."""
        where = {}
        source = letter.source_partition
        if source is not None and source < count and topic == letter.source:
            where["partition"] = source
        stamp = letter.told.get("timestamp", "")
        if self._keep_timestamps and stamp.isdecimal():
            where["timestamp"] = int(stamp)
        record = letter.record
        headers = list(letter.headers)
        self._hand_over(producer, partial(producer.produce, topic, record.value, record.key, headers=headers, **where))  # type: ignore[arg-type]  # fmt: skip

    def _note(self, producer: Producer, note: Note, value: bytes | None) -> None:
        self._hand_over(
            producer, partial(producer.produce, self._topic + DONE_SUFFIX, value, note.key)
        )

    def _hand_over(self, producer: Producer, produce: Callable[..., None]) -> None:
        """Give librdkafka a record; if it has no room, again once what waits is sent."""
        try:
            produce(on_delivery=self._on_delivery)
        except BufferError:
            self._wait(producer)
            produce(on_delivery=self._on_delivery)

    def _on_delivery(self, error: KafkaError | None, _message: object) -> None:
        # The first says why; others were purged because of it.
        if error is not None and self._problem is None and not error.name().startswith("_PURGE"):
            self._problem = error

    def _forget_old(self, producer: Producer, letters: Letters) -> None:
        """Notes of letters that are gone, by retention or with their topic, are of no use."""
        gone = list(self._gone(letters))
        if not gone:
            return
        with self._transaction(producer):
            for note in gone:
                self._note(producer, note, None)

    def _gone(self, letters: Letters) -> Iterator[Note]:
        starts = letters.starts(self._topic)
        for note in sorted(letters.notes(self._topic), key=lambda note: note.key):
            partition, offset = note.place
            if not note.is_about(self._topic_id) or offset < starts.get(partition, 0):
                yield note

    def _create_notes(self) -> None:
        api = admin_api()
        topic = api.NewTopic(self._topic + DONE_SUFFIX, 1, -1, config={"cleanup.policy": "compact"})
        future = self._connection.admin().create_topics([topic])[topic.topic]
        _, error = self._connection.outcome(future)
        if error is not None and error.name() != "TOPIC_ALREADY_EXISTS":
            raise failure(f"creating {topic.topic}", error)
