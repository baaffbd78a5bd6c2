"""What the tests of the log share: small batches, a folder on a simulated disk, and ways to look inside."""

from __future__ import annotations

import random

from barnabas.model.config import build_log_config
from barnabas.sim.disk import SimDisk
from barnabas.storage.log import Log
from barnabas.wire.batch import Producer, Record, build, headers, read_header, read_records
from barnabas.wire.compression import Codec

DIRECTORY = "/data/topic-0"
NOW = 1_700_000_000_000


def config(**settings):
    """Topic settings by Kafka's names with underscores."""
    values = {name.replace("_", "."): value for name, value in settings.items()}
    if "segment.bytes" in values:
        values["internal.segment.bytes"] = values.pop("segment.bytes")
    return build_log_config(values)


def new_disk(seed=1, **options):
    disk = SimDisk(random.Random(seed), **options)
    disk.make_dir(DIRECTORY)
    return disk


def open_log(disk, settings=None, **left):
    left.setdefault("clean", True)
    left.setdefault("now_ms", NOW)
    return Log.open(disk, DIRECTORY, settings or config(), **left)


def batch_of(
    count=1, *, timestamp=NOW, size=10, codec=Codec.NONE, producer=None, step=0, attributes=0
):
    """Build a batch as a client sends it: offsets from 0."""
    records = [
        Record(number, timestamp + number * step, None, b"%d" % number * size)
        for number in range(count)
    ]
    return build(records, codec=codec, producer=producer or Producer(), attributes=attributes)


def append(log, batch=None, *, epoch=0, now_ms=NOW, **shape):
    batch = batch_of(**shape) if batch is None else batch
    view = memoryview(batch)
    return log.append(view, read_header(view), epoch, now_ms)


def read(log, offset, max_bytes=1 << 30, *, end_offset=None, min_one=True, nowait=False):
    end = log.log_end_offset if end_offset is None else end_offset
    return log.read(offset, max_bytes, end_offset=end, min_one=min_one, nowait=nowait)


def offsets_in(slice_):
    """Base offsets of the whole batches in a slice."""
    if slice_ is None:
        return []
    return [header.base_offset for _, header in headers(memoryview(slice_.read()))]


def read_all(log, offset=None):
    """Read the log from its start as a consumer does: every record, in order."""
    offset = log.log_start_offset if offset is None else offset
    records = []
    while (slice_ := read(log, offset)) is not None:
        data = memoryview(slice_.read())
        for position, header in headers(data):
            batch = data[position : position + header.size]
            records += [one for one in read_records(batch, 1 << 30) if one.offset >= offset]
            offset = header.next_offset
    return records


def files(disk):
    """Names and contents in the folder."""
    prefix = DIRECTORY + "/"
    return {
        path.removeprefix(prefix): data
        for path, data in disk.contents().items()
        if path.startswith(prefix)
    }
