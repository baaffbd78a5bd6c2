"""The documentation's commands, run as they stand.

`console` blocks: lines after `$ ` are run by a shell, one after another in one folder per page; the lines that follow
are what must come out, where `...` stands for anything. `python` blocks are run as scripts, or by pytest if they
define tests. Both talk to a broker of the test's own, whose address takes the place of 127.0.0.1:9092. Ids and times
differ from run to run and are not compared. A page that begins with `<!-- broker: NAME=VALUE, ... -->` gets a broker with these settings. BARNABAS_UPDATE_DOCS=1 writes what comes out into the pages.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import barnabas

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(console|python)\n(.*?)^```", re.DOTALL | re.MULTILINE)
ADDRESS = "127.0.0.1:9092"
#: A program that starts Spark takes a while on a busy machine.
TIMEOUT_S = 240
UPDATE = bool(os.environ.get("BARNABAS_UPDATE_DOCS"))
#: What is different each time.
CHANGING = [
    (re.compile(r"\b[A-Za-z0-9_-]{22}\b"), "ID"),
    (re.compile(r"\b1[0-9]{12}\b"), "MS"),
    (re.compile(r"\b20\d\d-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:?\d\d)?"), "TIME"),
    (re.compile(r"\b[0-9.]+ (ms|s|min)\b"), "DURATION"),
]


def blocks(page):
    return BLOCK.findall(page.read_text())


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    "page", [p for p in PAGES if blocks(p)], ids=lambda page: str(page.relative_to(ROOT))
)
def test_page(page, tmp_path):
    text = page.read_text()
    if "barnabas.pipelines" in text:
        pytest.importorskip("pyspark", reason="pyspark is not installed (extra spark)")
    with barnabas.Broker(settings=settings_of(text)) as broker:
        for kind, block in blocks(page):
            if kind == "python":
                run_python(block.replace(ADDRESS, broker.bootstrap), tmp_path, broker.bootstrap)
            else:
                text = text.replace(block, run_console(block, tmp_path, broker.bootstrap))
    if UPDATE:
        page.write_text(text)


def settings_of(text):
    """The settings that a page wants its broker to have: `<!-- broker: name=value, name=value -->`."""
    wanted = re.match(r"<!-- broker: (.*) -->", text)
    pairs = wanted.group(1).split(", ") if wanted else []
    return dict(pair.split("=", 1) for pair in pairs)


def environment(bootstrap):
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    own = {"BARNABAS_BOOTSTRAP": bootstrap, "COLUMNS": "120", "BARNABAS_SPARK_ARCHIVE": "off"}
    return {**os.environ, "PATH": path, **own}


def run_console(block, folder, bootstrap):
    """Run a block; return it with what really came out."""
    shown = []
    for command, expected in steps(block):
        done = subprocess.run(
            ["bash", "-c", command.replace(ADDRESS, bootstrap)],
            cwd=folder,
            env=environment(bootstrap),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        output = done.stdout.replace(bootstrap, ADDRESS)
        if matches(expected, output):
            output = expected
        assert UPDATE or output == expected, f"$ {command}\n{output}\nexpected:\n{expected}"
        shown.append(f"$ {command}\n{output}")
    return "".join(shown)


def steps(block):
    """Split a block into (command, what it prints); a backslash at a line's end goes on."""
    for step in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, output = step.partition("\n")
        while command.endswith("\\"):
            more, _, output = output.partition("\n")
            command = f"{command}\n{more}"
        yield command, output


def matches(expected, output):
    pattern = ".*".join(re.escape(part) for part in same(expected).strip().split("..."))
    return re.fullmatch(pattern, same(output).strip(), re.DOTALL) is not None


def same(text):
    for changing, name in CHANGING:
        text = changing.sub(name, text)
    return re.sub(r"[ ─-]+(?=\n|$)", "", text)


def run_python(text, folder, bootstrap):
    script = folder / "test_example.py"
    script.write_text(text)
    runner = [sys.executable]
    if "def test_" in text:
        runner += ["-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*runner, script],
        cwd=folder,
        env=environment(bootstrap),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
