"""When the copy is made anew, and when it is compiled again; the compiler itself is not run here."""

import subprocess
from mmap import ACCESS_READ, mmap
from pathlib import Path
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
    for name, value in {
        "ROOT": tmp_path,
        "SOURCE": source,
        "BUILD": tmp_path / "build",
        "__file__": str(tmp_path / "requirements.lock"),
        "what_is_missing": lambda: "",
    }.items():
        monkeypatch.setattr(tool, name, value)
    runs = []

    def compile_in(fresh):
        runs.append(fresh)
        (fresh / "barnabas/core/rule.so").write_text(str(len(runs)))

    monkeypatch.setattr(tool, "compile_in", compile_in)
    return SimpleNamespace(source=source, build=tmp_path / "build", runs=runs)


@pytest.fixture
def made(tree, capsys):
    """Run the tool: where it says that the copy is."""

    def run():
        capsys.readouterr()
        tool.main()
        return Path(capsys.readouterr().out.strip())

    return run


def copies(tree):
    return sorted(tree.build.glob("compiled*"))


def library(copy):
    return (copy / "barnabas/core/rule.so").read_text()


def test_a_copy_of_the_source_as_it_is_stays(tree, made):
    copy = made()
    before = copy.stat()
    assert made() == copy
    assert copy.stat() == before
    assert len(tree.runs) == 1
    assert (copy / "barnabas/cli/command.py").read_text() == "x = 1\n"


def test_what_compiled_code_does_not_look_at_is_only_copied(tree, made):
    first = made()
    (tree.source / "cli/command.py").write_text("x = 2\n")
    (tree.source / "ports.py").touch()
    copy = made()
    assert copy != first
    assert (copy / "barnabas/cli/command.py").read_text() == "x = 2\n"
    assert library(copy) == "1"


@pytest.mark.parametrize(
    "name", ["core/rule.py", "ports.py", "wire/new.py", "../../requirements.lock"]
)
def test_what_it_takes_into_itself_is_compiled_again(tree, made, name):
    made()
    (tree.source / name).parent.mkdir(exist_ok=True)
    (tree.source / name).write_text("x = 2\n")
    (tree.source / "cli/command.py").write_text("x = 2\n")
    assert library(made()) == "2"


def test_a_module_that_is_gone_is_gone_from_the_copy(tree, made):
    made()
    (tree.source / "cli/command.py").unlink()
    assert not (made() / "barnabas/cli/command.py").exists()


def test_the_copy_that_a_process_runs_stays_as_it_is(tree, made, monkeypatch):
    first = made()
    (tree.source / "core/rule.py").write_text("x = 2\n")
    monkeypatch.setattr(tool, "is_used", lambda copy: copy == first)
    second = made()
    assert copies(tree) == sorted([first, second])
    assert library(first) == "1"
    monkeypatch.setattr(tool, "is_used", lambda _: False)
    (tree.source / "core/rule.py").write_text("x = 3\n")
    third = made()
    assert copies(tree) == [third]


def test_a_library_that_is_loaded_tells_that_its_copy_is_used(tmp_path):
    assert not tool.is_used(tmp_path)
    (tmp_path / "lib.so").write_bytes(bytes(4096))
    with (tmp_path / "lib.so").open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ):
        assert tool.is_used(tmp_path)
    assert not tool.is_used(tmp_path)


def test_what_editors_leave_beside_modules_is_left_out(tree, made):
    (tree.source / "core/.#rule.py").symlink_to("somebody@somewhere.1:2")
    (tree.source / "core/__pycache__").mkdir()
    assert sorted(each.name for each in (made() / "barnabas/core").iterdir()) == [
        "rule.py",
        "rule.so",
    ]


def test_what_was_left_by_one_that_was_killed_is_no_hindrance(tree, made):
    (tree.build / "compiling/barnabas").mkdir(parents=True)
    assert library(made()) == "1"
    assert not (tree.build / "compiling").exists()


def test_without_a_compiler_there_is_no_copy_and_that_is_told(tree, monkeypatch, capsys):
    tool.main()
    (tree.source / "core/rule.py").write_text("x = 2\n")
    monkeypatch.setattr(tool, "what_is_missing", lambda: "C compiler (cc)")
    capsys.readouterr()
    tool.main()
    out, err = capsys.readouterr()
    assert out == "", "that of another source must not be run"
    assert "there is no C compiler (cc)" in err


def test_what_the_compiler_says_is_told_and_nothing_is_left(tree, monkeypatch):
    failed = subprocess.CompletedProcess([], 1, stdout="error: no\n", stderr="")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: failed)
    monkeypatch.setattr(tool, "compile_in", COMPILE_IN)
    with pytest.raises(SystemExit, match="error: no\n\nnot compiled"):
        tool.main()
    assert [each.name for each in tree.build.iterdir()] == [".lock"]


def test_what_is_missing_is_named(monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler -pipe")
    assert tool.what_is_missing() == "C compiler (no-such-compiler)"
    monkeypatch.setenv("CC", "sh")
    monkeypatch.setattr(tool.sysconfig, "get_path", lambda _: "/nowhere")
    assert tool.what_is_missing().startswith("/nowhere/Python.h (")
