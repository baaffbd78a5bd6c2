"""What is known of a project's run from outside: who runs it, and what it last said.

Job: DIR/.barnabas/run.lock, held by the process that runs the project as long as it lives, and DIR/.barnabas/status.json, whole at any moment. Must not know Spark. A
process that was killed holds no lock, and has not said that it ended: that is how it is told from one that was stopped.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from barnabas.pipelines.problem import PipelineProblem
from barnabas.pipelines.project import SPEC_NAMES, STATE
from barnabas.runtime.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

CONTINUOUS: Final = "continuous"
ONCE: Final = "once"
#: What a run does. A process says of itself all but the last, which is told of one that is gone without a word.
STARTING: Final = "starting"
RUNNING: Final = "running"
STOPPED: Final = "stopped"
FAILED: Final = "failed"
DIED: Final = "died"
_ENDS: Final = (STOPPED, FAILED)
_LOCK: Final = "run.lock"
_STATUS: Final = "status.json"
_POLL_S: Final = 0.1


@contextlib.contextmanager
def running(state: Path) -> Iterator[None]:
    """Hold the project for this process; PipelineProblem if another runs it."""
    state.mkdir(parents=True, exist_ok=True)
    with (state / _LOCK).open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PipelineProblem(f"{state.parent} runs already, as process {runner_of(state)}: barnabas pipeline stop ends it") from None  # fmt: skip
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def runner_of(state: Path) -> int | None:
    """Give the process that runs the project; None if none does."""
    try:
        with (state / _LOCK).open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                text = file.read()
                return int(text) if text else None
    except FileNotFoundError:
        pass
    return None


def stop(state: Path, timeout_s: float) -> int | None:
    """Ask the process that runs the project to stop, and wait for it; None if none ran. TimeoutError if it goes on."""
    pid = runner_of(state)
    if pid is None:
        return None
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + timeout_s
    while runner_of(state) == pid:
        if time.monotonic() > deadline:
            raise TimeoutError(f"process {pid} goes on after {timeout_s:g} s")
        time.sleep(_POLL_S)
    return pid


def write_status(
    state: Path, name: str, runner: str, flows: Sequence[Mapping[str, Any]], started: str, run: str = RUNNING
) -> None:  # fmt: skip
    """Say what the run does, and its flows."""
    told = {
        "pipeline": name,
        "runner": runner,
        "state": run,
        "pid": os.getpid(),
        "started": started,
        "updated": now(),
        "flows": list(flows),
    }
    state.mkdir(parents=True, exist_ok=True)
    new = state / f".{_STATUS}.new"
    new.write_text(json.dumps(told))
    new.replace(state / _STATUS)


def read_status(state: Path) -> dict[str, Any] | None:
    """Read what the last run said, and whether it still runs; None if there was none."""
    try:
        told: dict[str, Any] = json.loads((state / _STATUS).read_text())
    except (FileNotFoundError, ValueError):
        return None
    pid = runner_of(state)
    told["running"] = pid is not None
    told.setdefault("state", RUNNING if pid else STOPPED)  # one of before there were states
    if pid is None:
        _tell_end(told)
    elif pid != told["pid"]:
        # It has the project, and has not said anything yet: what stands there is of another process.
        told |= {"pid": pid, "state": STARTING, "flows": []}
    return told


def _tell_end(told: dict[str, Any]) -> None:
    if told["state"] not in _ENDS:
        told["state"] = DIED
    for flow in told["flows"]:
        if flow["state"] != "done":
            flow["state"] = DIED if told["state"] == DIED else STOPPED


def now() -> str:
    """The time, as programs read it."""
    moment = datetime.fromtimestamp(SystemClock().now_ms() / 1000, UTC)
    return moment.isoformat(timespec="milliseconds")


def projects_under(root: Path, depth: int = 3) -> list[Path]:
    """Find folders with a specification, this one and those below it; hidden ones are left out."""
    if any((root / name).is_file() for name in SPEC_NAMES):
        return [root]
    if depth == 0:
        return []
    found = []
    with contextlib.suppress(PermissionError):
        for folder in sorted(root.iterdir()):
            if folder.is_dir() and not folder.name.startswith(".") and folder.name != STATE:
                found += projects_under(folder, depth - 1)
    return found
