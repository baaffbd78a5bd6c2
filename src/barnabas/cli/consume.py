"""`barnabas consume`: the records of a topic on stdout.

One job: which records (from, to, partitions, count, follow), and printing them. Partitions are
assigned by hand: no group is joined and nothing is committed. Without --follow the end is where
each partition ended at the start, so the command always stops. Order holds within a partition.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from barnabas.cli.cluster_view import read_bounds, read_offsets, topic_or_fail
from barnabas.cli.completion import topic_names
from barnabas.cli.connection import admin_api, connected
from barnabas.cli.failure import Failure, failure, hint_for, reason
from barnabas.cli.interrupt import Interrupt
from barnabas.cli.output import counted, duration, to_yaml
from barnabas.cli.position import EXAMPLES, At, End, Position, Since, parse_position, resolve
from barnabas.cli.record import Record, compile_format, record_to_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from confluent_kafka import Consumer, KafkaError, Message

    from barnabas.cli.connection import Connection

ISOLATION = ("read_committed", "read_uncommitted")
BATCH_RECORDS = 1_000
POLL_S = 0.1
# librdkafka insists on a group id; with assign() and no commits no group comes into being.
GROUP_ID = "barnabas-cli"
# Offsets this large are rather milliseconds that lack their @.
LIKELY_TIMESTAMP = 10**12
_TIMESTAMP_TYPES = {1: "CreateTime", 2: "LogAppendTime"}


def _position(_ctx: click.Context, _param: click.Parameter, text: str | None) -> Position | None:
    if text is None:
        return None
    try:
        return parse_position(text, time.time_ns() // 1_000_000)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@click.command()
@click.argument("topic", shell_complete=topic_names)
@click.option(
    "--from",
    "start",
    default="beginning",
    show_default=True,
    callback=_position,
    metavar="WHERE",
    help=f"First record: {EXAMPLES}.",
)
@click.option(
    "--to",
    "stop",
    callback=_position,
    metavar="WHERE",
    help="Stop before this one; as --from. [default: the end as of now]",
)
@click.option(
    "-p",
    "--partition",
    "partitions",
    type=click.IntRange(min=0),
    multiple=True,
    help="Only this partition. Repeat.",
)
@click.option("-n", "--count", type=click.IntRange(min=1), help="Stop after so many records.")
@click.option("-f", "--follow", is_flag=True, help="Go on with new records as they come.")
@click.option(
    "--format",
    "text",
    metavar="FORMAT",
    help=r"As kcat: %t topic, %p partition, %o offset, %T timestamp, %k key, %s value, %h headers, %K %S lengths, %R length in binary, \n \t \xNN.",
)
@click.option(
    "-Z", "--null-marker", default="", metavar="TEXT", help="How a null key or value prints."
)
@click.option(
    "--isolation",
    type=click.Choice(ISOLATION),
    default=ISOLATION[0],
    show_default=True,
    help="With or without open and aborted transactions.",
)
@connected
def consume(connection: Connection, topic: str, **how: Any) -> None:  # noqa: ANN401
    """Read the records of TOPIC, by default all there are now.

    -o json prints one object a line.
    """
    if how["follow"] and how["stop"] is not None:
        raise click.UsageError("--follow has no end; leave out --to")
    render = _renderer(connection.output, how["text"], how["null_marker"])
    ranges = _plan(connection, topic, how)
    if ranges:
        _read(connection, topic, ranges, render, how)


def _renderer(output: str, text: str | None, null_marker: str) -> Callable[[Record], bytes]:
    if output != "table" and text is not None:
        raise click.UsageError(f"-o {output} and --format are two ways to print; choose one")
    if output == "json":
        return _json_line
    if output == "yaml":
        return lambda record: ("---\n" + to_yaml(record_to_json(record))).encode()
    try:
        return compile_format("%s\\n" if text is None else text, null_marker.encode())
    except ValueError as error:
        raise click.UsageError(f"--format: {error}") from None


def _json_line(record: Record) -> bytes:
    return json.dumps(record_to_json(record), ensure_ascii=False).encode() + b"\n"


# -- which records ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Range:
    """Offsets to read of one partition; `end` None means follow."""

    start: int
    end: int | None


def _plan(connection: Connection, topic: str, how: dict[str, Any]) -> dict[int, Range]:
    """The partitions that have something to read, and what."""
    partitions = _choose_partitions(connection, topic, how["partitions"])
    committed = how["isolation"] == "read_committed"
    bounds = read_bounds(connection, topic, partitions, read_committed=committed)
    first, last = (_all_known(topic, offsets) for offsets in bounds)
    starts = _since(connection, topic, how["start"], partitions)
    stops = _since(connection, topic, how["stop"], partitions)
    ranges = {}
    for p in partitions:
        low, high = first[p], max(first[p], last[p])
        _note_out_of_range(how["start"], p, low, high)
        start = resolve(how["start"], low, high, starts.get(p))
        end = resolve(how["stop"] or End(), low, high, stops.get(p))
        if how["follow"]:
            ranges[p] = Range(start, None)
        elif start < end:
            ranges[p] = Range(start, end)
    return ranges


def _choose_partitions(connection: Connection, topic: str, wanted: Sequence[int]) -> list[int]:
    view = topic_or_fail(connection, topic)
    leaders = {partition.partition: partition.leader for partition in view.partitions}
    chosen = sorted(set(wanted)) or sorted(leaders)
    for p in chosen:
        if p not in leaders:
            raise Failure(
                f"topic {topic} has no partition {p}",
                f"it has {counted(len(leaders), 'partition')}, counted from 0",
            )
        if leaders[p] is None:
            raise Failure(
                f"partition {p} of {topic} has no leader",
                f"`barnabas topic describe {topic}` shows which replicas are missing; "
                "--partition reads the others",
            )
    return chosen


def _all_known(topic: str, offsets: dict[int, int | KafkaError]) -> dict[int, int]:
    known = {}
    for p, offset in offsets.items():
        if not isinstance(offset, int):
            raise failure(f"offsets of partition {p} of {topic}", offset)
        known[p] = offset
    return known


def _since(
    connection: Connection, topic: str, position: Position | None, partitions: Iterable[int]
) -> dict[int, int]:
    """The broker's answer for a point in time; empty for other positions."""
    if not isinstance(position, Since):
        return {}
    spec = admin_api().OffsetSpec.for_timestamp(position.timestamp_ms)
    return _all_known(topic, read_offsets(connection, topic, dict.fromkeys(partitions, spec)))


def _note_out_of_range(position: Position, partition: int, start: int, end: int) -> None:
    if not isinstance(position, At) or start <= position.offset <= end:
        return
    offset = position.offset
    if offset < start:
        text = f"partition {partition} begins at {start}; records before it were deleted"
    else:
        text = f"partition {partition} ends at {end}, before offset {offset}"
        text += f"; for a time write @{offset}" if offset > LIKELY_TIMESTAMP else ""
    click.echo(f"note: {text}", err=True)


# -- reading ---------------------------------------------------------------------------------


def _read(
    connection: Connection,
    topic: str,
    ranges: dict[int, Range],
    render: Callable[[Record], bytes],
    how: dict[str, Any],
) -> None:
    from confluent_kafka import TopicPartition

    consumer = connection.consumer(
        {
            "group.id": GROUP_ID,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "allow.auto.create.topics": False,
            "isolation.level": how["isolation"],
        }
    )
    try:
        consumer.assign([TopicPartition(topic, p, r.start) for p, r in ranges.items()])
        with Interrupt() as interrupt:
            reader = Reader(connection, consumer, topic, dict(ranges), how["count"], interrupt)
            for records in reader.batches():
                sys.stdout.buffer.write(b"".join(map(render, records)))
                sys.stdout.buffer.flush()
    finally:
        consumer.close()
    if interrupt.pressed and not how["follow"]:  # with --follow Ctrl-C is the ordinary end
        raise KeyboardInterrupt


@dataclass(slots=True)
class Reader:
    """Pulls from librdkafka until every range is read or `left` records came."""

    connection: Connection
    consumer: Consumer
    topic: str
    open: dict[int, Range]
    left: int | None
    interrupt: Interrupt
    _silent_since: float = field(default_factory=time.monotonic)

    def batches(self) -> Iterator[list[Record]]:
        """Records as they come, a list per pull."""
        while self.open and self.left != 0 and not self.interrupt.pressed:
            message = self.consumer.poll(POLL_S)
            if message is None:
                self._on_silence()
                continue
            self._silent_since = time.monotonic()
            self.connection.on_life()
            messages = [message, *self.consumer.consume(BATCH_RECORDS, 0)]
            records = [record for record in map(self._accept, messages) if record is not None]
            if records:
                yield records

    def _accept(self, message: Message) -> Record | None:
        """A message that belongs to what is wanted, else None."""
        error = message.error()
        if error is not None:
            self._on_event(message, error)
            return None
        partition, offset = message.partition(), message.offset()
        assert partition is not None
        assert offset is not None
        wanted = self.open.get(partition)
        if wanted is None or self.left == 0:
            return None
        if wanted.end is not None and offset >= wanted.end - 1:
            self._close(partition)
            if offset >= wanted.end:
                return None
        if self.left is not None:
            self.left -= 1
        return to_record(message)

    def _on_event(self, message: Message, error: KafkaError) -> None:
        partition, offset = message.partition(), message.offset()
        if error.name() == "_PARTITION_EOF":
            wanted = self.open.get(partition if partition is not None else -1)
            # The last offsets may be markers or compacted away: then only this event tells.
            if wanted and wanted.end is not None and offset is not None and offset >= wanted.end:
                assert partition is not None
                self._close(partition)
        elif error.name() == "_AUTO_OFFSET_RESET":
            raise Failure(
                f"partition {partition} of {self.topic}: records were deleted while they were being read",
                "start again with --from beginning",
            )
        elif not error.retriable():
            raise Failure(f"reading {self.topic}: {reason(error)}", hint_for(error))

    def _close(self, partition: int) -> None:
        """This partition is read; stop fetching it."""
        from confluent_kafka import TopicPartition

        del self.open[partition]
        self.consumer.pause([TopicPartition(self.topic, partition)])

    def _on_silence(self) -> None:
        """Nothing came. While following that is normal."""
        self.connection.note_if_down()
        if all(wanted.end is None for wanted in self.open.values()):
            return
        error = self.connection.last_error
        if time.monotonic() - self._silent_since > self.connection.timeout_s:
            why = f" ({reason(error)})" if error is not None else ""
            waiting = ", ".join(str(p) for p in sorted(self.open))
            raise Failure(
                f"nothing came from {self.topic} for {duration(self.connection.timeout_s)}{why}; partitions still to read: {waiting}",
                "--timeout waits longer",
            )


def to_record(message: Message) -> Record:
    """Confluent-kafka's message as plain values."""
    kind, timestamp = message.timestamp()
    headers: Any = message.headers() or ()
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    assert topic is not None
    assert partition is not None
    assert offset is not None
    return Record(
        topic=topic,
        partition=partition,
        offset=offset,
        timestamp=timestamp if kind in _TIMESTAMP_TYPES else None,
        timestamp_type=_TIMESTAMP_TYPES.get(kind),
        key=_bytes(message.key()),
        value=_bytes(message.value()),
        headers=tuple((name, _bytes(value)) for name, value in headers),
    )


def _bytes(data: Any) -> bytes | None:  # noqa: ANN401 - typed too widely by confluent-kafka
    return data if data is None or isinstance(data, bytes) else str(data).encode()
