"""`barnabas produce`: what stands on stdin or in a file becomes records of a topic.

One job: options, sending, and the account at the end. Every record that was read is either
acknowledged or named with its line number and the reason; then the exit code is 1. Ctrl-C stops
reading and waits for what is in flight. Retries neither repeat nor reorder records (idempotent
producer) while acks is `all`.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from barnabas.cli.completion import topic_names
from barnabas.cli.connection import connected
from barnabas.cli.failure import Failure, failure, hint_for, nearest, reason
from barnabas.cli.interrupt import Interrupt
from barnabas.cli.output import counted, emit
from barnabas.cli.record import Draft, unescape
from barnabas.cli.record_input import (
    ByteStream,
    InputError,
    LineForm,
    draft_of_whole,
    drafts_from_json,
    drafts_from_lines,
    parse_header,
    split_stream,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from confluent_kafka import KafkaError, Message, Producer

    from barnabas.cli.connection import Connection

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SHOWN_FAILURES_MAX = 10
# Local queue: small enough that what waits in it leaves within the delivery timeout on a slow line.
QUEUE_KBYTES_MAX = 65_536
DELIVERY_TIMEOUT_S = 30.0
POLL_EVERY_RECORDS = 256
INTERRUPTED = 130


def _escaped(_ctx: click.Context, _param: click.Parameter, text: str | None) -> bytes | None:
    """Click callback: text with escapes as bytes."""
    if text is None:
        return None
    try:
        data = unescape(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    if not data:
        raise click.BadParameter("must not be empty")
    return data


def _header_list(
    _ctx: click.Context, _param: click.Parameter, texts: tuple[str, ...]
) -> tuple[tuple[str, bytes], ...]:
    try:
        return tuple(parse_header(text.encode()) for text in texts)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@click.command()
@click.argument("topic", shell_complete=topic_names)
@click.option(
    "--file",
    "path",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Read this file instead of stdin.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(("lines", "json")),
    default="lines",
    show_default=True,
    help="Plain lines, or one JSON object a line.",
)
@click.option(
    "-K",
    "--key-separator",
    callback=_escaped,
    metavar="TEXT",
    help="The key stands before this in each line.",
)
@click.option(
    "--headers-separator",
    callback=_escaped,
    metavar="TEXT",
    help="Headers (name=value,...) stand before this in each line.",
)
@click.option("-k", "--key", help="Key of every record that brings none.")
@click.option(
    "-H",
    "--header",
    "headers",
    multiple=True,
    callback=_header_list,
    metavar="NAME=VALUE",
    help="Header of every record. Repeat.",
)
@click.option("-p", "--partition", type=click.IntRange(min=0), help="Send all to this partition.")
@click.option(
    "-Z",
    "--null-marker",
    callback=_escaped,
    metavar="TEXT",
    help="A value or key that is this text is null (tombstone).",
)
@click.option(
    "-D",
    "--delimiter",
    callback=_escaped,
    default="\\n",
    show_default=True,
    metavar="TEXT",
    help="What ends a record.",
)
@click.option("--whole-file", is_flag=True, help="All the input is one record.")
@click.option("-z", "--compression", type=click.Choice(CODECS), help="Codec. [default none]")
@click.option(
    "--acks",
    type=click.Choice(("0", "1", "all")),
    default="all",
    show_default=True,
    help="Who must have a record before it counts.",
)
@click.option(
    "--auto-create", is_flag=True, help="Let the broker create a topic that is not there."
)
@click.option("-q", "--quiet", is_flag=True, help="No progress bar and no summary.")
@connected
def produce(connection: Connection, topic: str, **how: Any) -> int:  # noqa: ANN401
    """Send lines of stdin (or --file) as records to TOPIC."""
    _check(how)
    producer = connection.producer(_settings(connection, how))
    if not how["auto_create"]:
        _check_topic(connection, producer, topic, how["partition"])
    sender = Sender(connection, producer, topic, how["partition"])
    with (
        Interrupt() as interrupt,
        _input(how["path"]) as (stream, size),
        _progress(size, how) as advance,
    ):
        drafts = _drafts(Interruptible(stream, interrupt), advance, how)
        stopped = _send_all(sender, drafts, interrupt)
    return _account(connection, sender, stopped, how)


def _check(how: dict[str, Any]) -> None:
    inline = how["key_separator"] or how["headers_separator"] or how["null_marker"]
    if how["form"] == "json" and (inline or how["whole_file"]):
        raise click.UsageError(
            "--format json brings its own keys, headers and nulls; leave out the separators"
        )
    if how["whole_file"] and inline:
        raise click.UsageError("--whole-file takes the input as it is; leave out the separators")


def _settings(connection: Connection, how: dict[str, Any]) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "acks": how["acks"],
        "enable.idempotence": how["acks"] == "all" and "acks" not in connection.settings,
        "allow.auto.create.topics": how["auto_create"],
        "message.timeout.ms": int(max(connection.timeout_s, DELIVERY_TIMEOUT_S) * 1000),
        # Java's choice of partition, so that a key lies where other producers put it.
        "partitioner": "murmur2_random",
        # The topic decides what is too large, not the client.
        "message.max.bytes": 1_000_000_000,
        "queue.buffering.max.kbytes": QUEUE_KBYTES_MAX,
    }
    if how["compression"]:
        settings["compression.type"] = how["compression"]
    return settings


def _check_topic(
    connection: Connection, producer: Producer, topic: str, partition: int | None
) -> None:
    """Say at once that a topic is missing; librdkafka would wait for it to appear."""
    from confluent_kafka import KafkaException

    try:
        found = producer.list_topics(topic, timeout=connection.timeout_s).topics[topic]
    except KafkaException as raised:
        connection.check_alive(raised.args[0])
        raise failure(f"topic {topic}", raised.args[0]) from None
    if found.error is not None and found.error.name() == "UNKNOWN_TOPIC_OR_PART":
        known = producer.list_topics(timeout=connection.timeout_s).topics
        raise Failure(
            f"topic {topic} does not exist",
            nearest(topic, known)
            or f"create it with `barnabas topic create {topic}`, or add --auto-create",
        )
    if found.error is not None:
        raise failure(f"topic {topic}", found.error)
    if partition is not None and partition not in found.partitions:
        raise Failure(
            f"topic {topic} has no partition {partition}",
            f"it has {counted(len(found.partitions), 'partition')}, counted from 0",
        )


# -- input -----------------------------------------------------------------------------------


@contextlib.contextmanager
def _input(path: Path | None) -> Iterator[tuple[ByteStream, int | None]]:
    """The stream to read and, for a file, its size."""
    if path is None:
        # Not sys.stdin.buffer: typed as BinaryIO, which lacks read1.
        with open(0, "rb", closefd=False) as standard_input:
            yield standard_input, None
        return
    with path.open("rb") as file:
        yield file, path.stat().st_size


@contextlib.contextmanager
def _progress(size: int | None, how: dict[str, Any]) -> Iterator[Callable[[int], None]]:
    """A bar for a file on a terminal; else nothing."""
    if not size or how["quiet"] or not sys.stderr.isatty():
        yield lambda _: None
        return
    with click.progressbar(length=size, label=how["path"].name, file=sys.stderr) as bar:
        yield bar.update


@dataclass(slots=True)
class Interruptible:
    """A stream that Ctrl-C wakes while it waits for input."""

    stream: ByteStream
    interrupt: Interrupt

    def read(self, size: int = -1, /) -> bytes:
        """As the stream's."""
        with self.interrupt.raising():
            return self.stream.read(size)

    def read1(self, size: int = -1, /) -> bytes:
        """As the stream's."""
        with self.interrupt.raising():
            return self.stream.read1(size)


def _drafts(
    stream: ByteStream, advance: Callable[[int], None], how: dict[str, Any]
) -> Iterator[tuple[int, Draft]]:
    form = LineForm(
        key_separator=how["key_separator"],
        headers_separator=how["headers_separator"],
        null_marker=how["null_marker"],
        key=None if how["key"] is None else how["key"].encode(),
        headers=how["headers"],
    )
    if how["whole_file"]:
        return iter([(1, draft_of_whole(stream, form))])
    pieces = split_stream(stream, how["delimiter"], advance)
    return (drafts_from_json if how["form"] == "json" else drafts_from_lines)(pieces, form)


# -- sending ---------------------------------------------------------------------------------


@dataclass(slots=True)
class Sender:
    """Hands records to librdkafka and counts what became of them."""

    connection: Connection
    producer: Producer
    topic: str
    partition: int | None
    delivered: int = 0
    delivered_bytes: int = 0
    failed: int = 0
    failures: list[tuple[int, KafkaError]] = field(default_factory=list)
    fatal: bool = False
    _since_poll: int = 0

    def send(self, line: int, draft: Draft) -> None:
        """Queue one record, waiting for room in the queue if there is none."""
        from confluent_kafka import KafkaException

        self._since_poll += 1
        if self._since_poll >= POLL_EVERY_RECORDS:
            self._since_poll = 0
            self._poll(0)
        arguments = self._arguments(line, draft)
        while True:
            try:
                self.producer.produce(self.topic, **arguments)
            except BufferError:
                self._wait()
            except KafkaException as raised:
                self._fail(line, raised.args[0])
                return
            else:
                return

    def _arguments(self, line: int, draft: Draft) -> dict[str, Any]:
        size = len(draft.key or b"") + len(draft.value or b"")
        arguments: dict[str, Any] = {
            "key": draft.key,
            "value": draft.value,
            "on_delivery": functools.partial(self._on_delivery, line, size),
        }
        partition = draft.partition if self.partition is None else self.partition
        if partition is not None:
            arguments["partition"] = partition
        if draft.timestamp is not None:
            arguments["timestamp"] = draft.timestamp
        if draft.headers:
            arguments["headers"] = list(draft.headers)
        return arguments

    def _on_delivery(
        self, line: int, size_bytes: int, error: KafkaError | None, _message: Message
    ) -> None:
        if error is not None:
            self._fail(line, error)
            return
        self.connection.on_life()
        self.delivered += 1
        self.delivered_bytes += size_bytes

    def _fail(self, line: int, error: KafkaError) -> None:
        self.failed += 1
        self.fatal = self.fatal or error.fatal()
        if len(self.failures) < SHOWN_FAILURES_MAX:
            self.failures.append((line, error))

    def finish(self) -> None:
        """Wait until every record is acknowledged or given up (message.timeout.ms bounds it)."""
        while len(self.producer):
            self._wait()

    def _wait(self) -> None:
        self._poll(0.1)
        self.connection.note_if_down()

    def _poll(self, timeout_s: float) -> None:
        """Let librdkafka tell what became of records. What it raises ends the producer: the records not sent then fail, one by one."""
        from confluent_kafka import KafkaException

        try:
            self.producer.poll(timeout_s)
        except KafkaException:
            self.fatal = True


def _send_all(
    sender: Sender, drafts: Iterator[tuple[int, Draft]], interrupt: Interrupt
) -> InputError | bool:
    """Send until the input ends. Returns a bad line, or whether Ctrl-C ended it."""
    stopped: InputError | bool = False
    try:
        for line, draft in drafts:
            sender.send(line, draft)
            if sender.fatal or interrupt.pressed:
                break
    except InputError as error:
        stopped = error
    except KeyboardInterrupt:
        assert interrupt.pressed
    sender.finish()
    return stopped or interrupt.pressed


# -- the account -----------------------------------------------------------------------------


def _account(
    connection: Connection, sender: Sender, stopped: InputError | bool, how: dict[str, Any]
) -> int:
    bad_line = stopped if isinstance(stopped, InputError) else None
    failures = sorted(sender.failures, key=lambda failed: failed[0])
    if not connection.wants_table:
        emit(_summary(sender, failures, bad_line), connection.output)
    for line, error in failures:
        Failure(f"line {line}: {reason(error)}", hint_for(error)).show()
    if sender.failed > len(failures):
        click.echo(f"error: and {sender.failed - len(failures):,} more failed", err=True)
    if bad_line is not None:
        Failure(str(bad_line), "reading stopped there; the lines before it were sent").show()
    if connection.wants_table and not how["quiet"]:
        failed = f", {sender.failed:,} failed" if sender.failed else ""
        sent = counted(sender.delivered, "record")
        click.echo(
            f"{sent} ({counted(sender.delivered_bytes, 'byte')}) to {sender.topic}{failed}",
            err=True,
        )
    if sender.failed or bad_line is not None:
        return 1
    # Ctrl-C is how one ends typing at a terminal; in a pipeline it cut the input short.
    cut_short = stopped is True and (how["path"] is not None or not sys.stdin.isatty())
    return INTERRUPTED if cut_short else 0


def _summary(
    sender: Sender, failures: list[tuple[int, KafkaError]], bad_line: InputError | None
) -> dict[str, Any]:
    """The stable keys of `produce -o json`."""
    errors = [
        {"line": line, "error": error.name(), "message": reason(error)} for line, error in failures
    ]
    if bad_line is not None:
        errors.append({"line": bad_line.line, "error": "INPUT", "message": str(bad_line)})
    return {
        "topic": sender.topic,
        "records": sender.delivered,
        "bytes": sender.delivered_bytes,
        "failed": sender.failed,
        "errors": errors,
    }
