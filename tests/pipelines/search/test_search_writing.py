"""Batches in the index: each once, whatever happens between."""

import json
import subprocess
import sys
from random import Random

import pytest
from cluster_kit import ROUNDS
from process_kit import started

pytest.importorskip("tantivy", reason="tantivy is not installed (extra pipelines)")

from barnabas.pipelines.problem import PipelineProblem
from barnabas.pipelines.search.fields import TEXT_CHARS_MAX
from barnabas.pipelines.search.finding import LogIndex
from barnabas.pipelines.search.writing import last_batch, open_index, write_batch


def row(number, **more):
    return {"time_ms": number, "level": "info", "message": f"event {number}", **more}


def messages(folder, query="*"):
    return [each.texts["message"] for each in LogIndex(str(folder)).search(query).events]


def test_a_batch_is_added_once(tmp_path):
    index = str(tmp_path)
    assert write_batch(index, "q", 0, [row(1), row(2)]) == 2
    assert write_batch(index, "q", 0, [row(1), row(2)]) is None
    assert write_batch(index, "q", 1, [row(3)]) == 1
    assert write_batch(index, "q", 0, [row(1)]) is None
    assert messages(index) == ["event 3", "event 2", "event 1"]
    assert last_batch(open_index(index), "q") == 1


def test_writers_have_batches_of_their_own(tmp_path):
    index = str(tmp_path)
    assert write_batch(index, "q", 5, [row(1)]) == 1
    assert write_batch(index, "other", 0, [row(2)]) == 1
    assert last_batch(open_index(index), "q") == 5
    assert last_batch(open_index(index), "other") == 0
    assert last_batch(open_index(index), "nobody") == -1


def test_a_batch_whose_rows_end_in_an_error_adds_nothing_and_can_be_repeated(tmp_path):
    index = str(tmp_path)

    def broken():
        yield row(1)
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        write_batch(index, "q", 0, broken())
    assert messages(index) == []
    assert write_batch(index, "q", 0, [row(1)]) == 1
    assert messages(index) == ["event 1"]


def test_two_writers_at_once_are_told(tmp_path):
    index = str(tmp_path)

    def nested():
        with pytest.raises(PipelineProblem, match="is being written by another process"):
            write_batch(index, "other", 0, [row(2)])
        yield row(1)

    assert write_batch(index, "q", 0, nested()) == 1
    assert write_batch(index, "other", 0, [row(2)]) == 1


def test_a_search_sees_what_was_committed_before_it(tmp_path):
    index = str(tmp_path)
    write_batch(index, "q", 0, [row(1)])
    looking = LogIndex(index)

    def looked_at():
        yield row(2)
        assert looking.search("*").total == 1

    write_batch(index, "q", 1, looked_at())
    assert looking.search("*").total == 2


def test_a_folder_with_something_else_is_told(tmp_path):
    (tmp_path / "meta.json").write_text("{}")
    with pytest.raises(PipelineProblem, match="cannot be opened as an index"):
        write_batch(str(tmp_path), "q", 0, [row(1)])


def test_a_line_of_megabytes_is_cut_and_found(tmp_path):
    huge = "start " + "x" * 10_000_000 + " end"
    write_batch(str(tmp_path), "q", 0, [row(1, message=huge, details={"raw": huge})])
    (event,) = LogIndex(str(tmp_path)).search("start").events
    assert len(event.texts["message"]) < TEXT_CHARS_MAX + 100
    assert event.texts["message"].endswith("(10,000,010 characters)")
    assert len(event.details["raw"]) < TEXT_CHARS_MAX + 100


KILLED = """
import sys
from barnabas.pipelines.search.writing import last_batch, open_index, write_batch
index, size = sys.argv[1], 50
batch = last_batch(open_index(index), "q") + 1
while True:
    rows = [{"time_ms": batch * size + n, "message": f"b{batch}"} for n in range(size)]
    write_batch(index, "q", batch, rows)
    print(batch, flush=True)
    batch += 1
"""


@pytest.mark.timeout(600)
def test_kill_9_at_any_point_leaves_whole_batches(tmp_path):
    """What was told as committed is there after a kill, once; of what was under way all is there, or nothing."""
    index, random, told = str(tmp_path), Random(7), -1
    for _ in range(max(3, ROUNDS)):
        command = [sys.executable, "-c", KILLED, index]
        with started(command, stdout=subprocess.PIPE, text=True) as process:
            for _ in range(random.randint(1, 12)):
                line = process.stdout.readline()
                assert line, "the writer has ended by itself"
                told = int(line)
            process.kill()
            # It went on while its lines were read.
            for line in process.stdout:
                told = int(line)
        last = last_batch(open_index(index), "q")
        assert last in (told, told + 1)
        found = LogIndex(index).search("*", limit=10_000).events
        assert [each.time_ms for each in found] == list(reversed(range((last + 1) * 50)))
        assert json.loads((tmp_path / "meta.json").read_text())
        told = last
