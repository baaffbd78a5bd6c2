"""The Java process behind a driver or a Connect server: its command line, its start and its end.

Job: start Spark's own main class directly. Spark's scripts start a second JVM first, only to work this command line out. Must not know
what the session is for. Invariant: the process ends with the Python that started it, however that ends (its stdin closes).
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shlex
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from barnabas.pipelines.java import cache_folder, feature_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from barnabas.pipelines.java import Java

MAIN: Final = "org.apache.spark.deploy.SparkSubmit"
#: What pyspark names as its program when it asks for a gateway.
SHELL: Final = "pyspark-shell"
START_TIMEOUT_S: Final = 120.0
STOP_TIMEOUT_S: Final = 20.0
_POLL_S: Final = 0.02
#: The packages of java.base that Spark reaches into, as its own launcher opens them.
_OPENED: Final = (
    "java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio", "java.util",
    "java.util.concurrent", "java.util.concurrent.atomic", "jdk.internal.ref", "sun.nio.ch", "sun.nio.cs",
    "sun.util.calendar",
)  # fmt: skip
#: It is gone since Java 24, which warns of it.
_OPENED_BEFORE_24: Final = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"
_ALWAYS: Final = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED),
    "--add-opens=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
    "--sun-misc-unsafe-memory-access=allow",
    "--enable-native-access=ALL-UNNAMED",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "-Dio.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
    "-Dderby.connection.requireAuthentication=false",
)
#: Errors in one line each; whoever wants warnings and traces sets the level of the session.
_LOGGING: Final = """rootLogger.level=error
rootLogger.appenderRef.console.ref=console
appender.console.type=Console
appender.console.name=console
appender.console.target=SYSTEM_ERR
appender.console.layout.type=PatternLayout
appender.console.layout.pattern=%d{HH:mm:ss} %p %c{1}: %m%n%ex{none}
# Else it tells what it sets the level to.
logger.gateway.name=org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level=error
# A listener in Python cannot be called any more once Python has ended.
logger.listeners.name=org.apache.spark.sql.execution.streaming.runtime.StreamingQueryListenerBus
logger.listeners.level=off
# A query that is stopped in the middle of a batch is no error; one that fails says so itself.
logger.writes.name=org.apache.spark.sql.execution.datasources.v2.WriteToDataSourceV2Exec
logger.writes.level=off
"""


class CannotStart(RuntimeError):
    """The JVM ended or said nothing; the text says what was found."""


@dataclass(frozen=True)
class Jvm:
    """What to start: the runtime, the session's settings, and options of the virtual machine."""

    java: Java
    settings: Mapping[str, str]
    options: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)

    def command(self, *program: str) -> list[str]:
        """Give the command line that runs this program of Spark's with the settings."""
        memory = self.settings.get("spark.driver.memory", "1g")
        extra = shlex.split(self.settings.get("spark.driver.extraJavaOptions", ""))
        confs = [word for name, value in self.settings.items() for word in ("--conf", f"{name}={value}")]  # fmt: skip
        old = [_OPENED_BEFORE_24] if feature_of(self.java.version) < 24 else []
        return [
            str(self.java.command), f"-Xmx{memory}", *_ALWAYS, *old, f"-Dlog4j2.configurationFile={_logging()}",
            *self.options, *extra, "-cp", self._class_path(), MAIN, *confs, *program,
        ]  # fmt: skip

    def _class_path(self) -> str:
        extra = self.settings.get("spark.driver.extraClassPath")
        return os.pathsep.join([*([extra] if extra else []), *map(str, jars())])

    def start(
        self, *program: str, ends_with: Callable[[], None] | None = None, **more: str
    ) -> subprocess.Popen[bytes]:
        """Start it, with more variables in its environment. Ctrl-C is for Python alone; a gateway ends when its stdin closes.

        `ends_with` is run in the new process, for a program that does not look at its stdin.
        """
        environment = {
            **os.environ,
            **self.environment,
            **more,
            "JAVA_HOME": str(self.java.home),
            "SPARK_CONNECT_MODE": "0",
        }
        # With it every Python worker would import pyspark from a zip, and compile it each time: that takes a second of CPU, three times
        # as much as its start otherwise, and Spark gives up on a worker that takes ten seconds.
        environment.pop("SPARK_HOME", None)
        return subprocess.Popen(  # noqa: S603 - the command is ours
            self.command(*program),
            stdin=subprocess.PIPE,
            env=environment,
            start_new_session=True,
            preexec_fn=ends_with,
        )


@dataclass(frozen=True)
class Gateway:
    """A driver's JVM that waits for pyspark to connect."""

    process: subprocess.Popen[bytes]
    port: int
    secret: str


def start_gateway(jvm: Jvm, meanwhile: Callable[[], None]) -> Gateway:
    """Start a JVM for pyspark to connect to, and do something else while it starts; CannotStart if it ends or says nothing."""
    folder = Path(tempfile.mkdtemp())
    told = folder / "gateway"
    process = jvm.start(SHELL, _PYSPARK_DRIVER_CONN_INFO_PATH=str(told))
    try:
        meanwhile()
        _wait_for(told, process)
        port, secret = _read_told(told.read_bytes())
        return Gateway(process, port, secret)
    except BaseException:
        stop(process)
        raise
    finally:
        shutil.rmtree(folder)


def _read_told(data: bytes) -> tuple[int, str]:
    """Read the port and the secret, as Spark writes them: an integer, then a text with its length before it."""
    return int.from_bytes(data[:4]), data[8 : 8 + int.from_bytes(data[4:8])].decode()


def _wait_for(told: Path, process: subprocess.Popen[bytes]) -> None:
    deadline_s = time.monotonic() + START_TIMEOUT_S
    while not told.exists():
        if process.poll() is not None:
            raise CannotStart(
                f"Spark's JVM ended with {process.returncode} while it started: what it said went to standard error"
            )
        if time.monotonic() > deadline_s:
            raise CannotStart(f"Spark's JVM did not start within {START_TIMEOUT_S:.0f} s")
        time.sleep(_POLL_S)


def stop(process: subprocess.Popen[bytes], timeout_s: float = STOP_TIMEOUT_S) -> None:
    """Let the process end in order, or by force if it does not."""
    if process.stdin is not None:
        with contextlib.suppress(OSError):
            process.stdin.close()
    try:
        process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def spark_home() -> Path:
    """Where the pyspark package is: its jars and programs stand there. It is not imported: that takes as long as half a JVM's start."""
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        raise ModuleNotFoundError(
            "No module named 'pyspark': pip install 'barnabas[spark]'", name="pyspark"
        )
    return Path(found.origin).parent


def jars() -> list[Path]:
    """Spark's jars in an order that never changes, which a class archive needs; the logging front first, as Spark has it."""
    found = sorted((spark_home() / "jars").glob("*.jar"))
    return sorted(found, key=lambda jar: not jar.name.startswith("slf4j-api-"))


def _logging() -> Path:
    path = cache_folder() / "spark-log4j2.properties"
    if not path.is_file() or path.read_text() != _LOGGING:
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_suffix(f".{os.getpid()}")
        new.write_text(_LOGGING)
        new.replace(path)
    return path
