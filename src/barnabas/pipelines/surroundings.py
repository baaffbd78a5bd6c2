"""What the code of a project counts on while it runs.

Job: its folder is on the path, here and in workers, and its session is the active one. Must not know what the code does. Everything is as before afterwards: other
projects may run in the same process.
"""

from __future__ import annotations

import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import SparkSession

if TYPE_CHECKING:
    from collections.abc import Iterator

    from barnabas.pipelines.project import Project

#: The path and the active session are the same for every thread of Python.
_ONE_AT_A_TIME: Final = threading.RLock()


@contextmanager
def surroundings(project: Project, spark: SparkSession) -> Iterator[None]:
    """Let code of this project run in this session."""
    with _ONE_AT_A_TIME, importing(project), _workers_import(project, spark), _active(spark):
        yield


@contextmanager
def importing(project: Project) -> Iterator[None]:
    """Put the project's folder first on the path, and forget modules of other projects that have the same names."""
    for file in project.folder.glob("*.py"):
        known = sys.modules.get(file.stem)
        if known is not None and Path(getattr(known, "__file__", None) or file) != file:
            del sys.modules[file.stem]
    sys.path.insert(0, str(project.folder))
    try:
        yield
    finally:
        sys.path.remove(str(project.folder))


@contextmanager
def _workers_import(project: Project, spark: SparkSession) -> Iterator[None]:
    """Functions that are handed to Spark now find the project's modules where they run."""
    environment = spark.sparkContext.environment
    before = environment.get("PYTHONPATH")
    environment["PYTHONPATH"] = str(project.folder)
    try:
        yield
    finally:
        del environment["PYTHONPATH"]
        if before is not None:
            environment["PYTHONPATH"] = before


@contextmanager
def _active(spark: SparkSession) -> Iterator[None]:
    """Make this the session that `SparkSession.active()` gives."""
    before = SparkSession._activeSession
    SparkSession._activeSession = spark
    try:
        with in_this_thread(spark):
            yield
    finally:
        SparkSession._activeSession = before


@contextmanager
def in_this_thread(spark: SparkSession) -> Iterator[None]:
    """Make this the active session of the JVM's thread that belongs to this one: Spark finds data sources through it."""
    jvm: Any = spark._jvm
    sessions = jvm.org.apache.spark.sql.classic.SparkSession
    before = sessions.getActiveSession()
    sessions.setActiveSession(spark._jsparkSession)
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()
