"""A PostgreSQL server for as long as a block runs: one process, a folder of its own, no port (it listens on a socket file).

For tests and the benchmark: what it holds is not synced, and gone afterwards.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

#: For a start, and for an end, on a machine with much else to do.
PATIENCE_S = 120


class NoPostgres(Exception):
    """There is none on this machine; says what would help."""


def programs() -> Path | None:
    """Where PostgreSQL's programs are: on the path, or where Debian puts them."""
    found = shutil.which("initdb")
    folders = [Path(found).resolve().parent] if found else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((each for each in folders if (each / "postgres").exists()), None)


@contextlib.contextmanager
def postgres() -> Iterator[str]:
    """Start a server; yields the words to connect with."""
    folder = programs()
    if folder is None:
        raise NoPostgres("PostgreSQL is not installed (Debian: apt-get install postgresql)")
    home = Path(tempfile.mkdtemp(prefix="barnabas-postgres-"))
    try:
        who = _owner(home)
        made = [folder / "initdb", "-D", home / "data", "-U", "tester", "-A", "trust", "-N", "-E", "UTF8", "--locale=C"]  # fmt: skip
        subprocess.run(made, check=True, capture_output=True, cwd="/", **who)
        command = [folder / "postgres", "-D", home / "data", "-k", home, "-c", "listen_addresses=", "-c", "fsync=off"]  # fmt: skip
        with _running(command, who):
            yield f"host={home} user=tester dbname=postgres"
    finally:
        shutil.rmtree(home)


@contextlib.contextmanager
def _running(command: list[str | Path], who: dict[str, Any]) -> Iterator[None]:
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd="/", **who) as process:
        try:
            with _killed_after(process):
                lines = process.stderr or ()
                if not any("ready to accept connections" in line for line in lines):
                    raise NoPostgres("PostgreSQL ended before it was ready")
            yield
        finally:
            process.terminate()
            with _killed_after(process):
                process.communicate()


@contextlib.contextmanager
def _killed_after(process: subprocess.Popen[str]) -> Iterator[None]:
    """Whoever waits for the process meanwhile sees its end then."""
    timer = threading.Timer(PATIENCE_S, process.kill)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _owner(home: Path) -> dict[str, Any]:
    """PostgreSQL does not run as root: then it runs as the user of its package."""
    if os.geteuid() != 0:
        return {}
    try:
        user = pwd.getpwnam("postgres")
    except KeyError:
        user = pwd.getpwnam("nobody")
    os.chown(home, user.pw_uid, user.pw_gid)
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
