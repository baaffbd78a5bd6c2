"""Running the drivers of the load: a process for each library, and what they say goes into the ledger."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from pathlib import Path

from cluster_kit import wait_until
from oracle.jobs import note

HERE = Path(__file__).parent
#: For what is under way when a client is told to stop.
STOP_S = 120
#: What a driver writes on its standard error, for the message of a failure.
TOLD_BYTES = 3000

PYTHON = {
    library: [sys.executable, str(HERE / f"drive_{library}.py")]
    for library in ("confluent", "aiokafka")
}


class Clients:
    """All drivers of one load. `stop` has them send no more; leaving the block closes them."""

    def __init__(self, ledger, jobs, folder, *, may_give_up=False):
        """`jobs`: the command of a driver and what its clients are to do, for each driver."""
        self.ledger = ledger
        self._may_give_up = may_give_up
        #: The ledger is one, those who read what drivers say are many.
        self.lock = threading.Lock()
        #: How each client ended.
        self.ended = {}
        self._drivers = []
        for _, ours in jobs:
            for job in ours:
                ledger.add_client(job.client, job.promise)
        for number, (command, ours) in enumerate(jobs):
            self._drivers.append(_Driver(self, command, ours, folder / f"driver-{number}.err"))

    def __enter__(self):
        return self

    def __exit__(self, failure, *_):
        for driver in self._drivers:
            driver.close()
        for driver in self._drivers:
            driver.finish(0 if failure else STOP_S)

    def stop(self):
        """Have all clients send no more, and wait for their last words."""
        for driver in self._drivers:
            driver.stop()
        wait_until(lambda: self.are_done, f"all but {sorted(self.ended)} are over", STOP_S)
        troubles = {name: why for name, why in self.ended.items() if why != "done"}
        assert self._may_give_up or not troubles, troubles

    def hear(self, line):
        """A driver has written a line."""
        with self.lock:
            why = note(self.ledger, line)
        if why is not None:
            self.ended[line.split(" ", 1)[0]] = why

    @property
    def are_done(self):
        """Tell whether every client has sent what it was to send."""
        return all(driver.is_done for driver in self._drivers)


class _Driver:
    def __init__(self, clients, command, jobs, errors):
        self._clients = clients
        self._jobs = jobs
        self._command = command
        self._errors = errors
        with errors.open("w") as told:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=told,
                text=True,
                env=_environ(),
            )
        self._process.stdin.write("".join(f"{job.line()}\n" for job in jobs) + "\n")
        self._process.stdin.flush()
        self._problem = None
        self._is_closed = False
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self):
        try:
            for line in self._process.stdout:
                self._clients.hear(line.rstrip("\n"))
        except Exception as problem:  # noqa: BLE001  (told to who waits for the driver)
            self._problem = problem

    @property
    def is_done(self):
        assert self._process.poll() is None or self._is_closed, self._told()
        assert self._problem is None, f"{self._problem!r}; {self._told()}"
        return all(job.client in self._clients.ended for job in self._jobs)

    def stop(self):
        self._process.stdin.write("stop\n")
        self._process.stdin.flush()

    def close(self):
        self._is_closed = True
        with contextlib.suppress(OSError):
            self._process.stdin.close()

    def finish(self, patience_s):
        try:
            code = self._process.wait(patience_s)
        except subprocess.TimeoutExpired:
            code = None
            self._process.kill()
            self._process.wait()
        self._thread.join(STOP_S)
        self._process.stdout.close()
        if patience_s:
            assert self._problem is None, f"{self._problem!r}; {self._told()}"
            assert code == 0, f"exit code {code}; {self._told()}"

    def _told(self):
        return f"{self._command[0]}: {self._errors.read_text()[-TOLD_BYTES:]}"


def _environ():
    """Drivers are tests' own programs: they import what tests import, and no compiled copy."""
    paths = [str(HERE.parent), str(HERE.parent.parent / "src")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
