"""`barnabas ARGUMENTS` in a process of its own, without the wait for its imports: a parent has them and forks (`warm_parent.py`).

What a person would run differs in nothing but the start of the interpreter, and `test_cli.py` runs that.
"""

import atexit
import contextlib
import functools
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from compat.test_cli import TIMEOUT_S, Tool

PARENT = Path(__file__).with_name("warm_parent.py")


class WarmTool(Tool):
    """Runs `barnabas ARGUMENTS` against one broker."""

    def run(self, arguments, stdin):
        return parent().run([str(word) for word in arguments], stdin, self.environ)


@functools.cache
def parent():
    """The one of this test process, for as long as that lives."""
    made = Parent()
    atexit.register(made.close)
    return made


class Parent:
    """The parent of all commands. One command at a time."""

    def __init__(self):
        self._socket, theirs = socket.socketpair()
        self._socket.settimeout(TIMEOUT_S)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, PARENT, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )
        self._lock = threading.Lock()

    def run(self, arguments, stdin, environ):
        """Run a command to its end and return its completed process."""
        request = json.dumps([arguments, environ, os.getcwd()]).encode()
        with contextlib.ExitStack() as stack:
            files = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(3)]
            files[0].write(stdin)
            files[0].seek(0)
            with self._lock:
                code = self._ask(request, [file.fileno() for file in files])
            for file in files[1:]:
                file.seek(0)
            return subprocess.CompletedProcess(arguments, code, files[1].read(), files[2].read())

    def _ask(self, request, fds):
        try:
            socket.send_fds(self._socket, [len(request).to_bytes(4)], fds)
            self._socket.sendall(request)
            answer = self._socket.recv(4)
        except TimeoutError:
            self._process.kill()
            raise
        assert len(answer) == 4, "the parent of all commands has ended"
        return int.from_bytes(answer, signed=True)

    def close(self):
        """Let the parent see that nobody asks any more."""
        self._socket.close()
        self._process.wait(TIMEOUT_S)
