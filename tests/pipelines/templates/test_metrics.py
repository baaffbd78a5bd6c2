"""Metrics, whole: readings on a real broker, a real Spark, and a model in plain Python of what must come out."""

import json
import shutil
import sys
from collections import Counter, defaultdict
from datetime import UTC, datetime
from pathlib import Path

import pytest
from confluent_kafka import Producer
from topic_kit import consume_all, make_topic

import barnabas.pipelines
from barnabas.pipelines.continuous import Pipeline
from barnabas.pipelines.project import Project

TEMPLATE = Path(barnabas.pipelines.__file__).parent / "templates" / "metrics"
READINGS = 900
#: When readings begin: who is in trouble when follows the clock, and in some hours of a day nobody is.
NOON_MS = int(datetime(2026, 11, 16, 12, tzinfo=UTC).timestamp()) * 1000
#: So far are readings apart: ten minutes in all.
STEP_MS = 667
LATE_MS, FUTURE_MS, OPEN_MS, MINUTE_MS = 120_000, 30_000, 150_000, 60_000


@pytest.fixture
def project(tmp_path, monkeypatch):
    """The template as a user gets it."""
    shutil.copytree(TEMPLATE, tmp_path / "metrics")
    monkeypatch.syspath_prepend(str(tmp_path / "metrics"))
    yield Project.open(tmp_path / "metrics")
    for name in ("functions", "generate"):
        sys.modules.pop(name, None)


@pytest.fixture
def here(bootstrap):
    """Where the topics of the template are."""
    for name in ("metrics", "metrics.dlq", "metrics.alerts"):
        make_topic(bootstrap, name, partitions=2)
    return bootstrap


def send(bootstrap, records):
    """Write (received_ms, key, value)."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for received_ms, key, value in records:
        producer.produce("metrics", value, key, timestamp=received_ms)
    assert producer.flush(60) == 0


def by_window(readings, width_ms):
    groups = defaultdict(list)
    for each in readings:
        groups[each.service, each.name, each.time_ms // width_ms * width_ms].append(each)
    return groups


def aggregates(rows, start):
    """Rows as {(service, name, start): (readings, total, lowest, highest, last)}."""
    return {
        (row.service, row.name, round(row[start].timestamp() * 1000)): (
            row.readings,
            pytest.approx(row.total),
            row.lowest,
            row.highest,
        )
        for row in rows
    }


def expected(groups):
    return {
        key: (
            len(each),
            sum(one.value for one in each),
            min(one.value for one in each),
            max(one.value for one in each),
        )
        for key, each in groups.items()
    }


@pytest.mark.timeout(600)
def test_every_reading_is_in_a_minute_or_late_or_refused(project, here, spark):
    import functions
    import generate

    clock = [NOON_MS]

    def now_ms():
        clock[0] += STEP_MS
        return clock[0]

    made = [(clock[0], each) for each in generate.readings(3, READINGS, now_ms)]
    # From an agent whose clock is wrong: were it taken, every minute before it would be closed.
    future = generate.Reading("cart", "cart-0", "cpu", "gauge", 1.0, clock[0] + 3_600_000)
    made.insert(10, (made[10][0], future))
    records = [
        (received, "broken", each) if isinstance(each, bytes) else (received, each.host, each.as_json())
        for received, each in made
    ]  # fmt: skip

    settings = {"barnabas.bootstrap.servers": here, "spark.sql.shuffle.partitions": "2"}
    pipeline = Pipeline(project, spark, settings)
    third = len(records) // 3
    for start in range(0, len(records), third):
        send(here, records[start : start + third])
        pipeline.run_available()

    good = [(received, each) for received, each in made if not isinstance(each, bytes) and each is not future]  # fmt: skip
    in_time = [each for received, each in good if received - each.time_ms <= LATE_MS]
    late = [each for received, each in good if received - each.time_ms > LATE_MS]
    assert len(late) > 2
    closed_ms = max(each.time_ms for each in in_time) - OPEN_MS
    closed = [each for each in in_time if each.time_ms // MINUTE_MS * MINUTE_MS + MINUTE_MS <= closed_ms]  # fmt: skip

    minutes = pipeline.table("per_minute").collect()
    assert aggregates(minutes, "minute") == expected(by_window(closed, MINUTE_MS))
    assert len(minutes) == len(aggregates(minutes, "minute")), "a minute is there once"
    assert sum(row.readings for row in minutes) > READINGS / 2
    found = pipeline.table("late").collect()
    assert Counter((row.host, row.name, row.value) for row in found) == Counter(
        (each.host, each.name, each.value) for each in late
    )
    hours = pipeline.table("per_hour").collect()
    assert aggregates(hours, "hour") == expected(by_window([*closed, *late], 60 * MINUTE_MS))
    assert sum(row.late for row in hours) == len(late)

    broken = Counter(
        (row.service, row.name, row.minute.astimezone(UTC))
        for row in minutes
        for rule in functions.RULES
        if is_broken(rule, row)
    )
    alerts = [json.loads(each.value()) for each in consume_all(here, "metrics.alerts")]
    told = [(each["service"], each["name"], each["minute"]) for each in alerts]
    assert Counter((*each, datetime.fromisoformat(at)) for *each, at in told) == broken
    assert broken
    letters = consume_all(here, "metrics.dlq")
    reasons = Counter(dict(each.headers())["barnabas.reason"] for each in letters)
    assert reasons[b"a time in the future"] == 1
    assert len(letters) == 1 + sum(isinstance(each, bytes) for _, each in made)


def is_broken(rule, row):
    name, aggregate, comparison, limit, _ = rule
    if row.name != name:
        return False
    return row[aggregate] > limit if comparison == ">" else row[aggregate] < limit
