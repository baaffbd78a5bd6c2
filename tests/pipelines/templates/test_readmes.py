"""What the templates' README files tell people to type.

A shell runs each block, with functions in the place of programs that note how they are called. Topics are made and generators send for a moment, really; what would take Spark is asked for its help with the same words, which
it refuses if it does not know one of them. What runs for long is tested elsewhere.
"""

import re
import subprocess
import sys

import pytest
from click.testing import CliRunner
from template_kit import TEMPLATES, template

from barnabas import Broker
from barnabas.cli.main import cli

pytest.importorskip("pyspark", reason="pyspark is not installed (extra spark)")

BLOCK = re.compile(r"^```sh\n(.*?)^```", re.DOTALL | re.MULTILINE)
#: `&` at the end of a command, and not `&&`.
IN_THE_BACKGROUND = re.compile(r"(?<!&)&(?!&)")
NOTED = """
note() { printf '%s\\n' "$@" --end-- >> calls; }
barnabas() { note barnabas "$@"; }
python() { note python "$@"; }
createdb() { :; }
curl() { :; }
set -e
"""
AT_ONCE = ("topic", "config")


@pytest.fixture(scope="module")
def bootstrap():
    """A broker that has no topics of other tests."""
    with Broker() as running:
        yield running.bootstrap


def calls(readme, folder):
    """Programs with their arguments, as a shell would have started them."""
    (block,) = BLOCK.findall(readme.read_text())
    script = NOTED + IN_THE_BACKGROUND.sub(";", block)
    subprocess.run(["bash", "-uc", script], cwd=folder, check=True)
    return [
        each.strip().splitlines() for each in (folder / "calls").read_text().split("--end--\n")[:-1]
    ]


@pytest.mark.parametrize(
    "readme", sorted(TEMPLATES.glob("*/README.md")), ids=lambda path: path.parent.name
)
def test_its_commands_are_there(readme, bootstrap, tmp_path):
    with template(readme.parent.name, tmp_path) as project:
        noted = calls(readme, project.folder)
        assert len(noted) > 3
        for program, *words in noted:
            if program == "barnabas":
                ask_barnabas(words, bootstrap)
            else:
                run_program(project.folder, *words, bootstrap=bootstrap)


def ask_barnabas(words, bootstrap):
    known = words if words[0] in AT_ONCE else [*words, "--help"]
    done = CliRunner().invoke(cli, known, env={"BARNABAS_BOOTSTRAP": bootstrap})
    assert done.exit_code == 0, f"{words}: {done.output}"


def run_program(folder, file, *words, bootstrap):
    text = (folder / file).read_text()
    if file == "generate.py":
        words = [*words, "--bootstrap", bootstrap]
        if "--seconds" in words:
            words[words.index("--seconds") + 1] = "0.1"
    elif "@click" in text:
        words = [*words, "--help"]
    done = subprocess.run([sys.executable, file, *words], cwd=folder, capture_output=True, text=True, timeout=300, check=False)  # fmt: skip
    said = f"{file} {words}: {done.stdout}{done.stderr}"
    if file == "generate.py" or "@click" in text:
        assert done.returncode == 0, said
    else:
        # There is nothing to be drawn yet: that is a sentence.
        assert "Traceback" not in said
        assert len(said.splitlines()) == 1, said
