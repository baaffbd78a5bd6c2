"""What will become of a partition's records, in words: when and why they go, when it is compacted.

One job: sentences from what the rules foretell. Must not know where the facts come from.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from barnabas.cli.output import meaning, size, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barnabas.model.config import LogConfig
    from barnabas.storage.cleaning_plan import Dirtiness

#: What is later than this is never: the calendar ends here.
_LAST_MS: Final = 253_402_000_000_000


def moment(timestamp_ms: int | None) -> str | None:
    """A time for people, in their own zone; None if there is none, or none that a calendar has."""
    if timestamp_ms is None or not 0 <= timestamp_ms <= _LAST_MS:
        return None
    local = datetime.fromtimestamp(timestamp_ms / 1000).astimezone()
    return local.isoformat(sep=" ", timespec="seconds")


def storage_page(partitions: Sequence[dict[str, Any]]) -> str:
    """A table of what lies on the disk, and under it what will become of it."""
    rows: list[list[object]] = []
    lines = []
    for partition in partitions:
        number, stored = partition["partition"], partition["storage"]
        if stored is None:
            rows.append([number, "not on this machine", *[None] * 5])
            continue
        bulk = [size(stored["size_bytes"]), str(len(stored["segments"]))]
        times = [moment(stored[f"{which}_timestamp_ms"]) for which in ("oldest", "newest")]
        rows.append([number, stored["directory"], *bulk, *times, stored["dirty_ratio"]])
        lines += [f"  {number}: {sentence}" for sentence in stored["outlook"]]
    headings = ("PARTITION", "DIRECTORY", "SIZE", "SEGMENTS", "OLDEST", "NEWEST", "DIRTY")
    return "\n".join([table(headings, rows, indent="  "), "", *lines]).rstrip()


def tell_deletion(segments: Sequence[dict[str, Any]], config: LogConfig, now_ms: int) -> str:
    """Say when the oldest segment goes, and why; or why it never does."""
    if not config.delete:
        policy = ",".join(config.cleanup_policy) or "(none)"
        return f"no segment is deleted: cleanup.policy={policy}"
    first = segments[0]
    if not first["size_bytes"]:
        return "there is nothing to delete"
    kind = "the only segment" if first["active"] else "the first segment"
    reasons = _reasons(first, config, now_ms)
    if not reasons:
        limits = _with_meaning("retention.ms", config.retention_ms)
        if config.retention_bytes >= 0:
            limits += f", and {_with_meaning('retention.bytes', config.retention_bytes)} counts once it is closed"
        else:
            limits += f" and {_with_meaning('retention.bytes', config.retention_bytes)}"
        return f"{kind} is kept: {limits}"
    what = f"{size(first['size_bytes'])}, offsets {first['base_offset']:,} to {first['end_offset'] - 1:,}"
    return f"{kind} ({what}) goes {', or '.join(reasons)}"


def _reasons(first: dict[str, Any], config: LogConfig, now_ms: int) -> list[str]:
    reasons = []
    at, more = first["deleted_at_ms"], first["deleted_after_bytes"]
    if at is not None and (when := moment(at)):
        when = "at the next look" if at <= now_ms else f"at {when}"
        reasons.append(f"{when} by {_with_meaning('retention.ms', config.retention_ms)}")
    if more is not None:
        when = f"when {size(more)} more have come" if more else "at the next look"
        reasons.append(f"{when} by {_with_meaning('retention.bytes', config.retention_bytes)}")
    return reasons


def tell_compaction(dirtiness: Dirtiness, config: LogConfig, *, is_due: bool) -> str:
    """Say how dirty a log is, and when it is compacted."""
    limit = f"min.cleanable.dirty.ratio={config.min_cleanable_dirty_ratio:g}"
    if not dirtiness.cleanable_bytes:
        return "there is nothing to compact: no closed segment is new since the last time"
    now = f"{dirtiness.ratio:.2f} now"
    if not is_due:
        return f"it is compacted when its dirty ratio, {now}, is more than {limit}"
    if dirtiness.is_overdue:
        limit = _with_meaning("max.compaction.lag.ms", config.max_compaction_lag_ms)
        return f"it is compacted next: something has waited for more than {limit}"
    return f"it is compacted next: its dirty ratio, {now}, is more than {limit}"


def _with_meaning(name: str, value: int) -> str:
    words = meaning(name, str(value))
    return f"{name}={value}" + (f" ({words})" if words else "")
