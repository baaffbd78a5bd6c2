"""When and why records go, in words."""

import pytest

from barnabas.cli.outlook import moment, storage_page, tell_compaction, tell_deletion
from barnabas.model.config import build_log_config
from barnabas.storage.cleaning_plan import Dirtiness

NOW = 1_800_000_000_000
WEEK_MS = 604_800_000


def segment(at_ms=None, after_bytes=None, size=2048, active=False):
    return {
        "base_offset": 0,
        "end_offset": 10_000,
        "size_bytes": size,
        "active": active,
        "deleted_at_ms": at_ms,
        "deleted_after_bytes": after_bytes,
    }


def config(**settings):
    return build_log_config({name.replace("_", "."): value for name, value in settings.items()})


def tell(first, **settings):
    return tell_deletion([first], config(**settings), NOW)


def test_by_time():
    assert tell(segment(at_ms=NOW + 1000)) == (
        f"the first segment (2.0 KiB, offsets 0 to 9,999) goes at {moment(NOW + 1000)}"
        " by retention.ms=604800000 (7 days)"
    )


def test_by_size():
    told = tell(segment(after_bytes=200 << 20), retention_ms=-1, retention_bytes=1 << 30)
    assert told.endswith("goes when 200.0 MiB more have come by retention.bytes=1073741824 (1 GiB)")


def test_by_whichever_comes_first():
    told = tell(segment(NOW + 1, 5), retention_bytes=100)
    assert (
        " by retention.ms=604800000 (7 days), or when 5 bytes more have come by retention.bytes=100"
        in told
    )


@pytest.mark.parametrize("first", [segment(at_ms=NOW), segment(after_bytes=0)])
def test_what_is_due(first):
    assert "goes at the next look by retention." in tell(first, retention_bytes=100)


def test_never():
    assert tell(segment(), retention_ms=-1) == (
        "the first segment is kept: retention.ms=-1 (no limit) and retention.bytes=-1 (no limit)"
    )
    far = 2**63 - 1
    assert tell(segment(at_ms=far + NOW), retention_ms=far).startswith(
        "the first segment is kept: retention.ms=9223372036854775807 and "
    )


def test_an_active_segment_does_not_go_by_size():
    told = tell(segment(active=True), retention_ms=-1, retention_bytes=2048)
    assert told == (
        "the only segment is kept: retention.ms=-1 (no limit),"
        " and retention.bytes=2048 (2 KiB) counts once it is closed"
    )


def test_nothing_there():
    assert tell(segment(size=0, active=True)) == "there is nothing to delete"


@pytest.mark.parametrize(("policy", "word"), [(("compact",), "compact"), ((), "(none)")])
def test_other_policies(policy, word):
    told = tell(segment(), cleanup_policy=policy)
    assert told == f"no segment is deleted: cleanup.policy={word}"


def dirtiness(clean=0, cleanable=0, overdue=False):
    return Dirtiness(0, 10, clean, cleanable, overdue)


def compaction(found, *, is_due=False, **settings):
    return tell_compaction(found, config(cleanup_policy=("compact",), **settings), is_due=is_due)


def test_compaction():
    assert "nothing to compact" in compaction(dirtiness(10, 0))
    assert compaction(dirtiness(69, 31)) == (
        "it is compacted when its dirty ratio, 0.31 now, is more than min.cleanable.dirty.ratio=0.5"
    )
    assert compaction(dirtiness(39, 61), is_due=True) == (
        "it is compacted next: its dirty ratio, 0.61 now, is more than min.cleanable.dirty.ratio=0.5"
    )
    late = dirtiness(69, 31, overdue=True)
    assert compaction(late, is_due=True, max_compaction_lag_ms=1000) == (
        "it is compacted next: something has waited for more than max.compaction.lag.ms=1000 (1 second)"
    )


def test_moments():
    assert moment(None) is None
    assert moment(-1) is None
    assert moment(2**62) is None
    assert moment(NOW)[:4] == "2027"


def test_the_page():
    here = {
        "directory": "/data",
        "size_bytes": 3072,
        "oldest_timestamp_ms": None,
        "newest_timestamp_ms": NOW,
        "dirty_ratio": 0.25,
        "segments": [segment(), segment()],
        "outlook": ["this", "that"],
    }
    page = storage_page([{"partition": 0, "storage": here}, {"partition": 1, "storage": None}])
    assert page.splitlines()[1].split()[:6] == ["0", "/data", "3.0", "KiB", "2", "-"]
    assert "not on this machine" in page
    assert page.endswith("\n\n  0: this\n  0: that")
