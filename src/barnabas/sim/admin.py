"""A simulated administrator: creates the topics of a run, and creates and deletes others while things go wrong.

Job: know which topics may exist, and at the end see that each one exists whole or not at all.
Must not know records.

A request whose outcome is unknown may take effect at any later time, so its topic may be there or not from then on. Once
everything is healed each topic must be deletable and creatable again, whatever was left of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from barnabas.model.errors import ErrorCode
from barnabas.sim.client import Client
from barnabas.sim.violation import Violation
from barnabas.sim.world import MS, SECOND
from barnabas.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from barnabas.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from barnabas.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest
from barnabas.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from barnabas.wire.messages.metadata import MetadataRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from barnabas.sim.checkers import History
    from barnabas.sim.network import Network

_PASSING: Final = (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.UNKNOWN_SERVER_ERROR)
#: Logs that could not be opened must be there this long after everything was healed.
AUDIT_PATIENCE_US: Final = 20 * SECOND
CHECKER: Final = "topics are whole"

Ask = tuple[Any, int]


class TopicSpec(NamedTuple):
    """A topic as it is to be."""

    name: str
    partition_count: int
    configs: tuple[tuple[str, str], ...] = ()


class Admin(Client):
    """Makes `topics` first, then plays with `scratch` until it is told to audit."""

    def __init__(
        self,
        name: str,
        network: Network,
        history: History | None,
        topics: list[TopicSpec],
        scratch: list[TopicSpec],
        *,
        store_fails: bool,
    ) -> None:
        """Have done nothing yet.

        With a history, records of `topics` are deleted, too. `store_fails` says that an unknown server error may be
        one of the store.
        """
        super().__init__(name, network)
        self._history = history
        self.topics_made = False
        self._topics = topics
        self._scratch = scratch
        self._store_fails = store_fails
        #: Whether a scratch topic is there; None if nobody can tell.
        self._there: dict[str, bool | None] = {spec.name: False for spec in scratch}
        #: How many partitions each topic may have.
        self._counts = {spec.name: [spec.partition_count] for spec in (*topics, *scratch)}
        self._auditing = False
        self._audit_end_us = 0
        self._resting = False
        self._script: Generator[Ask, Any, None] | None = None
        self._busy = False

    @property
    def unfinished(self) -> str:
        """Say what is left to do."""
        return "auditing" if self._auditing else "not asked to audit"

    def expect_topic(self, name: str, partition_count: int) -> None:
        """Let there be a topic that somebody else makes."""
        self._counts[name] = [partition_count]

    def rest(self) -> None:
        """Start nothing more until the audit."""
        self._resting = True

    def audit(self) -> None:
        """Look at every topic, then be finished. Everything is healed."""
        self._auditing = True
        self._audit_end_us = self.scheduler.now_us + AUDIT_PATIENCE_US
        self.wake()

    def step(self) -> None:
        """Start what comes next, unless something is under way."""
        if self._busy or self.requests_in_flight:
            return
        if not self.topics_made:
            self._run(self._make_topics())
        elif self._auditing:
            self._run(self._audit())
        elif self._resting:
            return
        elif self._history is not None and self.chance.random() < 0.3:
            self._run(self._delete_records(self._history))
        elif self._scratch and self.chance.random() < 0.9:
            self._run(self._play(self.chance.choice(self._scratch)))
        else:
            self._pause()

    # Running scripts: a generator yields (request, version) and is sent the response or None

    def _run(self, script: Generator[Ask, Any, None]) -> None:
        self._busy = True
        self._script = script
        self._go_on(lambda: next(script))

    def _go_on(self, advance: Callable[[], Ask]) -> None:
        script = self._script
        assert script is not None
        try:
            request, version = advance()
        except StopIteration:
            if not self.is_finished:
                self._pause()
            return
        if self.connection is None:
            self._answer(None)
        else:
            self.ask(request, version, self._answer)

    def _answer(self, response: Any) -> None:  # noqa: ANN401
        script = self._script
        assert script is not None
        self._go_on(lambda: script.send(response))

    def _pause(self) -> None:
        self._busy = True
        limit = 40 * MS if self._auditing or not self.topics_made else 400 * MS

        def go_on() -> None:
            self._busy = False
            self.wake()

        self.scheduler.after(self.chance.randint(5 * MS, limit), f"{self.name} goes on", go_on)

    # Scripts

    def _make_topics(self) -> Generator[Ask, Any, None]:
        for spec in self._topics:
            response = yield self._create(spec), 7
            if response is None:
                return
            code = response.topics[0].error_code
            if code in _PASSING:
                return
            if code not in (0, ErrorCode.TOPIC_ALREADY_EXISTS):
                raise self._unexpected("create", spec.name, response.topics[0])
        self.topics_made = True

    def _play(self, spec: TopicSpec) -> Generator[Ask, Any, None]:
        attempt = self.chance.choice(
            (self._try_create, self._try_create, self._try_delete, self._try_delete, self._try_grow)
        )
        yield from attempt(spec)

    def _try_create(self, spec: TopicSpec) -> Generator[Ask, Any, None]:
        response = yield self._create(spec), self.chance.choice((2, 5, 7))
        result = None if response is None else response.topics[0]
        before = self._there[spec.name]
        if result is None or self._is_vague(result.error_code):
            self._there[spec.name] = None
            self._may_count(spec.name, spec.partition_count)
        elif result.error_code == 0:
            if before is True:
                raise Violation(CHECKER, f"{spec.name} was created though it is there")
            self._there[spec.name] = True if before is False else None
            self._may_count(spec.name, spec.partition_count)
        elif result.error_code == ErrorCode.TOPIC_ALREADY_EXISTS:
            if before is False:
                raise Violation(CHECKER, f"{spec.name} cannot be created: {result.error_message}")
        else:
            raise self._unexpected("create", spec.name, result)

    def _try_grow(self, spec: TopicSpec) -> Generator[Ask, Any, None]:
        count = max(self._counts[spec.name]) + self.chance.randint(1, 2)
        topic = CreatePartitionsTopic(name=spec.name, count=count, assignments=None)
        request = CreatePartitionsRequest(topics=[topic], timeout_ms=1000, validate_only=False)
        response = yield request, self.chance.choice((0, 2, 3))
        result = None if response is None else response.results[0]
        if result is None or self._is_vague(result.error_code):
            self._there[spec.name] = None
            self._may_count(spec.name, count)
        elif result.error_code == 0:
            if self._there[spec.name] is False:
                raise Violation(CHECKER, f"{spec.name} got more partitions though it is not there")
            self._may_count(spec.name, count)
        elif result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            if self._there[spec.name] is True:
                raise Violation(CHECKER, f"{spec.name} cannot get more partitions: it is not known")
        elif result.error_code != ErrorCode.INVALID_PARTITIONS or self._there[spec.name]:
            raise self._unexpected("add partitions to", spec.name, result)

    def _may_count(self, name: str, count: int) -> None:
        """Note how many partitions a topic has now; while nobody can tell, one possibility more."""
        self._counts[name] = [count] if self._there[name] else [*self._counts[name], count]

    def _try_delete(self, spec: TopicSpec) -> Generator[Ask, Any, None]:
        request = DeleteTopicsRequest(topic_names=[spec.name], timeout_ms=1000)
        response = yield request, self.chance.choice((1, 4, 5))
        result = None if response is None else response.responses[0]
        before = self._there[spec.name]
        if result is None or self._is_vague(result.error_code):
            self._there[spec.name] = None
        elif result.error_code == 0:
            if before is False:
                raise Violation(CHECKER, f"{spec.name} was deleted though it is not there")
            self._there[spec.name] = False if before is True else None
        elif result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            if before is True:
                raise Violation(CHECKER, f"{spec.name} cannot be deleted: it is not known")
        else:
            raise self._unexpected("delete", spec.name, result)

    def _delete_records(self, history: History) -> Generator[Ask, Any, None]:
        own = [spec.name for spec in self._topics]
        key = self.chance.choice([key for key in history.ledgers if key[0] in own])
        offset = (
            None if self.chance.random() < 0.3 else self.chance.randint(0, history.known_end(key))
        )
        history.on_deleting(key, offset)
        asked = DeleteRecordsPartition(
            partition_index=key[1], offset=-1 if offset is None else offset
        )
        topic = DeleteRecordsTopic(name=key[0], partitions=[asked])
        response = yield DeleteRecordsRequest(topics=[topic], timeout_ms=1000), 2
        result = None if response is None else response.topics[0].partitions[0]
        if result is None or result.error_code in _PASSING:
            return
        if result.error_code == 0:
            history.on_deleted(key, result.low_watermark)
        elif result.error_code not in (
            ErrorCode.OFFSET_OUT_OF_RANGE,  # a power loss took it since
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ):
            raise self._unexpected("delete records of", f"{key[0]}-{key[1]}", result)

    def _is_vague(self, code: int) -> bool:
        return code == ErrorCode.KAFKA_STORAGE_ERROR or (
            code == ErrorCode.UNKNOWN_SERVER_ERROR and self._store_fails
        )

    def _audit(self) -> Generator[Ask, Any, None]:
        names = yield from self._look()
        if names is None:
            return
        for spec in self._scratch:
            there = self._there[spec.name]
            if there is not None and there != (spec.name in names):
                state = "is not there" if there else "is there"
                raise Violation(CHECKER, f"{spec.name} {state}, against what was answered")
            if not (yield from self._remake(spec, there=spec.name in names)):
                return
        names = yield from self._look()
        if names is None:
            return
        self.is_finished = True
        self.hang_up()

    def _look(self) -> Generator[Ask, Any, list[str] | None]:
        """Ask for all topics and check that each is whole; None if there was no answer."""
        response = yield MetadataRequest(topics=None, allow_auto_topic_creation=False), 12
        if response is None:
            return None
        for topic in response.topics:
            counts = self._counts.get(topic.name, [])
            if topic.error_code or len(topic.partitions) not in counts:
                raise Violation(
                    CHECKER,
                    f"{topic.name} has {len(topic.partitions)} partitions, not one of {counts};"
                    f" error {ErrorCode(topic.error_code).name}",
                )
            if not (yield from self._look_at(topic.name, len(topic.partitions))):
                return None
        return [topic.name for topic in response.topics]

    def _look_at(self, name: str, count: int) -> Generator[Ask, Any, bool]:
        asked = [
            ListOffsetsPartition(partition_index=index, current_leader_epoch=-1, timestamp=-1)
            for index in range(count)
        ]
        request = ListOffsetsRequest(
            replica_id=-1, topics=[ListOffsetsTopic(name=name, partitions=asked)]
        )
        response = yield request, 7
        if response is None:
            return False
        for partition in response.topics[0].partitions:
            if partition.error_code:
                if self.scheduler.now_us < self._audit_end_us:
                    return False  # a log that could not be opened is tried again now and then
                raise Violation(
                    CHECKER,
                    f"{name}-{partition.partition_index} answers {ErrorCode(partition.error_code).name}",
                )
        return True

    def _remake(self, spec: TopicSpec, *, there: bool) -> Generator[Ask, Any, bool]:
        """Delete and create a topic: whatever was left of it must not be in the way."""
        steps: list[tuple[str, Any, int]] = []
        delete = DeleteTopicsRequest(topic_names=[spec.name], timeout_ms=1000)
        if there:
            steps.append(("delete", delete, 5))
        steps += [("create", self._create(spec), 7), ("delete", delete, 5)]
        for what, request, version in steps:
            response = yield request, version
            if response is None:
                self._there[spec.name] = None
                return False
            result = (response.topics if what == "create" else response.responses)[0]
            if result.error_code:
                raise self._unexpected(what, spec.name, result)
            self._there[spec.name] = what == "create"
            self._counts[spec.name] = [spec.partition_count]
        return True

    def _create(self, spec: TopicSpec) -> CreateTopicsRequest:
        topic = CreatableTopic(
            name=spec.name,
            num_partitions=spec.partition_count,
            replication_factor=1,
            assignments=[],
            configs=[CreatableTopicConfig(name=name, value=value) for name, value in spec.configs],
        )
        return CreateTopicsRequest(topics=[topic], timeout_ms=1000, validate_only=False)

    def _unexpected(self, what: str, name: str, result: Any) -> Violation:  # noqa: ANN401
        code = ErrorCode(result.error_code).name
        why = getattr(result, "error_message", None) or ""
        return Violation(CHECKER, f"cannot {what} {name}: {code} {why}")
