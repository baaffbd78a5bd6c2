"""The documentation's commands, run as they stand.

`console` blocks: lines after `$ ` are run by a shell, one after another in one folder per page; the lines that follow
are what must come out, where `...` stands for anything. `python` blocks are run as scripts, or by pytest if they
define tests. Both talk to a broker of the test's own, whose address takes the place of 127.0.0.1:9092.
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


def blocks(page):
    return BLOCK.findall(page.read_text())


@pytest.mark.parametrize(
    "page", [p for p in PAGES if blocks(p)], ids=lambda page: str(page.relative_to(ROOT))
)
def test_page(page, tmp_path):
    with barnabas.Broker() as broker:
        for kind, text in blocks(page):
            run = run_console if kind == "console" else run_python
            run(text.replace("127.0.0.1:9092", broker.bootstrap), tmp_path, broker.bootstrap)


def environment(bootstrap):
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "BARNABAS_BOOTSTRAP": bootstrap, "COLUMNS": "120"}


def run_console(text, folder, bootstrap):
    for command, expected in steps(text):
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=folder,
            env=environment(bootstrap),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=60,
            check=False,
        )
        pattern = ".*".join(re.escape(part) for part in expected.strip().split("..."))
        shown = f"$ {command}\n{done.stdout}\nexpected:\n{expected}"
        assert re.fullmatch(pattern, done.stdout.strip(), re.DOTALL), shown


def steps(text):
    """Split a block into (command, what it prints); a backslash at a line's end goes on."""
    for step in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, output = re.sub(r"\\\n", "\\\n", step).partition("\n")
        while command.endswith("\\"):
            more, _, output = output.partition("\n")
            command = f"{command}\n{more}"
        yield command, output


def run_python(text, folder, bootstrap):
    script = folder / "test_example.py"
    script.write_text(text)
    runner = (
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        if "def test_" in text
        else [sys.executable]
    )
    done = subprocess.run(
        [*runner, script],
        cwd=folder,
        env=environment(bootstrap),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
