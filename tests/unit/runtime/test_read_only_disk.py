import pytest

from barnabas.runtime.read_only_disk import ReadOnlyDisk


@pytest.fixture
def disk():
    disk = ReadOnlyDisk()
    yield disk
    disk.close()


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "a").write_bytes(b"0123456789")
    (tmp_path / "below").mkdir()
    return str(tmp_path)


def test_it_reads(disk, folder):
    file = disk.open(f"{folder}/a")
    assert (file.size(), file.read(2, 3), file.read(8, 9), file.read(20, 1)) == (
        10,
        b"234",
        b"89",
        b"",
    )
    assert file.cached(0, 1)
    assert file.modified_ms() > 0
    assert file.fileno() == file.fileno()
    file.close()
    file.close()
    assert file.read(0, 1) == b"0"
    assert disk.read_file(f"{folder}/a") == b"0123456789"
    assert disk.list(folder) == ["a", "below"]
    assert disk.exists(f"{folder}/a")
    assert disk.is_dir(f"{folder}/below")
    assert not disk.is_dir(f"{folder}/a")
    assert disk.space(folder)[0] > 0
    with pytest.raises(FileNotFoundError):
        disk.open(f"{folder}/b")


def test_many_files_need_few_descriptors(disk, tmp_path):
    for number in range(40):
        (tmp_path / str(number)).write_bytes(b"%d" % number)
    files = [disk.open(f"{tmp_path}/{number}") for number in range(40)]
    for _ in range(2):
        assert [file.read(0, 9) for file in files] == [b"%d" % number for number in range(40)]
    assert len(disk._descriptors) <= 16


def test_it_changes_nothing(disk, folder):
    path = f"{folder}/a"
    file = disk.open(path)
    for change in (
        lambda: file.write(0, (b"x",)),
        lambda: file.truncate(0),
        lambda: file.sync(),
        lambda: disk.open(f"{folder}/b", create=True),
        lambda: disk.write_file_atomically(path, b""),
        lambda: disk.make_dir(f"{folder}/c"),
        lambda: disk.rename(path, f"{folder}/c"),
        lambda: disk.remove(path),
        lambda: disk.remove_tree(folder),
        lambda: disk.sync_dir(folder),
    ):
        with pytest.raises(OSError, match="nothing is changed"):
            change()
    assert disk.list(folder) == ["a", "below"]
