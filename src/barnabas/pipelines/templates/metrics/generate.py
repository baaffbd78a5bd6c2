"""Metrics of a shop's services: requests, errors and latencies that follow the hour, a service in trouble now and then, readings that come late.

    python generate.py --rate 500 --seconds 60

`readings` is pure: from a seed and a clock to readings and when they are received; `events` is the same as records, sent as they come.
"""

import json
import math
import random
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import NamedTuple

from barnabas.pipelines.feeding import Event, main

TOPIC = "metrics"
SERVICES = ("cart", "checkout", "search", "stock", "mail")
HOSTS = 3
#: One in so many readings is sent again by an agent that was cut off: minutes late.
LATE_SHARE = 1 / 200
#: One in so many is no reading.
BROKEN_SHARE = 1 / 500
BROKEN = (
    b"{",
    b"null",
    b'{"service": "cart"}',
    b'{"service": "cart", "name": "cpu", "kind": "gauge", "value": "high"}',
)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class Reading(NamedTuple):
    """What a service pushes; `time_ms` is when it was taken, `value` what it says."""

    service: str
    host: str
    name: str
    kind: str
    value: float
    time_ms: int

    def as_json(self) -> bytes:
        """The record's value."""
        taken = datetime.fromtimestamp(self.time_ms / 1000, UTC).isoformat(timespec="milliseconds")
        fields = {**self._asdict(), "time": taken.replace("+00:00", "Z")}
        del fields["time_ms"]
        return json.dumps(fields).encode()


def readings(seed: int, count: int, now_ms: Callable[[], int]) -> Iterator[Reading | bytes]:
    """Readings, and some bytes that are none. `now_ms` is asked for the time at which each is received."""
    chance = random.Random(seed)
    for _ in range(count):
        now = now_ms()
        if chance.random() < BROKEN_SHARE:
            yield chance.choice(BROKEN)
            continue
        delay_ms = int(chance.expovariate(1 / 800))
        if chance.random() < LATE_SHARE:
            delay_ms = chance.randrange(3 * 60_000, 10 * 60_000)
        service = chance.choice(SERVICES)
        host = f"{service}-{chance.randrange(HOSTS)}"
        name, kind, value = _measured(chance, service, now / 1000)
        yield Reading(
            service,
            host,
            name,
            kind,
            value,
            now - delay_ms,
        )


def _measured(chance: random.Random, service: str, second: float) -> tuple[str, str, float]:
    """One of what a service measures. Every few minutes one of them is in trouble for a minute."""
    load = 1 + 0.5 * math.sin(second / 300)
    trouble = (
        SERVICES[int(second // 60) % 11 % len(SERVICES)] == service and int(second // 60) % 3 == 0
    )
    name = chance.choice(("requests", "errors", "latency_ms", "cpu", "memory_mb"))
    if name == "requests":
        return name, "counter", float(chance.randrange(1, int(40 * load)))
    if name == "errors":
        return name, "counter", float(chance.randrange(30) if trouble else chance.random() < 0.05)
    if name == "latency_ms":
        return name, "gauge", round(chance.lognormvariate(5 if trouble else 3.5, 0.6) * load, 3)
    if name == "cpu":
        return name, "gauge", round(min(100, 30 * load + 55 * trouble + chance.random() * 20), 2)
    return name, "gauge", round(500 + 80 * load + chance.random() * 10, 1)


def events(seed: int, count: int, now_ms: Callable[[], int] = _now_ms) -> Iterator[Event]:
    """Records, keyed by host, so that what a host says stays in order."""
    received = []

    def noted() -> int:
        received[:] = [now_ms()]
        return received[0]

    for each in readings(seed, count, noted):
        key, value = ("broken", each) if isinstance(each, bytes) else (each.host, each.as_json())
        yield Event(TOPIC, key, value, timestamp_ms=received[0])


if __name__ == "__main__":
    main(events, __doc__)
