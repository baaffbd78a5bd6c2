"""What lies on the disk of a topic's partitions, as plain values: sizes, segments, and what will become of them.

One job: look at the log directories of brokers on this machine, with the settings and offsets that the brokers tell. Reads only,
and must not print. The rules are the broker's own (`storage/retention.py`, `storage/cleaning_plan.py`), so what is foretold is what
it will do, if nothing changes until then.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from barnabas.cli.cluster_view import read_bounds
from barnabas.cli.failure import Failure
from barnabas.cli.outlook import tell_compaction, tell_deletion
from barnabas.cli.settings import BROKER, read_settings
from barnabas.model.config import TOPIC_SETTINGS, build_log_config, parse
from barnabas.model.ids import TopicPartition
from barnabas.runtime.disk import RealDisk
from barnabas.storage import checkpoints
from barnabas.storage.cleaning_plan import is_worth_it, measure
from barnabas.storage.directory import read_identity
from barnabas.storage.retention import Bounds, forecast
from barnabas.storage.stored_log import StoredLog

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from barnabas.cli.cluster_view import TopicView
    from barnabas.cli.connection import Connection
    from barnabas.cli.settings import Setting
    from barnabas.model.config import LogConfig

#: A broker may drop or replace segments while they are looked at.
_LOOKS: Final = 5


@dataclass(frozen=True, slots=True)
class Offsets:
    """Where a partition starts and ends, and from where on transactions may be open, as its broker says."""

    start: int
    end: int
    stable: int


def describe_storage(
    connection: Connection,
    view: TopicView,
    settings: Mapping[str, Setting],
    given: Sequence[str],
    now_ms: int,
) -> dict[int, dict[str, Any] | None]:
    """The stable keys of `storage` in `topic describe --storage -o json`, per partition; None: not on this machine."""
    disk = RealDisk(read_only=True)
    try:
        paths = _find_directories(connection, disk, view, given)
        config = topic_config(settings)
        offsets = _read_offsets(connection, view)
        return {
            partition: _describe(
                disk, paths, TopicPartition(view.name, partition), config, at, now_ms
            )
            for partition, at in offsets.items()
        }
    finally:
        disk.close()


def topic_config(settings: Mapping[str, Setting]) -> LogConfig:
    """The settings in force, as the log reads them."""
    return build_log_config(
        {
            name: parse(TOPIC_SETTINGS[name], setting.value)
            for name, setting in settings.items()
            if name in TOPIC_SETTINGS and setting.value is not None
        }
    )


def _read_offsets(connection: Connection, view: TopicView) -> dict[int, Offsets]:
    led = [p.partition for p in view.partitions if p.leader is not None]
    start, end = read_bounds(connection, view.name, led)
    _, stable = read_bounds(connection, view.name, led, read_committed=True)
    found = {}
    for partition in led:
        at = (start[partition], end[partition], stable[partition])
        if isinstance(at[0], int) and isinstance(at[1], int) and isinstance(at[2], int):
            found[partition] = Offsets(at[0], at[1], at[2])
    return found


# -- which directories -----------------------------------------------------------------------


def _find_directories(
    connection: Connection, disk: RealDisk, view: TopicView, given: Sequence[str]
) -> list[str]:
    """The directories to look into: those named, or those of the leaders that are on this machine."""
    cluster_id = _cluster_id(connection)
    if given:
        for path in given:
            _check_given(disk, path, cluster_id)
        return list(given)
    leaders = {p.leader for p in view.partitions if p.leader is not None}
    told = [path for leader in sorted(leaders) for path in _told_by(connection, leader)]
    local = [path for path in told if _owner(disk, path) == cluster_id]
    if not local:
        raise Failure(
            f"the log directories ({', '.join(told) or 'none is known'}) are not on this machine",
            "run it where the broker runs, or name them with --data-dir DIR",
        )
    return local


def _cluster_id(connection: Connection) -> str:
    answer = connection.admin().describe_cluster(request_timeout=connection.timeout_s)
    return str(connection.result(answer, "the cluster").cluster_id)


def _told_by(connection: Connection, broker: int) -> list[str]:
    settings = read_settings(connection, BROKER, str(broker))
    values = [settings[name].value for name in ("log.dirs", "log.dir") if name in settings]
    told = next((value for value in values if value), "")
    return [path.strip() for path in told.split(",") if path.strip()]


def _owner(disk: RealDisk, path: str) -> str | None:
    """Return the id of the cluster that a directory belongs to; None if it is no log directory."""
    try:
        identity = read_identity(disk, path)
    except (OSError, ValueError):
        return None
    return None if identity is None else identity.cluster_id


def _check_given(disk: RealDisk, path: str, cluster_id: str) -> None:
    owner = _owner(disk, path)
    if owner is None:
        raise Failure(f"{path} is no log directory that can be read: it has no meta.properties")
    if owner != cluster_id:
        raise Failure(f"{path} belongs to the cluster {owner}, the broker to {cluster_id}")


# -- one partition ---------------------------------------------------------------------------


def _describe(
    disk: RealDisk,
    paths: Iterable[str],
    key: TopicPartition,
    config: LogConfig,
    offsets: Offsets,
    now_ms: int,
) -> dict[str, Any] | None:
    path = next((path for path in paths if disk.is_dir(f"{path}/{key}")), None)
    if path is None:
        return None
    try:
        log = _look(disk, f"{path}/{key}", config, offsets)
        oldest_ms = log.read_oldest_timestamp()
    except OSError as problem:
        raise Failure(f"cannot read {path}/{key}: {problem.strerror or problem}") from None
    segments = describe_segments(log, offsets)
    dirtiness = None
    if config.compact:
        dirtiness = measure(log, _clean_offset(disk, path, key), offsets.stable, now_ms)
    outlook = [tell_deletion(segments, config, now_ms)]
    if dirtiness is not None:
        is_due = is_worth_it(log, dirtiness)
        outlook.append(tell_compaction(dirtiness, config, is_due=is_due))
    return {
        "directory": path,
        "size_bytes": log.size_bytes,
        "oldest_timestamp_ms": oldest_ms,
        "newest_timestamp_ms": log.newest_timestamp,
        "dirty_ratio": None if dirtiness is None else round(dirtiness.ratio, 3),
        "segments": segments,
        "outlook": outlook,
    }


def _look(disk: RealDisk, folder: str, config: LogConfig, offsets: Offsets) -> StoredLog:
    look = 1
    while True:
        try:
            return StoredLog(
                disk, folder, config, log_start_offset=offsets.start, log_end_offset=offsets.end
            )
        except FileNotFoundError:
            if look == _LOOKS:
                raise
            look += 1


def describe_segments(log: StoredLog, offsets: Offsets) -> list[dict[str, Any]]:
    """Each segment, and when it goes; oldest first."""
    bounds = Bounds(offsets.start, log.log_end_offset, offsets.end)
    ends = [*log.base_offsets[1:], log.log_end_offset]
    return [
        {
            "base_offset": segment.base_offset,
            "end_offset": end_offset,
            "size_bytes": segment.size,
            "newest_timestamp_ms": segment.largest[0] if segment.largest[0] >= 0 else None,
            "active": segment is log.segments[-1],
            "deleted_at_ms": when.at_ms,
            "deleted_after_bytes": when.after_bytes,
        }
        for segment, end_offset, when in zip(
            log.segments, ends, forecast(log.segments, bounds, log.config), strict=True
        )
    ]


def _clean_offset(disk: RealDisk, path: str, key: TopicPartition) -> int | None:
    """Return up to where the partition was compacted."""
    try:
        data = disk.read_file(f"{path}/{checkpoints.CLEANER_OFFSETS}")
        return checkpoints.decode(data).get(key)
    except (FileNotFoundError, ValueError):
        return None
