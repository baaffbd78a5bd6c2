"""`barnabas ARGUMENTS` in a process of its own, without the wait for its imports (`fork_kit.py`).

What a person would run differs in nothing but the start of the interpreter, and `test_cli.py` runs that.
"""

import contextlib
import pkgutil
import subprocess
import tempfile

from compat.test_cli import TIMEOUT_S, Tool
from fork_kit import fork_server

import barnabas.cli

#: What is run most: their modules are called as they are, or begin with it (`group_reset`).
COMMANDS = ("acl", "broker", "cluster", "config", "group", "produce", "quota", "rebalance", "topic", "txn", "user")  # fmt: skip
MODULES = [
    f"barnabas.cli.{module.name}"
    for module in pkgutil.iter_modules(barnabas.cli.__path__)
    if module.name.partition("_")[0] in COMMANDS
]


class WarmTool(Tool):
    """Runs `barnabas ARGUMENTS` against one broker."""

    def run(self, arguments, stdin):
        words = [str(word) for word in arguments]
        with contextlib.ExitStack() as stack:
            files = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(3)]
            files[0].write(stdin)
            files[0].seek(0)
            server = fork_server("confluent_kafka.admin", *MODULES)
            process = server.start(words, *(file.fileno() for file in files), self.environ)
            try:
                code = process.wait(TIMEOUT_S)
            finally:
                process.kill()
            for file in files[1:]:
                file.seek(0)
            return subprocess.CompletedProcess(words, code, files[1].read(), files[2].read())
