import os

import pytest

from barnabas.runtime.directory_copy import copy_folder, find_link, folder_bytes

LOGS = [f"{base:020d}.log" for base in (0, 5, 9)]


@pytest.fixture
def source(tmp_path):
    folder = tmp_path / "source"
    folder.mkdir()
    for name in (*LOGS, f"{0:020d}.index"):
        (folder / name).write_bytes(name.encode() * 3)
    (folder / f"{0:020d}.log.deleted").write_bytes(b"gone")
    (folder / "quarantine").mkdir()
    with (folder / f"{9:020d}.index").open("wb") as file:
        file.write(b"\x01" * 8)
        file.truncate(10 * 1024 * 1024)
        file.seek(0, os.SEEK_END)
        file.write(b"end")
    os.utime(folder / LOGS[0], ns=(5_000_000_000, 7_000_000_123))
    return folder


@pytest.mark.parametrize("link", [False, True])
def test_files_come_with_their_times_and_holes(source, tmp_path, link):
    target, passed = tmp_path / "target", []
    copy_folder(str(source), str(target), passed.append, link=link)
    assert sorted(path.name for path in target.iterdir()) == sorted(
        path.name for path in source.iterdir() if path.is_file() and path.suffix != ".deleted"
    )
    for path in target.iterdir():
        assert path.read_bytes() == (source / path.name).read_bytes()
    assert (target / LOGS[0]).stat().st_mtime_ns == 7_000_000_123
    holes = (target / f"{9:020d}.index").stat()
    assert holes.st_blocks * 512 < holes.st_size
    shared = [name for name in LOGS if (target / name).samefile(source / name)]
    assert shared == (LOGS[:-1] if link else [])
    assert sum(passed) < 1024 * 1024 >= folder_bytes(str(source))


def test_links_are_told_and_left_out(source, tmp_path):
    assert find_link(str(source)) is None
    secret = tmp_path / "secret"
    secret.write_bytes(b"of somebody else" * 1000)
    (source / f"{20:020d}.log").symlink_to(secret)
    assert find_link(str(source)) == str(source / f"{20:020d}.log")
    copy_folder(str(source), str(tmp_path / "target"), lambda _size: None)
    assert not (tmp_path / "target" / f"{20:020d}.log").exists()
    inner = tmp_path / "kafka"
    (inner / "t-0").mkdir(parents=True)
    (inner / "t-0" / "link").symlink_to("nowhere")
    assert find_link(str(inner)) == str(inner / "t-0" / "link")
