"""A Spark Connect server that stays warm: programs get a session of it in a second.

Job: start one, wait until a first query has run on it, stop it. Must not know who uses it. Invariant: the server ends with the process that started it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Final

from pyspark.sql.connect.session import SparkSession

from barnabas.pipelines.java import find_java
from barnabas.pipelines.jvm import CannotStart, Jvm
from barnabas.pipelines.master import check_master, is_local
from barnabas.pipelines.spark_session import settings_of
from barnabas.pipelines.start_archive import Archive, make_at_exit
from barnabas.runtime.zookeeper_server import end_with_parent

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_PORT: Final = 15002
START_TIMEOUT_S: Final = 180.0
STOP_TIMEOUT_S: Final = 20.0
_MAIN: Final = "org.apache.spark.sql.connect.service.SparkConnectServer"
_POLL_S: Final = 0.05


class ConnectServer:
    """One server on this machine."""

    def __init__(self, host: str, port: int, master: str, config: Mapping[str, str]) -> None:
        """Find Java and a port; CannotStart if somebody has it, or there is no such master."""
        check_master(master)
        self.host, self.port = host, _free_port(host, port)
        self._java = find_java()
        self._archive = Archive(self._java)
        settings = settings_of("barnabas spark up", master, config)
        settings["spark.connect.grpc.binding.address"] = host
        settings["spark.connect.grpc.binding.port"] = str(self.port)
        environment = {"PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable)}
        if is_local(master):
            environment["SPARK_LOCAL_IP"] = "127.0.0.1"
        self._jvm = Jvm(self._java, settings, self._archive.options(), environment)
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """What programs give as their master."""
        return f"sc://{self.host}:{self.port}"

    def start(self) -> None:
        """Start, and return when a query has run on it; CannotStart if it ends or takes too long."""
        self.process = self._jvm.start(
            "--class", _MAIN, "spark-internal", ends_with=end_with_parent
        )
        try:
            self._wait_until_it_accepts(time.monotonic() + START_TIMEOUT_S)
            self._warm_up()
        except BaseException:
            self.stop()
            raise
        make_at_exit(self._archive)

    def _wait_until_it_accepts(self, deadline_s: float) -> None:
        assert self.process is not None
        while True:
            with contextlib.suppress(OSError), socket.create_connection((self.host, self.port), 1):
                return
            if self.process.poll() is not None:
                raise CannotStart(f"the Spark Connect server ended with {self.process.returncode}; what it said went to standard error")  # fmt: skip
            if time.monotonic() > deadline_s:
                raise CannotStart(f"the Spark Connect server did not start within {START_TIMEOUT_S:.0f} s")  # fmt: skip
            time.sleep(_POLL_S)

    def _warm_up(self) -> None:
        """Run what every program runs first, so that the first one does not pay for it."""
        spark = SparkSession.builder.remote(self.url).create()
        try:
            spark.range(100).selectExpr("id % 3 AS k").groupBy("k").count().collect()
        finally:
            spark.stop()

    def stop(self) -> None:
        """End it in order, or by force if it does not end."""
        if self.process is None:
            return
        if self.process.stdin is not None:
            self.process.stdin.close()
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def _free_port(host: str, port: int) -> int:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.create_server((host, port), family=family) as taken:
            return int(taken.getsockname()[1])
    except OSError as problem:
        # Python adds the address, which is told already.
        why = str(problem.strerror).partition(" (while")[0]
        raise CannotStart(f"cannot listen on {host}:{port}: {why}") from None
