"""Hosts the group machines on the partitions of `__consumer_offsets`.

Which partition a group belongs to, making that topic when somebody first asks for a coordinator, rebuilding a shard from its
log, and carrying out what a shard decides: append its records as one batch, replay them, then let the replies go. Knows no rule
of any group.

Invariants: records are appended and replayed before anything else reaches the shard, so a shard always shows what is in its
log. When an append fails nothing changed. A reply leaves only when what it tells is as durable as the topic's settings ask
for, also the reply to a question that changes nothing. A shard that is not loaded answers nothing.
"""

from __future__ import annotations

import logging
from functools import lru_cache
from operator import mul
from typing import TYPE_CHECKING, Any, Final

from barnabas.broker import group_loading, group_records, topic_creation
from barnabas.broker.consumer_embedding import ConsumerEmbedding
from barnabas.broker.consumer_protocol import read_topics
from barnabas.broker.group_settings import NodeGroupSettings
from barnabas.broker.group_topics import GroupTopics
from barnabas.broker.tasks import drive
from barnabas.core.group.shard import GroupShard
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.compression import Codec

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.call import Call
    from barnabas.broker.node import Node
    from barnabas.broker.replicas import Replica
    from barnabas.broker.tasks import Done, Start, Task
    from barnabas.core.group.result import Result, Ticket
    from barnabas.model.cluster import Topic
    from barnabas.ports import Timer

log = logging.getLogger(__name__)

TOPIC: Final = "__consumer_offsets"
#: Groups whose hash is remembered: it costs as much as the rest of a heartbeat.
HASHES_KEPT: Final = 16_384
#: A hash is worked out block by block: the powers of 31 that a block's units are multiplied with.
_BLOCK: Final = 64
_POWERS: Final = [pow(31, _BLOCK - 1 - place, 1 << 32) for place in range(_BLOCK)]
_UNUSABLE: Final = {
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


class Held:
    """The ticket of one request: who asked, and how to make the answer of the machine's reply."""

    __slots__ = ("call", "is_late", "respond", "response")

    def __init__(self, call: Call, respond: Callable[[Call, Any], Any]) -> None:
        """Hold a request until its reply comes."""
        self.call = call
        self.respond = respond
        self.response: Any = None
        #: The handler has returned: the link gets the answer.
        self.is_late = False

    def answer(self, reply: Any) -> None:  # noqa: ANN401
        """Give the reply to whoever asked."""
        call = self.call
        if reply.__class__ is ErrorCode:
            response = call.node.refusal(call, reply)
        else:
            response = self.respond(call, reply)
        if self.is_late:
            call.node.answer_late(call, response)
        else:
            self.response = response


class Asked:
    """The ticket of a question that a task asks."""

    __slots__ = ("done",)

    def __init__(self, done: Done) -> None:
        """Remember who is to go on."""
        self.done = done

    def answer(self, reply: Any) -> None:  # noqa: ANN401
        """Let the task go on with the reply; an error code where another kind of reply may be expected is raised in it."""
        if reply.__class__ is ErrorCode and reply:
            self.done(None, KafkaError(reply, ""))
        else:
            self.done(reply, None)


class Hosted:
    """One shard on its partition."""

    __slots__ = ("is_loaded", "replica", "shard", "timer", "timer_ms")

    def __init__(self, replica: Replica, shard: GroupShard) -> None:
        """Start unloaded."""
        self.replica = replica
        self.shard = shard
        self.is_loaded = False
        self.timer: Timer | None = None
        self.timer_ms = 0


class Coordinators:
    """The group shards of one node."""

    def __init__(self, node: Node) -> None:
        """Host nothing yet."""
        self._node = node
        self._hosted: dict[int, Hosted] = {}
        self.group_settings = NodeGroupSettings(node)
        self._topics = GroupTopics(node)
        self._embedded = ConsumerEmbedding()
        self._codec = Codec(node.config.get_int("offsets.topic.compression.codec"))
        #: Fixed while the topic exists: a group's place must not move.
        self._partition_count = node.config.get_int("offsets.topic.num.partitions")
        self._creating: list[Callable[[Any, BaseException | None], None]] | None = None

    # Where a group is

    def start(self) -> None:
        """Begin to load what is in the log; requests are told to come again until then."""
        topic = self._node.topics.by_name.get(TOPIC)
        if topic is None:
            return
        self._partition_count = len(topic.partitions)
        for replica in self._node.replicas.of_topic(TOPIC):
            if replica.log.log_end_offset > replica.log.log_start_offset:
                self._host(replica)

    def serves(self, protocol: str) -> bool:
        """Tell whether groups may use this protocol."""
        return protocol in self.group_settings.all.rebalance_protocols

    def partition_for(self, group_id: str) -> int:
        """Give the partition that keeps a group, as every Kafka works it out."""
        return (java_hash(group_id) & 0x7FFFFFFF) % self._partition_count

    def find(self, group_id: str) -> Hosted:
        """Find the loaded shard of a group; KafkaError if it cannot be used now."""
        hosted = self._hosted.get(partition := self.partition_for(group_id))
        if hosted is None or hosted.replica.offline:
            hosted = self._find_again(partition, hosted)
        if not hosted.is_loaded:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "")
        return hosted

    def _find_again(self, partition: int, hosted: Hosted | None) -> Hosted:
        if hosted is not None:
            self._unload(partition)
        if self._node.stopping:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "")
        replica = self._node.replicas.get(TOPIC, partition)
        if replica is None or replica.offline:
            raise KafkaError(ErrorCode.NOT_COORDINATOR, "")
        return self._host(replica)

    def replica_for(self, group_id: str) -> Replica | None:
        """Find the partition that keeps a group, if it can be used."""
        replica = self._node.replicas.get(TOPIC, self.partition_for(group_id))
        return None if replica is None or replica.offline else replica

    def all_loaded(self) -> list[Hosted]:
        """Give every shard that was ever used; KafkaError while one is being loaded."""
        hosted = list(self._hosted.values())
        if not all(one.is_loaded for one in hosted):
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "")
        return hosted

    # Requests

    def ask(
        self,
        call: Call,
        group_id: str,
        entry: Callable[[GroupShard, Ticket, int, int], Result],
        respond: Callable[[Call, Any], Any],
        *,
        brings_deadlines: bool = True,
    ) -> Any:  # noqa: ANN401
        """Have a shard handle a request; its response, or None if the link gets it later.

        Those that are many and at most put deadlines off say so: then there is nothing to book.
        """
        hosted = self.find(group_id)
        clock = self._node.world.clock
        ticket = Held(call, respond)
        self._carry_out(hosted, entry(hosted.shard, ticket, clock.monotonic_ms(), clock.now_ms()))
        if brings_deadlines:
            self._book(hosted)
        ticket.is_late = True
        return ticket.response

    def asking(
        self, hosted: Hosted, entry: Callable[[GroupShard, Ticket, int, int], Result]
    ) -> Start:
        """Ask a shard from within a task; the answer is the machine's reply."""

        def start(done: Done) -> None:
            clock = self._node.world.clock
            result = entry(hosted.shard, Asked(done), clock.monotonic_ms(), clock.now_ms())
            self._carry_out(hosted, result)
            self._book(hosted)

        return start

    def _carry_out(self, hosted: Hosted, result: Result) -> None:
        replica = hosted.replica
        if result.records:
            code = self._append(hosted, result)
            if code:
                now_ms = self._node.world.clock.monotonic_ms()
                failed = hosted.shard.on_append_failed(result, _UNUSABLE.get(code, code), now_ms)
                _deliver(failed)
                return
        if not result.replies:
            return
        if replica.log.unflushed_records >= replica.config.flush_messages:
            replica.flush(lambda _done, error: _deliver_flushed(result, error))
        else:
            _deliver(result)

    def _append(self, hosted: Hosted, result: Result) -> ErrorCode:
        """Write the records as one batch and replay them; if that fails, nothing has changed."""
        replica = hosted.replica
        config = replica.config
        if replica.offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        acks = self._node.config.get_int("offsets.commit.required.acks")
        code = replica.state.decide_append(acks, config.min_insync_replicas)
        if code:
            return code
        now_ms = self._node.world.clock.now_ms()
        data, header = group_records.encode_batch(result.records, now_ms, self._codec)
        if len(data) > config.max_message_bytes:
            log.error("%s: a batch of %d bytes is too large", replica.key, len(data))
            return ErrorCode.MESSAGE_TOO_LARGE
        place = replica.append(data, header, now_ms)
        if place.__class__ is ErrorCode:
            return place
        assert replica.state.high_watermark == replica.log.log_end_offset, "the only replica"
        replica.metrics.messages_in += len(result.records)
        replica.metrics.bytes_in += len(data)
        replay = hosted.shard.replay
        for record in result.records:
            replay(record, place)
            place += 1
        return ErrorCode.NONE

    # Time

    def _book(self, hosted: Hosted) -> None:
        """See to it that the shard hears of its next deadline."""
        deadline_ms = hosted.shard.next_deadline_ms()
        if hosted.timer is not None:
            if deadline_ms is None or deadline_ms >= hosted.timer_ms:
                return  # what is booked comes first, and books again
            hosted.timer.cancel()
        elif deadline_ms is None:
            return
        hosted.timer_ms = deadline_ms
        hosted.timer = self._node.world.timers.call_at(deadline_ms, lambda: self._on_time(hosted))

    def _on_time(self, hosted: Hosted) -> None:
        hosted.timer = None
        if not hosted.is_loaded or self._node.stopping:
            return
        clock = self._node.world.clock
        for result in hosted.shard.on_time(clock.monotonic_ms(), clock.now_ms()):
            self._carry_out(hosted, result)
        self._book(hosted)

    # Loading and unloading

    def _host(self, replica: Replica) -> Hosted:
        node = self._node
        shard = GroupShard(
            self.group_settings.all,
            topics=self._topics,
            new_uuid=self._new_uuid,
            read_topics=read_topics,
            embedded=self._embedded,
            overrides=self.group_settings.overrides,
        )
        hosted = Hosted(replica, shard)
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
                log.critical("%s: cannot load its groups", replica.key, exc_info=problem)

        size = node.config.get_int("offsets.load.buffer.size")
        drive(group_loading.load(node.world.background, replica, shard, size), loaded)
        return hosted

    def _on_loaded(self, hosted: Hosted) -> None:
        hosted.is_loaded = True
        clock = self._node.world.clock
        results = hosted.shard.on_loaded(clock.monotonic_ms(), clock.now_ms())
        # A topic may have been deleted while this was loaded, or just before a crash.
        results += hosted.shard.offsets.forget_gone(self._topic_id_of)
        for result in results:
            self._carry_out(hosted, result)
        self._book(hosted)

    def _topic_id_of(self, name: str) -> bytes | None:
        topic = self._node.topics.by_name.get(name)
        return None if topic is None else topic.id

    def _unload(self, partition: int) -> None:
        hosted = self._hosted.pop(partition)
        hosted.is_loaded = False
        if hosted.timer is not None:
            hosted.timer.cancel()
        for ticket, code in hosted.shard.unload():
            ticket.answer(code)

    def stop(self) -> None:
        """Answer everybody who waits: another coordinator, or this one after its next start, will serve them."""
        for partition in list(self._hosted):
            self._unload(partition)

    # Topics

    def on_topics_changed(self, *names: str) -> None:
        """Tell every shard that these topics came, grew or went."""
        for hosted in self._hosted.values():
            hosted.shard.on_topics_changed(names)

    def on_topic_deleted(self, topic: Topic) -> None:
        """Forget the offsets in a topic that is gone; with the offsets topic itself, forget all groups."""
        if topic.name == TOPIC:
            self.stop()
            self._partition_count = self._node.config.get_int("offsets.topic.num.partitions")
            return
        for hosted in list(self._hosted.values()):
            if hosted.is_loaded:
                for result in hosted.shard.on_topic_deleted(topic.name, topic.id):
                    self._carry_out(hosted, result)
        self.on_topics_changed(topic.name)

    def create_topic(self) -> Task[Topic | None]:
        """Make the offsets topic if it is not there; None if that cannot be done now."""
        topic = self._node.topics.by_name.get(TOPIC)
        if topic is not None:
            return topic
        if self._creating is not None:
            waiting = self._creating
            yield waiting.append
        else:
            self._creating = waiting = []
            # No `finally`: a task that is dropped with its node must not wake the others.
            try:
                yield from self._create()
            except KafkaError as problem:
                log.error("cannot create %s: %s", TOPIC, problem.message or problem.code.name)
            except Exception:
                self._end_creating(waiting)
                raise
            self._end_creating(waiting)
        return self._node.topics.by_name.get(TOPIC)

    def _end_creating(self, waiting: list[Done]) -> None:
        self._creating = None
        for done in waiting:
            done(None, None)

    def _create(self) -> Task[None]:
        node = self._node
        count = node.config.get_int("offsets.topic.num.partitions")
        # As many replicas as asked for, or as there are brokers: here one.
        assignment = topic_creation.decide_assignment(node, count, 1)
        configs = [
            ("cleanup.policy", "compact"),
            ("compression.type", "producer"),
            ("segment.bytes", str(node.config.get_int("offsets.topic.segment.bytes"))),
        ]
        topic = topic_creation.plan_topic(node, TOPIC, assignment, configs)
        yield from topic_creation.create(node, topic)
        self._partition_count = count

    def _new_uuid(self) -> str:
        """Make a random id in Java's spelling."""
        text = topic_creation.new_id(self._node).hex()
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def _deliver(result: Result) -> None:
    for ticket, reply in result.replies:
        ticket.answer(reply)


def _deliver_flushed(result: Result, error: BaseException | None) -> None:
    for ticket, reply in result.replies:
        ticket.answer(reply if error is None else ErrorCode.NOT_COORDINATOR)


@lru_cache(HASHES_KEPT)
def java_hash(text: str) -> int:
    """Hash as Java's String does: over UTF-16 units, in 32 bits, here without the sign."""
    value = 0
    units = memoryview(text.encode("utf-16", "surrogatepass"))[2:].cast(
        "H"
    )  # behind the byte order
    for first in range(0, len(units), _BLOCK):
        some = units[first : first + _BLOCK]
        powers = _POWERS[_BLOCK - len(some) :]
        value = (value * powers[0] * 31 + sum(map(mul, some, powers))) & 0xFFFFFFFF
    return value
