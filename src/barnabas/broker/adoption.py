"""Taking over what another broker left in the log directories: what a new store should know of it.

Job: folders, and Kafka's metadata log where there is one -> topics, settings, producer ids, and the operations that write
them down. Must not know how directories are opened or copied. Nothing is changed here.

| from              | comes                                                                       |
|-------------------|-----------------------------------------------------------------------------|
| folders           | topics, partitions, topic ids, leader epochs, ids of producers               |
| the metadata log  | which of the topics still exist, settings, leader epochs, producer ids       |

Without a metadata log (ZooKeeper's era, or a lost store of ours) every folder is a topic's, with default settings.
New leader epochs are above all that were: records and readers of before would not be told apart otherwise (KIP-101).
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING, Final, TypeVar

from barnabas.broker import kafka_metadata, znodes
from barnabas.broker.kafka_metadata import KafkaCluster
from barnabas.model.cluster import Partition, Topic
from barnabas.model.config.alter import AlterOperation, ConfigChange, alter_broker, alter_topic
from barnabas.model.config.group_config import alter_group
from barnabas.model.errors import KafkaError
from barnabas.model.ids import TopicId, TopicPartition
from barnabas.storage import epoch_file, partition_metadata, producer_snapshot
from barnabas.storage.directory import CLEAN_SHUTDOWN_FILE, METADATA_TOPIC, parse_folder
from barnabas.storage.names import LEADER_EPOCHS, LOG, SNAPSHOT, file_name, offset_of, segment_bases
from barnabas.storage.walk import LogWalk, Whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from barnabas.broker.kafka_metadata import KafkaTopic
    from barnabas.model.config.broker_config import BrokerConfig
    from barnabas.ports import Disk, Operation

_NO_PRODUCER: Final = -1

T = TypeVar("T")


@dataclass(slots=True, frozen=True)
class Folder:
    """A partition's folder, and what its small files say."""

    path: str
    key: TopicPartition
    topic_id: TopicId | None
    leader_epoch: int
    #: The largest id of a producer in its snapshots; after a crash also in the log behind them.
    producer_id: int


@dataclass(slots=True)
class Adoption:
    """What a new store is to know, and what a person should."""

    topics: list[Topic] = field(default_factory=list)
    #: Folders of these topics.
    folders: list[Folder] = field(default_factory=list)
    next_producer_id: int = 0
    #: Dynamic settings, by the name of a broker.
    broker_settings: dict[str, dict[str, str]] = field(default_factory=dict)
    group_settings: dict[str, dict[str, str]] = field(default_factory=dict)
    has_metadata: bool = False
    notes: list[str] = field(default_factory=list)

    def operations(self, broker_id: int) -> list[Operation]:
        """Say how to write it down: all or nothing."""
        operations: list[Operation] = []
        for topic in self.topics:
            operations += znodes.create_topic_operations(topic)
        for broker, settings in self.broker_settings.items():
            operations.append(znodes.new_broker_config(broker, settings))
        for group_id, settings in self.group_settings.items():
            operations.append(znodes.new_group_config(group_id, settings))
        if self.next_producer_id:
            start = max(0, self.next_producer_id - znodes.PRODUCER_ID_BLOCK)
            operations.append(znodes.first_producer_id_block(broker_id, start))
        return operations


# Folders


def find_folders(disk: Disk, paths: Sequence[str]) -> list[Folder]:
    """Look at every partition's folder in these directories; one that cannot be listed has none."""
    folders = []
    for path in paths:
        try:
            names = disk.list(path)
        except OSError:
            continue  # not there yet, or its disk has failed: opening it will tell
        was_clean = CLEAN_SHUTDOWN_FILE in names
        for name in names:
            key = parse_folder(name)
            if key is not None and key.topic != METADATA_TOPIC and disk.is_dir(f"{path}/{name}"):
                folders.append(_read_folder(disk, f"{path}/{name}", key, was_clean=was_clean))
    return folders


def _read_folder(disk: Disk, path: str, key: TopicPartition, *, was_clean: bool) -> Folder:
    epochs = _read(disk, f"{path}/{LEADER_EPOCHS}", epoch_file.decode) or []
    snapshots = {
        offset: _read(disk, f"{path}/{name}", producer_snapshot.decode) or []
        for name in disk.list(path)
        if (offset := offset_of(name, SNAPSHOT)) is not None
    }
    producers = [one.producer_id for entries in snapshots.values() for one in entries]
    if not was_clean:
        producers.append(_largest_producer(disk, path, max(snapshots, default=0)))
    return Folder(
        path,
        key,
        _read(disk, f"{path}/{partition_metadata.FILE_NAME}", partition_metadata.decode),
        max((entry.epoch for entry in epochs), default=-1),
        max(producers, default=_NO_PRODUCER),
    )


def _largest_producer(disk: Disk, path: str, from_offset: int) -> int:
    """Find the largest id of a producer from an offset on: an id given twice would have new records taken for old ones."""
    bases = segment_bases(disk.list(path))
    return max(
        (
            producer_id
            for base, following in zip_longest(bases, bases[1:])
            if following is None or following > from_offset
            for producer_id in _producers(disk, f"{path}/{file_name(base, LOG)}", from_offset)
        ),
        default=_NO_PRODUCER,
    )


def _producers(disk: Disk, path: str, from_offset: int) -> Iterator[int]:
    """Yield whose batches are in a log file; of one that cannot be read to its end, which opening the log will tell, the first."""
    try:
        with closing(disk.open(path)) as file:
            for piece in LogWalk(file, deep=False).pieces():
                if isinstance(piece, Whole) and piece.header.last_offset >= from_offset:
                    yield piece.header.producer_id
    except OSError:
        return


def _read(disk: Disk, path: str, decode: Callable[[bytes], T]) -> T | None:
    """Read a small file; None if it is not there or cannot be used, which opening the log will tell."""
    try:
        return decode(disk.read_file(path))
    except (OSError, ValueError):
        return None


# The plan


def plan_adoption(
    disk: Disk,
    paths: Sequence[str],
    config: BrokerConfig,
    new_id: Callable[[], bytes],
    wanted: Callable[[str], bool] = lambda _topic: True,
) -> Adoption:
    """Say what becomes of what lies in these directories; `new_id` is for topics that have none. Blocks."""
    clusters = [cluster for path in paths if (cluster := kafka_metadata.read_cluster(disk, path))]
    by_topic: dict[str, list[Folder]] = {}
    for folder in find_folders(disk, paths):
        if wanted(folder.key.topic):
            by_topic.setdefault(folder.key.topic, []).append(folder)
    planning = _Planning(config, clusters[0] if clusters else None)
    for name, folders in sorted(by_topic.items()):
        planning.take_topic(name, folders, new_id)
    planning.take_settings(wanted)
    return planning.finish()


class _Planning:
    """One run of `plan_adoption`."""

    def __init__(self, config: BrokerConfig, cluster: KafkaCluster | None) -> None:
        self._config = config
        self._cluster = cluster or KafkaCluster()
        # A log that could not be read to its end does not know the topics that came later; that is told once.
        self._knows_topics = cluster is not None and not cluster.problem
        self._adoption = Adoption(has_metadata=cluster is not None)
        if self._cluster.problem:
            self._note(
                f"the metadata log is damaged, so settings may be missing: {self._cluster.problem}"
            )

    def _note(self, text: str) -> None:
        self._adoption.notes.append(text)

    def take_topic(self, name: str, folders: list[Folder], new_id: Callable[[], bytes]) -> None:
        known = self._cluster.topics.get(name)
        if known is None and self._knows_topics:
            if all(folder.topic_id in self._cluster.removed for folder in folders):
                self._note(f"topic {name} had been deleted: its folders are left out")
                return
            # The log may have lost its end, which looks like one that ends there.
            self._note(
                f"topic {name} is not in the metadata log: it gets default settings; delete it if it should be gone"
            )
        topic_id = _topic_id(known, folders) or TopicId(new_id())
        for folder in [one for one in folders if one.topic_id not in (None, topic_id)]:
            self._note(f"{folder.key} is of an older topic of that name: its folder is left out")
            folders.remove(folder)
        found = {folder.key.partition: folder for folder in folders}
        count = 1 + max([*found, *(known.leader_epochs if known else ())], default=0)
        missing = [str(number) for number in range(count) if number not in found]
        if missing:
            self._note(
                f"topic {name}: no folder of partition {', '.join(missing)}: they begin empty"
            )
        epochs = known.leader_epochs if known else {}
        broker_id = self._config.node_id
        partitions = [
            Partition(
                (broker_id,),
                broker_id,
                1
                + max(
                    epochs.get(number, -1), found[number].leader_epoch if number in found else -1
                ),
                (broker_id,),
            )
            for number in range(count)
        ]
        self._adoption.topics.append(Topic(name, topic_id, partitions, self._topic_settings(name)))
        self._adoption.folders += folders

    # Settings: what Barnabas does not know is told, and left out.

    def _topic_settings(self, name: str) -> dict[str, str]:
        settings = self._cluster.configs.get((kafka_metadata.TOPIC, name), {})
        return self._usable(
            f"topic {name}",
            settings,
            lambda before, change: alter_topic(self._config, before, [change]),
        )

    def take_settings(self, wanted: Callable[[str], bool]) -> None:
        """Take the settings of brokers and groups, and tell what else there is."""
        for (kind, name), settings in self._cluster.configs.items():
            if kind == kafka_metadata.BROKER and name in ("", str(self._config.node_id)):
                self._take_broker(name, settings)
            elif kind == kafka_metadata.GROUP:
                usable = self._usable(
                    f"group {name}",
                    settings,
                    lambda before, change: alter_group(self._config, before, [change]),
                )
                if usable:
                    self._adoption.group_settings[name] = usable
        for what, count in self._cluster.others.items():
            self._note(f"{count} records of {what} are not brought over")
        for name in sorted(self._cluster.topics):
            if wanted(name) and name not in {topic.name for topic in self._adoption.topics}:
                self._note(f"topic {name} has no folder here")

    def _take_broker(self, name: str, settings: Mapping[str, str]) -> None:
        is_default = not name

        def alter(before: Mapping[str, str], change: ConfigChange) -> dict[str, str]:
            layers = ({}, before) if is_default else (before, {})
            config = self._config.with_dynamic(*layers)
            return alter_broker(config, [change], cluster_wide=is_default)

        usable = self._usable("all brokers" if is_default else f"broker {name}", settings, alter)
        if usable:
            self._adoption.broker_settings[name or znodes.ALL_BROKERS] = usable

    def _usable(
        self,
        whose: str,
        settings: Mapping[str, str],
        alter: Callable[[Mapping[str, str], ConfigChange], dict[str, str]],
    ) -> dict[str, str]:
        usable: dict[str, str] = {}
        for name, value in settings.items():
            try:
                usable = alter(usable, ConfigChange(name, AlterOperation.SET, value))
            except KafkaError as refusal:
                self._note(f"{whose}: {name}={value} is left out: {refusal}")
        return usable

    def finish(self) -> Adoption:
        adoption = self._adoption
        largest = max((folder.producer_id for folder in adoption.folders), default=_NO_PRODUCER)
        block = znodes.PRODUCER_ID_BLOCK
        adoption.next_producer_id = max(
            self._cluster.next_producer_id, (largest // block + 1) * block
        )
        return adoption


def _topic_id(known: KafkaTopic | None, folders: Sequence[Folder]) -> TopicId | None:
    if known is not None:
        return TopicId(known.topic_id)
    return next((folder.topic_id for folder in folders if folder.topic_id is not None), None)
