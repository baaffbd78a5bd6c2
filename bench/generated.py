"""What the generators of the templates write, for a benchmark: their events, the topics that take them, and what must be counted of readings. Knows no Spark."""

from __future__ import annotations

import importlib.util
import itertools
import json
import sys
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import barnabas

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from barnabas.pipelines.feeding import Event

TEMPLATES: Final = Path(barnabas.__file__).parent / "pipelines/templates"
PARTITIONS: Final = 4
CLOCK_START_MS, READINGS_PER_S = 1_750_000_020_000, 500
"""What the generator of metrics takes for now, and how quickly its readings come: minutes must end for anything to come out."""
LATE_MS: Final = 120_000


def generator(template: str) -> Any:  # noqa: ANN401 - a module
    """Give the module generate.py of a template, under a name of its own."""
    path = TEMPLATES / template / "generate.py"
    spec = importlib.util.spec_from_file_location(f"generate_{template}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def events(template: str, seed: int, count: int) -> Iterator[Event]:
    """Give what the generator of a template makes."""
    made: Iterator[Event]
    if template == "metrics":
        clock = itertools.count(CLOCK_START_MS, 1000 // READINGS_PER_S)
        made = generator(template).events(seed, count, lambda: next(clock))
    else:
        made = generator(template).events(seed, count)
    return made


def make_topics(bootstrap: str, names: Iterable[str]) -> None:
    """Create what a template reads and writes; readings are old, and must stay."""
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": bootstrap})
    kept = {"retention.ms": "-1"}
    topics = [NewTopic(each, PARTITIONS, config=kept) for each in names]
    for made in admin.create_topics(topics).values():
        made.result(60)


def expected_counts(readings: Iterable[Event]) -> dict[str, int]:
    """Count readings by service, name, kind and minute, as the functions of the template must."""
    counts: Counter[str] = Counter()
    for event in readings:
        if minute := _minute_of(event):
            counts[minute] += 1
    return dict(counts)


def _minute_of(event: Event) -> str | None:
    """Give the minute that a reading belongs to; None if it is none, or late."""
    try:
        said = json.loads(event.value or b"null")
        time_ms = round(datetime.fromisoformat(said["time"]).timestamp() * 1000)
    except (ValueError, KeyError, TypeError):
        return None
    if event.timestamp_ms > time_ms + LATE_MS:
        return None
    start_ms = time_ms // 60_000 * 60_000
    return f"{said['service']}/{said['name']}/{said['kind']}/{start_ms}"
