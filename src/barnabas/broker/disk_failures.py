"""What an error of the disk means: for one log, for its directory, or for nobody in a while.

| error                                        | what it takes offline, until the next start             |
|----------------------------------------------|---------------------------------------------------------|
| no room, no descriptors, no memory           | nothing: it passes; a log whose files are in doubt alone |
| a file is gone                               | the partition: somebody took it, the disk is well        |
| anything else                                | the directory with all its partitions, as in Kafka       |
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from barnabas.storage.directory import LogDirectory

_PASSING: Final = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EINTR}
)
_OF_ONE_FILE: Final = frozenset({errno.ENOENT, errno.ESTALE})


def is_passing(problem: OSError) -> bool:
    """Tell whether the same call may succeed later without anybody repairing something."""
    return problem.errno in _PASSING


def is_of_directory(problem: OSError) -> bool:
    """Tell whether the directory cannot be trusted any more."""
    return problem.errno not in _PASSING and problem.errno not in _OF_ONE_FILE


class DirectoryFailed(OSError):
    """An error that takes a directory offline, on its way to the thread of decision, which does that."""

    def __init__(self, directory: LogDirectory, problem: OSError) -> None:
        """Say which directory, and what happened."""
        super().__init__(problem.errno, problem.strerror or str(problem), problem.filename)
        self.directory = directory
