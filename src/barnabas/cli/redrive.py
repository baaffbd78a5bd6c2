"""Sending dead letters back where they came from, each once.

One job: transactions of records and of notes that they were sent. Must not know a command line.

A letter's record and its note in `TOPIC.redriven` are of one transaction: both are there or neither, whenever this is killed. One transactional id for each dead-letter topic: who begins
later fences who began before, and reads the notes only after that. So two at once, or one after a kill, send nothing twice. The id's rights: Write on both topics, Describe and Write on
the transactional id `barnabas-redrive-TOPIC`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from barnabas.cli.connection import admin_api
from barnabas.cli.dead_letters import DONE_SUFFIX, Note
from barnabas.cli.failure import Failure, failure, reason
from barnabas.cli.own_client import open_client
from barnabas.client.errors import ClientError, UnknownTopic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from confluent_kafka import KafkaError, Producer

    from barnabas.cli.connection import Connection
    from barnabas.cli.dead_letters import Letter, Letters, Wanted

#: A transaction holds back readers of the topic until it ends.
_LETTERS_PER_TRANSACTION: Final = 500
_ID: Final = "barnabas-redrive-"


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

    def run(
        self, letters: Letters, choose: Callable[[Sequence[Letter]], Plan], on_sent: Callable[[int], object]
    ) -> Plan:  # fmt: skip
        """Choose among the letters once nobody else sends them, and send; returns what was chosen. Failure if it cannot be sent: then none of the last transaction was."""
        from confluent_kafka import KafkaException

        self._create_notes()
        producer = self._connection.producer(
            {"transactional.id": f"{_ID}{self._topic}", "partitioner": "murmur2_random", "linger.ms": 5}
        )  # fmt: skip
        try:
            producer.init_transactions(self._connection.timeout_s)
            self._topic_id = letters.topic_id(self._topic)
            chosen = choose(letters.read(self._topic))
            partitions = self._partitions({topic for _, topic in chosen.sent})
            for start in range(0, len(chosen.sent), _LETTERS_PER_TRANSACTION):
                batch = chosen.sent[start : start + _LETTERS_PER_TRANSACTION]
                self._send(producer, batch, partitions)
                on_sent(len(batch))
            self._forget_old(producer, letters)
        except KafkaException as raised:
            raise failure(f"sending letters of {self._topic}", raised.args[0]) from None
        return chosen

    def _partitions(self, topics: set[str]) -> dict[str, int]:
        try:
            with open_client(self._connection) as client:
                found = client.partitions(sorted(topics)) if topics else {}
        except UnknownTopic as problem:
            raise Failure(str(problem), "--to TOPIC sends them elsewhere") from None
        except ClientError as problem:
            raise Failure(str(problem)) from None
        return {topic: len(numbers) for topic, numbers in found.items()}

    def _send(
        self, producer: Producer, batch: Sequence[tuple[Letter, str]], partitions: dict[str, int]
    ) -> None:
        """One transaction: it ends as a whole, whatever becomes of this process."""
        producer.begin_transaction()
        for letter, topic in batch:
            self._produce(producer, letter, topic, partitions[topic])
            note = Note(letter.place, self._topic_id)
            producer.produce(self._topic + DONE_SUFFIX, topic.encode(), note.key, on_delivery=self._on_delivery)  # fmt: skip
            producer.poll(0)
        producer.flush(self._connection.timeout_s)
        if self._problem is not None:
            producer.abort_transaction(self._connection.timeout_s)
            raise Failure(f"sending letters of {self._topic}: {reason(self._problem)}; none of these {len(batch)} was sent")  # fmt: skip
        producer.commit_transaction(self._connection.timeout_s)

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
        producer.produce(topic, record.value, record.key, headers=headers, on_delivery=self._on_delivery, **where)  # type: ignore[arg-type]  # fmt: skip

    def _on_delivery(self, error: KafkaError | None, _message: object) -> None:
        if error is not None:
            self._problem = error

    def _forget_old(self, producer: Producer, letters: Letters) -> None:
        """Notes of letters that are gone, by retention or with their topic, are of no use."""
        gone = list(self._gone(letters))
        if not gone:
            return
        producer.begin_transaction()
        for note in gone:
            producer.produce(self._topic + DONE_SUFFIX, None, note.key)
        producer.commit_transaction(self._connection.timeout_s)

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
