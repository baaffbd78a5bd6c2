"""What a project is, and what is known of its runs: without Spark."""

import contextlib
import json
import os
import subprocess
import sys

import pytest
import yaml
from click.testing import CliRunner
from hypothesis import example, given
from hypothesis import strategies as st
from pipelines.projects import make

from barnabas.cli.main import cli
from barnabas.cli.pipeline import _as_yaml
from barnabas.cli.pipeline_run import _Events, _News, _Notes, _once_flow
from barnabas.cli.pipeline_view import flow_lines, page
from barnabas.pipelines import run_state
from barnabas.pipelines.problem import PipelineProblem
from barnabas.pipelines.project import Project


@pytest.fixture
def folder(tmp_path):
    return make(tmp_path / "clicks", transformations__b_sql="", transformations__a_py="", functions_py="")  # fmt: skip


def test_a_project_is_what_its_specification_says(folder):
    project = Project.open(folder)
    assert project.name == "clicks"
    assert [project.shown(file) for file in project.files()] == ["transformations/a.py", "transformations/b.sql"]  # fmt: skip
    assert project.storage == f"file://{folder}/.barnabas"
    assert project.configuration == {"barnabas.bootstrap.servers": "127.0.0.1:1"}


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("nmae: x", "spark-pipeline.yml:8: unknown field 'nmae'"),
        ("  spark.x: 5", 'spark-pipeline.yml:8: spark.x must be a text: write spark.x: "5"'),
        ("  - [", "spark-pipeline.yml:8: this is no YAML: expected <block end>, but found '-'"),
        ("a: b: c", "spark-pipeline.yml:8: this is no YAML: mapping values are not allowed here"),
        ("a\x07: b", "spark-pipeline.yml:8: this is no YAML: it has the character U+0007"),
        ("schema: 2001-99-99", "spark-pipeline.yml:1: this is no YAML: month must be in 1..12"),
        ("\udcff", "spark-pipeline.yml:8: this is no text in UTF-8"),
    ],
)
def test_a_specification_that_is_wrong_is_told_with_its_line(folder, line, told):
    spec = folder / "spark-pipeline.yml"
    text = f"{spec.read_text()}\n{line}\n".replace("\n\n", "\n")
    spec.write_text(text, errors="surrogateescape")
    with pytest.raises(PipelineProblem) as caught:
        Project.open(folder)
    assert str(caught.value).startswith(told)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("- a", "spark-pipeline.yml:1: it must map names to values, `name: …` among them"),
        ("name: x", "spark-pipeline.yml:1: the field 'storage' is missing"),
        ("name: x\nstorage: x\nlibraries: 5", "spark-pipeline.yml:3: libraries must be a list"),
    ],
)
def test_a_specification_that_lacks_something_is_told(folder, text, told):
    (folder / "spark-pipeline.yml").write_text(text)
    with pytest.raises(PipelineProblem) as caught:
        Project.open(folder)
    assert str(caught.value) == told


@pytest.mark.parametrize(
    ("include", "told"),
    [
        ("transformations/*.py", r"\*\* at the end"),
        ("''", r"\*\* at the end"),
        ("/etc/**", "does not begin with /"),
        ("/**", r"\*\* at the end"),
    ],
)
def test_what_spark_takes_as_libraries_is_taken_and_nothing_else(folder, include, told):
    spec = folder / "spark-pipeline.yml"
    spec.write_text(spec.read_text().replace("transformations/**", include))
    with pytest.raises(PipelineProblem, match=f"spark-pipeline.yml:3: .*{told}"):
        Project.open(folder)


@pytest.mark.parametrize(
    ("libraries", "told"),
    [
        ("\n  - glob:\n      include: steps/**", "no file matches 'steps/**'"),
        ("\n  - glob:\n      include: a.py\n  - glob: {include: b.sql}", "no file matches 'a.py' or 'b.sql'"),
        (" []", "no files are named: write `- glob: {include: transformations/**}` under it"),
    ],
)  # fmt: skip
def test_libraries_that_nothing_matches_are_told_with_what_they_say(folder, libraries, told):
    (folder / "spark-pipeline.yml").write_text(f"name: x\nstorage: x\nlibraries:{libraries}\n")
    with pytest.raises(PipelineProblem) as caught:
        Project.open(folder).files()
    assert str(caught.value) == f"spark-pipeline.yml:3: libraries: {told}"


def test_a_folder_without_a_specification_is_no_project(tmp_path):
    with pytest.raises(PipelineProblem, match="pipeline init makes one"):
        Project.open(tmp_path)


def test_one_process_runs_a_project_and_another_sees_it_and_its_end(folder):
    state = Project.open(folder).state
    program = (
        "import sys, pathlib, signal, threading; from barnabas.pipelines import run_state\n"
        "ended = threading.Event(); signal.signal(signal.SIGTERM, lambda *_: ended.set())\n"
        "with run_state.running(pathlib.Path(sys.argv[1])):\n"
        "    print('ready', flush=True); ended.wait()\n"
    )
    assert run_state.runner_of(state) is None
    assert run_state.stop(state, 1) is None
    command = [sys.executable, "-c", program, str(state)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            assert run_state.runner_of(state) == process.pid
            with pytest.raises(PipelineProblem, match=str(process.pid)), run_state.running(state):
                pass
            assert run_state.stop(state, 60) == process.pid
        finally:
            process.kill()
    with run_state.running(state):
        assert run_state.runner_of(state) == os.getpid()


FLOWS = [{"name": "slow", "state": "running"}, {"name": "by_user", "state": "done"}]


@pytest.mark.parametrize(
    ("said", "told"),
    [("starting", "died"), ("running", "died"), ("stopped", "stopped"), ("failed", "failed")],
)
def test_a_status_outlives_its_process_and_says_whether_that_was_stopped(folder, said, told):
    state = Project.open(folder).state
    assert run_state.read_status(state) is None
    run_state.write_status(state, "clicks", run_state.CONTINUOUS, FLOWS, run_state.now(), said)
    status = run_state.read_status(state)
    assert (status["running"], status["state"]) == (False, told)
    assert [flow["state"] for flow in status["flows"]] == ["died" if told == "died" else "stopped", "done"]  # fmt: skip


def test_a_status_is_never_that_of_another_process_than_the_one_that_runs(folder, monkeypatch):
    state = Project.open(folder).state
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: 1)
        run_state.write_status(state, "clicks", run_state.CONTINUOUS, FLOWS, run_state.now())
    with run_state.running(state):
        status = run_state.read_status(state)
        assert (status["running"], status["state"]) == (True, "starting")
        assert (status["pid"], status["flows"]) == (os.getpid(), [])
        assert page(status).startswith(f"clicks starts as process {os.getpid()} (")
    gone = {**run_state.read_status(state), "flows": []}
    assert page(gone).startswith("clicks does not run: process 1 ended without being stopped (")  # fmt: skip


@pytest.mark.parametrize(
    ("problem", "told"),
    [(None, "stopped"), (KeyboardInterrupt, "stopped"), (PipelineProblem, "failed")],
)
def test_a_run_says_that_it_starts_and_how_it_ended(folder, problem, told):
    project = Project.open(folder)
    ending = pytest.raises(problem) if problem else contextlib.nullcontext()
    with ending, run_state.running(project.state), _Notes(project, run_state.CONTINUOUS) as notes:
        assert run_state.read_status(project.state)["state"] == "starting"
        notes.status(FLOWS)
        assert run_state.read_status(project.state)["state"] == "running"
        if problem:
            raise problem
    status = run_state.read_status(project.state)
    assert status["state"] == told
    assert [flow["name"] for flow in status["flows"]] == ["slow", "by_user"]


def test_rows_that_sparks_runner_does_not_tell_are_not_known(folder):
    project = Project.open(folder)
    events = _Events(_Notes(project, run_state.ONCE))
    events.on_event("Flow spark_catalog.default.slow is COMPLETED.")
    [_, row] = page(run_state.read_status(project.state)).splitlines()[1:]
    assert row.split()[:3] == ["slow", "done", "-"]


def test_brokers_that_do_not_answer_are_told_of_once_and_again_when_they_do(folder):
    project = Project.open(folder)
    project.state.mkdir()
    news = _News(_Notes(project, run_state.CONTINUOUS))

    def told(*since):
        flow = {"state": "running", "restarts": 0, "brokers": "here:1"}
        flows = [{**flow, "name": f"f{index}", "brokers_silent_since": each} for index, each in enumerate(since)]  # fmt: skip
        return list(news.of(flows))

    assert told(None, None) == ["f0 is running", "f1 is running"]
    assert told("12:00", "12:00") == ["brokers at here:1 do not answer since 12:00"]
    assert told("12:00", "12:00") == []
    assert told(None, None) == ["brokers at here:1 answer again"]
    assert told(None, None) == []
    assert (project.state / "log").read_text().count("brokers at here:1") == 2


@pytest.mark.parametrize(("is_running", "lines"), [(True, 1), (False, 0)])
def test_a_status_tells_of_brokers_that_do_not_answer_while_it_runs(is_running, lines):
    told = {"pipeline": "clicks", "state": "running", "running": is_running, "pid": 1, "runner": "continuous", "updated": "12:01"}  # fmt: skip
    flow = {**_once_flow("slow", "running"), "brokers": "here:1", "brokers_silent_since": "12:00"}
    shown = page({**told, "flows": [flow, {**flow, "name": "fast"}]})
    assert shown.count("\nbrokers at here:1 do not answer since 12:00\n") == lines


FROM_WORKER = """[PYTHON_EXCEPTION] An exception was thrown from the Python worker: barnabas.pipelines.problem.PipelineProblem: there is no topic 'xout'; create it first
SQLSTATE: 38000"""


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (FROM_WORKER, "there is no topic 'xout'; create it first"),
        (f"Job aborted: {FROM_WORKER.replace(chr(10), ' ')}\n\tat org.apache", "there is no topic 'xout'; create it first"),
        ("[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012", "[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012"),
    ],
)  # fmt: skip
def test_a_sentence_of_ours_is_shown_without_what_spark_puts_around_it(folder, error, shown):
    project = Project.open(folder)
    project.state.mkdir()
    flow = {**_once_flow("slow", "failing"), "restarts": 1, "last_error": error}
    assert flow_lines([flow])[-2:] == ["\nslow (), failed 1 time:", f"  {shown}"]
    [line] = _News(_Notes(project, run_state.CONTINUOUS)).of([flow])
    assert line == f"slow is failing: failed 1 time: {shown}"
    assert error in (project.state / "log").read_text()


@pytest.mark.parametrize("file", ["status.json", "log"])
def test_a_run_that_cannot_note_what_it_does_goes_on_and_says_so_once(folder, capsys, file):
    project = Project.open(folder)
    (project.state / file / "in the way").mkdir(parents=True)
    notes = _Notes(project, run_state.CONTINUOUS)
    news = _News(notes)
    for state in ("running", "ended", "running"):
        flows = [{"name": "slow", "state": state, "restarts": 0}]
        notes.status(flows)
        assert list(news.of(flows)) == [f"slow is {state}"]
    said = capsys.readouterr().err
    assert said.count("clicks goes on, but cannot note what it does") == 1
    assert file in said


def barnabas(*arguments):
    return CliRunner().invoke(cli, [*map(str, arguments)])


def test_a_template_becomes_a_project_under_its_own_name(tmp_path):
    pytest.importorskip("pyspark", reason="pyspark is not installed (extra spark)")
    made = barnabas("pipeline", "init", tmp_path / "shop")
    assert made.exit_code == 0, made.output
    assert Project.open(tmp_path / "shop").name == "shop"
    listed = barnabas("pipeline", "list", tmp_path, "-o", "json")
    assert '"project": "shop"' in listed.output
    assert '"state": "never run"' in listed.output
    assert barnabas("pipeline", "init", tmp_path / "shop").exit_code == 1
    wrong = barnabas("pipeline", "init", tmp_path / "other", "--template", "startr")
    assert "there is no template 'startr'" in wrong.output
    assert "has not run yet" in barnabas("pipeline", "status", tmp_path / "shop").output
    assert barnabas("pipeline", "stop", tmp_path / "shop").output == "shop does not run\n"


@pytest.mark.parametrize(
    "name",
    ["no", "null", "#x", "a: b", r"a\d", r"a\g<0>", "1e3", "2001-99-99", "two words", '"', "zoë", "😀", "a\tb\x7f"],
)  # fmt: skip
def test_a_project_has_the_name_of_its_folder_whatever_that_is(tmp_path, name):
    made = barnabas("pipeline", "init", tmp_path / name)
    assert made.exit_code == 0, made.output
    assert yaml.safe_load((tmp_path / name / "spark-pipeline.yml").read_text())["name"] == name
    assert Project.open(tmp_path / name).name == name


@given(st.text())
@example("\udcff")  # a byte of a file's name that is no UTF-8
@example("\x85\u2028\ufeff\uffff")
def test_any_text_is_the_same_text_in_yaml(text):
    assert yaml.safe_load(f"name: {_as_yaml(text)}\n") == {"name": text}


@pytest.mark.parametrize("name", ["shop", "shop-2", "my_shop.v2", "Nothing"])
def test_an_ordinary_name_is_written_as_it_is(name):
    assert _as_yaml(name) == name


def test_what_to_type_next_can_be_typed(tmp_path):
    plain = barnabas("pipeline", "init", tmp_path / "shop").output
    assert plain.endswith(f"next: barnabas pipeline check {tmp_path}/shop\n")
    made = barnabas("pipeline", "init", tmp_path / "my shop").output
    assert made.endswith(f"next: barnabas pipeline check '{tmp_path}/my shop'\n")
    pytest.importorskip("pyspark", reason="pyspark is not installed (extra spark)")
    status = barnabas("pipeline", "status", tmp_path / "my shop").output
    assert status.endswith(f"barnabas pipeline run '{tmp_path}/my shop'\n")


def test_a_project_that_cannot_be_read_does_not_hide_the_others(tmp_path):
    pytest.importorskip("pyspark", reason="pyspark is not installed (extra spark)")
    make(tmp_path / "a")
    (make(tmp_path / "b") / "spark-pipeline.yml").write_text("name: a: b\n")
    make(tmp_path / "c")
    for output in ("table", "json", "yaml"):
        listed = barnabas("pipeline", "list", tmp_path, "-o", output)
        assert listed.exit_code == 1
        assert f"{tmp_path}/a" in listed.stdout
        assert f"{tmp_path}/b" not in listed.stdout
        assert f"{tmp_path}/c" in listed.stdout
        assert listed.stderr == f"error: {tmp_path}/b: spark-pipeline.yml:1: this is no YAML: mapping values are not allowed here\n"  # fmt: skip


def test_a_folder_with_nothing_but_a_broken_project_is_not_called_empty(tmp_path):
    pytest.importorskip("pyspark", reason="pyspark is not installed (extra spark)")
    (make(tmp_path / "b") / "spark-pipeline.yml").write_text("name: [\n")
    listed = barnabas("pipeline", "list", tmp_path)
    assert (listed.exit_code, listed.stdout) == (1, "")
    assert barnabas("pipeline", "list", tmp_path, "-o", "json").stdout == "[]\n"


def test_templates_are_listed_with_what_they_do():
    pytest.importorskip("pyspark", reason="pyspark is not installed (extra spark)")
    listed = barnabas("pipeline", "list", "--templates", "-o", "json")
    about = {row["template"]: row["about"] for row in json.loads(listed.stdout)}
    assert about["metrics"] == "What services push, by the minute and the hour, and alerts when a rule is broken"  # fmt: skip
    assert about["starter"].startswith("A small pipeline to begin with: orders")
    for text in about.values():
        assert text.isprintable()
        assert 5 < len(text.split()) < 40
