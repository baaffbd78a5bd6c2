"""What a run cost: CPU time and memory of a process, and what else the machine was doing meanwhile."""

from __future__ import annotations

import os
import resource
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Self

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
CORES = os.cpu_count() or 1
PER_PROCESS_CLOCK = 2


def cpu_seconds(pid: int) -> float:
    """CPU time that a process and its threads have used, to the microsecond.

    Linux gives every process a clock; its number is made from the pid. /proc/PID/stat, which counts in hundredths of
    a second, is the way where that clock cannot be read.
    """
    try:
        return time.clock_gettime(~pid << 3 | PER_PROCESS_CLOCK)
    except OSError:
        return stat_cpu_seconds(Path(f"/proc/{pid}/stat").read_text())


def stat_cpu_seconds(text: str) -> float:
    """User and system time out of a /proc/PID/stat line, whose second field may hold anything."""
    fields = text.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def children_cpu_seconds(pid: int) -> float:
    """CPU time of the processes that a process has started: those that have ended, and those that still run."""
    ticks = sum(map(int, _stat_fields(pid)[13:15]))
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it may end while we look
            fields = _stat_fields(int(folder.name))
            if int(fields[1]) == pid:
                ticks += sum(map(int, fields[11:13]))
    return ticks / TICKS_PER_S


def _stat_fields(pid: int) -> list[str]:
    """What follows the name: state, parent, ..., minor page faults at 7, own user and system time at 11, those of ended children at 13."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def page_faults(pid: int) -> int:
    """Pages that a process was given since its start: fresh memory costs one for every 4 KB."""
    return int(_stat_fields(pid)[7])


class Memory(NamedTuple):
    """Resident memory in MB (10^6 bytes)."""

    now: float
    peak: float


def memory(pid: int) -> Memory:
    """Read the resident memory of a process, now and at its highest."""
    return parse_status(Path(f"/proc/{pid}/status").read_text())


def parse_status(text: str) -> Memory:
    """Read VmRSS and VmHWM out of /proc/PID/status."""
    lines = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    now, peak = (int(lines[name].split()[0]) * 1024 / 1e6 for name in ("VmRSS", "VmHWM"))
    return Memory(now, peak)


class MachineTime(NamedTuple):
    """Seconds since the start of the machine, summed over its cores."""

    busy: float
    stolen: float


def machine_time() -> MachineTime:
    """Read how long the cores have been busy, and how long the host kept them from running."""
    return parse_machine_time(Path("/proc/stat").read_text())


def parse_machine_time(text: str) -> MachineTime:
    """Read the first line of /proc/stat: user nice system idle iowait irq softirq steal ..."""
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, text.split()[1:9])
    return MachineTime((user + nice + system + irq + softirq) / TICKS_PER_S, steal / TICKS_PER_S)


def client_cpu_seconds() -> float:
    """CPU time of this process and of the clients that it has waited for."""
    own, children = (
        resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


class Noise(NamedTuple):
    """Shares of the machine's time that neither the broker nor its client used."""

    others: float
    stolen: float


class Watch:
    """Measures one broker, or several, from `with` to its end."""

    def __init__(self, *pids: int) -> None:
        """Name the processes."""
        self._pids = pids
        self.wall_s = 0.0
        self.cpu_s = 0.0
        self.client_cpu_s = 0.0
        self.page_faults = 0
        self.noise = Noise(0.0, 0.0)
        self.started = 0.0

    def __enter__(self) -> Self:
        """Start."""
        self._machine = machine_time()
        self._client = client_cpu_seconds()
        self._cpu = sum(map(cpu_seconds, self._pids))
        self._page_faults = sum(map(page_faults, self._pids))
        self.started = time.monotonic()
        return self

    def __exit__(self, failed: object, *_: object) -> None:
        """Stop; after a failure the process may be gone."""
        if failed:
            return
        self.wall_s = time.monotonic() - self.started
        self.cpu_s = sum(map(cpu_seconds, self._pids)) - self._cpu
        self.client_cpu_s = client_cpu_seconds() - self._client
        self.page_faults = sum(map(page_faults, self._pids)) - self._page_faults
        machine = machine_time()
        available = self.wall_s * CORES
        others = machine.busy - self._machine.busy - self.cpu_s - self.client_cpu_s
        self.noise = Noise(
            max(0.0, others) / available, (machine.stolen - self._machine.stolen) / available
        )


def machine_name() -> str:
    """Describe the machine: processor, cores, memory, kernel, Python."""
    cpu = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        os.uname().machine,
    )
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return f"{cpu}, {CORES} cores, {pages / 2**30:.0f} GiB, Linux {os.uname().release}, {python_name()}"


def python_name() -> str:
    """Name the Python that Barnabas runs on: how it was built counts, and only the system's is known to be built well."""
    number = ".".join(map(str, sys.version_info[:3]))
    return f"the system's Python {number}" if sys.base_prefix == "/usr" else f"Python {number}"
