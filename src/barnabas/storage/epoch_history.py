"""A log's leader epochs and the file that keeps them.

Job: read the file and say how far it can be believed; write it. Must not know batches: they tell the epochs, too (`recovery.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from barnabas.core.epochs import EpochEntry, LeaderEpochs
from barnabas.storage import epoch_file
from barnabas.storage.checksums import Sum, sum_of
from barnabas.storage.epoch_spans import NO_EPOCHS, EpochSpans
from barnabas.storage.names import LEADER_EPOCHS

if TYPE_CHECKING:
    from barnabas.ports import Disk


class SavedEpochs(NamedTuple):
    """What the file said."""

    #: None if there is no good one: then the batches must tell.
    entries: list[EpochEntry] | None = None
    #: The same, if that is sure.
    known: EpochSpans = NO_EPOCHS


def read_epochs(
    disk: Disk, directory: str, wanted: Sum | None, *, end_offset: int, clean: bool
) -> SavedEpochs:
    """Read the file; `wanted` is what it is known to have been, at `end_offset` begins what it may be too old for."""
    try:
        content = disk.read_file(f"{directory}/{LEADER_EPOCHS}")
        entries = LeaderEpochs(epoch_file.decode(content)).entries
    except (FileNotFoundError, ValueError):
        return SavedEpochs()
    if wanted == sum_of(content):
        return SavedEpochs(entries, EpochSpans(entries, end_offset))
    if wanted is not None and clean:
        return SavedEpochs()
    return SavedEpochs(entries)


def write_epochs(disk: Disk, directory: str, epochs: LeaderEpochs) -> None:
    """Replace the leader-epoch file; the log's next flush brings it to the medium.

    Until then it is as safe as the batches it tells of: a scan after a crash reads the epochs from them.
    """
    path = f"{directory}/{LEADER_EPOCHS}"
    disk.write_file_atomically(path, epoch_file.encode(epochs.entries), sync=False)
