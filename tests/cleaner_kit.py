"""What the tests of compaction share: logs of keyed records, and a compaction from plan to swap in one call."""

from __future__ import annotations

from log_kit import NOW, config, read_all

from barnabas.storage.cleaner import Cleaning
from barnabas.storage.cleaning_plan import CleanerLimits, measure, plan
from barnabas.wire.batch import CONTROL, Producer, Record, build, headers, read_header
from barnabas.wire.compression import Codec
from barnabas.wire.control_batch import read_marker

LIMITS = CleanerLimits(dedupe_buffer_bytes=1 << 16, load_factor=0.9, io_buffer_bytes=4096)


def compacted(**settings):
    """Topic settings of a compacted topic with small segments."""
    settings.setdefault("segment_bytes", 1000)
    settings.setdefault("index_interval_bytes", 100)
    return config(cleanup_policy=("compact",), **settings)


def put(
    log, pairs, *, codec=Codec.NONE, producer=None, attributes=0, timestamp=NOW, step=1, now_ms=NOW
):
    """Append one batch of (key, value) pairs; a value of None deletes the key."""
    records = [
        Record(number, timestamp + number * step, key, value)
        for number, (key, value) in enumerate(pairs)
    ]
    batch = memoryview(
        build(records, codec=codec, producer=producer or Producer(), attributes=attributes)
    )
    marker = read_marker(batch) if attributes & CONTROL else None
    return log.append(batch, read_header(batch), 0, now_ms, marker)


def compact(
    disk, log, *, clean_offset=None, now_ms=NOW, limits=LIMITS, stable_offset=None, remove=None
):
    """Compact a log; return the cleaning, from which the next clean offset comes."""
    stable_offset = log.log_end_offset if stable_offset is None else stable_offset
    dirtiness = measure(log, clean_offset, stable_offset, now_ms)
    cleaning = Cleaning(disk, plan(log, dirtiness, limits, now_ms))
    cleaning.build_map()
    for cleaned in cleaning.segments():
        swap_in(disk, log, cleaned, remove)
    return cleaning


def swap_in(disk, log, cleaned, remove=None):
    """Put a new segment in place, and remove what it replaced: at once, or as `remove` does it."""
    job = log.plan_swap(cleaned, NOW)
    if job is not None:
        job.run()
        paths = log.on_swapped(job)
        for path in paths if remove is None else ():
            disk.remove(path)
        if remove is not None:
            remove(paths)


def state_of(records):
    """What a reader knows who has read these records: the value of each key that is there."""
    state = {}
    for record in records:
        if record.value is None:
            state.pop(record.key, None)
        else:
            state[record.key] = record.value
    return state


def batch_headers(log):
    """The headers of all batches of a log, in order."""
    found = []
    for segment in (*log.closed_segments, log._active):
        found += [header for _, header in headers(memoryview(segment.log.read(0, segment.size)))]
    return found


def offsets(log):
    return [record.offset for record in read_all(log)]
