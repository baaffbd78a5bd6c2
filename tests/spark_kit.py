"""Spark's own daemons for tests: a standalone master with workers, on this machine, at ports that the kernel gives."""

import os
import re
import subprocess
from contextlib import ExitStack, contextmanager

import pytest

from barnabas.pipelines.java import JavaMissing, find_java
from barnabas.pipelines.jvm import spark_home

STOP_TIMEOUT_S = 60
#: For every Java that starts below, executors among them: none lives long enough for a better compiler.
QUICK = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}


def java_or_skip():
    """The Java that Spark will have."""
    try:
        return find_java()
    except JavaMissing as problem:
        pytest.skip(f"Spark has no Java: {problem}")


def clean_environment():
    """That of whoever runs a program; an archive for quick starts is used and not made."""
    unset = {"JAVA_HOME", "SPARK_REMOTE", "PYSPARK_SUBMIT_ARGS"}
    kept = {name: value for name, value in os.environ.items() if name not in unset}
    return {**kept, "BARNABAS_SPARK_ARCHIVE": "off"}


@contextmanager
def _daemon(log_path, ready, name, *arguments, environment):
    """Run one of Spark's daemons; give what its log matched."""
    command = [spark_home() / "bin/spark-class", name, "--host", "127.0.0.1", "--port", "0", "--webui-port", "0", *arguments]  # fmt: skip
    with log_path.open("w+") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.PIPE, text=True, env=environment)  # fmt: skip
        try:
            for line in process.stderr:
                if found := re.search(ready, line):
                    yield found
                    break
            else:
                pytest.fail(f"{name} ended with {process.wait()}")
        finally:
            process.terminate()
            process.stderr.close()
            process.wait(STOP_TIMEOUT_S)


class Standalone:
    """A master, and how many workers have had something to do."""

    def __init__(self, url, folder):
        self.url, self._folder = url, folder

    @property
    def busy(self):
        """How many workers have started an executor."""
        executors = self._folder.glob("worker-*/app-*/*/stderr")
        return len({each.parents[2] for each in executors})


@contextmanager
def standalone(folder, workers=2):
    """Run a master with workers of one core each."""
    environment = {
        **clean_environment(),
        "JAVA_HOME": str(java_or_skip().home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        **QUICK,
        "SPARK_DAEMON_MEMORY": "256m",
    }
    with ExitStack() as stack:
        told = stack.enter_context(_daemon(folder / "master.log", r"Starting Spark master at (\S+)", "org.apache.spark.deploy.master.Master", environment=environment))  # fmt: skip
        url = told.group(1)
        for number in range(1, workers + 1):
            options = ["-c", "1", "-m", "1g", "-d", str(folder / f"worker-{number}"), url]
            registered = "Successfully registered with master"
            stack.enter_context(_daemon(folder / f"{number}.log", registered, "org.apache.spark.deploy.worker.Worker", *options, environment=environment))  # fmt: skip
        yield Standalone(url, folder)
