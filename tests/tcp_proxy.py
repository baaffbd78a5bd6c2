"""A TCP proxy between a client and a server that can break the connection in the ways networks do."""

import contextlib
import queue
import socket
import threading
import time


class TcpProxy:
    """Forwards to `target`; `address` is where clients connect."""

    def __init__(self, target=None):
        # Until it is aimed nobody is there: what a port of 0 means.
        self.aim(target or "127.0.0.1:0")
        self._lock = threading.Lock()
        self._sockets = set()
        self._clients = set()
        self._swallows = False
        self._is_next_mute = False
        self._delay_s = 0.0
        self._port = 0
        self._listener = None
        self.mend()

    @property
    def address(self):
        return f"127.0.0.1:{self._port}"

    def aim(self, target):
        """Forward to this address from now on: a server may need to know the proxy's before it has one itself."""
        host, port = target.rsplit(":", 1)
        self._target = (host, int(port))

    def cut(self):
        """Break every connection and refuse new ones, until `mend`."""
        with self._lock:
            # A shutdown wakes the thread that waits in accept or recv; closing alone would not.
            sockets, self._sockets = {self._listener, *self._sockets}, set()
            self._clients = set()
            self._listener = None
        for one in sockets - {None}:
            _close(one)

    def mend(self):
        """Let connections through."""
        self._swallows = False
        self._listener = socket.create_server(("127.0.0.1", self._port), reuse_port=False)
        self._port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def swallow_replies(self):
        """Let the server hear the client and not the other way round, until `mend` after `cut`."""
        self._swallows = True

    def mute_next(self):
        """Take the next connection and say nothing on it, ever; those after it go through."""
        self._is_next_mute = True

    def delay_replies(self, delay_s):
        """Let every answer take so much longer from now on; what is under way keeps its order."""
        self._delay_s = delay_s

    def inject_replies(self, data):
        """Send bytes to every client that no server sent."""
        with self._lock:
            clients = list(self._clients)
        for client in clients:
            client.sendall(data)

    def close(self):
        self.cut()

    def _accept(self, listener):
        with contextlib.suppress(OSError):
            while True:
                client, _ = listener.accept()
                if self._is_next_mute:
                    self._is_next_mute = False
                    with self._lock:
                        self._sockets.add(client)
                    continue
                try:
                    server = socket.create_connection(self._target)
                except OSError:
                    client.close()  # nobody is there: the client sees it as it would without us
                    continue
                with self._lock:
                    is_cut = self._listener is not listener
                    if not is_cut:
                        self._sockets |= {client, server}
                        self._clients.add(client)
                if is_cut:
                    _close(client)
                    _close(server)
                    return
                for pair in ((client, server, False), (server, client, True)):
                    threading.Thread(target=self._pump, args=pair, daemon=True).start()

    def _pump(self, source, sink, is_reply):
        late = queue.SimpleQueue()
        if is_reply:
            threading.Thread(target=_send_late, args=(late, sink), daemon=True).start()
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if not is_reply:
                    sink.sendall(data)
                elif not self._swallows:
                    late.put((time.monotonic() + self._delay_s, data))
        late.put(None)
        if not is_reply:
            for one in (source, sink):
                _close(one)


def _send_late(late, sink):
    """Send what comes when it is due, and close after the last of it."""
    with contextlib.suppress(OSError):
        while (item := late.get()) is not None:
            due_s, data = item
            time.sleep(max(0.0, due_s - time.monotonic()))
            sink.sendall(data)
    _close(sink)


def _close(one):
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
