"""A simulated process that reads topics as a member of a group, and its mishaps.

Job: what members of both protocols have in common: run a script of requests, find the coordinator, read and process records, commit
after that; and crash, hang, lose answers and come back while trouble lasts. Must not know how partitions are shared: that is
`group_member` and `consumer_member`.

A script is a generator: it yields a request or a nap and gets the response, or None when nobody knows what came of it. A process that
crashes loses its script and all it knows, but for the instance id of a static member.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from barnabas.model.errors import ErrorCode
from barnabas.sim.client import REQUEST_TIMEOUT_US, Client
from barnabas.sim.consumer import read_all
from barnabas.sim.group_checkers import NO_OFFSET, Standing, Who
from barnabas.sim.violation import Violation
from barnabas.sim.world import MS
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest
from barnabas.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from barnabas.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable

    from barnabas.sim.checkers import Key
    from barnabas.sim.group_checkers import Commit, GroupHistory
    from barnabas.sim.network import Network
    from barnabas.wire.messages.fetch import PartitionData

EARLIEST: Final = -2
LATEST: Final = -1
#: How much more often members hang where it matters most.
WEIGHT: Final = 5
_GROUP_ERROR_SINCE: Final = 2
_MANY_GROUPS_SINCE: Final = 8
_MANY_COORDINATORS_SINCE: Final = 4
#: Errors after which a member looks for its coordinator again.
COORDINATOR_LOST: Final = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
#: Errors that say that the member is none any more.
EXPELLED: Final = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.STALE_MEMBER_EPOCH,
    ErrorCode.GROUP_ID_NOT_FOUND,
)
#: With these, a commit was surely not done.
REFUSALS: Final = (
    *EXPELLED,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
)
_LOG_AWAY: Final = (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


class Ask(NamedTuple):
    """A request to be sent."""

    request: Any
    version: int
    timeout_us: int = REQUEST_TIMEOUT_US
    #: Called when it goes out: a script may have to wait for a connection.
    on_sent: Callable[[], None] | None = None


class Nap(NamedTuple):
    """Time to let pass."""

    delay_us: int


class MemberStyle(NamedTuple):
    """How a member works and fails; likelihoods are per request, while there is trouble."""

    session_us: int
    rebalance_us: int
    heartbeat_us: int
    instance_id: str | None
    crashes: float
    pauses: float
    loses_replies: float
    leaves: float
    #: Comes back after each crash; others do so or not.
    returns: bool
    #: Another member has the same instance id: each may be put out by the other at any time. And which of them it is.
    has_twin: bool = False
    is_twin: bool = False


class GroupSpec(NamedTuple):
    """A group: what it reads, and who watches it."""

    group_id: str
    keys: list[Key]
    history: GroupHistory


class GroupClient(Client):
    """One member, through all its processes."""

    speaks_classic = True

    def __init__(
        self,
        name: str,
        network: Network,
        group: GroupSpec,
        style: MemberStyle,
    ) -> None:
        """Have no process yet: `start` begins one."""
        super().__init__(name, network)
        self.groups = group.history
        self.history = group.history.records
        self.group_id = group.group_id
        self.style = style
        self.topics = sorted({topic for topic, _index in group.keys})
        self.is_finished = True
        self.process = 0
        self.is_calm = False
        #: The generation, or member epoch, in which it owns `positions`.
        self.member_id = ""
        self.generation = -1
        #: What it owns, and where to read on; None until the committed offset is known.
        self.positions: dict[Key, int | None] = {}
        self.committed: dict[Key, int] = {}
        #: When it last asked for more and there was none.
        self._at_end_us: dict[Key, int] = {}
        self.sent_us = 0
        self.life = 0
        self.next_heartbeat_us = 0
        self._script: Generator[Ask | Nap, Any, Any] | None = None
        self._unsent: Ask | None = None
        self._hangs = False

    @property
    def identity(self) -> str:
        """Who it is to the others: a process, or an instance that goes from process to process, or to a twin."""
        return self.style.instance_id or f"{self.name}/{self.process}"

    @property
    def who(self) -> Who:
        """Who it is to the coordinator."""
        return Who(self.identity, self.member_id)

    @property
    def timeout_us(self) -> int:
        """How long it keeps what it has when nothing is heard of it."""
        return min(self.style.session_us, self.style.rebalance_us)

    @property
    def standing(self) -> Standing:
        """What an answer that says that all is well is worth."""
        timeout_us = 0 if self.style.has_twin else self.timeout_us
        return Standing(self.sent_us, self.life, timeout_us, self.speaks_classic)

    # For subclasses

    def run_process(self) -> Generator[Ask | Nap, Any, Any]:
        """Do all that a process does, until it leaves."""
        raise NotImplementedError

    def leader_epoch(self, _key: Key) -> int:
        """Tell in which epoch it believes that somebody leads; -1 if it does not care."""
        return -1

    # Processes

    def start(self) -> None:
        """Begin a process that knows nothing."""
        if not self.is_finished or (self.is_calm and not self.style.returns):
            return
        self.is_finished = False
        self.member_id, self.generation = "", -1
        self.scheduler.note(f"{self.identity} starts")
        self._script = self.run_process()
        self._advance(None)

    def calm(self) -> None:
        """Let nothing go wrong any more: who was to come back does, who was there by mistake dies."""
        self.is_calm = True
        if self.style.is_twin:
            self.stop()
        elif self.is_finished and self.style.returns:
            self.start()

    def stop(self) -> None:
        """End the process at once."""
        self.give_up_all()
        self.process += 1
        self._script = None
        self._unsent = None
        self._hangs = False
        self.is_finished = True
        self.hang_up()

    def crash(self) -> None:
        """Die without a word."""
        self.scheduler.note(f"{self.identity} crashes")
        self._end_process()

    def _end_process(self) -> None:
        self.stop()
        if self.style.returns or (not self.is_calm and self.chance.random() < 0.5):
            self.scheduler.after(
                self.chance.choice((10 * MS, self.style.session_us))
                + self.chance.randint(0, 300 * MS),
                f"{self.name} comes back",
                self.start,
            )

    def give_up_all(self) -> None:
        """Own nothing any more."""
        self.positions.clear()
        self.committed.clear()
        self._at_end_us.clear()
        self.groups.on_released(self.group_id, self.identity)

    # Running the script

    def _advance(self, value: Any) -> None:  # noqa: ANN401
        script, process = self._script, self.process
        assert script is not None
        try:
            wanted = script.send(value)
        except StopIteration:
            self._end_process()
            return
        if isinstance(wanted, Nap):
            self.scheduler.after(
                wanted.delay_us, f"{self.name} goes on", lambda: self._wake_up(process)
            )
            return
        self._unsent = wanted
        # Who hangs just before a commit is fenced when it goes on.
        weight = WEIGHT if isinstance(wanted.request, OffsetCommitRequest) else 1
        if not self.is_calm and self.chance.random() < self.style.pauses * weight:
            self._hang(self.step)
        self.step()

    def _wake_up(self, process: int) -> None:
        if process == self.process:
            self._advance(None)

    def _take_answer(self, response: Any) -> None:  # noqa: ANN401
        # Who hangs with an assignment in hand goes on as if it did not know.
        weight = WEIGHT if getattr(response, "assignment", None) else 1
        if self.is_calm or self.chance.random() >= self.style.pauses * weight:
            self._advance(response)
        else:
            self._hang(lambda: self._advance(response))

    def _hang(self, then: Callable[[], None]) -> None:
        """Stand still, as a process in a long garbage collection; often for longer than its session."""
        self.scheduler.note(f"{self.identity} hangs")
        self._hangs = True
        process = self.process

        def go_on() -> None:
            if process == self.process:
                self._hangs = False
                then()

        pause_us = int(self.style.session_us * self.chance.choice((0.5, 1.1, 1.8)))
        self.scheduler.after(pause_us, f"{self.name} goes on", go_on)

    def step(self) -> None:
        """Send what is to be sent."""
        if self._script is None:
            self.hang_up()
        elif self._unsent is not None and not self._hangs:
            if self.connection is None:
                self.wake_after_backoff()
            else:
                asked, self._unsent = self._unsent, None
                self._send_one(asked)

    def _send_one(self, asked: Ask) -> None:
        assert self.connection is not None
        process = self.process
        self.sent_us = self.scheduler.now_us
        self.life = self.connection.life.number

        def answered(response: Any) -> None:  # noqa: ANN401
            if process == self.process:
                self._take_answer(response)

        if asked.on_sent is not None:
            asked.on_sent()
        self.ask(asked.request, asked.version, answered, timeout_us=asked.timeout_us)
        if self.is_calm:
            return
        if self.chance.random() < self.style.loses_replies:
            self.connection.loses_replies = True
        if self.chance.random() < self.style.crashes:
            self.crash()

    def nap(self) -> Nap:
        """Give time to others before the next attempt."""
        return Nap(self.chance.randint(20 * MS, 120 * MS))

    def unexpected(self, what: str, code: int) -> Violation:
        """Tell of an answer that no good request gets."""
        return Violation(
            "good group requests are taken",
            f"{self.identity} of {self.group_id} got {ErrorCode(code).name} for {what}",
        )

    def is_passing(self, code: int) -> bool:
        """Tell whether the coordinator is just not there now."""
        return code in COORDINATOR_LOST or (
            code == ErrorCode.UNKNOWN_SERVER_ERROR and self.history.failures_explained
        )

    # Parts of scripts

    def ask_topics(self) -> Generator[Ask | Nap, Any, dict[str, Any] | None]:
        """Ask for the topics; None if one is not there."""
        wanted = [MetadataRequestTopic(name=name) for name in self.topics]
        response = yield Ask(
            MetadataRequest(topics=wanted, allow_auto_topic_creation=False),
            self.chance.choice((10, 12, 13)),
        )
        if response is None or any(topic.error_code for topic in response.topics):
            return None
        return {topic.name: topic for topic in response.topics}

    def find_coordinator(self) -> Generator[Ask | Nap, Any, bool]:
        """Ask who keeps the group; False if that is not known."""
        version = self.chance.randint(0, 6)
        many = version >= _MANY_COORDINATORS_SINCE
        response = yield Ask(
            FindCoordinatorRequest(
                key="" if many else self.group_id,
                key_type=0,
                coordinator_keys=[self.group_id] if many else [],
            ),
            version,
        )
        if response is None:
            return False
        code: int = response.coordinators[0].error_code if many else response.error_code
        if code and not self.is_passing(code):
            raise self.unexpected("FindCoordinator", code)
        if code:
            yield self.nap()
        return not code

    def ask_offsets(
        self, version: int, epoch: int | None = None
    ) -> Generator[Ask | Nap, Any, int | None]:
        """Ask where to begin with what is owned; the error code, None without an answer."""
        keys = [key for key, position in self.positions.items() if position is None]
        response = yield Ask(
            offset_fetch(
                self.group_id, keys, version, self.member_id if epoch is not None else None, epoch
            ),
            version,
        )
        if response is None:
            return None
        code, found = read_offsets(response, version)
        if code:
            return code
        for key, (offset, partition_code) in found.items():
            if partition_code:
                raise self.unexpected("OffsetFetch", partition_code)
            self.groups.on_offset(self.group_id, key, self.identity, offset, self.sent_us)
            if key in self.positions:
                self.positions[key] = 0 if offset == NO_OFFSET else offset
                self.committed[key] = offset
        return 0

    def read(self) -> Generator[Ask | Nap, Any, None]:
        """Fetch and process what is there, from each partition that is owned."""
        starts = {key: at for key, at in self.positions.items() if at is not None}
        response = yield Ask(self._fetch(starts), self.chance.choice((4, 6, 9, 11, 12)))
        if response is None:
            return
        if response.error_code:
            raise self.unexpected("Fetch", response.error_code)
        sent_us, life = self.sent_us, self.life
        out_of_range = []
        for topic in response.responses:
            for data in topic.partitions:
                key = (topic.topic, data.partition_index)
                if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    out_of_range.append(key)
                elif data.error_code:
                    if data.error_code not in _LOG_AWAY:
                        raise self.unexpected("Fetch", data.error_code)
                    yield self.nap()
                elif key in self.positions:
                    self._process(key, starts[key], data, sent_us, life)
        for key in out_of_range:
            yield from self._reset(key, starts[key])

    def _fetch(self, starts: dict[Key, int]) -> FetchRequest:
        topics: dict[str, FetchTopic] = {}
        for (name, index), position in starts.items():
            topic = topics.setdefault(name, FetchTopic(topic=name, partitions=[]))
            topic.partitions.append(
                FetchPartition(
                    partition=index,
                    current_leader_epoch=self.leader_epoch((name, index)),
                    fetch_offset=position,
                    partition_max_bytes=self.chance.choice((400, 4000, 1 << 20)),
                )
            )
        due_ms = max(0, self.next_heartbeat_us - self.scheduler.now_us) // MS
        return FetchRequest(
            replica_id=-1,
            max_wait_ms=due_ms if self.is_calm else min(due_ms, self.chance.choice((50, 400))),
            min_bytes=1,
            max_bytes=1 << 20,
            session_epoch=-1,
            topics=list(topics.values()),
        )

    def _process(
        self, key: Key, position: int, data: PartitionData, sent_us: int, life: int
    ) -> None:
        found = [
            (record.offset, record.value or b"")
            for record in read_all(data.records)
            if record.offset >= position
        ]
        self.history.on_read(key, self.identity, life, position, found, data.high_watermark)
        self.groups.on_processed(self.group_id, key, found, life)
        self.positions[key] = position + len(found)
        if not found:
            self._at_end_us[key] = sent_us

    def _reset(self, key: Key, position: int) -> Generator[Ask | Nap, Any, None]:
        """Go on elsewhere: at the start if records were deleted, at the end if a power loss took them."""
        deleted = self.history.may_be_deleted(key, position)
        if not deleted and not self.history.may_be_gone(key, position - 1):
            raise Violation(
                "acknowledged is kept",
                f"{self.identity} was told that offset {position} of {key[0]}-{key[1]} is out of range",
            )
        asked = ListOffsetsPartition(
            partition_index=key[1],
            current_leader_epoch=-1,
            timestamp=EARLIEST if deleted else LATEST,
        )
        topic = ListOffsetsTopic(name=key[0], partitions=[asked])
        response = yield Ask(ListOffsetsRequest(replica_id=-1, topics=[topic]), 7)
        if response is None or response.topics[0].partitions[0].error_code:
            return
        offset = response.topics[0].partitions[0].offset
        if key in self.positions:
            # Records that came since the refusal are new to the group, wherever it was.
            self.positions[key] = offset if deleted else min(offset, position)

    @property
    def uncommitted(self) -> dict[Key, int]:
        """What was processed since the last commit."""
        return {
            key: at
            for key, at in self.positions.items()
            if at is not None and at != max(self.committed[key], 0)
        }

    def commit(self, version: int) -> Generator[Ask | Nap, Any, int | None]:
        """Commit what was processed; the error code, None without an answer."""
        offsets = self.uncommitted
        generation = self.generation
        commits: dict[Key, Commit] = {}

        def on_sent() -> None:
            for key, offset in offsets.items():
                commits[key] = self.groups.on_committing(
                    self.group_id, key, self.who, generation, offset, self.life
                )

        request = offset_commit(
            self.group_id, self.member_id, generation, self.style.instance_id, offsets
        )
        response = yield Ask(request, version, on_sent=on_sent)
        if response is None:
            return None
        worst = 0
        for topic in response.topics:
            for partition in topic.partitions:
                key, code = (topic.name, partition.partition_index), partition.error_code
                if code == 0:
                    self.groups.on_committed(self.group_id, key, commits[key])
                    if key in self.committed:
                        self.committed[key] = offsets[key]
                elif code in REFUSALS:
                    commits[key].is_refused = True
                worst = worst or code
        return worst

    # How far it is

    def has_caught_up(self, since_us: int) -> bool:
        """Tell whether it read all it owns to the end after this time, and committed that."""
        return (
            not self.is_finished
            and all(self._at_end_us.get(key, -1) >= since_us for key in self.positions)
            and not self.uncommitted
        )


def offset_commit(
    group_id: str,
    member_id: str,
    generation: int,
    instance_id: str | None,
    offsets: dict[Key, int],
) -> OffsetCommitRequest:
    """Build a commit of these offsets."""
    topics: dict[str, OffsetCommitRequestTopic] = {}
    for (name, index), offset in offsets.items():
        topic = topics.setdefault(name, OffsetCommitRequestTopic(name=name, partitions=[]))
        topic.partitions.append(
            OffsetCommitRequestPartition(
                partition_index=index, committed_offset=offset, committed_metadata=None
            )
        )
    return OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        group_instance_id=instance_id,
        topics=list(topics.values()),
    )


def offset_fetch(
    group_id: str,
    keys: Iterable[Key],
    version: int,
    member_id: str | None = None,
    epoch: int | None = None,
) -> OffsetFetchRequest:
    """Build a question for these offsets, in the form of that version."""
    indexes: dict[str, list[int]] = {}
    for name, index in keys:
        indexes.setdefault(name, []).append(index)
    if version < _MANY_GROUPS_SINCE:
        old = [
            OffsetFetchRequestTopic(name=name, partition_indexes=found)
            for name, found in indexes.items()
        ]
        return OffsetFetchRequest(group_id=group_id, topics=old)
    topics = [
        OffsetFetchRequestTopics(name=name, partition_indexes=found)
        for name, found in indexes.items()
    ]
    group = OffsetFetchRequestGroup(
        group_id=group_id,
        member_id=member_id,
        member_epoch=-1 if epoch is None else epoch,
        topics=topics,
    )
    return OffsetFetchRequest(groups=[group])


def read_offsets(response: Any, version: int) -> tuple[int, dict[Key, tuple[int, int]]]:  # noqa: ANN401
    """Read an answer: (error code of the group, partition -> (offset, error code))."""
    group = response.groups[0] if version >= _MANY_GROUPS_SINCE else response
    code = group.error_code
    found = {}
    for topic in group.topics:
        for one in topic.partitions:
            found[topic.name, one.partition_index] = (one.committed_offset, one.error_code)
            if version < _GROUP_ERROR_SINCE:
                code = code or one.error_code
    return code, found
