"""The parent of commands: has imported what they need, and forks one for each request on the socket whose number it is given.

It has no thread and no client of its own, so that its children begin as a new process would; they end as one, too.
"""

import gc
import importlib
import json
import os
import pkgutil
import socket
import sys

#: What is run most: their modules are called as they are, or begin with it (`group_reset`).
COMMANDS = ("acl", "broker", "cluster", "config", "group", "produce", "quota", "rebalance", "topic", "txn", "user")  # fmt: skip


def serve(connection):
    """Return the arguments in each child, and None in the parent once nobody asks any more."""
    while True:
        size, fds, _, _ = socket.recv_fds(connection, 4, 3)
        if not size:
            return None
        request = connection.recv(int.from_bytes(size), socket.MSG_WAITALL)
        arguments, environ, folder = json.loads(request)
        child = os.fork()
        if not child:
            connection.close()
            become(fds, environ, folder)
            return arguments
        for fd in fds:
            os.close(fd)
        _, status = os.waitpid(child, 0)
        connection.sendall(os.waitstatus_to_exitcode(status).to_bytes(4, signed=True))


def become(fds, environ, folder):
    """Take the files, the variables and the folder of whoever asked."""
    for number, fd in enumerate(fds):
        os.dup2(fd, number)
        os.close(fd)
    os.environ.clear()
    os.environ.update(environ)
    os.chdir(folder)
    gc.enable()


def import_commands():
    """What these commands need."""
    import confluent_kafka.admin  # noqa: F401

    import barnabas.cli

    for module in pkgutil.iter_modules(barnabas.cli.__path__):
        if module.name.partition("_")[0] in COMMANDS:
            importlib.import_module(f"barnabas.cli.{module.name}")
    # What is imported is never garbage: a child that looked at it, at its end at the latest, would copy all of it.
    gc.disable()
    gc.freeze()


if __name__ == "__main__":
    import_commands()
    from barnabas.cli.main import main

    found = serve(socket.socket(fileno=int(sys.argv[1])))
    if found is not None:
        main(found)
