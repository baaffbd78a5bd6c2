"""`barnabas ARGUMENTS` as a process of its own that is forked, not started (`fork_server.py`), and looks like subprocess.Popen."""

import atexit
import functools
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

SERVER = Path(__file__).with_name("fork_server.py")
STOP_TIMEOUT_S = 60


@functools.cache
def fork_server(*modules):
    """The one of this test process that has imported these modules, for as long as this process lives."""
    made = ForkServer(modules)
    atexit.register(made.close)
    return made


class ForkServer:
    """Forks whoever asks for it, on any thread."""

    def __init__(self, modules, environ=None):
        self._socket, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, SERVER, str(theirs.fileno()), *modules],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env=environ,
            )
        self._lock = threading.Lock()

    def start(self, arguments, stdin, stdout, stderr, environ=None):
        """Begin a process with these streams, given by their numbers; who has them open may close them then."""
        request = json.dumps([arguments, dict(environ or os.environ), os.getcwd()]).encode()
        status, theirs = os.pipe()
        try:
            with self._lock:
                fds = [stdin, stdout, stderr, theirs]
                socket.send_fds(self._socket, [len(request).to_bytes(4)], fds)
                self._socket.sendall(request)
        finally:
            os.close(theirs)
        return Forked(arguments, status)

    def close(self):
        """Let the server see that nobody asks any more."""
        self._socket.close()
        self._process.wait(STOP_TIMEOUT_S)


class Forked:
    """A process, with what tests use of subprocess.Popen."""

    def __init__(self, arguments, status):
        self.args = arguments
        self.returncode = None
        self._status = status
        self._lock = threading.Lock()
        self.pid = int.from_bytes(os.read(status, 4))
        assert self.pid, "the server has ended"

    def poll(self):
        """Its exit code, None while it lives."""
        with self._lock:
            if self.returncode is None:
                self._look(0)
        return self.returncode

    def wait(self, timeout=None):
        """Its exit code, once it has ended."""
        with self._lock:
            if self.returncode is None:
                self._look(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired(self.args, timeout)
        return self.returncode

    def _look(self, timeout):
        poller = select.poll()
        poller.register(self._status, select.POLLIN)
        if poller.poll(None if timeout is None else timeout * 1000):
            self.returncode = int.from_bytes(os.read(self._status, 4), signed=True)
            os.close(self._status)

    def send_signal(self, number):
        """Unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self):
        self.send_signal(signal.SIGTERM)

    def kill(self):
        self.send_signal(signal.SIGKILL)
