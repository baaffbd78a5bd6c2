"""Sends what a template's generator makes, at a steady rate.

Job: the command line of every `generate.py`, pacing, a line of progress. Must not know what the records mean.

Invariants: what is sent is what the generator made, in its order, each once; the same seed sends the same records. It returns only when everything is acknowledged.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

#: How often the rate is looked at.
_TURN_S: Final = 0.05
_PROGRESS_S: Final = 1.0
_FLUSH_TIMEOUT_S: Final = 60.0


class Event(NamedTuple):
    """A record to be sent."""

    topic: str
    key: bytes | str | None
    value: bytes | str | None
    headers: tuple[tuple[str, bytes], ...] = ()
    timestamp_ms: int = 0
    """0: when it is sent."""


class NotSent(Exception):
    """What was not acknowledged, and why."""


def feed(
    events: Iterable[Event],
    bootstrap: str,
    rate: float = 0,
    on_progress: Callable[[int], None] = lambda _count: None,
) -> int:
    """Send events, `rate` a second (0: as fast as they go); return how many were acknowledged. NotSent if one was not."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    problems: list[str] = []

    def told(error: object, _message: object) -> None:
        if error is not None:
            problems.append(str(error))

    start_s = told_s = time.monotonic()
    count = 0
    for event in events:
        while rate and count >= (time.monotonic() - start_s + _TURN_S) * rate:
            producer.poll(_TURN_S)
        while True:
            try:
                producer.produce(
                    event.topic,
                    event.value,
                    event.key,
                    on_delivery=told,
                    headers=list(event.headers),
                    timestamp=event.timestamp_ms,
                )
                break
            except BufferError:
                producer.poll(_TURN_S)
        producer.poll(0)
        count += 1
        if problems:
            raise NotSent(problems[0])
        now_s = time.monotonic()
        if now_s - told_s >= _PROGRESS_S:
            told_s = now_s
            on_progress(count)
    left = producer.flush(_FLUSH_TIMEOUT_S)
    if problems or left:
        raise NotSent(problems[0] if problems else f"{left} records were not acknowledged in time")
    return count


def main(make: Callable[[int, int], Iterable[Event]], about: str) -> None:
    """Be the command line of a generator: `make(seed, count)` gives the events."""

    @click.command(help=about)
    @click.option(
        "--bootstrap", default="127.0.0.1:9092", show_default=True, help="Where brokers are."
    )
    @click.option("--rate", type=click.FloatRange(0), default=100, show_default=True, help="Records a second; 0: as fast as they go.")  # fmt: skip
    @click.option("--seconds", type=click.FloatRange(0, min_open=True), default=60, show_default=True, help="For how long, at that rate.")  # fmt: skip
    @click.option("--count", type=click.IntRange(1), help="How many records, instead of --seconds.")
    @click.option("--seed", type=int, default=1, show_default=True, help="The same seed makes the same records.")  # fmt: skip
    def command(bootstrap: str, rate: float, seconds: float, count: int | None, seed: int) -> None:
        if count is None and not rate:
            raise click.UsageError("--rate 0 needs --count")
        wanted = count if count is not None else max(round(rate * seconds), 1)
        try:
            sent = feed(make(seed, wanted), bootstrap, rate, _progress(wanted))
        except NotSent as problem:
            raise click.ClickException(f"{bootstrap}: {problem}") from None
        click.echo(f"sent {sent:,} records to {bootstrap}")

    command()


def _progress(wanted: int) -> Callable[[int], Any]:
    def show(count: int) -> None:
        if sys.stderr.isatty():
            click.echo(f"\r{count:,} of {wanted:,}", err=True, nl=False)

    return show
