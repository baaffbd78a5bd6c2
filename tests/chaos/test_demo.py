"""`make demo`, short: it says figures, and what it names is there. Only in `make chaos`, for it takes minutes on a busy machine."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from cluster_kit import only_in_make_chaos

pytest.importorskip("pyspark", reason="pyspark is not installed (extra spark)")
pytest.importorskip("tantivy", reason="tantivy is not installed (extra pipelines)")

DEMO = Path(__file__).parents[2] / "tools/demo.py"
PNG = b"\x89PNG\r\n"
#: What each pipeline leaves, under the folder of its tables.
TABLES = {"metrics": {"per_minute", "late", "per_hour"}, "logs": {"events"}}


def figure(text, said):
    """A number that the demo says, by the words after it."""
    found = re.search(rf"([\d,]+) {said}", text)
    assert found, f"nothing about {said!r} in\n{text}"
    return int(found[1].replace(",", ""))


@only_in_make_chaos
@pytest.mark.timeout(900)
def test_the_demo_shows_what_it_says(tmp_path):
    folder = tmp_path / "demo"
    command = [sys.executable, str(DEMO), "--seconds", "10", "--rate", "100", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=840)
    text = done.stdout
    assert done.returncode == 0, text[-2000:] + done.stderr[-4000:]

    assert figure(text, "readings in ") > 10_000
    assert figure(text, "closed minutes of services") > 100
    # Lines of the same second of load: most stories are one line.
    assert figure(text, r"events \(") > 500
    assert figure(text, "lines refused") > 0
    assert "level:error" in text

    named = re.findall(r"^  (tables|pictures|full-text index) +(\S+)$", text, re.MULTILINE)
    assert sorted(what for what, _ in named) == ["full-text index", *["pictures"] * 2, *["tables"] * 2]  # fmt: skip
    for what, where in named:
        path = Path(where)
        assert path.is_relative_to(folder)
        if what == "pictures":
            assert path.read_bytes().startswith(PNG)
        elif what == "tables":
            name = path.relative_to(folder).parts[0]
            assert {each.name for each in path.iterdir()} >= TABLES[name]
            assert all(any((path / each).rglob("*.parquet")) for each in TABLES[name])
        else:
            assert any(path.iterdir())
