"""One seed of transactions, from an empty disk to a verdict (F13-F15).

Job: let tellers move money while the broker dies, loses power, runs out of disk and is cut off, and late copies of requests come in;
heal everything; then look into the logs. Two tellers may fight for one transactional id.

Promised: a transaction is on both accounts or on none, and its offset with it; what a teller was told is so; nothing is there twice; a reader
of committed records is told of just the aborted ones; in the end none is open. Everything is synced before it is acknowledged, so that this holds after a loss of power.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.broker.coordinators import TOPIC as OFFSETS_TOPIC
from barnabas.broker.node import Node
from barnabas.broker.transactions import TOPIC as STATE_TOPIC
from barnabas.core.txn.states import AT_REST
from barnabas.model.config.broker_config import BrokerConfig
from barnabas.sim.faults import Faults
from barnabas.sim.machine import Machine
from barnabas.sim.network import Network
from barnabas.sim.run import Verdict
from barnabas.sim.teller import ACCOUNTS, TOPIC, Echo, Ledger, Teller
from barnabas.sim.violation import Violation
from barnabas.sim.world import SECOND, Scheduler
from barnabas.wire import batch
from barnabas.wire.control_batch import read_marker

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.replicas import Replica

TROUBLE_US: Final = 4 * SECOND
PATIENCE_US: Final = 60 * SECOND
#: Late copies have arrived by then, and what they began has run out of time.
SETTLING_US: Final = 10 * SECOND
_READ_BYTES: Final = 1 << 26
_SETTINGS: Final = {
    "broker.id": "1",
    "log.dirs": "/data",
    "log.flush.interval.messages": "1",
    "log.flush.offset.checkpoint.interval.ms": "500",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "300",
}


def run_transactions(
    seed: int,
    *,
    node_class: type[Node] = Node,
    on_note: Callable[[int, str], None] | None = None,
) -> Verdict:
    """Run one seed. `node_class` is for trying out nodes that break a promise."""
    was_disabled = logging.getLogger("barnabas").manager.disable
    if on_note is None:
        logging.disable(logging.CRITICAL)
    run = TransactionRun(seed, node_class, on_note)
    violation = None
    try:
        run.play()
    except Violation as found:
        run.scheduler.note(str(found))
        violation = found
    finally:
        logging.disable(was_disabled)
    scheduler = run.scheduler
    return Verdict(seed, scheduler.digest, violation, scheduler.events, tuple(run.faults.kinds))


class Aborted(NamedTuple):
    """A transaction that a marker at `last_offset` has aborted."""

    producer_id: int
    first_offset: int
    last_offset: int


class TransactionRun:
    """The parts of one run."""

    def __init__(
        self,
        seed: int,
        node_class: type[Node],
        on_note: Callable[[int, str], None] | None,
    ) -> None:
        """Build everything; nothing happens yet."""
        self.scheduler = Scheduler(seed, on_note)
        self._chance = self.scheduler.chance("transactions")
        self.machine = Machine(self.scheduler, BrokerConfig(_SETTINGS), node_class)
        self.network = Network(self.scheduler, self.machine)
        self.faults = Faults(self.scheduler, self.machine, self.network)
        # A wrong clock decides when transactions are out of time; here they must be over at the end.
        self.faults.kinds = [kind for kind in self.faults.kinds if kind != "clock jump"]
        self.ledgers = [Ledger("shared"), Ledger("own")]
        self._echo = Echo("echo", self.network)
        shared, own = self.ledgers
        self.tellers = [self._teller("anna", shared, rises=True), self._teller("carl", own)]
        if self._chance.random() < 0.6:
            self.tellers.append(self._teller("bob", shared, rises=True))

    def _teller(self, name: str, ledger: Ledger, *, rises: bool | None = None) -> Teller:
        if rises is None:
            rises = self._chance.random() < 0.5
        count = self._chance.randint(5, 20)
        return Teller(name, self.network, ledger, self._echo, rises=rises, transaction_count=count)

    def play(self) -> None:
        """Let it all happen, then judge."""
        self.machine.start()
        for teller in self.tellers:
            teller.wake()
        self.faults.book(TROUBLE_US)
        self.scheduler.run(lambda: False, TROUBLE_US)
        self.faults.heal()
        finished = self.scheduler.run(
            lambda: all(one.is_finished for one in self.tellers),
            self.scheduler.now_us + PATIENCE_US,
        )
        if not finished:
            left = [one.unfinished for one in self.tellers if not one.is_finished]
            raise Violation("work gets done", "; ".join(left))
        self.scheduler.run(lambda: False, self.scheduler.now_us + SETTLING_US)
        self._judge()

    # The verdict

    def _judge(self) -> None:
        node = self.machine.node
        if node is None or not self.machine.is_up:
            raise Violation("work gets done", f"not up: {self.machine.last_failure!r}")
        one, other = (self._committed(node, account) for account in ACCOUNTS)
        if sorted(one) != sorted(other):
            torn = sorted(set(one).symmetric_difference(other))
            raise Violation("transactions are whole", f"on one account only: {torn[:5]}")
        if len(set(one)) != len(one):
            raise Violation("nothing twice", f"{len(one) - len(set(one))} records are there twice")
        for ledger in self.ledgers:
            self._judge_told(ledger, set(one))
            self._judge_offset(node, ledger, set(one))
        self._judge_states(node)

    def _committed(self, node: Node, account: int) -> list[bytes]:
        """Read what markers have committed on an account, in the order of the log."""
        replica = node.replicas.get(TOPIC, account)
        assert replica is not None
        undecided: dict[int, list[bytes]] = {}
        first_offsets: dict[int, int] = {}
        found: list[bytes] = []
        aborted: list[Aborted] = []
        for data, header in _batches(replica):
            if not header.is_control:
                records = batch.read_records(data, _READ_BYTES)
                values = [record.value or b"" for record in records]
                undecided.setdefault(header.producer_id, []).extend(values)
                first_offsets.setdefault(header.producer_id, header.base_offset)
                continue
            marker = read_marker(data)
            values = undecided.pop(header.producer_id, [])
            first_offset = first_offsets.pop(header.producer_id, None)
            if marker is not None and marker.commit:
                found += values
            elif first_offset is not None:
                aborted.append(Aborted(header.producer_id, first_offset, header.base_offset))
        if undecided or replica.last_stable_offset != replica.log.log_end_offset:
            raise Violation("no transaction hangs", f"{replica.key}: producers {sorted(undecided)}")
        _judge_index(replica, aborted)
        return found

    def _judge_told(self, ledger: Ledger, found: set[bytes]) -> None:
        lost = [number for number in ledger.committed if ledger.value(number) not in found]
        if lost:
            raise Violation("told is true", f"{ledger.transactional_id}: {lost} were committed")
        seen = [number for number in ledger.aborted if ledger.value(number) in found]
        if seen:
            raise Violation("told is true", f"{ledger.transactional_id}: {seen} were aborted")

    def _judge_offset(self, node: Node, ledger: Ledger, found: set[bytes]) -> None:
        """The group stands where the last transaction that was committed put it."""
        name = ledger.transactional_id
        numbers = [n for n in range(1, ledger.last_number + 1) if ledger.value(n) in found]
        kept = [
            one.offset
            for hosted in node.coordinators.all_loaded()
            for one in hosted.shard.offsets.committed(name)
        ]
        if kept != numbers[-1:]:
            raise Violation(
                "offsets are part of transactions", f"{name} stands at {kept}, not {numbers[-1:]}"
            )
        for hosted in node.coordinators.all_loaded():
            if hosted.shard.offsets.has_pending(name, TOPIC, 0):
                raise Violation("no transaction hangs", f"{name} has a pending offset")

    def _judge_states(self, node: Node) -> None:
        for hosted in node.transactions.all_loaded():
            for now in hosted.shard.transactions.values():
                if now.state not in AT_REST:
                    raise Violation("no transaction hangs", f"{now}")
        for topic in (OFFSETS_TOPIC, STATE_TOPIC):
            for replica in node.replicas.of_topic(topic):
                if replica.last_stable_offset != replica.log.log_end_offset:
                    raise Violation("no transaction hangs", f"{replica.key}")


def _judge_index(replica: Replica, aborted: list[Aborted]) -> None:
    """Wherever a reader of committed records begins, it is told just what markers have aborted of the bytes that it gets."""
    log = replica.log
    for _data, header in _batches(replica):
        offset = header.base_offset
        found = log.read(
            offset, _READ_BYTES, end_offset=log.log_end_offset, min_one=True, nowait=False
        )
        assert found is not None
        named = [
            Aborted(one.producer_id, one.first_offset, one.last_offset)
            for one in log.aborted_transactions(offset, found, nowait=False)
        ]
        *_, (_position, last) = batch.headers(memoryview(found.read()))
        touched = [one for one in aborted if one.last_offset >= offset]
        if named != [one for one in touched if one.first_offset < last.next_offset]:
            raise Violation("aborted ones are named", f"{replica.key} from {offset}: {named}")


def _batches(replica: Replica) -> list[tuple[memoryview, batch.BatchHeader]]:
    log, offset = replica.log, replica.log.log_start_offset
    found = []
    while offset < log.log_end_offset:
        read = log.read(
            offset, _READ_BYTES, end_offset=log.log_end_offset, min_one=True, nowait=False
        )
        assert read is not None
        data = memoryview(read.read())
        for position, header in batch.headers(data):
            found.append((data[position : position + header.size], header))
            offset = header.next_offset
    return found
