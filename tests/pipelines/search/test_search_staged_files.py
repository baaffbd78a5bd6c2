"""Files that tasks leave for the commit."""

from datetime import UTC, datetime

import pytest

pytest.importorskip("pyarrow", reason="pyarrow is not installed (extra spark)")
pytest.importorskip("tantivy", reason="tantivy is not installed (extra pipelines)")

import pyarrow as pa

from barnabas.pipelines.search.staged_files import clear, stage, staged_rows


def batch(*numbers):
    times = [datetime.fromtimestamp(each, UTC) for each in numbers]
    columns = {
        "time": pa.array(times, pa.timestamp("us", "UTC")),
        "message": pa.array([f"m{each}" for each in numbers]),
        "details": pa.array(
            [[("a", str(each))] for each in numbers], pa.map_(pa.string(), pa.string())
        ),
    }
    return pa.RecordBatch.from_pydict(columns)


def test_rows_come_back(tmp_path):
    names = [
        stage(str(tmp_path), "q", 3, "0-1", [batch(1, 2), batch(3)]),
        stage(str(tmp_path), "q", 3, "1-2", iter([batch(4)])),
    ]
    rows = list(staged_rows(str(tmp_path), names))
    assert [each["time_ms"] for each in rows] == [1000, 2000, 3000, 4000]
    assert rows[0] == {"time_ms": 1000, "message": "m1", "details": [("a", "1")]}


def test_no_rows_no_file(tmp_path):
    assert stage(str(tmp_path), "q", 0, "0-0", []) is None
    assert list(tmp_path.iterdir()) == []


def test_old_batches_go_and_those_of_others_stay(tmp_path):
    kept = [
        stage(str(tmp_path), "q", 5, "0-0", [batch(1)]),
        stage(str(tmp_path), "other", 3, "0-0", [batch(1)]),
    ]
    for number in (2, 4):
        stage(str(tmp_path), "q", number, "0-0", [batch(1)])
    clear(str(tmp_path), "q", 4)
    found = sorted(str(each.relative_to(tmp_path)) for each in tmp_path.rglob("*.arrow"))
    assert found == sorted(kept)
