"""What must hold of transactions when everything is over: read from the logs of those who lead, and from their coordinators.

Job: a transaction is on both accounts or on none, and its offset with it; what a teller was told is so; nothing is there twice; a reader
of committed records is told of just the aborted ones; none is open. Must not know what happened on the way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.broker.coordinators import TOPIC as OFFSETS_TOPIC
from barnabas.broker.transactions import TOPIC as STATE_TOPIC
from barnabas.core.txn.states import AT_REST
from barnabas.sim.teller import ACCOUNTS, TOPIC
from barnabas.sim.violation import Violation
from barnabas.wire import batch
from barnabas.wire.control_batch import read_marker

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from barnabas.broker.node import Node
    from barnabas.broker.replicas import Replica
    from barnabas.sim.teller import Ledger

_READ_BYTES: Final = 1 << 26


class Aborted(NamedTuple):
    """A transaction that a marker at `last_offset` has aborted."""

    producer_id: int
    first_offset: int
    last_offset: int


def judge(nodes: Sequence[Node], ledgers: Iterable[Ledger]) -> None:
    """Look into the logs; Violation if a promise is broken."""
    one, other = (_committed(_led(nodes, account)) for account in ACCOUNTS)
    if sorted(one) != sorted(other):
        torn = sorted(set(one).symmetric_difference(other))
        raise Violation("transactions are whole", f"on one account only: {torn[:5]}")
    if len(set(one)) != len(one):
        raise Violation("nothing twice", f"{len(one) - len(set(one))} records are there twice")
    for ledger in ledgers:
        _judge_told(ledger, set(one))
        _judge_offset(nodes, ledger, set(one))
    _judge_states(nodes)


def _led(nodes: Sequence[Node], account: int) -> Replica:
    leading = [replica for replica in _leading(nodes, TOPIC) if replica.key.partition == account]
    if len(leading) != 1:
        raise Violation("work gets done", f"{len(leading)} brokers lead {TOPIC}-{account}")
    return leading[0]


def _leading(nodes: Sequence[Node], topic: str) -> Iterator[Replica]:
    for node in nodes:
        for replica in node.replicas.of_topic(topic):
            if replica.state.is_leader:
                yield replica


def _committed(replica: Replica) -> list[bytes]:
    """Read what markers have committed on an account, in the order of the log."""
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


def _judge_told(ledger: Ledger, found: set[bytes]) -> None:
    lost = [number for number in ledger.committed if ledger.value(number) not in found]
    if lost:
        raise Violation("told is true", f"{ledger.transactional_id}: {lost} were committed")
    seen = [number for number in ledger.aborted if ledger.value(number) in found]
    if seen:
        raise Violation("told is true", f"{ledger.transactional_id}: {seen} were aborted")


def _judge_offset(nodes: Sequence[Node], ledger: Ledger, found: set[bytes]) -> None:
    """The group stands where the last transaction that was committed put it."""
    name = ledger.transactional_id
    numbers = [n for n in range(1, ledger.last_number + 1) if ledger.value(n) in found]
    shards = [hosted.shard for node in nodes for hosted in node.coordinators.all_loaded()]
    kept = [one.offset for shard in shards for one in shard.offsets.committed(name)]
    if kept != numbers[-1:]:
        raise Violation(
            "offsets are part of transactions", f"{name} stands at {kept}, not {numbers[-1:]}"
        )
    if any(shard.offsets.has_pending(name, TOPIC, 0) for shard in shards):
        raise Violation("no transaction hangs", f"{name} has a pending offset")


def _judge_states(nodes: Sequence[Node]) -> None:
    for node in nodes:
        for hosted in node.transactions.all_loaded():
            for now in hosted.shard.transactions.values():
                if now.state not in AT_REST:
                    raise Violation("no transaction hangs", f"{now}")
    for topic in (OFFSETS_TOPIC, STATE_TOPIC):
        for replica in _leading(nodes, topic):
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
        right = [one for one in touched if one.first_offset < last.next_offset]
        if named != right:
            missing = [one for one in right if one not in named]
            wrong = [one for one in named if one not in right]
            raise Violation(
                "aborted ones are named",
                f"{replica.key} from {offset}: not {missing[:3]}, but {wrong[:3]}",
            )


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
