"""What a board shows of Spark's reports, and what other processes can read of it. No session is needed."""

import json
import os
import subprocess
import sys

import pytest

from barnabas.pipelines import watching
from barnabas.pipelines.progress import (
    BATCHES_MAX,
    QUERIES_MAX,
    Board,
    Lag,
    bars,
    may_have_written,
    queries_of,
    read_batch,
)


def report(number=4, rows=200, **changes):
    """What Spark's `progress.json` has, as far as it is used."""
    source = {
        "startOffset": {"clicks": {"0": 100, "1": 50}},
        "endOffset": {"clicks": {"0": 250, "1": 100}},
        "latestOffset": {"clicks": {"0": 260, "1": 100, "2": 5}},
    }
    return {
        "id": "1b4e28ba-2fa1-11d2-883f-0016d3cca427", "name": "counts", "batchId": number, "numInputRows": rows,
        "processedRowsPerSecond": 400.0, "batchDuration": 500, "durationMs": {"addBatch": 400, "triggerExecution": 500},
        "sources": [source], **changes,
    }  # fmt: skip


def board_with(*reports):
    board = Board()
    for one in reports:
        board.on_batch(one["id"], one["name"], read_batch(one))
    return board


def test_a_report():
    batch = read_batch(report())
    assert (batch.number, batch.rows, batch.rows_per_second, batch.duration_ms) == (
        4,
        200,
        400.0,
        500,
    )
    assert batch.end == {"clicks": {"0": 250, "1": 100}}
    assert batch.lag == 15


@pytest.mark.parametrize(
    ("operator", "is_so"),
    [
        ({"numRowsUpdated": 0, "numRowsRemoved": 0, "customMetrics": {"numExpiredTimers": 0}}, False),
        ({"numRowsUpdated": 0, "numRowsRemoved": 3}, True),  # windows that the watermark closed
        ({"numRowsRemoved": 0, "customMetrics": {"numExpiredTimers": 2}}, True),
    ],
)  # fmt: skip
def test_a_batch_without_rows_writes_what_time_has_ended(operator, is_so):
    assert may_have_written(report(rows=0, stateOperators=[operator])) is is_so
    assert may_have_written(report(rows=1, stateOperators=[operator]))
    assert not may_have_written(report(rows=0))


@pytest.mark.parametrize("rate", [float("nan"), float("inf"), "NaN", None])
def test_a_rate_that_is_none(rate):
    assert read_batch(report(processedRowsPerSecond=rate)).rows_per_second == 0.0


@pytest.mark.parametrize("offset", ["7", "no JSON", None, {"files": 3}, 12])
def test_sources_of_other_kinds_have_no_offsets_here(offset):
    batch = read_batch(report(sources=[{"endOffset": offset, "latestOffset": offset}]))
    assert (batch.end, batch.lag) == ({}, None)


def test_offsets_as_text_are_read():
    text = json.dumps({"clicks": {"0": 7}})
    assert read_batch(report(sources=[{"endOffset": text}])).end == {"clicks": {"0": 7}}


def test_the_table():
    board = board_with(report(3), report(4))
    board.queries[report()["id"]].measured = Lag(15, 2.5)
    heading, row = str(board).splitlines()
    assert heading.split()[:3] == ["QUERY", "STATE", "BATCH"]
    assert row.split() == [
        "counts",
        "running",
        "4",
        "200",
        "400",
        "0.50",
        "s",
        "15",
        "2.5",
        "s",
        "██",
    ]


def test_lag_in_records_and_in_seconds_is_of_one_moment():
    board = board_with(report())
    [query] = board.queries.values()
    assert (query.summary()["lag"], query.summary()["lag_seconds"]) == (15, None)
    query.measured = Lag(700, 71.9)
    assert (query.summary()["lag"], query.summary()["lag_seconds"]) == (700, 71.9)
    query.measured = Lag(answered=False)
    assert query.cells()[6:8] == ("-", "-")


def test_html_escapes_names():
    html = board_with(report(name="<b>x</b>"))._repr_html_()
    assert "&lt;b&gt;x&lt;/b&gt;" in html
    assert "<td>400</td>" in html


def test_a_query_that_has_just_started_and_one_that_failed():
    board = Board()
    board.on_started("first", None)
    board.on_started("second", "two")
    board.on_ended("second", "it broke")
    board.on_ended("unknown", None)
    assert [query.cells()[:3] for query in board.queries.values()] == [
        ("first", "running", "-"),
        ("two", "failed", "-"),
    ]


def test_whoever_asked_is_told_of_changes():
    board, seen = Board(), []
    board.on_change = lambda changed: seen.append(len(changed.queries))
    board.on_started("a", None)
    board.on_batch("b", None, read_batch(report()))
    assert seen[-1] == 2


def test_it_is_bounded():
    board = board_with(*(report(number) for number in range(3 * BATCHES_MAX)))
    [query] = board.queries.values()
    assert len(query.batches) == BATCHES_MAX
    for number in range(2 * QUERIES_MAX):
        board.on_started(str(number), None)
    assert len(board.queries) == QUERIES_MAX


def test_bars():
    assert bars([]) == ""
    assert bars([0, 0]) == "▁▁"
    assert bars([1, 50, 100])[0] == "▁"
    assert len(bars(list(range(1000)))) == 20


def test_another_process_reads_what_one_wrote():
    board = board_with(report(3), report(4))
    [query] = queries_of(board.to_json())
    assert query == board.queries[query.id]
    assert query.summary()["lag"] == 15


def test_files_of_processes_that_are_gone_are_removed(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    gone = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True)  # fmt: skip
    folder = tmp_path / "barnabas/queries"
    folder.mkdir(parents=True)
    for pid in (os.getpid(), int(gone.stdout)):
        (folder / f"{pid}.json").write_text(board_with(report()).to_json())
    assert [query.name for query in watching.recorded()] == ["counts"]
    assert [file.stem for file in folder.iterdir()] == [str(os.getpid())]
