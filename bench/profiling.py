"""A flame graph of the broker while a workload runs, with py-spy."""

from __future__ import annotations

import signal
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SAMPLES_PER_S = "200"
WRITE_LIMIT_S = 60


class Profiler:
    """Records one SVG for each measured stretch."""

    def __init__(self, program: Path, folder: Path, commit: str, *, native: bool = False) -> None:
        """Write to `folder`, which is made if need be."""
        self._program = str(program)
        self._folder = folder
        self._commit = commit
        self._native = ["--native"] if native else []
        self.written: list[Path] = []
        folder.mkdir(parents=True, exist_ok=True)

    @contextmanager
    def record(self, pid: int, label: str) -> Iterator[None]:
        """Sample the process during the block."""
        target = self._folder / f"{label}-{self._commit}.svg"
        command = [self._program, "record", "--pid", str(pid), "--output", str(target)]
        command += ["--rate", SAMPLES_PER_S, "--duration", "unlimited", *self._native]
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            yield
        finally:
            self._end(process)
        if target.exists():
            self.written.append(target)

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        """It writes its file when it is interrupted."""
        process.send_signal(signal.SIGINT)
        try:
            process.wait(WRITE_LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
