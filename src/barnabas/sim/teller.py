"""A simulated transactional producer: moves money between two accounts, through every mishap.

Job: one transaction after another, each with a record on both partitions of a topic and an offset of a group; it asks again what was
not answered, begins anew when it is fenced, and says what it was told (`Ledger`). Must not know: what is in the log.

A teller of transaction version 2 sends its requests a second time, much later, through an `Echo`: late ones must change nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from barnabas.model.errors import ErrorCode
from barnabas.sim.client import Client
from barnabas.sim.group_client import Ask, Nap
from barnabas.sim.violation import Violation
from barnabas.sim.world import MS, START_MS
from barnabas.wire import batch
from barnabas.wire.batch import Record
from barnabas.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from barnabas.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from barnabas.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.wire.messages.end_txn import EndTxnRequest
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest
from barnabas.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from barnabas.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

if TYPE_CHECKING:
    import random
    from collections.abc import Generator

    from barnabas.sim.network import Network
    from barnabas.sim.world import Scheduler

    Script = Generator[Ask | Nap, Any, Any]

TOPIC: Final = "accounts"
ACCOUNTS: Final = (0, 1)
TIMEOUT_MS: Final = 3000
_GROUP, _TRANSACTION = 0, 1
_NAP_US: Final = (5 * MS, 80 * MS)
#: How long a late copy of a request is on its way.
_LATE_US: Final = (50 * MS, 1500 * MS)
_PASSING: Final = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_SERVER_ERROR,
)
_FENCED: Final = (
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.TRANSACTION_ABORTABLE,
)


@dataclass(slots=True)
class Ledger:
    """What tellers of one transactional id did and were told. Numbers rise with every transaction that is begun."""

    transactional_id: str
    last_number: int = 0
    committed: dict[int, None] = field(default_factory=dict)
    aborted: dict[int, None] = field(default_factory=dict)

    def value(self, number: int) -> bytes:
        """Give the content of a transaction's records."""
        return f"{self.transactional_id}:{number}".encode()


class Fenced(Exception):
    """The producer is none any more: the transaction's fate is the next one's matter."""


class Repeater(Protocol):
    """Who sends late copies."""

    def repeat(self, request: Any, version: int) -> None:  # noqa: ANN401
        """Send this once more, later."""


class Echo(Client):
    """Sends again what others sent, late, and ignores the answers."""

    def __init__(self, name: str, network: Network) -> None:
        """Have nothing to send."""
        super().__init__(name, network)
        self._waiting: list[tuple[Any, int]] = []

    def repeat(self, request: Any, version: int) -> None:  # noqa: ANN401
        """Send this once more, later."""
        self._waiting.append((request, version))
        self.scheduler.after(self.chance.randint(*_LATE_US), f"{self.name} repeats", self.wake)

    def step(self) -> None:
        """Send one."""
        if self._waiting and self.requests_in_flight == 0:
            at = self.chance.randrange(len(self._waiting))
            self.ask(*self._waiting.pop(at), lambda _response: None)


class TellerScript:
    """What a teller does, through all its identities. How its requests are sent, and to whom, is a subclass's matter."""

    name: str
    chance: random.Random
    scheduler: Scheduler
    is_finished: bool

    def __init__(
        self, ledger: Ledger, echo: Repeater, *, rises: bool, transaction_count: int
    ) -> None:
        """Have done nothing. `rises`: of transaction version 2."""
        self._ledger = ledger
        self._echo = echo
        self._rises = rises
        self._left = transaction_count
        self._producer = (-1, -1)
        self._sequences: dict[int, int] = {}
        self._script: Script = self._work()
        self._wanted: Ask | None = None
        self._has_begun = False

    @property
    def unfinished(self) -> str:
        """Tell what is left to do."""
        return f"{self.name}: {self._left} transactions left"

    # What a subclass does

    def wake(self, delay_us: int = 0) -> None:
        """Book the next step, which sends what is wanted."""
        raise NotImplementedError

    def hang_up(self) -> None:
        """Close the connections."""
        raise NotImplementedError

    def prepare(self) -> Script:
        """See to it that there is what it needs."""
        raise NotImplementedError

    def on_passing(self, request: Any, code: ErrorCode) -> None:  # noqa: ANN401
        """Hear of an error after which the same is asked again."""

    # Running the script

    def take_wanted(self) -> Ask | None:
        """Give what is to be sent now, if anything; the first call begins."""
        if not self._has_begun:
            self._has_begun = True
            self._advance(None)
            return None
        wanted, self._wanted = self._wanted, None
        return wanted

    def put_back(self, wanted: Ask) -> None:
        """Keep what could not be sent."""
        self._wanted = wanted

    def _advance(self, answer: Any) -> None:  # noqa: ANN401
        try:
            wanted = self._script.send(answer)
        except StopIteration:
            self.is_finished = True
            self.hang_up()
            return
        if isinstance(wanted, Nap):
            self.scheduler.after(
                wanted.delay_us, f"{self.name} goes on", lambda: self._advance(None)
            )
        else:
            self._wanted = wanted
            self.wake()

    def _ask_on(self, request: Any, version: int) -> Script:  # noqa: ANN401
        """Ask until there is an answer."""
        while True:
            answer = yield Ask(request, version)
            if answer is not None:
                return answer
            yield self._nap()

    def _nap(self) -> Nap:
        return Nap(self.chance.randint(*_NAP_US))

    def _until_done(self, request: Any, version: int, code_of: Any) -> Script:  # noqa: ANN401
        """Ask until it is done; Fenced if this producer cannot do it."""
        while True:
            answer = yield from self._ask_on(request, version)
            code = ErrorCode(code_of(answer))
            if not code:
                return answer
            if code in _FENCED:
                raise Fenced
            if code not in _PASSING:
                raise Violation(
                    "good transactions are taken",
                    f"{self.name} got {code.name} for {type(request).__name__}",
                )
            self.on_passing(request, code)
            yield self._nap()

    # What it does

    def _work(self) -> Script:
        yield from self.prepare()
        while self._left:
            yield from self._init()
            try:
                while self._left:
                    yield from self._transfer()
                    self._left -= 1
            except Fenced:
                self.scheduler.note(f"{self.name} is fenced")
        # Whatever it left open is over before it goes.
        yield from self._init()

    def _init(self) -> Script:
        request = InitProducerIdRequest(
            transactional_id=self._ledger.transactional_id, transaction_timeout_ms=TIMEOUT_MS
        )
        answer = yield from self._until_done(request, 5, lambda answer: answer.error_code)
        self._producer = (answer.producer_id, answer.producer_epoch)
        self._sequences = dict.fromkeys(ACCOUNTS, 0)

    def _transfer(self) -> Script:
        ledger = self._ledger
        ledger.last_number += 1
        number = ledger.last_number
        if not self._rises:
            yield from self._add()
        for account in ACCOUNTS:
            yield from self._produce(account, ledger.value(number))
        yield from self._commit_offset(number)
        is_commit = self.chance.random() < 0.7
        yield from self._end(committed=is_commit)
        (ledger.committed if is_commit else ledger.aborted)[number] = None

    def _add(self) -> Script:
        """Tell the coordinator what will be written to, as clients of version 0 do."""
        ledger, (producer_id, epoch) = self._ledger, self._producer
        topic = AddPartitionsToTxnTopic(name=TOPIC, partitions=list(ACCOUNTS))
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=ledger.transactional_id,
            v3_and_below_producer_id=producer_id,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=[topic],
        )
        yield from self._until_done(request, 3, _first_added)
        offsets = AddOffsetsToTxnRequest(
            transactional_id=ledger.transactional_id,
            producer_id=producer_id,
            producer_epoch=epoch,
            group_id=ledger.transactional_id,
        )
        yield from self._until_done(offsets, 3, lambda answer: answer.error_code)

    def _produce(self, account: int, value: bytes) -> Script:
        producer = batch.Producer(*self._producer, self._sequences[account])
        data = batch.build(
            [Record(0, START_MS + self.scheduler.now_us // MS, None, value, ())],
            attributes=batch.TRANSACTIONAL,
            producer=producer,
        )
        partition = PartitionProduceData(index=account, records=data)
        request = ProduceRequest(
            transactional_id=self._ledger.transactional_id,
            acks=-1,
            timeout_ms=1000,
            topic_data=[TopicProduceData(name=TOPIC, partition_data=[partition])],
        )
        version = 12 if self._rises else 11
        if self._rises and self.chance.random() < 0.2:
            self._echo.repeat(request, version)
        yield from self._until_done(
            request, version, lambda a: a.responses[0].partition_responses[0].error_code
        )
        self._sequences[account] += 1

    def _commit_offset(self, number: int) -> Script:
        partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=number)
        request = TxnOffsetCommitRequest(
            transactional_id=self._ledger.transactional_id,
            group_id=self._ledger.transactional_id,
            producer_id=self._producer[0],
            producer_epoch=self._producer[1],
            topics=[TxnOffsetCommitRequestTopic(name=TOPIC, partitions=[partition])],
        )
        version = 5 if self._rises else 4
        if self._rises and self.chance.random() < 0.2:
            self._echo.repeat(request, version)
        yield from self._until_done(
            request, version, lambda answer: answer.topics[0].partitions[0].error_code
        )

    def _end(self, *, committed: bool) -> Script:
        request = EndTxnRequest(
            transactional_id=self._ledger.transactional_id,
            producer_id=self._producer[0],
            producer_epoch=self._producer[1],
            committed=committed,
        )
        version = 5 if self._rises else 4
        if self._rises and self.chance.random() < 0.4:
            self._echo.repeat(request, version)
        answer = yield from self._until_done(request, version, lambda answer: answer.error_code)
        if self._rises:
            self._producer = (answer.producer_id, answer.producer_epoch)
            self._sequences = dict.fromkeys(ACCOUNTS, 0)


class Teller(Client, TellerScript):
    """A teller with one broker."""

    def __init__(
        self,
        name: str,
        network: Network,
        ledger: Ledger,
        echo: Repeater,
        *,
        rises: bool,
        transaction_count: int,
    ) -> None:
        """Have done nothing."""
        Client.__init__(self, name, network)
        TellerScript.__init__(self, ledger, echo, rises=rises, transaction_count=transaction_count)

    def step(self) -> None:
        """Send what the script asks for."""
        wanted = self.take_wanted()
        if wanted is not None:
            self.ask(wanted.request, wanted.version, self._advance)

    def prepare(self) -> Script:
        """Make the topic, and have coordinators."""
        topic = CreatableTopic(name=TOPIC, num_partitions=len(ACCOUNTS), replication_factor=1)
        request = CreateTopicsRequest(topics=[topic], timeout_ms=1000)
        while True:
            answer = yield from self._ask_on(request, 7)
            if answer.topics[0].error_code in (0, ErrorCode.TOPIC_ALREADY_EXISTS):
                break
            yield self._nap()
        for key_type in (_GROUP, _TRANSACTION):
            key = self._ledger.transactional_id
            find = FindCoordinatorRequest(coordinator_keys=[key], key_type=key_type)
            while (yield from self._ask_on(find, 4)).coordinators[0].error_code:
                yield self._nap()


def _first_added(answer: Any) -> int:  # noqa: ANN401
    code: int = answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
    return code
