from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from barnabas.runtime.directory_lock import DirectoryInUse, lock_directory

if TYPE_CHECKING:
    from pathlib import Path


def test_directory_is_locked_within_the_process(tmp_path: Path) -> None:
    lock = lock_directory(str(tmp_path))
    with pytest.raises(DirectoryInUse, match=rf"{tmp_path} is in use .* log\.dirs"):
        lock_directory(str(tmp_path))
    lock.release()
    lock.release()
    lock_directory(str(tmp_path)).release()


def test_directory_is_locked_against_process_wide_locks(tmp_path: Path) -> None:
    """Java takes lockf's kind of lock."""
    program = (
        "import fcntl, sys\n"
        "with open(sys.argv[1], 'a+') as file:\n"
        "    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
        "    print('locked', flush=True)\n"
        "    sys.stdin.read()\n"
    )
    arguments = [sys.executable, "-c", program, f"{tmp_path}/.lock"]
    lock = lock_directory(str(tmp_path))
    refused = subprocess.run(arguments, capture_output=True, text=True, check=False, input="")
    assert "BlockingIOError" in refused.stderr
    lock.release()
    with subprocess.Popen(
        arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "locked\n"
        with pytest.raises(DirectoryInUse):
            lock_directory(str(tmp_path))
        holder.communicate("")
    lock_directory(str(tmp_path)).release()


def test_lock_in_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        lock_directory(f"{tmp_path}/missing")
