"""What the machine lets a run do: open files, cores, the page cache.

Changes only this process and those that it is given; what it starts later inherits it.
"""

from __future__ import annotations

import os
import resource
import shutil
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from bench.measure import CORES

if TYPE_CHECKING:
    from collections.abc import Iterator

DROP_CACHES = Path("/proc/sys/vm/drop_caches")
BROKER_CORE, CLIENT_CORE = 0, 1


def allow_open_files() -> int:
    """Raise the limit on open files as far as this user may, for us and all that we start; give it."""
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def free_gb() -> float:
    """Room on the disk that takes the brokers' data, in 10^9 bytes."""
    return shutil.disk_usage(tempfile.gettempdir()).free / 1e9


def may_empty_page_cache() -> bool:
    """Whether this user may: only root."""
    return os.access(DROP_CACHES, os.W_OK)


def empty_page_cache() -> None:
    """Write everything out and let the kernel forget it."""
    os.sync()
    DROP_CACHES.write_text("1\n")


def can_pin() -> bool:
    """Whether broker and client can have a core each."""
    return CORES > 1 and {BROKER_CORE, CLIENT_CORE} <= os.sched_getaffinity(0)


@contextmanager
def pinned(broker_pid: int) -> Iterator[None]:
    """Keep a broker on one core, and this process with the clients that it starts on another."""
    own = os.sched_getaffinity(0)
    pin_threads(broker_pid, {BROKER_CORE})
    os.sched_setaffinity(0, {CLIENT_CORE})
    try:
        yield
    finally:
        os.sched_setaffinity(0, own)
        with suppress(OSError):
            pin_threads(broker_pid, own)


def pin_threads(pid: int, cores: set[int]) -> None:
    """Move every thread of a process; threads that it starts later follow the one that starts them."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(ProcessLookupError):
            os.sched_setaffinity(int(task.name), cores)
