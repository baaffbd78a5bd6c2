"""What a session is started with. Nothing is started."""

import socket

import pytest

from barnabas.pipelines.java import Java
from barnabas.pipelines.jvm import MAIN, CannotStart, Jvm, jars
from barnabas.pipelines.master import check_master, default_master, is_local
from barnabas.pipelines.spark_session import settings_of
from barnabas.pipelines.start_archive import SWITCH, Archive, make_at_exit


@pytest.mark.parametrize(
    ("master", "local"),
    [
        ("local[*]", True),
        ("spark://127.0.0.1:7077", True),
        ("spark://localhost:7077,127.0.0.1:7078", True),
        ("spark://head:7077", False),
        ("spark://localhost:7077,head:7077", False),
        ("yarn", False),
    ],
)
def test_what_runs_on_this_machine(master, local):
    assert is_local(master) is local
    assert ("spark.driver.host" in settings_of("x", master, {})) is local


@pytest.mark.parametrize(
    "master", ["local", "local[4]", "local[*, 2]", "local-cluster[2,1,1024]", "yarn", "k8s://https://a:6443", "sc://a:15002"]
)  # fmt: skip
def test_masters_that_spark_knows_are_left_to_it(master):
    check_master(master)


@pytest.mark.parametrize(
    ("master", "sentence"),
    [
        ("nonsense", "'nonsense' is no master of Spark: it can be local"),
        ("local[x]", "'local[x]' is no master of Spark"),
        ("spark://head", "'spark://head' is no master of Spark: write it as spark://HOST:PORT"),
        ("spark://[::1", "write it as spark://HOST:PORT"),
        ("spark://a:b", "write it as spark://HOST:PORT"),
    ],
)
def test_what_is_no_master_is_told_at_once(master, sentence):
    with pytest.raises(CannotStart) as told:
        check_master(master)
    assert sentence in str(told.value)


def test_one_of_several_masters_has_to_answer():
    with socket.socket() as unheard, socket.create_server(("127.0.0.1", 0)) as heard:
        unheard.bind(("127.0.0.1", 0))  # and not listening: nobody can take the port meanwhile
        first, second = (f"127.0.0.1:{each.getsockname()[1]}" for each in (unheard, heard))
        check_master(f"spark://{first},{second}")
        with pytest.raises(
            CannotStart, match=f"no Spark master answers at spark://{first} .*refused"
        ):
            check_master(f"spark://{first}")


def test_settings_of_the_program_win():
    settings = settings_of(
        "x", "local[2]", {"spark.ui.enabled": "true", "spark.sql.shuffle.partitions": "7"}
    )
    assert settings["spark.ui.enabled"] == "true"
    assert settings["spark.sql.shuffle.partitions"] == "7"
    assert settings["spark.sql.execution.arrow.pyspark.enabled"] == "true"


def test_the_environment_names_the_master(monkeypatch):
    for name in ("BARNABAS_SPARK_MASTER", "SPARK_REMOTE"):
        monkeypatch.delenv(name, raising=False)
    assert default_master() == "local[*]"
    monkeypatch.setenv("SPARK_REMOTE", "sc://a")
    assert default_master() == "sc://a"
    monkeypatch.setenv("BARNABAS_SPARK_MASTER", "spark://b:7077")
    assert default_master() == "spark://b:7077"


@pytest.fixture
def java(tmp_path, monkeypatch):
    """A runtime that was built with an archive of its own classes; nothing of it runs."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    home = tmp_path / "jdk"
    (home / "bin").mkdir(parents=True)
    (home / "bin/java").touch()
    (home / "lib/server").mkdir(parents=True)
    (home / "lib/server/classes.jsa").touch()
    return Java(home, home / "bin/java", "17.0.1")


def test_the_command_line(java):
    settings = {
        "spark.driver.memory": "3g",
        "spark.driver.extraJavaOptions": '-Da="b c"',
        "spark.driver.extraClassPath": "/x.jar",
    }
    command = Jvm(java, settings, ["-XX:TieredStopAtLevel=1"]).command("pyspark-shell")
    assert command[:2] == [str(java.command), "-Xmx3g"]
    assert {"-Da=b c", "-XX:TieredStopAtLevel=1"} < set(command[: command.index("-cp")])
    assert command[command.index("-cp") + 1].startswith("/x.jar:")
    assert command[command.index(MAIN) + 1 :][:2] == ["--conf", "spark.driver.memory=3g"]
    assert command[-1] == "pyspark-shell"
    assert jars()[0].name.startswith("slf4j-api-")


def test_an_archive_is_used_when_it_is_there(java):
    archive = Archive(java)
    assert archive.options() == []
    archive.path.parent.mkdir(parents=True)
    archive.path.touch()
    assert archive.options()[0] == f"-XX:SharedArchiveFile={archive.path}"


def test_another_java_has_another_archive(java):
    newer = Java(java.home, java.command, "17.0.2")
    assert Archive(newer).path != Archive(java).path


@pytest.mark.parametrize(("version", "possible"), [("21.0.1", False), ("25.0.2", True)])
def test_a_runtime_without_an_archive_of_its_own_needs_java_25(java, version, possible, tmp_path):
    (java.home / "lib/server/classes.jsa").unlink()
    archive = Archive(Java(java.home, java.command, version))
    assert archive.is_possible is possible
    if possible:
        assert archive.making_options(tmp_path / "x")[0] == f"-XX:AOTCacheOutput={tmp_path / 'x'}"


def test_making_can_be_switched_off(java, monkeypatch):
    asked = []
    monkeypatch.setattr("atexit.register", asked.append)
    monkeypatch.setenv(SWITCH, "off")
    make_at_exit(Archive(java))
    assert asked == []
    monkeypatch.delenv(SWITCH)
    make_at_exit(Archive(java))
    assert len(asked) == 1
