from __future__ import annotations

import errno
import os
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

from barnabas.runtime import disk as disk_module
from barnabas.runtime.disk import RealDisk, default_max_open_files

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def disk():
    disk = RealDisk(max_open_files=4)
    yield disk
    disk.close()


def descriptors_below(folder: Path) -> int:
    """Count this process's open descriptors on files in a folder."""
    count = 0
    for entry in os.listdir("/proc/self/fd"):
        try:
            count += os.readlink(f"/proc/self/fd/{entry}").startswith(str(folder))
        except FileNotFoundError:
            continue
    return count


on_linux = pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")


def test_a_file_knows_when_it_was_written(disk: RealDisk, tmp_path: Path) -> None:
    file = disk.open(f"{tmp_path}/a", create=True)
    os.utime(f"{tmp_path}/a", ns=(0, 1_234_567_000_000))
    assert file.modified_ms() == 1_234_567


def test_write_and_read_back(disk: RealDisk, tmp_path: Path) -> None:
    file = disk.open(f"{tmp_path}/a", create=True)
    file.write(0, [b"hello ", memoryview(bytearray(b"world"))])
    file.write(6, [b"W"])
    assert file.read(0, 100) == b"hello World"
    assert file.read(6, 3) == b"Wor"
    assert file.read(11, 5) == b""
    assert file.size() == 11
    assert disk.read_file(f"{tmp_path}/a") == b"hello World"


def test_write_with_more_buffers_than_one_call_takes(disk: RealDisk, tmp_path: Path) -> None:
    file = disk.open(f"{tmp_path}/a", create=True)
    buffers = [b"%04d" % number for number in range(disk_module.BUFFERS_PER_WRITE + 1)]
    file.write(3, buffers)
    assert file.read(0, 10_000) == b"\0\0\0" + b"".join(buffers)


@pytest.mark.parametrize("written", [0, 1, 3, 4, 6, 9])
def test_short_writes_are_finished(
    disk: RealDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: int
) -> None:
    file = disk.open(f"{tmp_path}/a", create=True)
    pwritev, pwrite = os.pwritev, os.pwrite

    def short_pwritev(fd: int, buffers: list[bytes], position: int) -> int:
        data = b"".join(buffers)[:written]
        return pwritev(fd, [data], position) if data else 0

    monkeypatch.setattr(os, "pwritev", short_pwritev)
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: pwrite(fd, bytes(data)[:2], at))
    file.write(5, [b"abc", b"", b"d", b"efghi"])
    assert file.read(5, 100) == b"abcdefghi"


def test_short_reads_are_finished(
    disk: RealDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = disk.open(f"{tmp_path}/a", create=True)
    file.write(0, [b"abcdefghi"])
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, size, at: pread(fd, min(size, 2), at))
    assert file.read(1, 5) == b"bcdef"
    assert file.read(1, 100) == b"bcdefghi"


def test_open_only_what_is_there(disk: RealDisk, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        disk.open(f"{tmp_path}/a")
    with pytest.raises(FileNotFoundError):
        disk.open(f"{tmp_path}/missing/a", create=True)
    with pytest.raises(IsADirectoryError):
        disk.open(str(tmp_path))
    disk.open(f"{tmp_path}/a", create=True).write(0, [b"1"])
    assert disk.open(f"{tmp_path}/a", create=True).read(0, 9) == b"1"
    assert disk.open(f"{tmp_path}/a").read(0, 9) == b"1"


def test_truncate_sync_cached(disk: RealDisk, tmp_path: Path) -> None:
    file = disk.open(f"{tmp_path}/a", create=True)
    file.write(0, [bytes(300_000)])
    file.sync()
    assert file.cached(0, 300_000)
    assert file.cached(0, 0)
    assert file.cached(299_999, 1)
    file.truncate(10)
    assert file.size() == 10
    file.truncate(20)
    assert file.read(0, 50) == bytes(20)


def test_cold_pages_are_told(
    disk: RealDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = disk.open(f"{tmp_path}/a", create=True)
    probed: list[int] = []
    cold_from = 10**9

    def preadv(_fd: int, _buffers: list[bytearray], position: int, _flags: int) -> int:
        probed.append(position)
        if position >= cold_from:
            raise BlockingIOError
        return 1

    monkeypatch.setattr(os, "preadv", preadv)
    assert file.cached(5, 300_000)
    assert probed == [5, 5 + 131_072, 5 + 262_144, 300_004]
    cold_from = 300_004
    assert not file.cached(5, 300_000)


def test_load_sends_a_range_to_nowhere(
    disk: RealDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = disk.open(f"{tmp_path}/a", create=True)
    file.write(0, [bytes(300_000)])
    sent: list[tuple[int, int]] = []
    sendfile = os.sendfile

    def note(out: int, fd: int, position: int, size: int) -> int:
        sent.append((position, size))
        return sendfile(out, fd, position, min(size, 100_000))

    monkeypatch.setattr(os, "sendfile", note)
    file.load(1, 250_000)
    assert sent == [(1, 250_000), (100_001, 150_000), (200_001, 50_000)]
    file.load(299_990, 20)
    assert sent[3:] == [(299_990, 20), (300_000, 10)]  # the file ends before the range does


def test_load_reads_where_nothing_can_be_sent_to_nowhere(
    disk: RealDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = disk.open(f"{tmp_path}/a", create=True)
    file.write(0, [bytes(300_000)])
    read: list[tuple[int, int]] = []
    pread = os.pread

    def note(fd: int, size: int, position: int) -> bytes:
        read.append((position, size))
        return pread(fd, size, position)

    def refuse(*_: object) -> int:
        raise OSError(errno.EINVAL, "not to files")

    monkeypatch.setattr(os, "sendfile", refuse)
    monkeypatch.setattr(os, "pread", note)
    file.load(200_000, 200_000)
    assert read == [(200_000, 131_072), (300_000, 100_000)]
    monkeypatch.undo()
    monkeypatch.setattr(os, "devnull", f"{tmp_path}/nothing")
    file.load(200_000, 200_000)


def test_load_tells_what_the_disk_says(
    disk: RealDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = disk.open(f"{tmp_path}/a", create=True)
    file.write(0, [b"a"])

    def fail(*_: object) -> int:
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(os, "sendfile", fail)
    with pytest.raises(OSError, match="broken"):
        file.load(0, 1)
    assert not file._pins


def test_unknown_probe_counts_as_cached(
    disk: RealDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = disk.open(f"{tmp_path}/a", create=True)

    def preadv(*_: object) -> int:
        raise OSError(95, "not supported")

    monkeypatch.setattr(os, "preadv", preadv)
    assert file.cached(0, 10)
    monkeypatch.delattr(os, "RWF_NOWAIT", raising=False)
    assert file.cached(0, 10)


@on_linux
def test_open_descriptors_are_bounded(disk: RealDisk, tmp_path: Path) -> None:
    files = [disk.open(f"{tmp_path}/{number}", create=True) for number in range(20)]
    for number, file in enumerate(files):
        file.write(0, [b"%d" % number])
    assert descriptors_below(tmp_path) <= 4
    for number, file in enumerate(files):
        assert file.read(0, 10) == b"%d" % number
    assert descriptors_below(tmp_path) <= 4
    disk.close()
    assert descriptors_below(tmp_path) == 0
    assert files[3].read(0, 10) == b"3"


@on_linux
def test_file_in_use_keeps_its_descriptor(tmp_path: Path) -> None:
    disk = RealDisk(max_open_files=4)
    often, *others = (disk.open(f"{tmp_path}/{number}", create=True) for number in range(50))
    disk.close()
    often.write(0, [b"x"])
    number_before = often._fd
    for file in others:
        often.read(0, 1)
        file.size()
    assert often._fd == number_before
    disk.close()


@on_linux
def test_close_gives_the_descriptor_back(disk: RealDisk, tmp_path: Path) -> None:
    file = disk.open(f"{tmp_path}/a", create=True)
    file.write(0, [b"1"])
    assert descriptors_below(tmp_path) == 1
    file.close()
    assert descriptors_below(tmp_path) == 0
    file.close()
    assert file.read(0, 1) == b"1"


@on_linux
def test_lent_descriptor_outlives_eviction(disk: RealDisk, tmp_path: Path) -> None:
    lent = disk.open(f"{tmp_path}/lent", create=True)
    lent.write(0, [b"lent"])
    fd = lent.fileno()
    assert lent.fileno() == fd
    for number in range(20):
        disk.open(f"{tmp_path}/{number}", create=True).write(0, [b"x"])
    assert os.pread(fd, 10, 0) == b"lent"
    # The next one lent ends it.
    disk.open(f"{tmp_path}/0").fileno()
    lent.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.pread(fd, 10, 0)
    assert lent.read(0, 10) == b"lent"


@on_linux
def test_removed_file_lent_to_this_thread_is_given_up(disk: RealDisk, tmp_path: Path) -> None:
    file = disk.open(f"{tmp_path}/a", create=True)
    file.fileno()
    disk.remove(f"{tmp_path}/a")
    assert descriptors_below(tmp_path) == 0


@on_linux
def test_close_from_another_thread_waits_for_the_lender(disk: RealDisk, tmp_path: Path) -> None:
    file = disk.open(f"{tmp_path}/a", create=True)
    file.write(0, [b"a"])
    fd = file.fileno()
    other = threading.Thread(target=file.close)
    other.start()
    other.join()
    assert os.pread(fd, 1, 0) == b"a"
    disk.open(f"{tmp_path}/b", create=True).fileno()
    assert file._fd == -1


def test_close_during_a_call_waits_for_its_end(
    disk: RealDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = disk.open(f"{tmp_path}/a", create=True)
    file.write(0, [b"abc"])
    pread = os.pread

    def close_then_read(fd: int, size: int, position: int) -> bytes:
        file.close()
        disk.remove(file.path)
        return pread(fd, size, position)

    monkeypatch.setattr(os, "pread", close_then_read)
    assert file.read(0, 3) == b"abc"
    assert file._fd == -1


def test_files_follow_renames(disk: RealDisk, tmp_path: Path) -> None:
    disk.make_dir(f"{tmp_path}/old/deep")
    file = disk.open(f"{tmp_path}/old/a", create=True)
    deep = disk.open(f"{tmp_path}/old/deep/b", create=True)
    beside = disk.open(f"{tmp_path}/older", create=True)
    disk.rename(f"{tmp_path}/old/a", f"{tmp_path}/old/c")
    file.write(0, [b"1"])
    disk.rename(f"{tmp_path}/old", f"{tmp_path}/new")
    for each in (file, deep):
        each.close()
        each.write(0, [b"2"])
    assert file.path == f"{tmp_path}/new/c"
    assert deep.path == f"{tmp_path}/new/deep/b"
    assert beside.path == f"{tmp_path}/older"
    assert disk.read_file(f"{tmp_path}/new/deep/b") == b"2"
    assert disk.open(f"{tmp_path}/new/c") is file


def test_folder_without_files_of_its_own_can_be_renamed(disk: RealDisk, tmp_path: Path) -> None:
    disk.make_dir(f"{tmp_path}/old/deep")
    deep = disk.open(f"{tmp_path}/old/deep/b", create=True)
    disk.rename(f"{tmp_path}/old", f"{tmp_path}/new")
    deep.close()
    assert deep.size() == 0


def test_replaced_file_is_gone_for_its_holder(disk: RealDisk, tmp_path: Path) -> None:
    old = disk.open(f"{tmp_path}/a", create=True)
    old.write(0, [b"old"])
    new = disk.open(f"{tmp_path}/b", create=True)
    new.write(0, [b"new"])
    disk.rename(f"{tmp_path}/b", f"{tmp_path}/a")
    with pytest.raises(FileNotFoundError):
        old.read(0, 3)
    assert new.read(0, 3) == b"new"
    assert disk.open(f"{tmp_path}/a") is new


def test_rename_what_is_not_there(disk: RealDisk, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        disk.rename(f"{tmp_path}/a", f"{tmp_path}/b")


def test_remove(disk: RealDisk, tmp_path: Path) -> None:
    file = disk.open(f"{tmp_path}/a", create=True)
    file.write(0, [b"1"])
    disk.remove(f"{tmp_path}/a")
    disk.remove(f"{tmp_path}/a")
    assert not disk.exists(f"{tmp_path}/a")
    with pytest.raises(FileNotFoundError):
        file.size()
    again = disk.open(f"{tmp_path}/a", create=True)
    assert again.size() == 0
    with pytest.raises(FileNotFoundError):
        file.size()


@on_linux
def test_remove_tree(disk: RealDisk, tmp_path: Path) -> None:
    disk.make_dir(f"{tmp_path}/t/u")
    file = disk.open(f"{tmp_path}/t/u/a", create=True)
    disk.remove_tree(f"{tmp_path}/t")
    disk.remove_tree(f"{tmp_path}/t")
    assert not disk.exists(f"{tmp_path}/t")
    assert descriptors_below(tmp_path) == 0
    with pytest.raises(FileNotFoundError):
        file.read(0, 1)


def test_folders(disk: RealDisk, tmp_path: Path) -> None:
    disk.make_dir(f"{tmp_path}/x/y/z")
    disk.make_dir(f"{tmp_path}/x/y/z")
    disk.open(f"{tmp_path}/x/b", create=True)
    disk.open(f"{tmp_path}/x/a", create=True)
    disk.sync_dir(f"{tmp_path}/x")
    assert disk.list(f"{tmp_path}/x") == ["a", "b", "y"]
    assert disk.is_dir(f"{tmp_path}/x/y")
    assert not disk.is_dir(f"{tmp_path}/x/a")
    assert disk.exists(f"{tmp_path}/x/a")
    with pytest.raises(FileExistsError):
        disk.make_dir(f"{tmp_path}/x/a")
    total, usable = disk.space(str(tmp_path))
    assert total >= usable > 0


def test_write_file_atomically(disk: RealDisk, tmp_path: Path) -> None:
    path = f"{tmp_path}/a"
    disk.write_file_atomically(path, b"one")
    disk.write_file_atomically(path, b"two")
    assert disk.read_file(path) == b"two"
    assert disk.list(str(tmp_path)) == ["a"]


def test_failed_replacement_leaves_the_old_content(
    disk: RealDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = f"{tmp_path}/a"
    disk.write_file_atomically(path, b"one")

    def fail(_fd: int) -> None:
        raise OSError(28, "no space")

    monkeypatch.setattr(os, "fdatasync", fail)
    with pytest.raises(OSError, match="no space"):
        disk.write_file_atomically(path, b"two")
    assert disk.read_file(path) == b"one"
    assert disk.list(str(tmp_path)) == ["a"]


def test_threads_never_reach_another_file(tmp_path: Path) -> None:
    """Many files, few descriptors, many threads: every read brings its own file's bytes."""
    disk = RealDisk(max_open_files=3)
    names = [f"{tmp_path}/{number}" for number in range(12)]
    files = [disk.open(name, create=True) for name in names]
    for number, file in enumerate(files):
        file.write(0, [bytes([number]) * 64])
    wrong: list[object] = []

    def work(step: int) -> None:
        try:
            for turn in range(1500):
                number = (turn * step) % len(files)
                file, content = files[number], bytes([number]) * 64
                if turn % 3 == 0:
                    file.write(0, [content])
                if turn % 50 == 0:
                    file.sync()
                if turn % 7 == 0:
                    file.close()
                if file.read(0, 64) != content:
                    wrong.append((number, turn))
        except OSError as error:
            wrong.append(error)

    def lend() -> None:
        for turn in range(3000):
            number = turn % len(files)
            if os.pread(files[number].fileno(), 64, 0) != bytes([number]) * 64:
                wrong.append(("lent", number, turn))

    threads = [threading.Thread(target=work, args=(step,)) for step in (1, 5, 7)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        lend()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
        disk.close()
    assert wrong == []
    assert all(not file._pins for file in files)


def test_default_bound_leaves_room_for_connections() -> None:
    assert default_max_open_files() >= disk_module.MIN_OPEN_FILES
    assert RealDisk().max_open_files == default_max_open_files()


def test_unlimited_process_still_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    unlimited = disk_module.resource.RLIM_INFINITY
    monkeypatch.setattr(disk_module.resource, "getrlimit", lambda _: (unlimited, unlimited))
    assert default_max_open_files() == (3 << 18) - disk_module.RESERVED_DESCRIPTORS


@on_linux
@pytest.mark.source
def test_files_give_way_to_connections(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_module, "KEPT_OPEN_FILES", 3)
    disk = RealDisk(max_open_files=10)
    files = [disk.open(f"{tmp_path}/{number}", create=True) for number in range(8)]
    assert disk.give_way(2) == 2
    assert descriptors_below(tmp_path) == 6
    assert disk.give_way(64) == 3
    assert disk.give_way(64) == 0
    assert descriptors_below(tmp_path) == 3, "those that must stay"
    assert [file.size() for file in files] == [0] * 8
    disk.close()


@on_linux
def test_without_descriptors_a_file_takes_the_place_of_another(
    disk: RealDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (disk.open(f"{tmp_path}/{name}", create=True) for name in "ab")
    second.close()
    really_open = os.open

    def open_one(*arguments: Any) -> int:
        if descriptors_below(tmp_path) >= 1:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return really_open(*arguments)

    monkeypatch.setattr(os, "open", open_one)
    assert second.size() == 0
    assert first.size() == 0
    first._pins.append(None)
    with pytest.raises(OSError, match="Too many open files"):
        second.size()
    first._pins.clear()
    disk.close()


def test_connections_get_what_files_can_do_without(monkeypatch: pytest.MonkeyPatch) -> None:
    def connections_of(limit: int) -> int:
        monkeypatch.setattr(disk_module.resource, "getrlimit", lambda _: (limit, limit))
        return disk_module.max_connections()

    reserved = disk_module.RESERVED_DESCRIPTORS
    assert connections_of(20_000) == 18_000 - reserved
    assert connections_of(1024) == 768 - reserved
    assert connections_of(64) == 16
