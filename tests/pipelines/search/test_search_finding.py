"""Queries: what they find, and what a wrong one is told."""

import pytest

pytest.importorskip("tantivy", reason="tantivy is not installed (extra pipelines)")

from barnabas.pipelines.problem import PipelineProblem
from barnabas.pipelines.search.finding import LogIndex
from barnabas.pipelines.search.writing import write_batch

ROWS = [
    {"time_ms": 1_000, "level": "error", "source": "web-1/nginx", "message": "upstream time out"},
    {
        "time_ms": 2_000,
        "level": "info",
        "source": "web-2/nginx",
        "message": "time went out of sight",
    },
    {
        "time_ms": 3_000,
        "level": "error",
        "app": "checkout",
        "message": "no money",
        "stack": "ValueError: broke",
    },
    {
        "time_ms": 4_000,
        "level": "warning",
        "message": "slow",
        "details": {"status": "503", "path": "/a/b"},
    },
]


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("index"))
    write_batch(folder, "q", 0, ROWS)
    return LogIndex(folder)


@pytest.mark.parametrize(
    ("query", "times"),
    [
        ("", [4, 3, 2, 1]),
        ("*", [4, 3, 2, 1]),
        ("time out", [2, 1]),
        ('"time out"', [1]),
        ('level:error AND "time out"', [1]),
        ("level:ERROR", [3, 1]),
        ("level:error OR level:warning", [4, 3, 1]),
        ("* -level:error", [4, 2]),
        ("source:web-2", [2]),
        ("web-2", [2]),
        ("broke", [3]),
        ("app:checkout", [3]),
        ("details.status:503", [4]),
        ('details.path:"/a/b"', [4]),
        ("message:/upst.*/", [1]),
        ("source:/.+/", [2, 1]),
        ("details.status:(500 OR 503)", [4]),
        ("writer_:q", []),
        ("nothing", []),
    ],
)
def test_what_is_found(index, query, times):
    found = index.search(query)
    assert [each.time_ms // 1000 for each in found.events] == times
    assert found.total == len(times)


def test_times_and_limits(index):
    def times(**bounds):
        return [each.time_ms for each in index.search("*", **bounds).events]

    assert times(since_ms=2_000) == [4_000, 3_000, 2_000]
    assert times(until_ms=2_000) == [1_000]
    assert times(since_ms=2_000, until_ms=4_000) == [3_000, 2_000]
    assert times(limit=1) == [4_000]
    assert index.search("*", limit=1).total == 4
    assert times(since_ms=-(2**70)) == [4_000, 3_000, 2_000, 1_000]
    assert times(until_ms=-(2**70)) == []
    assert times(since_ms=2**70) == []
    assert times(until_ms=2**70) == [4_000, 3_000, 2_000, 1_000]


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("levle:error", "events have no field 'levle'; fields are level, source"),
        ('"time out', "cannot be read; an example"),
        ("(((", "cannot be read"),
        ("a:b:c", "cannot be read"),
        ("AND", "cannot be read"),
        ("message:/[/", "unclosed character class"),
        ("-level:error", r"only leaves out: say also what to find, such as '\* -level:error'"),
        ("(" * 20_000, "at most 1,000 characters, this one 20,000"),
        ("(" * 1_000, "cannot be read"),
        ("\x1b[2J(", r"'\\x1b\[2J\('"),
        ("details.n:[1 TO", "cannot be read"),
        ("details.status:[500 TO 599]", r"details are texts, which have no ranges: name the values, such as details\.status:\(500 OR 503\)"),
        ("level:error details.status:>=500", "details are texts, which have no ranges"),
        ("details.status:*", r"'details\.status:\*' cannot be asked: name the values, such as details\.status:\(500 OR 503\)"),
        ("level:*", r"'level:\*' cannot be asked: write level:/\.\+/"),
    ],
)  # fmt: skip
def test_a_wrong_query_is_one_sentence(index, query, sentence):
    with pytest.raises(PipelineProblem, match=sentence) as raised:
        index.search(query)
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 250


def test_no_index(tmp_path):
    with pytest.raises(PipelineProblem, match="there is no index in"):
        LogIndex(str(tmp_path / "none"))
