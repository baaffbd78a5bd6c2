"""A program that has imported what others need, and forks one of them for each request: `fork_server.py SOCKET MODULE...`.

`barnabas` then starts without the third of a second that its imports take. This process has no thread, no client and no loop of its own,
so that who is forked begins as a new process would; it ends as one, too. Its parent is a process that waits for it and tells its exit code.
"""

import gc
import importlib
import json
import os
import signal
import socket
import sys


def serve(connection):
    """Return the arguments in each process that was asked for, and None here once nobody asks any more."""
    # Who waits for the others is waited for by nobody.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        size, fds, _, _ = socket.recv_fds(connection, 4, 4)
        if not size:
            return None
        arguments, environ, folder = json.loads(
            connection.recv(int.from_bytes(size), socket.MSG_WAITALL)
        )
        if not os.fork():
            connection.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            *streams, status = fds
            fork_and_wait(streams, status)
            become(streams, environ, folder)
            return arguments
        for fd in fds:
            os.close(fd)


def fork_and_wait(streams, status):
    """Return in the child alone. Its number, and its exit code when that is known, go to `status`."""
    child = os.fork()
    if not child:
        os.close(status)
        return
    for fd in streams:
        os.close(fd)
    os.write(status, child.to_bytes(4))
    _, found = os.waitpid(child, 0)
    os.write(status, os.waitstatus_to_exitcode(found).to_bytes(4, signed=True))
    os._exit(0)


def become(streams, environ, folder):
    """Take the streams, the variables and the folder of whoever asked."""
    for number, fd in enumerate(streams):
        os.dup2(fd, number)
        os.close(fd)
    os.environ.clear()
    os.environ.update(environ)
    os.chdir(folder)
    gc.enable()


def import_all(names):
    """Import these modules for good."""
    for name in names:
        importlib.import_module(name)
    # What is imported is never garbage: who looked at it, at its end at the latest, would copy all of it.
    gc.disable()
    gc.freeze()


if __name__ == "__main__":
    import_all(["barnabas.cli.main", *sys.argv[2:]])
    from barnabas.cli.main import main

    found = serve(socket.socket(fileno=int(sys.argv[1])))
    if found is not None:
        main(found)
