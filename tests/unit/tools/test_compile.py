"""When the copy is made anew, and when it is compiled again; the compiler itself is not run here."""

import subprocess
from types import SimpleNamespace

import compile as tool
import pytest

COMPILE_IN = tool.compile_in


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A project with a module below, one above, and a compiler that leaves a numbered library."""
    source = tmp_path / "src" / "barnabas"
    for name in ("core/rule.py", "cli/command.py", "ports.py"):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text("x = 1\n")
    (tmp_path / "requirements.lock").write_text("mypy==1\n")
    target = tmp_path / "build" / "compiled"
    for name, value in {
        "ROOT": tmp_path,
        "SOURCE": source,
        "TARGET": target,
        "MARK": target / ".source",
        "__file__": str(tmp_path / "requirements.lock"),
        "what_is_missing": lambda: "",
    }.items():
        monkeypatch.setattr(tool, name, value)
    runs = []

    def compile_in(fresh):
        runs.append(fresh)
        (fresh / "barnabas/core/rule.so").write_text(str(len(runs)))

    monkeypatch.setattr(tool, "compile_in", compile_in)
    return SimpleNamespace(source=source, target=target, runs=runs)


def library(tree):
    return (tree.target / "barnabas/core/rule.so").read_text()


def test_a_copy_of_the_source_as_it_is_stays(tree):
    tool.main()
    before = tree.target.stat().st_ino
    tool.main()
    assert tree.target.stat().st_ino == before
    assert len(tree.runs) == 1
    assert (tree.target / "barnabas/cli/command.py").read_text() == "x = 1\n"


def test_what_compiled_code_does_not_look_at_is_only_copied(tree):
    tool.main()
    (tree.source / "cli/command.py").write_text("x = 2\n")
    (tree.source / "ports.py").touch()
    tool.main()
    assert (tree.target / "barnabas/cli/command.py").read_text() == "x = 2\n"
    assert library(tree) == "1"


@pytest.mark.parametrize(
    "name", ["core/rule.py", "ports.py", "wire/new.py", "../../requirements.lock"]
)
def test_what_it_takes_into_itself_is_compiled_again(tree, name):
    tool.main()
    (tree.source / name).parent.mkdir(exist_ok=True)
    (tree.source / name).write_text("x = 2\n")
    tool.main()
    assert library(tree) == "2"


def test_a_module_that_is_gone_is_gone_from_the_copy(tree):
    tool.main()
    (tree.source / "cli/command.py").unlink()
    tool.main()
    assert not (tree.target / "barnabas/cli/command.py").exists()


def test_without_a_compiler_there_is_no_copy_and_that_is_told(tree, monkeypatch, capsys):
    tool.main()
    (tree.source / "core/rule.py").write_text("x = 2\n")
    monkeypatch.setattr(tool, "what_is_missing", lambda: "C compiler (cc)")
    tool.main()
    assert not tree.target.exists(), "it would be that of another source"
    assert "there is no C compiler (cc)" in capsys.readouterr().out
    monkeypatch.setattr(tool, "what_is_missing", lambda: "")
    tool.main()
    assert library(tree) == "2"


def test_what_the_compiler_says_is_told_and_nothing_is_left(tree, monkeypatch):
    tool.main()
    (tree.source / "core/rule.py").write_text("x = 2\n")
    failed = subprocess.CompletedProcess([], 1, stdout="error: no\n", stderr="")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: failed)
    monkeypatch.setattr(tool, "compile_in", COMPILE_IN)
    with pytest.raises(SystemExit, match="error: no\n\nnot compiled"):
        tool.main()
    assert list(tree.target.parent.iterdir()) == []


def test_what_is_missing_is_named(monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler -pipe")
    assert tool.what_is_missing() == "C compiler (no-such-compiler)"
    monkeypatch.setenv("CC", "sh")
    monkeypatch.setattr(tool.sysconfig, "get_path", lambda _: "/nowhere")
    assert tool.what_is_missing().startswith("/nowhere/Python.h (")
