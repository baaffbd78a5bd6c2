"""A PostgreSQL server for tests: one process, a folder of its own, no port (it listens on a socket file)."""

import contextlib
import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path

import psycopg
import pytest
from process_kit import killed_after


def programs():
    """Where PostgreSQL's programs are: on the path, or where Debian puts them."""
    found = shutil.which("initdb")
    folders = [Path(found).resolve().parent] if found else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((each for each in folders if (each / "postgres").exists()), None)


@contextlib.contextmanager
def postgres():
    """Start a server; yields the words to connect with."""
    folder = programs()
    if folder is None:
        pytest.skip("PostgreSQL is not installed (Debian: apt-get install postgresql)")
    home = Path(tempfile.mkdtemp(prefix="barnabas-postgres-"))
    who = _owner(home)
    data = home / "data"
    try:
        made = [
            folder / "initdb",
            "-D",
            data,
            "-U",
            "tester",
            "-A",
            "trust",
            "-N",
            "-E",
            "UTF8",
            "--locale=C",
        ]
        subprocess.run(made, check=True, capture_output=True, cwd="/", **who)
        command = [
            folder / "postgres",
            "-D",
            data,
            "-k",
            home,
            "-c",
            "listen_addresses=",
            "-c",
            "fsync=off",
        ]
        with subprocess.Popen(
            command, stderr=subprocess.PIPE, text=True, cwd="/", **who
        ) as process:
            try:
                with killed_after(process):
                    assert any("ready to accept connections" in line for line in process.stderr)
                yield f"host={home} user=tester dbname=postgres"
            finally:
                process.terminate()
                with killed_after(process):
                    process.communicate()
    finally:
        shutil.rmtree(home)


def _owner(home):
    """PostgreSQL does not run as root: then it runs as the user of its package."""
    if os.geteuid() != 0:
        return {}
    try:
        user = pwd.getpwnam("postgres")
    except KeyError:
        user = pwd.getpwnam("nobody")
    os.chown(home, user.pw_uid, user.pw_gid)
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def rows(url, statement, *values):
    """Ask once."""
    with psycopg.connect(url) as connection:
        return connection.execute(statement, values).fetchall()
