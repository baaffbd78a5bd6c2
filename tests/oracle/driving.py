"""What the drivers in Python have in common: jobs, bursts, and what is said of them. A library's own part is in `drive_LIBRARY.py`."""

from __future__ import annotations

import os
import random
import sys
import threading
import time
import zlib
from itertools import cycle

from oracle.jobs import read_job

#: From how many partitions a burst may take its records.
TARGETS_MAX = 3
KILOBYTE = 1024
_NOISE = random.Random(7).randbytes(1 << 20)

_stdout = threading.Lock()


def say(*lines):
    """Write whole lines at once, whoever else writes."""
    with _stdout:
        sys.stdout.write("".join(f"{line}\n" for line in lines))
        sys.stdout.flush()


def now_ms():
    return time.time_ns() // 1_000_000


def read_jobs():
    """The jobs on standard input, and two events: clients are to stop; they may close."""
    jobs = []
    while line := _line():
        jobs.append(read_job(line))
    stopped, closed = threading.Event(), threading.Event()

    def watch():
        _line()
        stopped.set()
        while os.read(0, 100):
            pass
        closed.set()

    threading.Thread(target=watch, daemon=True).start()
    return jobs, stopped, closed


def _line():
    """The next line. Not by sys.stdin: a thread that holds its lock would keep the program from ending."""
    line = b""
    while (byte := os.read(0, 1)) not in (b"", b"\n"):
        line += byte
    return line.decode().strip()


class Load:
    """The bursts of one client."""

    def __init__(self, job):
        self.job = job
        self.client = job["client"]
        self.limit = int(job["limit"])
        self.pause_s = int(job["pause_ms"]) / 1000
        self.rng = random.Random(int(job["seed"]))
        self._targets = [
            (topic, int(index))
            for topic, index in (target.split(":") for target in job["targets"].split(","))
        ]
        self._bursts = cycle(burst.split("x") for burst in job["bursts"].split(","))
        self._is_random = job["random"] == "1"
        self._numbers = dict.fromkeys(self._targets, 0)
        self.sent = 0

    def burst(self):
        """Say what is sent next, and give it: topic, partition, number and value of each record."""
        count, size = map(int, next(self._bursts))
        several = min(len(self._targets), TARGETS_MAX, count)
        chosen = self.rng.sample(self._targets, self.rng.randint(1, several))
        lines, records = [], []
        for at, (topic, partition) in enumerate(chosen):
            share = (count + len(chosen) - 1 - at) // len(chosen)
            first = self._numbers[topic, partition]
            self._numbers[topic, partition] = first + share
            lines.append(f"{self.client} send {topic} {partition} {first} {share} {now_ms()}")
            padding = self._padding(size)
            checksum = f"{zlib.crc32(padding):08x}"
            records += [
                (
                    topic, partition, number,
                    f"{topic} {partition} {self.client} {number} {checksum} ".encode() + padding,
                )
                for number in range(first, first + share)
            ]  # fmt: skip
        self.sent += count + count * size // KILOBYTE
        say(*lines)
        return records

    def _padding(self, size):
        if not self._is_random:
            return b"x" * size
        start = self.rng.randrange(len(_NOISE) - size)
        return _NOISE[start : start + size]

    def tell(self, outcomes):
        """Say what came of a burst: (topic, partition, number, offset or None, why not) of each record, in any order."""
        lines = []
        run = None
        for topic, partition, number, offset, why in sorted(outcomes, key=lambda each: each[:3]):
            offset = -1 if offset is None or offset < 0 else offset
            if run is not None and run[:2] == (topic, partition) and run[4] == why:
                first, count, base = run[2], run[3], run[5]
                follows = offset == (base + count if base >= 0 else -1)
                if number == first + count and follows:
                    run = (topic, partition, first, count + 1, why, base)
                    continue
            if run is not None:
                lines.append(self._line(*run))
            run = (topic, partition, number, 1, why, offset)
        if run is not None:
            lines.append(self._line(*run))
        say(*lines, f"{self.client} end {now_ms()}")

    def _line(self, topic, partition, first, count, why, base):
        if why is None:
            return f"{self.client} ack {topic} {partition} {first} {count} {base}"
        return f"{self.client} fail {topic} {partition} {first} {count} {why}"
