"""Opening every log at a start: side by side in each directory, and telling how far it is.

After a clean stop this takes a moment. After a crash each log is checked from its recovery point on, by
num.recovery.threads.per.data.dir lanes in each directory, and a line a second says what is left. A log that cannot be
opened is left out, and told; an error that is the directory's takes the directory offline.
"""

from __future__ import annotations

import logging
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.broker import log_opening
from barnabas.broker.disk_failures import DirectoryFailed
from barnabas.broker.placement import DirectoryOffline
from barnabas.broker.tasks import drive
from barnabas.model.ids import TopicPartition
from barnabas.storage.directory import WrongTopic
from barnabas.storage.partition_metadata import CorruptPartitionMetadata

if TYPE_CHECKING:
    from barnabas.broker.node import Node
    from barnabas.broker.replicas import Replica
    from barnabas.broker.tasks import Done, Task
    from barnabas.model.cluster import Topic
    from barnabas.storage.directory import LogDirectory

log = logging.getLogger(__name__)

#: One line in this time, at most.
PROGRESS_MS: Final = 1000
#: Logs that a lane opens before it comes back to the loop: a job costs more than opening a small, clean log.
_AT_ONCE: Final = 100
_AT_ONCE_BYTES: Final = 16 * 1024 * 1024
_GIB: Final = 1024**3
#: Names in one line.
_TOLD: Final = 5


class _ToOpen(NamedTuple):
    topic: Topic
    partition: int
    #: Bytes that will be checked.
    unclean_bytes: int


def load_all(node: Node) -> Task[list[Replica]]:
    """Open the logs of all topics; those that could be opened, in the order of topics and partitions."""
    loading = _Loading(node)
    yield partial(node.world.background.run, loading.plan)
    yield loading.run
    return loading.opened()


class _Loading:
    """One run of `load_all`."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._queues: dict[str, deque[_ToOpen]] = {}
        self._homeless = 0
        #: Partitions that no directory has a folder of, though what they had counts.
        self._begun_anew: list[TopicPartition] = []
        #: The same of those whose records others have: most were given to this broker while it was away.
        self._to_be_filled: list[TopicPartition] = []
        self._replicas: dict[TopicPartition, Replica] = {}
        self._lanes_left = 0
        self._problem: BaseException | None = None
        self._progress = _Progress(node.world.clock.monotonic_ms())

    def plan(self) -> None:
        """Sort the partitions by directory. Blocks: looks at the sizes of what has to be checked."""
        for topic in self._node.topics.by_name.values():
            for index, partition in enumerate(topic.partitions):
                if self._node.broker_id not in partition.replicas:
                    continue  # others host it
                key = TopicPartition(topic.name, index)
                is_found = self._node.placement.get(key) is not None
                try:
                    directory = log_opening.place(self._node, key)
                except DirectoryOffline:
                    self._homeless += 1
                else:
                    if not is_found:
                        counts = self._node.is_lone or self._node.broker_id in partition.in_sync
                        (self._begun_anew if counts else self._to_be_filled).append(key)
                    todo = _ToOpen(topic, index, _unclean_bytes(directory, key))
                    self._queues.setdefault(directory.path, deque()).append(todo)
                    self._progress.expect(todo)

    def run(self, done: Done) -> None:
        """Open them; called back when every lane has ended."""
        if self._homeless:
            log.critical("%d partitions are offline with their log directory", self._homeless)
        if self._begun_anew:
            # A crash just after their creation leaves that, too: then there was nothing in them.
            log.critical(
                "%d partitions have no folder in log.dirs and begin anew, empty: %s; "
                "if they had records, a disk is missing: stop, bring it back, and start again",
                len(self._begun_anew), _some(self._begun_anew),
            )  # fmt: skip
        if self._to_be_filled:
            log.info(
                "%d partitions begin empty, and are filled by those that lead them: %s",
                len(self._to_be_filled), _some(self._to_be_filled),
            )  # fmt: skip
        threads = max(1, self._node.config.get_int("num.recovery.threads.per.data.dir"))
        lanes = [
            (directory, self._queues[directory.path])
            for directory in self._node.directories
            for _ in range(threads)
            if directory.path in self._queues
        ]
        self._lanes_left = len(lanes)
        if not lanes:
            done(None, None)
        for directory, queue in lanes:
            drive(self._work(directory, queue), partial(self._on_end, done))

    def opened(self) -> list[Replica]:
        """Return what was opened, in an order that does not depend on who was faster."""
        return [self._replicas[key] for key in sorted(self._replicas)]

    def _on_end(self, done: Done, _result: None, problem: BaseException | None) -> None:
        self._lanes_left -= 1
        self._problem = self._problem or problem
        if not self._lanes_left:
            done(None, self._problem)

    def _work(self, directory: LogDirectory, queue: deque[_ToOpen]) -> Task[None]:
        while queue and directory.is_online:
            some = _take(queue)
            failure = yield partial(self._node.world.background.run, partial(self._open, some))
            if failure is not None:
                self._node.replicas.take_offline(directory, failure)
            self._progress.on_opened(some, self._node.world.clock.monotonic_ms())

    def _open(self, some: list[_ToOpen]) -> DirectoryFailed | None:
        """Open a few. Blocks. Return the error that ended it, if it is the directory's."""
        for topic, index, _ in some:
            try:
                replica = log_opening.open_replica(self._node, topic, index, is_new=False)
            except DirectoryFailed as problem:
                log.critical("%s-%d: cannot open its log: %s", topic.name, index, problem)
                return problem
            except (OSError, WrongTopic, CorruptPartitionMetadata) as problem:
                log.critical("%s-%d: offline, cannot open its log: %s", topic.name, index, problem)
            else:
                _report(replica)
                self._replicas[replica.key] = replica
        return None


def _some(keys: list[TopicPartition]) -> str:
    more = ", ..." if len(keys) > _TOLD else ""
    return ", ".join(str(key) for key in keys[:_TOLD]) + more


def _unclean_bytes(directory: LogDirectory, key: TopicPartition) -> int:
    try:
        return directory.unclean_bytes(key)
    except OSError:
        return 0  # opening it will tell


def _take(queue: deque[_ToOpen]) -> list[_ToOpen]:
    some = [queue.popleft()]
    size = some[0].unclean_bytes
    while queue and len(some) < _AT_ONCE and size + queue[0].unclean_bytes <= _AT_ONCE_BYTES:
        some.append(queue.popleft())
        size += some[-1].unclean_bytes
    return some


def _report(replica: Replica) -> None:
    report = replica.log.recovery
    for lost in report.lost:
        log.critical("%s: %s", replica.key, lost)
    if report.set_aside:
        log.critical(
            "%s: segments %s lay before the log start offset %d, which the leader epochs do not know of, and are in quarantine",
            replica.key, ", ".join(map(str, report.set_aside)), replica.log.log_start_offset,
        )  # fmt: skip
    if report.cut_reason:
        log.warning(
            "%s: cut %d bytes that were no whole, valid batches: records from offset %d on are lost, if there were any (%s)",
            replica.key, report.cut_bytes, replica.log.log_end_offset, report.cut_reason,
        )  # fmt: skip
    if report.removed_segments:
        log.critical(
            "%s: segments %s lay behind that and are in quarantine",
            replica.key, ", ".join(map(str, report.removed_segments)),
        )  # fmt: skip


class _Progress:
    """Counts and tells. Says nothing where nothing is checked."""

    def __init__(self, now_ms: int) -> None:
        self._started_ms = self._told_ms = now_ms
        self._logs = self._logs_done = 0
        self._bytes = self._bytes_done = 0

    def expect(self, todo: _ToOpen) -> None:
        self._logs += 1
        self._bytes += todo.unclean_bytes

    def on_opened(self, some: list[_ToOpen], now_ms: int) -> None:
        self._logs_done += len(some)
        self._bytes_done += sum(todo.unclean_bytes for todo in some)
        if self._bytes and now_ms - self._told_ms >= PROGRESS_MS:
            self._told_ms = now_ms
            log.info("recovering logs: %s", self.line(now_ms))

    def line(self, now_ms: int) -> str:
        """Say it for a person."""
        took_s = (now_ms - self._started_ms) / 1000
        left = self._bytes - self._bytes_done
        wait = f", {took_s * left / self._bytes_done:.0f} s left" if self._bytes_done else ""
        return (
            f"{self._logs_done} of {self._logs}, "
            f"{self._bytes_done / _GIB:.1f} of {self._bytes / _GIB:.1f} GB{wait}"
        )
