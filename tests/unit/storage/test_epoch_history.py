"""How far the file of leader epochs is believed."""

import pytest
from log_kit import DIRECTORY, new_disk

from barnabas.core.epochs import EpochEntry, LeaderEpochs
from barnabas.storage.checksums import Sum, sum_of
from barnabas.storage.epoch_history import SavedEpochs, read_epochs, write_epochs
from barnabas.storage.epoch_spans import UNKNOWN
from barnabas.storage.names import LEADER_EPOCHS

PATH = f"{DIRECTORY}/{LEADER_EPOCHS}"
ENTRIES = [EpochEntry(1, 0), EpochEntry(4, 20)]
OTHER = Sum(1, 1)


@pytest.fixture
def disk():
    disk = new_disk()
    write_epochs(disk, DIRECTORY, LeaderEpochs(ENTRIES))
    return disk


def test_what_its_sum_vouches_for_is_sure_up_to_the_end(disk):
    wanted = sum_of(disk.read_file(PATH))
    saved = read_epochs(disk, DIRECTORY, wanted, end_offset=30, clean=False)
    assert saved.entries == ENTRIES
    assert saved.known.at(29) == (4, 30)
    assert saved.known.at(30)[0] == UNKNOWN


@pytest.mark.parametrize(("wanted", "clean"), [(None, True), (None, False), (OTHER, False)])
def test_without_a_sum_or_after_a_crash_it_is_believed_and_not_sure(disk, wanted, clean):
    saved = read_epochs(disk, DIRECTORY, wanted, end_offset=30, clean=clean)
    assert saved.entries == ENTRIES
    assert not saved.known


def test_another_file_than_a_clean_stop_left_is_not_believed(disk):
    assert read_epochs(disk, DIRECTORY, OTHER, end_offset=30, clean=True) == SavedEpochs()


@pytest.mark.parametrize("content", [b"nonsense", None])
def test_a_file_that_says_nothing(disk, content):
    disk.remove(PATH)
    if content is not None:
        disk.write_file_atomically(PATH, content)
    assert read_epochs(disk, DIRECTORY, None, end_offset=30, clean=True) == SavedEpochs()
