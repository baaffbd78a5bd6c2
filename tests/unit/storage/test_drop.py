"""Files that are put aside: two of one name stay apart, and whoever reads one goes on reading it."""

from cleaner_kit import compact, compacted, put
from log_kit import DIRECTORY, NOW, new_disk, open_log

from barnabas.storage.drop import DropJob, put_aside

PATH = f"{DIRECTORY}/{0:020d}.log"


def test_a_file_that_is_put_aside_stays_itself():
    disk = new_disk()
    found = []
    for content in (b"first", b"second", b"third"):
        file = disk.open(PATH, create=True)
        file.write(0, (content,))
        found.append((put_aside(disk, PATH), file, content))
    assert [path for path, _, _ in found] == [
        PATH + ".deleted", PATH + ".2.deleted", PATH + ".3.deleted",
    ]  # fmt: skip
    assert all(file.read(0, 9) == content for _, file, content in found)


def test_what_is_not_there_is_not_put_aside():
    disk = new_disk()
    assert put_aside(disk, PATH) is None
    assert DropJob(disk, [PATH]).run() == []


def test_a_segment_that_is_replaced_twice_within_the_delay_is_there_twice():
    disk = new_disk()
    log = open_log(disk, compacted(segment_bytes=300))
    old, aside = [], []
    for number in range(3):
        for again in range(6):
            put(log, [(b"a", b"%d" % number), (b"k%d" % again, b"v")])
        log.roll(NOW)
        segment = log.segments[0]
        old.append((segment, segment.log.read(0, segment.size)))
        compact(disk, log, remove=aside.extend)
    assert len(aside) == len(set(aside))
    assert len([path for path in aside if path.startswith(PATH)]) == 3
    assert [segment.log.read(0, segment.size) for segment, _ in old] == [data for _, data in old]
    # When the time of the first ones is over, the others stay.
    for path in aside[: len(aside) // 2]:
        disk.remove(path)
    segment, data = old[-1]
    assert segment.log.read(0, segment.size) == data
