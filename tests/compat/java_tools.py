"""Apache Kafka's command-line tools in one Java for all of them (`java/Tools.java`): the start of each would take a second."""

import struct
import subprocess
import threading

from process_kit import killed_after

TIMEOUT_S = 120


class JavaTools:
    """The tools of one release. One at a time; after a failure of Java itself the next one gets a new Java."""

    def __init__(self, command):
        self._command = command
        self._lock = threading.Lock()
        self._process = None

    def run(self, name, arguments, stdin=""):
        """Run the tool of this class to its end and return its completed process."""
        words = [word.encode() for word in (name, stdin, *arguments)]
        request = struct.pack(">i", len(words))
        request += b"".join(struct.pack(">i", len(word)) + word for word in words)
        with self._lock:
            process = self._running()
            with killed_after(process, TIMEOUT_S):
                process.stdin.write(request)
                process.stdin.flush()
                (code,) = self._read(">i")
                out, err = (process.stdout.read(*self._read(">i")).decode() for _ in range(2))
        return subprocess.CompletedProcess([name, *arguments], code, out, err)

    def _running(self):
        if self._process is None or self._process.poll() is not None:
            self.close()
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
        return self._process

    def _read(self, form):
        found = self._process.stdout.read(struct.calcsize(form))
        assert len(found) == struct.calcsize(form), f"Java ended with {self._process.wait()}"
        return struct.unpack(form, found)

    def close(self):
        """End Java."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None
