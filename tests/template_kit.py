"""Templates of pipelines in tests: a copy as a user gets it, with its own modules importable as long as it is used, and run as users run it."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from spark_kit import QUICK

import barnabas.pipelines
from barnabas.pipelines.project import Project

#: Several starts of Java on a machine with much else to do.
TIMEOUT_S = 900
TEMPLATES = Path(barnabas.pipelines.__file__).parent / "templates"


@contextlib.contextmanager
def template(name, folder):
    """Copy a template into a folder, and open it."""
    home = folder / name
    shutil.copytree(
        TEMPLATES / name, home, ignore=shutil.ignore_patterns("__pycache__", ".barnabas")
    )
    modules = {each.stem for each in home.glob("*.py")}
    _forget(modules)
    sys.path.insert(0, str(home))
    try:
        yield Project.open(home)
    finally:
        sys.path.remove(str(home))
        _forget(modules)


def _forget(modules):
    """Every template has a module `functions`: one must not be taken for another."""
    for each in modules:
        sys.modules.pop(each, None)


def run_command(project, bootstrap, runner, settings, master="local[2]"):
    """`barnabas pipeline run`, with so few partitions as so little needs; `runner` is --once or --continuous."""
    command = [sys.executable, "-m", "barnabas.cli.main", "pipeline", "run", str(project.folder)]
    command += [runner, "--master", master, "--bootstrap", bootstrap]
    for name, value in {"spark.sql.shuffle.partitions": "2", **settings}.items():
        command += ["--set", f"{name}={value}"]
    return command


def _environment():
    """For a Java that compiles quickly and not well: none here lives long."""
    return {**os.environ, "BARNABAS_SPARK_ARCHIVE": "off", **QUICK}


def run_to_the_end(project, bootstrap, settings, master="local[2]"):
    """Run it with Spark's own runner; gives what that said."""
    command = run_command(project, bootstrap, "--once", settings, master)
    done = subprocess.run(command, env=_environment(), capture_output=True, text=True, timeout=TIMEOUT_S, check=False)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class Running:
    """A pipeline that goes on."""

    def __init__(self, project, bootstrap, settings, master="local[2]"):
        often = {"barnabas.trigger.interval": "1 second", "barnabas.refresh.seconds": "3"}
        self._command = run_command(project, bootstrap, "--continuous", often | settings, master)
        self._log = project.folder / "run.log"
        self.start()

    def start(self):
        """Go on, or begin."""
        with self._log.open("a") as output:
            self._process = subprocess.Popen(
                self._command,
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
                env=_environment(),
            )

    def members(self, word):
        """Processes that it started, or that those started, whose command has this word."""
        parents, commands = {}, {}
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                commands[int(folder.name)] = (folder / "cmdline").read_text()
                told = (folder / "stat").read_text().rpartition(")")[2].split()
                parents[int(folder.name)] = int(told[1])
        family, added = set(), {self._process.pid}
        while added:
            family |= added
            added = {each for each, parent in parents.items() if parent in family} - family
        return sorted(each for each in family if word in commands.get(each, ""))

    def kill_worker(self, rng):
        """One of the processes that tasks run in; False if there is none."""
        workers = self.members("pyspark.daemon")
        for worker in rng.sample(workers, len(workers)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker, signal.SIGKILL)
                return True
        return False

    def kill(self):
        """Kill the driver, without a goodbye: what it started ends with it."""
        self._process.kill()
        self._process.wait(60)

    @property
    def has_ended(self):
        """Did it give up by itself?"""
        return self._process.poll() is not None
