"""What an Apache Kafka of the KRaft era knew of its cluster: read from the metadata log in its directory.

Job: snapshot and log of `__cluster_metadata-0` -> topics, partitions, settings, producer ids. Must not know what becomes of
them. Nothing is changed.

Records are replayed as a broker of Kafka's does it: those between BeginTransaction and AbortTransaction do not count. A torn end
is passed over, as Kafka would cut it off; other damage ends the reading and is told.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from barnabas.broker.internal_records import decode_metadata
from barnabas.storage.directory import METADATA_TOPIC
from barnabas.storage.names import LOG, file_name, segment_bases
from barnabas.storage.walk import MAX_UNPACKED_BYTES, Damaged, LogWalk
from barnabas.wire.batch import walk_records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from barnabas.ports import Disk
    from barnabas.wire.primitives import Message

FOLDER: Final = f"{METADATA_TOPIC}-0"
#: End offset and epoch of a snapshot.
_SNAPSHOT: Final = re.compile(r"([0-9]{20})-([0-9]{10})\.checkpoint")

TOPIC: Final = 2
BROKER: Final = 4
GROUP: Final = 32


@dataclass(slots=True)
class KafkaTopic:
    """A topic as the metadata log has it."""

    name: str
    topic_id: bytes
    #: Partition -> its leader's epoch.
    leader_epochs: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class KafkaCluster:
    """The state at the end of the log."""

    topics: dict[str, KafkaTopic] = field(default_factory=dict)
    #: Ids of topics that were deleted, as far back as the log goes.
    removed: set[bytes] = field(default_factory=set)
    #: (resource type, resource name) -> settings.
    configs: dict[tuple[int, str], dict[str, str]] = field(default_factory=dict)
    next_producer_id: int = 0
    #: What there is besides, by kind of record: rules, users, quotas.
    others: dict[str, int] = field(default_factory=dict)
    #: Why the log could not be read to its end; empty if it was.
    problem: str = ""


def read_cluster(disk: Disk, path: str) -> KafkaCluster | None:
    """Read the metadata log in a log directory; None if it has none."""
    folder = f"{path}/{FOLDER}"
    if not disk.is_dir(folder):
        return None
    replay = _Replay()
    names = disk.list(folder)
    snapshots = [match for name in names if (match := _SNAPSHOT.fullmatch(name))]
    start = 0
    if snapshots:
        newest = snapshots[-1]  # names are sorted
        start = int(newest[1])
        _read_file(disk, f"{folder}/{newest[0]}", 0, replay)
    bases = segment_bases(names)
    for base, following in zip(bases, [*bases[1:], None], strict=True):
        if replay.cluster.problem:
            break
        if following is None or following > start:
            _read_file(disk, f"{folder}/{file_name(base, LOG)}", start, replay)
    return replay.cluster


def _read_file(disk: Disk, path: str, start: int, replay: _Replay) -> None:
    try:
        for message in _messages(disk, path, start):
            replay.take(message)
    except ValueError as problem:
        replay.cluster.problem = f"{path}: {problem}"


def _messages(disk: Disk, path: str, start: int) -> Iterator[Message]:
    file = disk.open(path)
    walk = LogWalk(file)
    for piece in walk.pieces():
        if isinstance(piece, Damaged):
            if not piece.is_torn:
                raise ValueError(f"{piece.reason} at byte {piece.position}")
            break
        if piece.header.is_control:
            continue
        for record in walk_records(walk.read(piece), MAX_UNPACKED_BYTES):
            if record.offset >= start and record.value is not None:
                message = decode_metadata(record.value)
                if message is not None:
                    yield message
    file.close()


class _Replay:
    """One record after another."""

    def __init__(self) -> None:
        self.cluster = KafkaCluster()
        self._names: dict[bytes, str] = {}
        #: Records of a transaction that has not ended; None outside of one.
        self._pending: list[Message] | None = None

    def take(self, message: Message) -> None:
        kind = type(message).__name__
        if kind == "BeginTransactionRecord":
            self._pending = []
        elif kind == "AbortTransactionRecord":
            self._pending = None
        elif kind == "EndTransactionRecord":
            pending, self._pending = self._pending or [], None
            for one in pending:
                self._apply(one)
        elif self._pending is not None:
            self._pending.append(message)
        else:
            self._apply(message)

    def _apply(self, message: Message) -> None:
        kind = type(message).__name__
        apply = _APPLY.get(kind)
        if apply is not None:
            apply(self, message)
        elif kind in _OTHERS:
            others = self.cluster.others
            others[_OTHERS[kind]] = others.get(_OTHERS[kind], 0) + 1

    def add_topic(self, record: Any) -> None:  # noqa: ANN401 - a generated message
        topic_id = bytes(record.topic_id)
        self._names[topic_id] = record.name
        self.cluster.topics[record.name] = KafkaTopic(record.name, topic_id)

    def remove_topic(self, record: Any) -> None:  # noqa: ANN401 - as above
        self.cluster.removed.add(bytes(record.topic_id))
        name = self._names.pop(bytes(record.topic_id), None)
        if name is not None:
            self.cluster.topics.pop(name, None)
            self.cluster.configs.pop((TOPIC, name), None)

    def put_partition(self, record: Any) -> None:  # noqa: ANN401 - as above
        topic = self._topic(record)
        if topic is not None:
            topic.leader_epochs[record.partition_id] = record.leader_epoch

    def change_partition(self, record: Any) -> None:  # noqa: ANN401 - as above
        topic = self._topic(record)
        # A change that names a leader, even the same one, begins an epoch.
        if topic is not None and record.leader != _NO_CHANGE:
            epochs = topic.leader_epochs
            epochs[record.partition_id] = epochs.get(record.partition_id, -1) + 1

    def put_config(self, record: Any) -> None:  # noqa: ANN401 - as above
        key = (record.resource_type, record.resource_name)
        settings = self.cluster.configs.setdefault(key, {})
        if record.value is None:
            settings.pop(record.name, None)
        else:
            settings[record.name] = record.value

    def put_producer_ids(self, record: Any) -> None:  # noqa: ANN401 - as above
        self.cluster.next_producer_id = record.next_producer_id

    def _topic(self, record: Any) -> KafkaTopic | None:  # noqa: ANN401 - as above
        name = self._names.get(bytes(record.topic_id))
        return None if name is None else self.cluster.topics.get(name)


#: In PartitionChangeRecord: the leader stays.
_NO_CHANGE: Final = -2
_APPLY: Final[dict[str, Callable[[_Replay, Any], None]]] = {
    "TopicRecord": _Replay.add_topic,
    "RemoveTopicRecord": _Replay.remove_topic,
    "PartitionRecord": _Replay.put_partition,
    "PartitionChangeRecord": _Replay.change_partition,
    "ConfigRecord": _Replay.put_config,
    "ProducerIdsRecord": _Replay.put_producer_ids,
}
_OTHERS: Final = {
    "AccessControlEntryRecord": "ACLs",
    "ClientQuotaRecord": "quotas",
    "UserScramCredentialRecord": "SCRAM users",
    "DelegationTokenRecord": "delegation tokens",
}
