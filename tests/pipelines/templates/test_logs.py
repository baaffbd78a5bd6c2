"""Logs, whole: lines of many sources on a real broker, a real Spark, and what the generator knows must come out."""

import itertools
import shutil
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Producer
from topic_kit import consume_all, make_topic

import barnabas.pipelines
from barnabas.pipelines.continuous import Pipeline
from barnabas.pipelines.dead_letters import CUT_BYTES
from barnabas.pipelines.problem import PipelineProblem
from barnabas.pipelines.project import Project

pytest.importorskip("tantivy", reason="tantivy is not installed (extra pipelines)")

from barnabas.pipelines.search.finding import LogIndex
from barnabas.pipelines.search.writing import open_index

TEMPLATE = Path(barnabas.pipelines.__file__).parent / "templates" / "logs"
STORIES = 400
LINE_BYTES_MAX = 12_000_000
HUGE = b'{"message": "' + b"x" * 10_000_000 + b'"}'
HOSTILE = b'{"message": "\x1b[2J \\ud800 \\u0000", "time": "2026-11-16T10:00:00Z"}'


@pytest.fixture
def project(tmp_path, monkeypatch):
    """The template as a user gets it."""
    shutil.copytree(TEMPLATE, tmp_path / "logs")
    monkeypatch.syspath_prepend(str(tmp_path / "logs"))
    yield Project.open(tmp_path / "logs")
    for name in ("functions", "generate", "lines", "tracebacks"):
        sys.modules.pop(name, None)


@pytest.fixture
def producer(bootstrap):
    make_topic(bootstrap, "logs", partitions=3, **{"max.message.bytes": str(LINE_BYTES_MAX)})
    make_topic(bootstrap, "logs.dlq", partitions=1, **{"max.message.bytes": str(LINE_BYTES_MAX)})
    return Producer({"bootstrap.servers": bootstrap, "message.max.bytes": LINE_BYTES_MAX})


def send(producer, lines):
    for source, line in lines:
        producer.produce("logs", line, source)
    assert producer.flush(60) == 0


def ends(lines):
    """One more line of each source whose events may go on: it ends them, and may itself go on."""
    sources = dict.fromkeys(source for source, _ in lines if source.startswith("shop-"))
    return [(source, "2026-11-16 10:00:00,000 INFO end: end") for source in sources]


def told(story):
    """An event as the generator knows it."""
    more = story.more
    return (
        story.source,
        story.level,
        story.message,
        story.time_ms,
        more.get("host"),
        more.get("stack"),
    )


@pytest.mark.timeout(600)
def test_every_line_is_in_an_event_or_a_dead_letter(project, producer, bootstrap, spark):
    import generate

    clock = itertools.count(time.time_ns() // 1_000_000 - 60_000, 37)
    mixed = list(generate.mixed(5, STORIES, lambda: next(clock)))
    lines = [(source, line) for source, line, _ in mixed]
    stories = {id(story): story for _, _, story in mixed}.values()
    half = len(lines) // 2

    settings = {"barnabas.bootstrap.servers": bootstrap, "spark.sql.shuffle.partitions": "2"}
    pipeline = Pipeline(project, spark, settings)
    # As if a run before had been killed while it noted its first batch.
    left = project.folder / ".barnabas/storage/continuous/checkpoints/refuse_lines/offsets/.0.x.tmp"
    left.parent.mkdir(parents=True)
    left.touch()
    index = str(project.folder / ".barnabas/index")
    # Another process writes the index: that is told, the table is written all the same, and the index has it later.
    taken = open_index(index).writer(20_000_000, 1)
    send(producer, lines[:half])
    with pytest.raises(PipelineProblem, match="is being written by another process"):
        pipeline.run_available()
    taken.wait_merging_threads()
    send(producer, [*lines[half:], ("big", HUGE), ("big", HUGE[:-1]), ("hostile", HOSTILE), ("none", None)])  # fmt: skip
    send(producer, ends(lines))
    pipeline.run_available()

    rows = [each for each in pipeline.table("events").collect() if each.message != "end"]
    found = Counter(
        (each.source, each.level, each.message, round(each.time.timestamp() * 1000), each.host, each.stack)
        for each in rows
        if each._error is None and each.source not in ("big", "hostile")
    )  # fmt: skip
    expected = Counter(told(story) for story in stories if story.level)
    assert found == expected
    (big,) = [each for each in rows if each.source == "big" and each._error is None]
    assert len(big.message) == 10_000_000

    bad = [line for story in stories if not story.level for line in story.lines]
    wanted = Counter([*(line if isinstance(line, bytes) else line.encode() for line in bad), HUGE[:CUT_BYTES], None])  # fmt: skip
    letters = consume_all(bootstrap, "logs.dlq")
    assert Counter(each.value() for each in letters) == wanted
    for each in letters:
        headers = dict(each.headers())
        assert headers["barnabas.topic"] == b"logs"
        assert headers.keys() >= {"barnabas.reason", "barnabas.partition", "barnabas.offset"}

    searched = LogIndex(index)
    assert searched.search("* -message:end").total == expected.total() + 2
    failures = [s for s in stories if s.level == "error" and "time out" in s.message + (s.more.get("stack") or "")]  # fmt: skip
    assert searched.search('level:error AND "time out"').total == len(failures) > 0
    assert searched.search("source:hostile").total == 1
