"""Hosts pure machines, one per partition of an internal topic: consumer groups and transactions live so.

Which partition a key belongs to, making the topic when somebody first asks for a coordinator, rebuilding a shard from its
log, and carrying out what a shard decides: append its records as one batch, replay them, then let the replies go. Knows no rule
of any machine; `coordinators` and `transactions` say what is theirs.

Invariants: records are appended and replayed before anything else reaches the shard, so a shard always shows what is in its
log; only commits that repeat (`commit_lane.py`), which do not look at each other, are judged before those before them are written. When an append fails nothing changed. A reply leaves only when what it tells is as durable as the topic's settings ask
for, also the reply to a question that changes nothing. A shard that is not loaded answers nothing.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from barnabas.broker import cluster_znodes, store, topic_creation
from barnabas.broker.cluster_view import NOBODY
from barnabas.broker.edge import call_all
from barnabas.broker.java_hash import java_hash
from barnabas.broker.tasks import drive
from barnabas.broker.tickets import Asked, Held
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicId, topic_id_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from barnabas.broker.call import Call
    from barnabas.broker.node import Node
    from barnabas.broker.replicas import Replica
    from barnabas.broker.tasks import Done, Start, Task
    from barnabas.model.cluster import Topic
    from barnabas.ports import Timer
    from barnabas.wire.batch import BatchHeader

log = logging.getLogger(__name__)

#: How long to wait before the store is asked again how many partitions there are.
COUNT_AGAIN_MS: Final = 500
#: Pause after a fault in what a shard does by the clock.
FAULT_PAUSE_MS: Final = 1_000

#: What a client is told of an append that failed.
UNUSABLE: Final = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


class Shard(Protocol):
    """What every machine can do beside its requests. A result has `records` and `replies`."""

    def next_deadline_ms(self) -> int | None:
        """Tell when `on_time` wants to be called."""

    def on_time(self, now_ms: int, wall_ms: int) -> Sequence[Any]:
        """Do what is due."""

    def on_append_failed(self, result: Any, error_code: ErrorCode, now_ms: int) -> Any:  # noqa: ANN401
        """Put right what a result left behind that could not be written."""

    def on_loaded(self, now_ms: int, wall_ms: int) -> Sequence[Any]:
        """Begin to serve."""

    def unload(self) -> Sequence[tuple[Any, object]]:
        """Stop serving: give everything that waits its answer."""


ShardType = TypeVar("ShardType", bound=Shard)


class Hosted(Generic[ShardType]):
    """One shard on its partition."""

    __slots__ = ("has_failed", "has_staged", "is_loaded", "replica", "shard", "timer", "timer_ms")

    def __init__(self, replica: Replica, shard: ShardType) -> None:
        """Start unloaded."""
        self.replica = replica
        self.shard = shard
        self.is_loaded = False
        #: Its log cannot be read: nothing helps but a repair and a new start.
        self.has_failed = False
        #: It has judged commits that are not written yet.
        self.has_staged = False
        self.timer: Timer | None = None
        self.timer_ms = 0


class ShardHost(Generic[ShardType]):
    """The shards of one topic on one node. What is left open here, the hosts of each kind of machine fill in."""

    def __init__(
        self, node: Node, topic: str, count_setting: str, replication_setting: str
    ) -> None:
        """Host nothing yet."""
        self._replication_setting = replication_setting
        self._node = node
        self._topic = topic
        self._count_setting = count_setting
        self._hosted: dict[int, Hosted[ShardType]] = {}
        #: Fixed while the topic exists: the place of a key must not move.
        self._partition_count = node.config.get_int(count_setting)
        #: The id of the topic whose partitions were counted; None if they were not yet. They are counted in the store, because a broker is
        #: told of a new topic in pieces.
        self._counted_id: bytes | None = None
        self._is_counting = False
        self._creating: list[Callable[[Any, BaseException | None], None]] | None = None

    # What each kind of machine says

    def _new_shard(self) -> ShardType:
        raise NotImplementedError

    def _topic_settings(self, replication_factor: int) -> list[tuple[str, str]]:
        raise NotImplementedError

    def _required_acks(self) -> int:
        return -1

    def _encode(self, result: Any, now_ms: int) -> tuple[memoryview, BatchHeader]:  # noqa: ANN401
        raise NotImplementedError

    def _must_be_written(self, _result: Any) -> bool:  # noqa: ANN401
        """Tell whether records go into the log also where they are larger than the topic's settings allow."""
        return False

    def _replay(self, shard: ShardType, result: Any, offset: int) -> None:  # noqa: ANN401
        """Take the records of a result that are in the log from this offset on."""
        raise NotImplementedError

    def _load(self, replica: Replica, shard: ShardType) -> Task[None]:
        raise NotImplementedError

    def _results_of_loading(self, shard: ShardType, now_ms: int, wall_ms: int) -> Sequence[Any]:
        return shard.on_loaded(now_ms, wall_ms)

    # Where a key is

    def start(self) -> None:
        """Begin to load what is in the log; requests are told to come again until then."""
        topic = self._node.topics.by_name.get(self._topic)
        if topic is None:
            return
        self._note_count(topic.id, len(topic.partitions))  # read from the store just now
        for replica in self._node.replicas.of_topic(self._topic):
            self.on_opened(replica)

    def on_opened(self, replica: Replica) -> None:
        """Load what a log has to say, if it is of this host and led here: what was decided there goes on without being asked for."""
        if replica.key.topic != self._topic or replica.key.partition in self._hosted:
            return
        if not replica.state.is_leader:
            return  # whoever leads it loads it
        if replica.log.log_end_offset > replica.log.log_start_offset:
            self._host(replica)

    def on_topic_known(self, topic: Topic) -> None:
        """Take note of a topic, or of some partitions of it: a broker is told of a new topic in pieces."""
        if topic.name != self._topic:
            return
        if self._node.is_lone:
            self._note_count(topic.id, len(topic.partitions))
        elif not self._is_counting and (
            self._counted_id != topic.id or len(topic.partitions) > self._partition_count
        ):
            self._is_counting = True
            drive(self._count(), self._on_counted)

    def _count(self) -> Task[None]:
        """Find out from the store how many partitions the topic has."""
        node, path = self._node, cluster_znodes.topic_path(self._topic)
        while not node.stopping:
            known = node.topics.by_name.get(self._topic)
            if known is None:
                return
            try:
                found = (yield from store.read_latest(node, [path]))[path]
            except OSError:
                found = None
            if found is not None and known is node.topics.by_name.get(self._topic):
                stored = cluster_znodes.read_topic(found)
                if stored.id_text == topic_id_text(TopicId(known.id)):
                    self._note_count(known.id, len(stored.replicas))
                    return
            yield partial(node.pause, COUNT_AGAIN_MS)

    def _on_counted(self, _result: None, problem: BaseException | None) -> None:
        self._is_counting = False
        if problem is not None:
            log.error("%s: its partitions cannot be counted", self._topic, exc_info=problem)

    def _note_count(self, topic_id: bytes, count: int) -> None:
        self._counted_id = topic_id
        self._partition_count = count

    def on_following(self, replica: Replica) -> None:
        """Hand a partition over: another broker leads it, and everybody who waits is told to look for it."""
        if replica.key.topic == self._topic and replica.key.partition in self._hosted:
            self._unload(replica.key.partition)

    def partition_for(self, key: str) -> int:
        """Give the partition that keeps a key, as every Kafka works it out; KafkaError while it is not known how many there are."""
        if self._counted_id is None and not self._node.is_lone:
            raise KafkaError(ErrorCode.NOT_COORDINATOR, "")
        return (java_hash(key) & 0x7FFFFFFF) % self._partition_count

    def leader_for(self, key: str) -> int:
        """Tell which broker keeps a key now, as far as is known here; NOBODY if none does."""
        node = self._node
        if self._counted_id is None and not node.is_lone:
            return NOBODY
        partition = self.partition_for(key)
        if node.is_lone or partition in self._hosted:
            return node.broker_id
        topic = node.topics.by_name.get(self._topic)
        if topic is None or partition >= len(topic.partitions):
            return NOBODY
        return node.cluster.leadership(topic, partition).leader

    def find(self, key: str) -> Hosted[ShardType]:
        """Find the loaded shard of a key; KafkaError if it cannot be used now."""
        return self.find_partition(self.partition_for(key))

    def find_partition(self, partition: int) -> Hosted[ShardType]:
        """Find the loaded shard of a partition; KafkaError if it cannot be used now."""
        hosted = self._hosted.get(partition)
        if hosted is None or hosted.replica.offline:
            hosted = self._find_again(partition, hosted)
        if hosted.has_failed:
            raise KafkaError(ErrorCode.NOT_COORDINATOR, "")
        if not hosted.is_loaded:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "")
        self._settle(hosted)
        return hosted

    def _settle(self, hosted: Hosted[ShardType]) -> None:
        """Have everything written that a shard has judged, before anything else reaches it."""
        if hosted.has_staged:
            self._node.staging.write()

    def _find_again(self, partition: int, hosted: Hosted[ShardType] | None) -> Hosted[ShardType]:
        if hosted is not None:
            self._unload(partition)
        if self._node.stopping:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "")
        replica = self._node.replicas.get(self._topic, partition)
        if replica is None or replica.offline or not replica.state.is_leader:
            raise KafkaError(ErrorCode.NOT_COORDINATOR, "")
        return self._host(replica)

    def all_loaded(self) -> list[Hosted[ShardType]]:
        """Give every shard that was ever used and can be read; KafkaError while one is being loaded."""
        self._node.staging.write()
        hosted = [one for one in self._hosted.values() if not one.has_failed]
        if not all(one.is_loaded for one in hosted):
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "")
        return hosted

    # Requests

    def ask(
        self,
        call: Call,
        key: str,
        entry: Callable[[ShardType, Any, int, int], Any],
        respond: Callable[[Call, Any], Any],
        *,
        brings_deadlines: bool = True,
    ) -> Any:  # noqa: ANN401
        """Have a shard handle a request; its response, or None if the link gets it later.

        Those that are many and at most put deadlines off say so: then there is nothing to book.
        """
        hosted = self.find(key)
        clock = self._node.world.clock
        ticket = Held(call, respond)
        self._carry_out(hosted, entry(hosted.shard, ticket, clock.monotonic_ms(), clock.now_ms()))
        if brings_deadlines:
            self._book(hosted)
        ticket.is_late = True
        return ticket.response

    def asking(
        self, hosted: Hosted[ShardType], entry: Callable[[ShardType, Any, int, int], Any]
    ) -> Start:
        """Ask a shard from within a task; the answer is the machine's reply."""

        def start(done: Done) -> None:
            self._settle(hosted)
            clock = self._node.world.clock
            result = entry(hosted.shard, Asked(done), clock.monotonic_ms(), clock.now_ms())
            self._carry_out(hosted, result)
            self._book(hosted)

        return start

    def _carry_out(self, hosted: Hosted[ShardType], result: Any) -> None:  # noqa: ANN401
        replica = hosted.replica
        if result.records:
            code = self._append(hosted, result)
            if code:
                now_ms = self._node.world.clock.monotonic_ms()
                failed = hosted.shard.on_append_failed(result, UNUSABLE.get(code, code), now_ms)
                self._deliver(hosted, failed)
                return
        if replica.state.high_watermark < replica.log.log_end_offset:
            if result.replies or self._has_effects(result):
                self._when_committed(hosted, result)
        else:
            self._when_flushed(hosted, result)

    def _when_committed(self, hosted: Hosted[ShardType], result: Any) -> None:  # noqa: ANN401
        """Go on when every in-sync replica has what the result tells."""
        replica = hosted.replica
        until = replica.commitment.until(
            replica.log.log_end_offset, replica.state.leader_epoch, None, self._node.world
        )

        def committed(code: ErrorCode, _error: BaseException | None) -> None:
            # Fewer are in sync by now than must be: it is committed all the same.
            if not code or code is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND:
                self._when_flushed(hosted, result)
                return
            for ticket, _reply in result.replies:
                # It leads no longer: what was replayed here is forgotten with the shard.
                ticket.answer(ErrorCode.NOT_COORDINATOR)

        until(committed)

    def _when_flushed(self, hosted: Hosted[ShardType], result: Any) -> None:  # noqa: ANN401
        """Go on when what the result tells is as durable as the topic's settings ask for."""
        replica = hosted.replica
        if replica.log.unflushed_records < replica.config.flush_messages:
            self._deliver(hosted, result)
        elif result.replies or self._has_effects(result):
            replica.flush(lambda _done, error: self._on_flushed(hosted, result, error))

    def _has_effects(self, _result: Any) -> bool:  # noqa: ANN401
        """Tell whether a result asks for more than replies."""
        return False

    def _deliver(self, _hosted: Hosted[ShardType], result: Any) -> None:  # noqa: ANN401
        """Do what had to wait for the records."""
        for ticket, reply in result.replies:
            ticket.answer(reply)

    def _on_flushed(
        self,
        hosted: Hosted[ShardType],
        result: Any,  # noqa: ANN401
        error: BaseException | None,
    ) -> None:
        if error is None:
            self._deliver(hosted, result)
            return
        for ticket, _reply in result.replies:
            ticket.answer(ErrorCode.NOT_COORDINATOR)

    def _append(self, hosted: Hosted[ShardType], result: Any) -> ErrorCode:  # noqa: ANN401
        """Write the records as one batch and replay them; if that fails, nothing has changed."""
        replica = hosted.replica
        now_ms = self._node.world.clock.now_ms()
        data, header = self._encode(result, now_ms)
        if len(data) > replica.config.max_message_bytes and not self._must_be_written(result):
            log.error("%s: a batch of %d bytes is too large", replica.key, len(data))
            return ErrorCode.MESSAGE_TOO_LARGE
        (code,) = self.append_run(hosted, [(result, data, header)], now_ms)
        return code

    def append_run(
        self,
        hosted: Hosted[ShardType],
        run: list[tuple[Any, memoryview, BatchHeader]],
        now_ms: int,
    ) -> list[ErrorCode]:
        """Write the batch of each result, together if that can be, and replay its records; where that fails, nothing has changed."""
        replica = hosted.replica
        code = replica.state.decide_append(
            self._required_acks(), replica.config.min_insync_replicas
        )
        if replica.offline or code:
            return [code or ErrorCode.KAFKA_STORAGE_ERROR] * len(run)
        codes = []
        metrics = replica.metrics
        offsets = replica.append_run([(data, header) for _, data, header in run], now_ms)
        for (result, data, _), offset in zip(run, offsets, strict=True):
            if offset is None:
                codes.append(ErrorCode.KAFKA_STORAGE_ERROR)
                continue
            metrics.messages_in += len(result.records)
            metrics.bytes_in += len(data)
            self._replay(hosted.shard, result, offset)
            codes.append(code)
        return codes

    # Time

    def _book(self, hosted: Hosted[ShardType]) -> None:
        """See to it that the shard hears of its next deadline."""
        deadline_ms = hosted.shard.next_deadline_ms()
        if hosted.timer is not None:
            if deadline_ms is None or deadline_ms >= hosted.timer_ms:
                return  # what is booked comes first, and books again
            hosted.timer.cancel()
        elif deadline_ms is None:
            return
        self._book_at(hosted, deadline_ms)

    def _book_at(self, hosted: Hosted[ShardType], deadline_ms: int) -> None:
        if hosted.timer is not None:
            hosted.timer.cancel()
        hosted.timer_ms = deadline_ms
        hosted.timer = self._node.world.timers.call_at(deadline_ms, lambda: self._on_time(hosted))

    def _on_time(self, hosted: Hosted[ShardType]) -> None:
        hosted.timer = None
        if not hosted.is_loaded or self._node.stopping:
            return
        clock = self._node.world.clock
        try:
            self._settle(hosted)
            for result in hosted.shard.on_time(clock.monotonic_ms(), clock.now_ms()):
                self._carry_out(hosted, result)
        except Exception:
            # It is tried again after a pause: at once would keep all others from their turn.
            self._book_at(hosted, clock.monotonic_ms() + FAULT_PAUSE_MS)
            raise
        self._book(hosted)

    # Loading and unloading

    def _host(self, replica: Replica) -> Hosted[ShardType]:
        hosted = Hosted(replica, self._new_shard())
        partition = replica.key.partition
        self._hosted[partition] = hosted
        if replica.log.log_end_offset == replica.log.log_start_offset:
            self._on_loaded(hosted)
            return hosted

        def loaded(_result: Any, problem: BaseException | None) -> None:  # noqa: ANN401
            if self._hosted.get(partition) is not hosted:
                return  # the topic was deleted meanwhile
            if problem is None:
                self._on_loaded(hosted)
            else:
                hosted.has_failed = True
                log.critical("%s: cannot be loaded", replica.key, exc_info=problem)

        drive(self._load(replica, hosted.shard), loaded)
        return hosted

    def _on_loaded(self, hosted: Hosted[ShardType]) -> None:
        hosted.is_loaded = True
        clock = self._node.world.clock
        now_ms, wall_ms = clock.monotonic_ms(), clock.now_ms()
        for result in self._results_of_loading(hosted.shard, now_ms, wall_ms):
            self._carry_out(hosted, result)
        self._book(hosted)

    def _unload(self, partition: int) -> None:
        hosted = self._hosted.pop(partition)
        self._settle(hosted)
        hosted.is_loaded = False
        if hosted.timer is not None:
            hosted.timer.cancel()
        for ticket, code in hosted.shard.unload():
            ticket.answer(code)

    def stop(self) -> None:
        """Answer everybody who waits: another coordinator, or this one after its next start, will serve them."""
        self._unload_all()

    def _unload_all(self) -> None:
        for partition in list(self._hosted):
            self._unload(partition)

    # The topic

    def on_topic_deleted(self, topic: Topic) -> None:
        """Forget everything if it was the topic of this host."""
        if topic.name == self._topic:
            self._unload_all()
            self._partition_count = self._node.config.get_int(self._count_setting)
            self._counted_id = None

    def create_topic(self) -> Task[Topic | None]:
        """Make the topic if it is not there; None if that cannot be done now."""
        if self._topic in self._node.topics.by_name:
            return self._counted_topic()
        if self._creating is not None:
            waiting = self._creating
            yield waiting.append
        else:
            self._creating = waiting = []
            # No `finally`: a task that is dropped with its node must not wake the others.
            try:
                yield from self._create()
            except KafkaError as problem:
                if problem.code is not ErrorCode.TOPIC_ALREADY_EXISTS:  # by another broker
                    reason = problem.message or problem.code.name
                    log.error("cannot create %s: %s", self._topic, reason)
            except Exception:
                self._end_creating(waiting)
                raise
            self._end_creating(waiting)
        return self._counted_topic()

    def _counted_topic(self) -> Topic | None:
        """Give the topic if it is known how many partitions it has: a lone broker knows it by itself, others are told."""
        topic = self._node.topics.by_name.get(self._topic)
        if topic is not None and self._node.is_lone:
            self.on_topic_known(topic)
        return topic if self._counted_id is not None else None

    def _end_creating(self, waiting: list[Done]) -> None:
        self._creating = None
        call_all(partial(done, None, None) for done in waiting)

    def _create(self) -> Task[None]:
        node = self._node
        count = node.config.get_int(self._count_setting)
        # A lone broker works out of the box. In a cluster it must not depend on who was there first whether what is
        # committed outlives a broker (KIP-115).
        wanted = node.config.get_int(self._replication_setting)
        replication_factor = 1 if node.is_lone else wanted
        yield from topic_creation.create_automatically(
            node, self._topic, count, replication_factor, self._topic_settings(replication_factor)
        )
