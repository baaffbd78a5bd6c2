"""`barnabas pipeline`: projects of Spark's Declarative Pipelines, started, checked, run, watched, stopped.

One job: commands. What a project is and how it runs is in `pipelines/`.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import sys
import time
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from barnabas.cli.failure import Failure, nearest
from barnabas.cli.options import ClientOptions, setting
from barnabas.cli.output import FORMATS, counted, emit, table
from barnabas.cli.pipeline_view import page
from barnabas.cli.printable import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

BOOTSTRAP_SETTING: Final = "barnabas.bootstrap.servers"
STARTER: Final = "starter"
_STOP_TIMEOUT_S: Final = 60.0
#: What YAML reads as this very text without quotes, unless it is one of the words.
_PLAIN: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")
_YAML_WORDS: Final = ("y", "n", "yes", "no", "on", "off", "true", "false", "null")

_FOLDER = click.argument("folder", type=click.Path(path_type=Path), default=".", metavar="DIR")


def _told_in_a_sentence(command: Callable[..., Any]) -> Callable[..., Any]:
    """Let what is wrong with a project be said without a stack."""

    @wraps(command)
    def run(*args: Any, **options: Any) -> Any:  # noqa: ANN401 - click's own values
        _require_spark()
        from barnabas.pipelines.problem import PipelineProblem

        try:
            return command(*args, **options)
        except PipelineProblem as problem:
            raise Failure(str(problem)) from None

    return run


def _run_options(command: Callable[..., Any]) -> Callable[..., Any]:
    options = (
        click.option("--bootstrap", metavar="HOST:PORT", help=f"Brokers, as the setting {BOOTSTRAP_SETTING}. [env BARNABAS_BOOTSTRAP; default: what the project says]"),
        click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", callback=setting, help="Setting that wins over the project's configuration. Repeat."),
        click.option("--master", help="Where Spark works: local[N], or spark://HOST:PORT. [default: BARNABAS_SPARK_MASTER, or local[*]]"),
    )  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


@click.group()
def pipeline() -> None:
    """Data pipelines on Spark: start one from a template, check, run, watch and stop it.

    A project is a folder as Spark's Declarative Pipelines has it: spark-pipeline.yml, and Python and SQL files with definitions.
    """


@pipeline.command()
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.option("--template", default=STARTER, show_default=True, metavar="NAME", help="What to start from.")  # fmt: skip
def init(folder: Path, template: str) -> None:
    """Make a project in DIR from a template.

    Templates are whole pipelines with a generator of load and tests: change what differs.
    """
    known = templates()
    if template not in known:
        hint = nearest(template, known) or f"there are: {', '.join(known)}"
        raise Failure(f"there is no template {template!r}", hint)
    if folder.exists() and any(folder.iterdir()):
        raise Failure(f"{folder} has something in it: a project begins in a folder of its own")
    ignored = shutil.ignore_patterns("__pycache__", ".barnabas", ".pytest_cache")
    shutil.copytree(known[template], folder, ignore=ignored, dirs_exist_ok=True)
    _rename(folder / "spark-pipeline.yml", folder.resolve().name)
    for file in sorted(each for each in folder.rglob("*") if each.is_file()):
        click.echo(f"  {printable(str(file))}")
    typed = shlex.quote(str(folder))
    click.echo(printable(f"made {folder} from the template {template}; next: barnabas pipeline check {typed}"))  # fmt: skip


def templates() -> dict[str, Path]:
    """Give the folders of all templates, by name."""
    root = Path(__file__).parents[1] / "pipelines" / "templates"
    return {file.parent.name: file.parent for file in sorted(root.glob("*/spark-pipeline.yml"))}


def _rename(spec: Path, name: str) -> None:
    line = f"name: {_as_yaml(name)}"
    # A function: in a text as replacement, a backslash of the name would mean something.
    text = re.sub(r"^name: .*$", lambda _: line, spec.read_text("utf-8"), count=1, flags=re.M)
    spec.write_text(text, "utf-8")


def _as_yaml(text: str) -> str:
    """Write a text so that YAML reads this text: as it is where that is safe, else in quotes."""
    if _PLAIN.fullmatch(text) and text.lower() not in _YAML_WORDS:
        return text
    # JSON's escapes would not do: it writes what is beyond U+FFFF as two halves, which YAML does not join.
    escaped = text.replace("\\", r"\\").replace('"', r"\"")
    shown = "".join(one if one.isprintable() else f"\\U{ord(one):08x}" for one in escaped)
    return f'"{shown}"'


@pipeline.command()
@_FOLDER
@_run_options
@click.option("-o", "--output", type=click.Choice(FORMATS), default="table", help="Output.")
@click.pass_context
@_told_in_a_sentence
def check(ctx: click.Context, folder: Path, output: str, **options: Any) -> None:  # noqa: ANN401
    """Look for what is wrong with a project, without running it.

    Each finding has a file and a line. Exit code 1 if one of them is an error; warnings are what may be meant.
    """
    from barnabas.cli.pipeline_run import open_spark
    from barnabas.pipelines.checking import ERROR, check
    from barnabas.pipelines.project import Project

    project = Project.open(folder)
    spark = open_spark(project, options["master"], quick=True)
    try:
        found = check(project.folder, spark, _settings(ctx, options))
    finally:
        spark.stop()
    if output == "table":
        for finding in found:
            click.echo(str(finding))
        click.echo(f"{project.name}: {_verdict([each.level == ERROR for each in found])}")
    else:
        emit([{"level": each.level, "file": each.file, "line": each.line, "text": each.text} for each in found], output)  # fmt: skip
    if any(each.level == ERROR for each in found):
        ctx.exit(1)


def _verdict(is_error: list[bool]) -> str:
    if not is_error:
        return "nothing is wrong"
    warnings = len(is_error) - sum(is_error)
    return f"{counted(sum(is_error), 'error')}, {counted(warnings, 'warning')}"


@pipeline.command()
@_FOLDER
@click.option("--once/--continuous", default=False, help="To the end of what is there, with Spark's own runner; or until it is stopped. [default: --continuous]")  # fmt: skip
@_run_options
@click.pass_context
@_told_in_a_sentence
def run(ctx: click.Context, folder: Path, *, once: bool, **options: Any) -> None:  # noqa: ANN401
    """Run a project, in the foreground.

    --continuous prints one line starting with "ready", then what happens; on a terminal a table that moves. A flow that fails is tried again, others go on. Ctrl-C, SIGTERM or
    `barnabas pipeline stop` ends it; the next run goes on from there.
    """
    from barnabas.cli import pipeline_run
    from barnabas.pipelines.project import Project

    project = Project.open(folder)
    do = pipeline_run.run_once if once else pipeline_run.run_continuous
    do(project, options["master"], _settings(ctx, options))


def _settings(ctx: click.Context, options: Mapping[str, Any]) -> dict[str, str]:
    outer: ClientOptions = ctx.ensure_object(dict).get("client_options", ClientOptions())
    typed = options["bootstrap"] or outer.bootstrap or os.environ.get("BARNABAS_BOOTSTRAP")
    return {**({BOOTSTRAP_SETTING: typed} if typed else {}), **options["settings"]}


@pipeline.command()
@_FOLDER
@click.option("--watch", is_flag=True, help="Go on looking until Ctrl-C.")
@click.option("--interval", type=click.FloatRange(min=0.1), default=1.0, show_default=True, help="Seconds between looks.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="The same as -o json.")
@click.option("-o", "--output", type=click.Choice(FORMATS), default="table", help="Output.")
@_told_in_a_sentence
def status(folder: Path, *, watch: bool, interval: float, as_json: bool, output: str) -> None:
    """Show what a project's flows do, or did when it last ran.

    Rows a second, time of the last batches, lag in records and in seconds (between the first record not read and the newest), and the last error of each.
    """
    from barnabas.pipelines.project import Project
    from barnabas.pipelines.run_state import read_status

    project = Project.open(folder)
    output = "json" if as_json else output
    while True:
        told = read_status(project.state)
        if told is None:
            raise Failure(f"{folder} has not run yet", f"barnabas pipeline run {shlex.quote(str(folder))}")  # fmt: skip
        if watch and sys.stdout.isatty():
            click.clear()
        if output == "table":
            click.echo(page(told))
        else:
            emit(told, output)
        if not watch:
            return
        time.sleep(interval)


@pipeline.command()
@_FOLDER
@click.option("--timeout", type=click.FloatRange(min=0.1), default=_STOP_TIMEOUT_S, show_default=True, help="Seconds to wait for its end.")  # fmt: skip
@_told_in_a_sentence
def stop(folder: Path, timeout: float) -> None:
    """Stop a project that runs, and wait for its end."""
    from barnabas.pipelines import run_state
    from barnabas.pipelines.project import Project

    project = Project.open(folder)
    try:
        pid = run_state.stop(project.state, timeout)
    except TimeoutError as problem:
        raise Failure(str(problem), "--timeout waits longer") from None
    click.echo(f"{project.name} does not run" if pid is None else f"stopped {project.name}")


@pipeline.command(name="list")
@click.argument("root", type=click.Path(path_type=Path, exists=True), default=".")
@click.option("--templates", "show_templates", is_flag=True, help="List the templates instead.")
@click.option("-o", "--output", type=click.Choice(FORMATS), default="table", help="Output.")
@click.pass_context
@_told_in_a_sentence
def list_(ctx: click.Context, root: Path, output: str, *, show_templates: bool) -> None:
    """List the projects in a folder and below it, and whether they run.

    One whose specification cannot be read is told on stderr, and the exit code is 1.
    """
    problems: list[str] = []
    rows = _template_rows() if show_templates else _project_rows(root, problems)
    if output != "table":
        emit(rows, output)
    elif rows:
        headings = tuple(name.upper() for name in rows[0])
        click.echo(table(headings, [tuple(row.values()) for row in rows]))
    elif not problems:
        click.echo(f"there is no project in {root}")
    for problem in problems:
        click.echo(f"error: {printable(problem)}", err=True)
    if problems:
        ctx.exit(1)


def _project_rows(root: Path, problems: list[str]) -> list[dict[str, Any]]:
    """Give a row for each project that can be read; what is wrong with the others is added to `problems`."""
    from barnabas.pipelines.problem import PipelineProblem
    from barnabas.pipelines.project import STATE, Project
    from barnabas.pipelines.run_state import projects_under, read_status

    rows = []
    for folder in projects_under(root):
        try:
            name = Project.open(folder).name
        except PipelineProblem as problem:
            problems.append(f"{folder}: {problem}")
            continue
        told = read_status(folder / STATE) or {"running": False, "updated": None, "flows": []}
        state = told["state"] if told["updated"] else "never run"
        rows.append({"project": name, "folder": str(folder), "state": state, "flows": len(told["flows"]), "updated": told["updated"]})  # fmt: skip
    return rows


def _template_rows() -> list[dict[str, Any]]:
    return [{"template": name, "about": _about(path)} for name, path in templates().items()]


def _about(template: Path) -> str:
    """Give the first sentence of a template's README, below its heading."""
    _heading, text, *_ = (template / "README.md").read_text("utf-8").split("\n\n")
    return re.split(r"\.(?:\s|$)", " ".join(text.split()), maxsplit=1)[0]


def _require_spark() -> None:
    if importlib.util.find_spec("pyspark") is None:
        raise Failure("Spark is not installed", "pip install 'barnabas[spark]'")
