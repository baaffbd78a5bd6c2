"""`barnabas logs search`: what a person sees of what others wrote."""

import json

import pytest
from click.testing import CliRunner

from barnabas.cli.main import cli

pytest.importorskip("tantivy", reason="tantivy is not installed (extra pipelines)")

from barnabas.pipelines.search.writing import write_batch

ROWS = [
    {
        "time_ms": 1_700_000_000_123,
        "level": "error",
        "source": "api",
        "message": "time out\x1b[2J",
        "stack": "Traceback\n  line\x07\nKeyError: 1",
    },
    {"time_ms": 1_700_000_001_000, "level": "info", "source": "api", "message": "well"},
]


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("index"))
    write_batch(folder, "q", 0, ROWS)
    return folder


def run(*arguments):
    return CliRunner().invoke(cli, ["logs", "search", *arguments])


def test_lines_in_the_order_of_time(index):
    done = run("--index", index)
    assert done.exit_code == 0
    assert done.stdout.splitlines() == [
        "2023-11-14 22:13:20.123  ERROR    api  time out\\x1b[2J",
        "    Traceback",
        "      line\\x07",
        "    KeyError: 1",
        "2023-11-14 22:13:21.000  INFO     api  well",
    ]
    assert done.stderr == "2 events\n"


def test_json_for_programs(index):
    done = run("--index", index, "--json", "level:error")
    assert "\x1b" not in done.output
    (line,) = done.stdout.splitlines()
    event = json.loads(line)
    assert event["time_ms"] == ROWS[0]["time_ms"]
    assert event["message"] == ROWS[0]["message"]
    assert event["host"] is None


def test_limit_and_times(index):
    done = run("--index", index, "--limit", "1")
    assert done.stdout.endswith("well\n")
    assert done.stderr == "2 events, of which the newest 1 are shown (--limit)\n"
    assert run("--index", index, "--since", "1h").stderr == "0 events\n"
    assert run("--index", index, "--until", "2023-11-14T22:13:21Z").stderr == "1 event\n"


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["(("], 1, "error: the query '((' cannot be read"),
        (["--since", "soon"], 2, "'soon' is no time; allowed: 1h"),
        (["--since", "42"], 2, "'42' is no time"),
        (["--since", "beginning"], 2, "'beginning' is no time"),
        (["--limit", "0"], 2, "0 is not in the range"),
        (
            ["-level:debug"],
            2,
            "No such option '-l'. A query that leaves out begins with what to find: '* -level:debug'",
        ),
        (["-host:web-1"], 2, "'* -host:web-1'"),
        (["--since", "1h", "-app:a app:b"], 2, "'* -app:a app:b'"),
        (["-nothing"], 2, "No such option '-n'"),
        (["--jsn"], 2, "Did you mean"),
        (["details.status:[500 TO 599]"], 1, "error: details are texts, which have no ranges"),
        (["--index", "/nowhere"], 1, "error: there is no index in /nowhere"),
    ],
)
def test_mistakes_are_told(index, arguments, code, sentence):
    done = run("--index", index, *arguments)
    assert done.exit_code == code
    assert sentence in done.stderr
    assert "Traceback" not in done.output
