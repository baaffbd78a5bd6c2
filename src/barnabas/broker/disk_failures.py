"""What an error of the disk means: for one log, for its directory, or for nobody in a while.

| error                                        | what it takes offline, until the next start             |
|----------------------------------------------|---------------------------------------------------------|
| no room, no descriptors, no memory           | nothing: it passes; a log whose files are in doubt alone |
| the log is being cut                         | nothing: it passes                                      |
| a file went because the log changed          | nothing: whoever read it looks again (`log_reader.py`)   |
| a file is gone otherwise                     | the partition: somebody took it, the disk is well        |
| anything else                                | the directory with all its partitions, as in Kafka       |
"""

from __future__ import annotations

import errno
import logging
from typing import TYPE_CHECKING, Final

from barnabas.broker.quiet import Quiet
from barnabas.storage.broken_log import BeingCutError
from barnabas.storage.log_changed import LogChanged

if TYPE_CHECKING:
    from barnabas.model.ids import TopicPartition
    from barnabas.storage.directory import LogDirectory

log = logging.getLogger(__name__)

_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_PASSING: Final = _NO_ROOM | frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EINTR})
_OF_ONE_FILE: Final = frozenset({errno.ENOENT, errno.ESTALE})


def is_passing(problem: OSError) -> bool:
    """Tell whether the same call may succeed later without anybody repairing something."""
    return problem.errno in _PASSING or isinstance(problem, BeingCutError | LogChanged)


def is_without_room(problem: OSError) -> bool:
    """Tell whether the same call may succeed in another directory."""
    return problem.errno in _NO_ROOM


def is_of_directory(problem: OSError) -> bool:
    """Tell whether the directory cannot be trusted any more."""
    return not is_passing(problem) and problem.errno not in _OF_ONE_FILE


class DirectoryFailed(OSError):
    """An error that takes a directory offline, on its way to the thread of decision, which does that."""

    def __init__(self, directory: LogDirectory, problem: OSError) -> None:
        """Say which directory, and what happened."""
        super().__init__(problem.errno, problem.strerror or str(problem), problem.filename)
        self.directory = directory


class PassingErrors:
    """Tells of errors that pass, not once for each request that meets them."""

    def __init__(self) -> None:
        """Nothing was told yet."""
        self._quiet = Quiet()

    def tell(
        self,
        directory: LogDirectory,
        key: TopicPartition,
        doing: str,
        problem: OSError,
        now_ms: int,
    ) -> None:
        """Log it, unless another one of the directory was logged a moment ago: a full disk refuses every append."""
        ending = self._quiet.ending(directory.path, now_ms)
        if ending is not None:
            log.error("%s: cannot %s for now: %s%s", key, doing, problem, ending)
