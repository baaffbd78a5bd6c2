"""How the rows of one task get into topics: exactly once, all together with other tasks, or at least once.

Job: the three ways to write, over a client. Must not know Spark: who asks says which epoch and task it is.

Exactly once: one transaction holds the rows of (sink, epoch, task) and, as an offset of a group, the number of the next epoch. The
transactional id is made from sink and task, so whoever begins fences every earlier attempt, and only then looks which epoch is done: an
attempt that was about to commit has either committed before that look, or never will.

Invariants: rows of a task are visible to read_committed readers all or none; an epoch that a sink has written is not written again.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from barnabas.client.errors import ClientError, Fenced, Refused, TransactionLost
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import TopicPartition
from barnabas.pipelines.problem import PipelineProblem
from barnabas.pipelines.row_sending import RowSender, place_of_epochs
from barnabas.wire.messages.list_transactions import ListTransactionsRequest

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator

    from pyarrow import RecordBatch

    from barnabas.client.transaction import PreparedTransaction
    from barnabas.pipelines.options import SinkOptions
    from barnabas.runtime.blocking_client import BlockingClient, ProducerSession


def write_epoch(
    client: BlockingClient,
    options: SinkOptions,
    name: str,
    epoch: int,
    batches: Iterator[RecordBatch],
) -> int:
    """Write an epoch of a task exactly once; return how many rows were written, 0 if it was done before.

    `name` is the transactional id and the group that keeps the epoch.
    """
    filled = _filled(batches)
    first = next(filled, None)
    if first is None:
        return 0
    session = _transactional(client, options, name)
    if _is_done(client, name, epoch):
        return 0
    sender = RowSender(client, session, options, f"{name}, epoch {epoch}")
    with _transaction(session):
        count = sender.send(first) + sum(map(sender.send, filled))
        sender.flush()
        place = TopicPartition(place_of_epochs(first, options), 0)
        session.send_offsets(name, {place: epoch + 1})
        session.commit()
    return count


def write_open(
    client: BlockingClient, options: SinkOptions, name: str, batches: Iterator[RecordBatch]
) -> tuple[int, PreparedTransaction | None]:
    """Write the rows of a task into a transaction that is left open for `end_all`."""
    filled = _filled(batches)
    first = next(filled, None)
    if first is None:
        return 0, None
    session = _transactional(client, options, name)
    sender = RowSender(client, session, options, name)
    with _transaction(session):
        count = sender.send(first) + sum(map(sender.send, filled))
        sender.flush()
        return count, session.detach()


def write_at_least_once(
    client: BlockingClient, options: SinkOptions, name: str, batches: Iterator[RecordBatch]
) -> int:
    """Write the rows of a task; they are there again if the task is run again."""
    sender = RowSender(client, client.idempotent_producer(), options, name)
    count = sum(map(sender.send, batches))
    sender.flush()
    return count


def end_all(client: BlockingClient, prepared: list[PreparedTransaction]) -> None:
    """Commit the transactions of all tasks. If the first cannot be, none is."""
    for index, each in enumerate(prepared):
        try:
            client.end_transaction(each, commit=True)
        except (Fenced, TransactionLost, Refused) as problem:
            if index == 0:
                abort_all(client, prepared)
                raise _lost(problem, "nothing was written") from None
            abort_all(client, prepared[index:])
            raise _lost(
                problem, f"the rows of {index} of {len(prepared)} tasks were written"
            ) from None


def abort_all(client: BlockingClient, prepared: list[PreparedTransaction]) -> None:
    """Take back what tasks have written; what cannot be told now, time-outs will do."""
    for each in prepared:
        with suppress(ClientError):
            client.end_transaction(each, commit=False)


def abort_left(client: BlockingClient, names: re.Pattern[str]) -> None:
    """Abort what attempts of tasks that were killed have left open under such transactional ids: readers would wait for it."""
    with suppress(ClientError):
        for name in _open(client):
            if names.fullmatch(name):
                client.transactional_producer(name)


def _open(client: BlockingClient) -> list[str]:
    """Name the transactional ids that have a transaction open."""
    request = ListTransactionsRequest(state_filters=["Ongoing"])
    answers = [client.ask(broker, request) for broker in client.brokers()]
    return [each.transactional_id for answer in answers for each in answer.transaction_states]


def _filled(batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
    """Leave out batches without rows, which are no reason for a transaction."""
    return (each for each in batches if each.num_rows)


def _transactional(client: BlockingClient, options: SinkOptions, name: str) -> ProducerSession:
    timeout_ms = options.settings.transaction_timeout_ms
    try:
        return client.transactional_producer(name, timeout_ms=timeout_ms)
    except Refused as problem:
        if problem.code != ErrorCode.INVALID_TRANSACTION_TIMEOUT:
            raise
        raise PipelineProblem(
            f"the brokers do not allow transactions of {timeout_ms} ms: set kafka.transaction.timeout.ms to at "
            "most their transaction.max.timeout.ms"
        ) from None


def _is_done(client: BlockingClient, name: str, epoch: int) -> bool:
    next_epoch = max(client.committed(name, None).values(), default=0)
    if epoch + 1 < next_epoch:
        raise PipelineProblem(
            f"{name} is asked for epoch {epoch} and has written epoch {next_epoch - 1}: its checkpoint is an older one; "
            "start with a new checkpoint (a new sinkId, in a batch) to write these rows again"
        )
    return epoch < next_epoch


class _transaction:  # used like a function
    """Begin a transaction; abort it if something goes wrong."""

    def __init__(self, session: ProducerSession) -> None:
        self._session = session

    def __enter__(self) -> None:
        self._session.begin()

    def __exit__(self, kind: object, problem: BaseException | None, traceback: object) -> None:
        if problem is None:
            return
        with suppress(ClientError):
            self._session.abort()
        if isinstance(problem, Fenced):
            raise PipelineProblem(
                f"another attempt of this task has taken over, so this one stops: {problem}"
            ) from None
        if isinstance(problem, TransactionLost):
            raise _lost(problem, "nothing of this task was written") from None


def _lost(problem: ClientError, outcome: str) -> PipelineProblem:
    return PipelineProblem(
        f"a transaction could not be committed: {problem}; {outcome}; if it took too long, set "
        "kafka.transaction.timeout.ms, or delivery=at-least-once"
    )
