"""What the commands share that work on a directory and not on a broker: its lock, a bar, the output's form.

One job: the edges of such a command. Must not know what is in a directory.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING, Any

import click

from barnabas.cli.failure import Failure
from barnabas.cli.options import typed_output
from barnabas.cli.output import FORMATS
from barnabas.runtime.directory_lock import DirectoryInUse, DirectoryLock, lock_directory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LOCK_FILE = ".lock"


def _output(ctx: click.Context, _param: click.Parameter, value: str | None) -> str:
    return value or typed_output(ctx) or "table"


def output_option(*formats: str) -> Callable[[Any], Any]:
    """`-o`, for commands without a connection."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(formats or FORMATS),
        callback=_output,
        help="Output. [default table]",
    )


def is_locked(directory: str) -> bool:
    """Tell whether a broker runs on a directory. Makes no file: a directory without a lock has no broker."""
    if not os.path.exists(os.path.join(directory, LOCK_FILE)):
        return False
    try:
        lock_directory(directory).release()
    except DirectoryInUse:
        return True
    except OSError:
        return False  # not ours to open, so not ours to tell
    return False


def take_lock(directory: str) -> DirectoryLock:
    """Hold a directory against brokers; a Failure says that one runs there."""
    try:
        return lock_directory(directory)
    except DirectoryInUse:
        raise Failure(
            f"a broker is running on {directory}", "stop it first; nothing was changed"
        ) from None


@contextlib.contextmanager
def progress(size_bytes: int, label: str) -> Iterator[Callable[[int], None]]:
    """A bar on a terminal; else nothing."""
    if not size_bytes or not sys.stderr.isatty():
        yield lambda _: None
        return
    with click.progressbar(length=size_bytes, label=label, file=sys.stderr) as bar:
        yield bar.update
