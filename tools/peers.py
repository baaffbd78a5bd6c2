"""Apache Kafka's own jars and a Java runtime, fetched once with Maven, or the reason why not.

Every function returns None when something is missing; `reason()` then says what, for a test to skip with or the
benchmark to stop with. Jars stand in $PEERS_CACHE (default ~/.cache/peers), one folder per thing fetched, which is
complete when it holds `.complete`.
"""

import fcntl
import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
FETCH_TIMEOUT_S = 280
INSTALL_TIMEOUT_S = 900
#: Maven runs for seconds here: what a thorough compiler would gain never pays.
QUICK_MAVEN = {"MAVEN_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
JACKSON = ("com.fasterxml.jackson.core", "jackson-databind", "2.19.2")
# Kafka's distribution adds a log backend that the published pom leaves out.
LOG_BACKENDS = {
    "3": [("org.slf4j", "slf4j-reload4j", "1.7.36")],
    "4": [
        ("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.3"),
        ("org.apache.logging.log4j", "log4j-core", "2.25.3"),
    ],
}

_reasons: list[str] = []


def reason() -> str:
    """Say why the last function that returned None did so."""
    return _reasons[-1] if _reasons else "nothing is missing"


@functools.cache
def java() -> str | None:
    """The `java` command."""
    return _command("java")


@functools.cache
def javac() -> str | None:
    """The `javac` command."""
    return _command("javac")


@functools.cache
def kafka_clients_jar(version: str) -> Path | None:
    """The kafka-clients jar; what it needs (and Jackson, for its JSON converters) stands beside it."""
    wanted = [("org.apache.kafka", "kafka-clients", version), JACKSON]
    lib = _fetched(f"kafka-clients-{version}", wanted)
    return lib / f"kafka-clients-{version}.jar" if lib else None


def kafka_jar(artifact: str, version: str) -> Path | None:
    """One of Kafka's own jars, from where its release is fetched whole."""
    if artifact == "kafka-clients":
        return kafka_clients_jar(version)
    lib = kafka_lib(version)
    return lib / f"{artifact}-{version}.jar" if lib else None


@functools.cache
def kafka_lib(version: str) -> Path | None:
    """The folder with all jars of a Kafka distribution."""
    wanted = [
        ("org.apache.kafka", "kafka_2.13", version),
        ("org.apache.kafka", "kafka-tools", version),
    ]
    return _fetched(f"kafka-{version}", wanted + LOG_BACKENDS[version.partition(".")[0]])


@functools.cache
def zookeeper_lib(version: str = "3.9.5") -> Path | None:
    """The folder with ZooKeeper's server, with what its pom leaves to whoever runs it."""
    wanted = [
        ("org.apache.zookeeper", "zookeeper", version),
        ("io.dropwizard.metrics", "metrics-core", "4.1.12.1"),
        ("org.xerial.snappy", "snappy-java", "1.1.10.5"),
        ("org.slf4j", "slf4j-simple", "2.0.13"),
    ]
    return _fetched(f"zookeeper-{version}", wanted)


@functools.cache
def kafka_streams_lib(version: str) -> Path | None:
    """The folder with Kafka Streams, the clients that it was released with, and RocksDB."""
    wanted = [("org.apache.kafka", "kafka-streams", version)]
    return _fetched(f"kafka-streams-{version}", wanted + LOG_BACKENDS[version.partition(".")[0]])


class OfficialSpark(NamedTuple):
    """A Python that has PySpark, and the jars of Spark's own Kafka connector for it."""

    python: Path
    jars: list[Path]


@functools.cache
def official_spark(version: str = "4.0.0") -> OfficialSpark | None:
    """PySpark in an environment of its own, with the connector that was released with it."""
    lib = _fetched(
        f"spark-sql-kafka-{version}",
        [("org.apache.spark", "spark-sql-kafka-0-10_2.13", version)],
    )
    python = _environment(f"pyspark-{version}", [f"pyspark=={version}"]) if lib else None
    if lib is None or python is None:
        return None
    # What the connector needs beyond the jars that PySpark has itself.
    names = ("spark-sql-kafka-*", "spark-token-provider-kafka-*", "kafka-clients-*", "commons-pool2-*")  # fmt: skip
    return OfficialSpark(python, sorted(jar for name in names for jar in lib.glob(f"{name}.jar")))


def _environment(name: str, packages: list[str]) -> Path | None:
    """A virtual environment with these packages: its Python."""
    home = _cache() / name
    python = home / "venv/bin/python"
    home.mkdir(parents=True, exist_ok=True)
    with _locked(home / ".lock"):
        if not (home / ".complete").exists() and not _install(home, name, packages):
            return None
    return python


def _install(home: Path, name: str, packages: list[str]) -> bool:
    pip = [str(home / "venv/bin/python"), "-m", "pip", "install", "--quiet"]
    steps = [[sys.executable, "-m", "venv", "--clear", str(home / "venv")], [*pip, *packages]]
    try:
        for step in steps:
            subprocess.run(
                step, check=True, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S
            )
    except subprocess.CalledProcessError as error:
        _missing(f"pip could not install {name}: {error.stderr.strip()[-400:]}")
        return False
    except subprocess.TimeoutExpired:
        _missing(f"pip did not install {name} within {INSTALL_TIMEOUT_S} s")
        return False
    (home / ".complete").touch()
    return True


def _cache() -> Path:
    return Path(os.environ.get("PEERS_CACHE") or Path.home() / ".cache/peers")


def _command(name: str) -> str | None:
    return shutil.which(name) or _missing(f"{name} is not installed")


def _missing(why: str) -> None:
    _reasons.append(why)


def _fetched(name: str, wanted: list[tuple[str, str, str]]) -> Path | None:
    home = _cache() / name
    if (home / ".complete").exists():
        return home / "lib"
    if _command("mvn") is None:
        return None
    home.mkdir(parents=True, exist_ok=True)
    with _locked(home / ".lock"):
        if not (home / ".complete").exists() and not _fetch(home, name, wanted):
            return None
    return home / "lib"


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Keep processes that run side by side from fetching the same thing twice."""
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fetch(home: Path, name: str, wanted: list[tuple[str, str, str]]) -> bool:
    (home / "pom.xml").write_text(_pom(name, wanted))
    goal = [COPY, "-DincludeScope=runtime", f"-DoutputDirectory={home / 'lib'}"]
    try:
        subprocess.run(
            ["mvn", "-B", "-q", "-f", str(home / "pom.xml"), *goal],
            check=True,
            capture_output=True,
            text=True,
            timeout=FETCH_TIMEOUT_S,
            env={**QUICK_MAVEN, **os.environ},
        )
    except subprocess.CalledProcessError as error:
        _missing(f"Maven could not fetch {name}: {(error.stdout + error.stderr).strip()[-400:]}")
        return False
    except subprocess.TimeoutExpired:
        _missing(f"Maven did not fetch {name} within {FETCH_TIMEOUT_S} s")
        return False
    (home / ".complete").touch()
    return True


def _pom(name: str, wanted: list[tuple[str, str, str]]) -> str:
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version></dependency>"
        for group, artifact, version in wanted
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        f"<groupId>peers</groupId><artifactId>{name}</artifactId><version>1</version><packaging>pom</packaging>"
        f"<dependencies>{dependencies}</dependencies></project>"
    )
