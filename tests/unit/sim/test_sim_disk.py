from __future__ import annotations

import errno
import random

import pytest

from barnabas.sim.disk import SECTOR_BYTES, SimDisk

SEEDS = range(60)


@pytest.fixture
def disk() -> SimDisk:
    disk = SimDisk(random.Random(1))
    disk.make_dir("/d")
    return disk


def crashed(seed: int, work) -> SimDisk:
    """Run some work on a new disk, then cut the power."""
    disk = SimDisk(random.Random(seed))
    disk.make_dir("/d")
    work(disk)
    disk.crash()
    return disk


def outcomes(work) -> set[object]:
    """What crashes leave of some work, over many seeds."""
    return {tuple(sorted(crashed(seed, work).contents().items())) for seed in SEEDS}


def synced_file(disk: SimDisk, content: bytes, path: str = "/d/a"):
    file = disk.open(path, create=True)
    file.write(0, [content])
    file.sync()
    disk.sync_dir("/d")
    return file


# As a disk


def test_write_and_read_back(disk: SimDisk) -> None:
    file = disk.open("/d/a", create=True)
    file.write(0, [b"hello ", memoryview(b"world")])
    file.write(13, [b"!"])
    assert file.read(0, 100) == b"hello world\0\0!"
    assert file.read(6, 3) == b"wor"
    assert file.read(99, 3) == b""
    assert file.size() == 14
    file.truncate(3)
    assert file.read(0, 9) == b"hel"
    file.truncate(5)
    assert disk.read_file("/d/a") == b"hel\0\0"
    assert disk.open("/d/a") is file
    file.close()
    with pytest.raises(OSError, match="Invalid argument"):
        file.read(-1, 3)
    with pytest.raises(OSError, match="no descriptor"):
        file.fileno()


def test_names(disk: SimDisk) -> None:
    disk.make_dir("/d/x/y")
    disk.make_dir("/d/x/y")
    disk.open("/d/b", create=True)
    disk.open("d//a", create=True)
    assert disk.list("/d") == ["a", "b", "x"]
    assert disk.list("/") == ["d"]
    assert disk.is_dir("/d/x")
    assert not disk.is_dir("/d/a")
    assert not disk.is_dir("/d/a/b")
    assert disk.exists("/d/a")
    assert not disk.exists("/d/c")
    disk.remove("/d/a")
    disk.remove("/d/a")
    assert disk.list("/d") == ["b", "x"]
    disk.remove_tree("/d/x")
    disk.remove_tree("/d/x")
    assert disk.list("/d") == ["b"]
    assert disk.space("/d") == (1 << 40, 1 << 40)


def test_what_is_refused(disk: SimDisk) -> None:
    disk.open("/d/a", create=True)
    disk.make_dir("/d/x")
    disk.open("/d/x/b", create=True)
    for call in (
        lambda: disk.open("/d/c"),
        lambda: disk.open("/none/c", create=True),
        lambda: disk.read_file("/d/c"),
        lambda: disk.rename("/d/c", "/d/e"),
        lambda: disk.list("/none"),
    ):
        with pytest.raises(FileNotFoundError):
            call()
    for call in (
        lambda: disk.open("/d/x"),
        lambda: disk.read_file("/d/x"),
        lambda: disk.remove("/d/x"),
        lambda: disk.write_file_atomically("/d/x", b""),
    ):
        with pytest.raises(IsADirectoryError):
            call()
    with pytest.raises(NotADirectoryError):
        disk.list("/d/a")
    with pytest.raises(FileExistsError):
        disk.make_dir("/d/a/b")
    with pytest.raises(OSError, match="not empty"):
        disk.rename("/d/a", "/d/x")


def test_files_follow_renames(disk: SimDisk) -> None:
    disk.make_dir("/d/old/deep")
    file = disk.open("/d/old/a", create=True)
    deep = disk.open("/d/old/deep/b", create=True)
    disk.rename("/d/old/a", "/d/old/c")
    disk.rename("/d/old", "/d/new")
    file.write(0, [b"1"])
    deep.write(0, [b"2"])
    assert (file.path, deep.path) == ("/d/new/c", "/d/new/deep/b")
    assert disk.contents() == {"/d/new/c": b"1", "/d/new/deep/b": b"2"}
    assert disk.open("/d/new/c") is file


def test_a_file_knows_when_it_was_written(disk: SimDisk) -> None:
    file = disk.open("/d/a", create=True)
    disk.now_ms = lambda: 5
    file.write(0, [b"a"])
    disk.now_ms = lambda: 7
    assert file.read(0, 1) == b"a"
    assert file.modified_ms() == 5


def test_removing_what_is_not_there_is_fine(disk: SimDisk) -> None:
    disk.remove("/d/nothing")
    disk.remove("/nowhere/nothing")


def test_removed_or_replaced_file_is_dead(disk: SimDisk) -> None:
    first, second, third = (disk.open(f"/d/{name}", create=True) for name in "abc")
    disk.rename("/d/b", "/d/a")
    disk.remove("/d/c")
    for dead in (first, third):
        with pytest.raises(FileNotFoundError):
            dead.read(0, 1)
        with pytest.raises(FileNotFoundError):
            dead.write(0, [b"1"])
        with pytest.raises(FileNotFoundError):
            dead.sync()
        dead.close()
    assert second.size() == 0
    disk.write_file_atomically("/d/a", b"new")
    with pytest.raises(FileNotFoundError):
        second.size()


def test_chilled_file_is_cold_until_read(disk: SimDisk) -> None:
    file = synced_file(disk, b"abc")
    assert file.cached(0, 3)
    disk.chill("/d/a")
    assert not file.cached(0, 3)
    file.read(0, 3)
    assert file.cached(0, 3)


# Power loss


@pytest.mark.parametrize("seed", SEEDS)
def test_synced_data_is_never_lost(seed: int) -> None:
    content = bytes(range(256)) * 8

    def work(disk: SimDisk) -> None:
        file = synced_file(disk, content)
        file.write(len(content), [b"x" * 2000])
        disk.open("/d/other", create=True).write(0, [b"y"])

    after = crashed(seed, work).contents()
    assert after["/d/a"].startswith(content)


@pytest.mark.parametrize("seed", SEEDS)
def test_atomic_replacement_is_durable(seed: int) -> None:
    def work(disk: SimDisk) -> None:
        disk.write_file_atomically("/d/a", b"one")
        disk.write_file_atomically("/d/a", b"two")

    assert crashed(seed, work).contents() == {"/d/a": b"two"}


def test_unsynced_bytes_are_lost_torn_or_kept() -> None:
    def work(disk: SimDisk) -> None:
        file = synced_file(disk, b"")
        file.write(0, [b"1" * 2 * SECTOR_BYTES])
        file.write(2 * SECTOR_BYTES, [b"2" * 2 * SECTOR_BYTES])

    found = {dict(outcome)["/d/a"] for outcome in outcomes(work)}
    whole = b"1" * 2 * SECTOR_BYTES + b"2" * 2 * SECTOR_BYTES
    assert {b"", whole, whole[: 2 * SECTOR_BYTES]} <= found
    assert any(b"\0" in content for content in found), "no sector was lost between others"
    for content in found:
        for start in range(0, len(content), SECTOR_BYTES):
            sector = content[start : start + SECTOR_BYTES]
            assert sector in (whole[start : start + SECTOR_BYTES], bytes(SECTOR_BYTES))


def test_sector_written_twice_may_have_the_state_in_between() -> None:
    def work(disk: SimDisk) -> None:
        file = synced_file(disk, b"0000")
        file.write(4, [b"1111"])
        file.write(8, [b"2222"])

    found = {dict(outcome)["/d/a"] for outcome in outcomes(work)}
    assert {b"0000", b"00001111", b"000011112222"} <= found
    assert all(content.startswith(b"0000") for content in found)


def test_unsynced_truncation_may_come_back() -> None:
    def work(disk: SimDisk) -> None:
        synced_file(disk, b"abcdef").truncate(2)

    # The third has the old size and the sector that was cut.
    found = {dict(outcome)["/d/a"] for outcome in outcomes(work)}
    assert found == {b"ab", b"abcdef", b"ab\0\0\0\0"}


def test_unsynced_names_are_lost_or_kept() -> None:
    def work(disk: SimDisk) -> None:
        synced_file(disk, b"1", "/d/removed")
        synced_file(disk, b"2", "/d/before")
        disk.remove("/d/removed")
        disk.rename("/d/before", "/d/after")
        disk.open("/d/created", create=True).sync()

    names = {tuple(path for path, _ in outcome) for outcome in outcomes(work)}
    assert ("/d/before", "/d/removed") in names
    assert ("/d/after", "/d/created") in names
    for found in names:
        assert ("/d/before" in found) != ("/d/after" in found)


@pytest.mark.parametrize("seed", SEEDS)
def test_synced_names_stay(seed: int) -> None:
    def work(disk: SimDisk) -> None:
        synced_file(disk, b"1", "/d/removed")
        synced_file(disk, b"2", "/d/before")
        disk.remove("/d/removed")
        disk.rename("/d/before", "/d/after")
        disk.sync_dir("/d")

    assert crashed(seed, work).contents() == {"/d/after": b"2"}


def test_rename_of_a_lost_creation_leaves_nothing() -> None:
    def work(disk: SimDisk) -> None:
        disk.open("/d/a", create=True)
        disk.rename("/d/a", "/d/b")

    names = {tuple(path for path, _ in outcome) for outcome in outcomes(work)}
    assert names == {(), ("/d/a",), ("/d/b",)}


def test_rename_to_another_folder(disk: SimDisk) -> None:
    disk.make_dir("/e")
    file = synced_file(disk, b"1")
    disk.rename("/d/a", "/e/a")
    assert file.path == "/e/a"
    disk.crash()
    assert disk.contents() == {"/e/a": b"1"}


def test_files_of_before_the_crash_are_dead(disk: SimDisk) -> None:
    file = synced_file(disk, b"1")
    disk.crash()
    with pytest.raises(OSError, match="before the crash"):
        file.read(0, 1)
    with pytest.raises(OSError, match="before the crash"):
        file.write(0, [b"2"])
    file.close()
    assert disk.open("/d/a").read(0, 1) == b"1"


def test_killed_process_loses_nothing_it_wrote(disk: SimDisk) -> None:
    file = disk.open("/d/a", create=True)
    file.write(0, [b"written"])
    disk.process_crash()
    assert disk.contents() == {"/d/a": b"written"}
    with pytest.raises(OSError, match="before the crash"):
        file.sync()


def run_of_chance(seed: int) -> tuple[dict[str, bytes], int]:
    """A run that takes chances at every turn."""
    rng = random.Random(seed)
    disk = SimDisk(random.Random(seed), capacity_bytes=20_000)
    disk.make_dir("/d")
    for turn in range(60):
        disk.fail_call(rng.randint(0, 9))
        path = f"/d/{rng.randint(0, 4)}"
        try:
            file = disk.open(path, create=True)
            file.write(rng.randint(0, 3000), [bytes([turn]) * rng.randint(0, 3000)])
            file.sync() if rng.random() < 0.5 else disk.sync_dir("/d")
            if rng.random() < 0.2:
                disk.remove(path)
            disk.write_file_atomically(f"{path}.txt", bytes([turn]))
            disk.rename(path, f"{path}.old")
        except OSError:
            pass
        if turn % 20 == 19:
            disk.crash()
            assert disk.used_bytes == sum(map(len, disk.contents().values()))
    return disk.contents(), disk.calls


@pytest.mark.parametrize("seed", range(20))
def test_one_seed_one_outcome(seed: int) -> None:
    assert run_of_chance(seed) == run_of_chance(seed)


# Faults


def test_the_nth_call_fails_once(disk: SimDisk) -> None:
    file = disk.open("/d/a", create=True)
    before = disk.calls
    disk.fail_call(3)
    file.size()
    disk.exists("/d/a")
    with pytest.raises(OSError, match="/d/a") as failure:
        file.size()
    assert failure.value.errno == errno.EIO
    file.size()
    assert disk.calls == before + 4


def test_something_happens_before_the_nth_call_and_once(disk: SimDisk) -> None:
    file = disk.open("/file", create=True)
    disk.at_call(2, lambda: disk.remove("/file"))
    assert file.size() == 0
    with pytest.raises(FileNotFoundError):
        file.size()
    disk.open("/file", create=True).write(0, (b"another",))
    assert disk.read_file("/file") == b"another"


def test_every_call_counts(disk: SimDisk) -> None:
    file = synced_file(disk, b"1")
    calls = [
        lambda: file.size(),
        lambda: file.read(0, 1),
        lambda: file.write(0, [b"2"]),
        lambda: file.truncate(1),
        lambda: file.sync(),
        lambda: file.cached(0, 1),
        lambda: file.close(),
        lambda: disk.open("/d/a"),
        lambda: disk.read_file("/d/a"),
        lambda: disk.write_file_atomically("/d/b", b"3"),
        lambda: disk.list("/d"),
        lambda: disk.exists("/d/a"),
        lambda: disk.is_dir("/d"),
        lambda: disk.make_dir("/d/x"),
        lambda: disk.rename("/d/b", "/d/c"),
        lambda: disk.remove("/d/c"),
        lambda: disk.remove_tree("/d/x"),
        lambda: disk.sync_dir("/d"),
        lambda: disk.space("/d"),
    ]
    for call in calls:
        before = disk.calls
        call()
        assert disk.calls == before + 1
        disk.fail_call(1, errno.EROFS)
        with pytest.raises(OSError, match="Read-only"):
            call()


def test_order_to_fail_can_be_taken_back(disk: SimDisk) -> None:
    disk.fail_call(1)
    disk.fail_call(0)
    disk.exists("/d")
    disk.fail_call(1)
    disk.heal()
    disk.exists("/d")


def test_failing_write_leaves_a_part() -> None:
    sizes = set()
    for seed in SEEDS:
        disk = SimDisk(random.Random(seed))
        file = disk.open("/a", create=True)
        disk.fail_call(1)
        with pytest.raises(OSError, match="/a"):
            file.write(0, [b"123", b"456"])
        assert b"123456".startswith(file.read(0, 10))
        assert disk.used_bytes == file.size()
        sizes.add(file.size())
    assert {0, 6} < sizes


def test_failing_sync_loses_what_the_next_one_does_not_bring_back() -> None:
    found = set()
    for seed in SEEDS:
        disk = SimDisk(random.Random(seed))
        disk.make_dir("/d")
        file = synced_file(disk, b"old")
        file.write(0, [b"new"])
        disk.fail_call(1)
        with pytest.raises(OSError, match="/d/a"):
            file.sync()
        file.sync()
        assert file.read(0, 3) == b"new"
        disk.crash()
        found.add(disk.read_file("/d/a"))
    assert found == {b"old", b"new"}


def test_failing_replacement_leaves_old_or_new_whole() -> None:
    found = set()
    for seed in SEEDS:
        disk = SimDisk(random.Random(seed))
        disk.make_dir("/d")
        disk.write_file_atomically("/d/a", b"old")
        disk.fail_call(1)
        with pytest.raises(OSError, match="/d/a"):
            disk.write_file_atomically("/d/a", b"new")
        found.add((disk.read_file("/d/a"), disk.exists("/d/a.tmp")))
        disk.crash()
        assert disk.read_file("/d/a") in (b"old", b"new")
    assert found == {(b"old", False), (b"old", True), (b"new", False)}


def test_failing_removal_of_a_tree_leaves_a_tree() -> None:
    left = set()
    for seed in SEEDS:
        disk = SimDisk(random.Random(seed))
        disk.make_dir("/t/u")
        for path in ("/t/a", "/t/u/b"):
            disk.open(path, create=True)
        disk.fail_call(1)
        with pytest.raises(OSError, match="/t"):
            disk.remove_tree("/t")
        left.add(tuple(disk.contents()))
    assert {(), ("/t/a",), ("/t/u/b",), ("/t/a", "/t/u/b")} == left


def test_bad_path_fails_until_healed(disk: SimDisk) -> None:
    file = synced_file(disk, b"1")
    disk.make_dir("/e")
    disk.fail_path("/d", errno.EIO)
    for call in (file.size, lambda: disk.list("/d"), lambda: disk.open("/d/new", create=True)):
        with pytest.raises(OSError, match="/d"):
            call()
    assert disk.list("/e") == []
    disk.heal()
    assert file.size() == 1
    disk.fail_path("/")
    with pytest.raises(OSError, match="/e"):
        disk.list("/e")


def test_full_disk_writes_what_fits() -> None:
    disk = SimDisk(random.Random(1), capacity_bytes=10)
    file = disk.open("/a", create=True)
    file.write(0, [b"1234567"])
    with pytest.raises(OSError, match="space") as failure:
        file.write(7, [b"89", b"abc"])
    assert failure.value.errno == errno.ENOSPC
    assert file.read(0, 20) == b"123456789a"
    assert disk.space("/") == (10, 0)
    file.write(0, [b"overwriting"[:10]])
    with pytest.raises(OSError, match="space"):
        file.truncate(11)
    with pytest.raises(OSError, match="space"):
        disk.write_file_atomically("/b", b"1")
    with pytest.raises(OSError, match="space"):
        file.write(20, [b"beyond"])
    assert file.size() == 10
    file.truncate(4)
    disk.write_file_atomically("/b", b"123456")
    assert disk.space("/") == (10, 0)
    disk.remove("/b")
    disk.capacity_bytes = 20
    file.write(4, [bytes(16)])
    assert disk.free_bytes == 0


@pytest.mark.parametrize("seed", range(10))
def test_flipped_bit_stays_flipped(seed: int) -> None:
    disk = SimDisk(random.Random(seed))
    disk.make_dir("/d")
    file = synced_file(disk, b"\x00\x00")
    disk.flip("/d/a", 1, bit=3)
    assert file.read(0, 2) == b"\x00\x08"
    file.write(2, [b"\x00"])
    disk.flip("/d/a", 2)
    assert file.read(0, 3) == b"\x00\x08\x01"
    disk.crash()
    assert disk.read_file("/d/a").startswith(b"\x00\x08")
