"""Which worker of pytest runs which file, and when: those whose tests share what is dear to start share a worker, too.

What is long and waits for other processes comes first: what only computes, in small pieces, then fills the time of whoever has nothing left.
"""

import functools
import re
from pathlib import Path

from xdist.scheduler import LoadFileScheduling

#: Fixtures, and the process behind each, of which every worker that needs it starts one.
SHARED = {"spark": "spark", "session_kafka": "kafka", "either_address": "kafka"}
#: The first of all, then whatever is in neither, then these.
FIRST, LAST = "pipelines", ("sim", "fuzz", "property", "scenarios", "wire", "security", "unit")
ARGUMENTS = re.compile(r"^def \w+\(([^)]*)\)", re.MULTILINE)


class ByWhatIsShared(LoadFileScheduling):
    """A file's tests stay together, and so do files that share a fixture."""

    def _split_scope(self, nodeid):
        file = super()._split_scope(nodeid)
        return shared_by(self.config.rootpath / file) or file


@functools.cache
def shared_by(path: Path):
    """What is behind the first of the shared fixtures that is an argument of a function in this file."""
    lists = ARGUMENTS.findall(path.read_text())
    arguments = {word.strip() for words in lists for word in words.split(",")}
    return next((process for name, process in SHARED.items() if name in arguments), None)


def pytest_xdist_make_scheduler(config, log):
    """Take the place of `--dist loadfile`."""
    # By how many tests a file has, which says little of how long they take.
    config.option.loadscopereorder = False
    return ByWhatIsShared(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_collection_modifyitems(config, items):
    """Put them in this order where they are shared out among workers."""
    if hasattr(config, "workerinput"):
        items.sort(key=rank)


def rank(item):
    folder = Path(item.nodeid).parts[1]
    return 0 if folder == FIRST else 2 if folder in LAST else 1
