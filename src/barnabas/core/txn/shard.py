"""Everything that one partition of `__transaction_state` holds: its transactional ids and their transactions.

Job: decide what a request, an answer of a partition or a deadline leads to. Must not know: bytes, versions, where records and
markers are written.

Invariants: what is durable changes only in `replay`; a transaction is ended by exactly one Prepare record, whatever happens
later; a Complete record follows only when every partition has its marker; the epoch that a client was given is
its own until it ends a transaction, asks anew, or somebody else takes the transactional id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.txn import transaction
from barnabas.core.txn.end_rules import decide_end
from barnabas.core.txn.ending import Ending
from barnabas.core.txn.records import TransactionRemoved, TransactionSaved
from barnabas.core.txn.requests import (
    DescribedTransaction,
    ListedTransaction,
    PartitionsReply,
    ProducerReply,
)
from barnabas.core.txn.result import Result
from barnabas.core.txn.states import AT_REST, BY_TITLE, PREPARED, TransactionState
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import NO_PRODUCER_ID, ProducerId

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from barnabas.core.txn.records import Record
    from barnabas.core.txn.requests import (
        EndRequest,
        InitRequest,
        ListRequest,
        PartitionsRequest,
    )
    from barnabas.core.txn.result import Markers, Ticket
    from barnabas.core.txn.settings import TransactionSettings
    from barnabas.model.ids import TopicPartition

#: The version in which the coordinator itself ends transactions: the one that the cluster has.
_OWN_VERSION = 2
#: How many transactional ids are forgotten with one batch.
_REMOVED_AT_ONCE = 1000
#: How many transactions are aborted before others have a turn: each takes two records, and a marker per partition.
_ABORTED_AT_ONCE = 50


class TransactionShard:
    """The transactions of one partition."""

    def __init__(
        self, settings: TransactionSettings, take_producer_id: Callable[[], int | None]
    ) -> None:
        """Start empty: replay the log, then call `on_loaded`. `take_producer_id` gives None when there is none at hand."""
        self._settings = settings
        self._take_producer_id = take_producer_id
        self.transactions: dict[str, TransactionSaved] = {}
        self._ongoing: dict[str, None] = {}
        self._endings: dict[str, Ending] = {}
        #: No ending is to be tried again before. Asked after every answer, so it is not looked for among them.
        self._retry_ms: int | None = None
        self._abort_check_ms: int | None = None
        #: Those whose time was over at the last check and who are still to be looked at.
        self._overdue: list[str] = []
        self._expiry_ms: int | None = None

    # Requests

    def init_producer_id(self, ticket: Ticket, request: InitRequest, wall_ms: int) -> Result:
        """InitProducerId: the next epoch, so that whoever used the id before is fenced."""
        now = self.transactions.get(request.transactional_id)
        code = self._validate_init(now, request)
        if code:
            return _refusal(ticket, code)
        if now is None:
            return self._init_first(ticket, request, wall_ms)
        if now.state is not TransactionState.ONGOING:
            return self._init_again(ticket, request, now, wall_ms)
        saved = self._abort(now, wall_ms)
        if saved is None:
            return _refusal(ticket, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        # It asks again, and gets an epoch when the transaction of the one before is over.
        reply = ProducerReply(ErrorCode.CONCURRENT_TRANSACTIONS)
        return _ended([saved], saved, wall_ms, [(ticket, reply)])

    def _validate_init(self, now: TransactionSaved | None, request: InitRequest) -> ErrorCode:
        if not 0 < request.timeout_ms <= self._settings.max_timeout_ms:
            return ErrorCode.INVALID_TRANSACTION_TIMEOUT
        if now is None:
            return ErrorCode.NONE
        if now.state in PREPARED:
            return ErrorCode.CONCURRENT_TRANSACTIONS
        if request.names_producer and not _is_known_producer(now, request):
            return ErrorCode.PRODUCER_FENCED
        return ErrorCode.NONE

    def _init_first(self, ticket: Ticket, request: InitRequest, wall_ms: int) -> Result:
        producer_id = self._take_producer_id()
        if producer_id is None:
            return _refusal(ticket, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        saved = transaction.first(
            request.transactional_id, producer_id, request.timeout_ms, wall_ms
        )
        return _granted(ticket, saved)

    def _init_again(
        self, ticket: Ticket, request: InitRequest, now: TransactionSaved, wall_ms: int
    ) -> Result:
        asked, timeout_ms = request.names_producer, request.timeout_ms
        if asked and request.producer_epoch != now.producer_epoch:
            if request.producer_epoch != now.last_producer_epoch:
                return _refusal(ticket, ErrorCode.PRODUCER_FENCED)
            # The answer to the same question was lost.
            return _granted(ticket, transaction.with_same_epoch(now, timeout_ms, wall_ms))
        if not transaction.is_exhausted(now.producer_epoch):
            saved = transaction.with_next_epoch(now, timeout_ms, wall_ms, remember=asked)
            return _granted(ticket, saved)
        producer_id = self._take_producer_id()
        if producer_id is None:
            return _refusal(ticket, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        saved = transaction.with_new_producer_id(
            now, producer_id, timeout_ms, wall_ms, remember=asked
        )
        return _granted(ticket, saved)

    def add_partitions(self, ticket: Ticket, request: PartitionsRequest, wall_ms: int) -> Result:
        """AddPartitionsToTxn, AddOffsetsToTxn, and what newer clients leave to Produce and TxnOffsetCommit."""
        now = self.transactions.get(request.transactional_id)
        code = _validate_add(now, request)
        if now is None or code:
            return _for_all(ticket, request, code)
        missing = set(request.partitions).difference(now.partitions)
        if now.state is TransactionState.ONGOING and not missing:
            return _for_all(ticket, request, ErrorCode.NONE)
        version = request.transaction_version
        saved = transaction.with_partitions(now, request.partitions, version, wall_ms)
        result = _for_all(ticket, request, ErrorCode.NONE)
        result.records.append(saved)
        return result

    def verify_partitions(self, ticket: Ticket, request: PartitionsRequest) -> Result:
        """AddPartitionsToTxn that only asks: does the transaction that wants to write there know the partitions?"""
        now = self.transactions.get(request.transactional_id)
        code = _validate_verify(now, request)
        if now is None or code:
            return _for_all(ticket, request, code)
        known = set(now.partitions)
        codes = [
            ErrorCode.NONE if one in known else ErrorCode.TRANSACTION_ABORTABLE
            for one in request.partitions
        ]
        return Result(replies=[(ticket, PartitionsReply(codes))])

    def end(self, ticket: Ticket, request: EndRequest, wall_ms: int) -> Result:
        """EndTxn: answered when the decision is in the log; the markers follow."""
        now = self.transactions.get(request.transactional_id)
        if now is None:
            return _refusal(ticket, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        version = request.transaction_version
        rises = version >= transaction.EPOCH_RISES_FROM
        answer = decide_end(now, request)
        if answer is not None:
            if answer or not rises:
                return _refusal(ticket, answer)
            reply = ProducerReply(ErrorCode.NONE, now.producer_id, now.producer_epoch)
            return Result(replies=[(ticket, reply)])
        saved = self._prepare(now, wall_ms, is_commit=request.is_commit, version=version)
        if saved is None:
            return _refusal(ticket, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        reply = ProducerReply()
        if rises:
            later = transaction.completed(saved, wall_ms)
            reply = ProducerReply(ErrorCode.NONE, later.producer_id, later.producer_epoch)
        return _ended([saved], saved, wall_ms, [(ticket, reply)])

    def describe(self, ticket: Ticket, transactional_id: str) -> Result:
        """DescribeTransactions, for one id."""
        return Result(replies=[(ticket, self._describe(transactional_id))])

    def _describe(self, transactional_id: str) -> DescribedTransaction:
        now = self.transactions.get(transactional_id)
        if now is None:
            code = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
            return DescribedTransaction(transactional_id, code)
        return DescribedTransaction(
            transactional_id,
            ErrorCode.NONE,
            now.state.title,
            now.producer_id,
            now.producer_epoch,
            now.timeout_ms,
            now.start_ms,
            now.partitions,
        )

    def list_transactions(self, ticket: Ticket, request: ListRequest, wall_ms: int) -> Result:
        """ListTransactions. States that nobody knows match nothing; the caller tells them back."""
        states = [BY_TITLE.get(name) for name in request.states]
        found = [
            ListedTransaction(now.transactional_id, now.producer_id, now.state.title)
            for transactional_id in request.transactional_ids
            if (now := self.transactions.get(transactional_id)) is not None
            and (not request.producer_ids or now.producer_id in request.producer_ids)
            and (not states or now.state in states)
            and (request.longer_than_ms < 0 or wall_ms - now.start_ms > request.longer_than_ms)
            and (request.matches is None or request.matches(now.transactional_id))
        ]
        return Result(replies=[(ticket, found)])

    # Ends

    def _abort(self, now: TransactionSaved, wall_ms: int) -> TransactionSaved | None:
        """End a transaction that its producer will not end, and fence that producer."""
        return self._prepare(now, wall_ms, is_commit=False, version=_OWN_VERSION)

    def _prepare(
        self, now: TransactionSaved, wall_ms: int, *, is_commit: bool, version: int
    ) -> TransactionSaved | None:
        """Decide an end; None if it needs a producer id and there is none at hand."""
        next_id = NO_PRODUCER_ID
        rises = version >= transaction.EPOCH_RISES_FROM
        if rises and transaction.is_exhausted(now.producer_epoch):
            taken = self._take_producer_id()
            if taken is None:
                return None
            next_id = ProducerId(taken)
        return transaction.prepared(
            now, wall_ms, is_commit=is_commit, version=version, next_producer_id=next_id
        )

    def on_markers(
        self,
        markers: Markers,
        answers: list[tuple[TopicPartition, ErrorCode]],
        now_ms: int,
        wall_ms: int,
    ) -> Result:
        """Take what the partitions answered; when the last one has its marker, the transaction is over."""
        ending = self._endings.get(markers.transactional_id)
        if ending is None or not ending.is_of(markers):
            return Result()  # of an end that was completed since
        ending.on_answers(answers)
        if not ending.is_written:
            self._retry_later(ending, now_ms)
            return Result()
        return Result([transaction.completed(ending.saved, wall_ms)])

    def _retry_later(self, ending: Ending, now_ms: int) -> None:
        ending.retry_later(now_ms, self._settings)
        self._note_retry(ending)

    def _note_retry(self, ending: Ending) -> None:
        at_ms = ending.retry_at_ms
        if at_ms is not None and (self._retry_ms is None or at_ms < self._retry_ms):
            self._retry_ms = at_ms

    # Time

    def next_deadline_ms(self) -> int | None:
        """Tell when `on_time` wants to be called; sometimes earlier than needed, never later."""
        found = [self._retry_ms]
        if self._ongoing:
            found.append(self._abort_check_ms)
        if self.transactions:
            found.append(self._expiry_ms)
        return min((one for one in found if one is not None), default=None)

    def on_time(self, now_ms: int, wall_ms: int) -> list[Result]:
        """Do what is due."""
        results = self._retry(now_ms, wall_ms)
        if self._abort_check_ms is not None and now_ms >= self._abort_check_ms:
            results += self._abort_timed_out(wall_ms)
            wait_ms = 0 if self._overdue else self._settings.abort_check_interval_ms
            self._abort_check_ms = now_ms + wait_ms
        if self._expiry_ms is not None and now_ms >= self._expiry_ms:
            self._expiry_ms = now_ms + self._settings.expiration_check_interval_ms
            results += self._expire(wall_ms)
        return results

    def _retry(self, now_ms: int, wall_ms: int) -> list[Result]:
        """Try again what could not be written: markers, or the record that says that all of them are there."""
        results: list[Result] = []
        if self._retry_ms is None or now_ms < self._retry_ms:
            return results
        self._retry_ms = None
        for ending in self._endings.values():
            if ending.retry_at_ms is None or now_ms < ending.retry_at_ms:
                self._note_retry(ending)
                continue
            ending.retry_at_ms = None
            if ending.is_written:
                results.append(Result([transaction.completed(ending.saved, wall_ms)]))
            else:
                results.append(Result(markers=ending.markers()))
        return results

    def _abort_timed_out(self, wall_ms: int) -> list[Result]:
        """Abort some of those whose time is over. The others are looked at again in their turn: they may have ended."""
        if not self._overdue:
            self._overdue = [one for one in self._ongoing if self._is_overdue(one, wall_ms)]
        some = self._overdue[:_ABORTED_AT_ONCE]
        self._overdue = self._overdue[_ABORTED_AT_ONCE:]
        results = []
        for transactional_id in some:
            if self._is_overdue(transactional_id, wall_ms):
                saved = self._abort(self.transactions[transactional_id], wall_ms)
                if saved is not None:  # else the next check finds it again
                    results.append(_ended([saved], saved, wall_ms))
        return results

    def _is_overdue(self, transactional_id: str, wall_ms: int) -> bool:
        if transactional_id not in self._ongoing:
            return False
        now = self.transactions[transactional_id]
        return now.start_ms + now.timeout_ms < wall_ms

    def _expire(self, wall_ms: int) -> list[Result]:
        """Forget transactional ids that nobody came back for."""
        oldest_ms = wall_ms - self._settings.id_expiration_ms
        expired: list[Record] = [
            TransactionRemoved(now.transactional_id)
            for now in self.transactions.values()
            if now.state in AT_REST and now.last_update_ms <= oldest_ms
        ]
        return [
            Result(expired[at : at + _REMOVED_AT_ONCE])
            for at in range(0, len(expired), _REMOVED_AT_ONCE)
        ]

    # The log

    def replay(self, record: Record) -> None:
        """Take a record that the log has."""
        transactional_id = record.transactional_id
        self._endings.pop(transactional_id, None)
        self._ongoing.pop(transactional_id, None)
        if isinstance(record, TransactionRemoved):
            self.transactions.pop(transactional_id, None)
            return
        self.transactions[transactional_id] = record
        if record.state is TransactionState.ONGOING:
            self._ongoing[transactional_id] = None
        elif record.state in PREPARED:
            self._endings[transactional_id] = Ending(record)

    def on_append_failed(self, result: Result, error_code: ErrorCode, now_ms: int) -> Result:
        """Nothing has changed: tell those who asked why, and try to complete again what is complete."""
        for record in result.records:
            ending = self._endings.get(record.transactional_id)
            if ending is not None and ending.is_written:
                self._retry_later(ending, now_ms)
        return Result(replies=[(ticket, error_code) for ticket, _reply in result.replies])

    def on_loaded(self, now_ms: int, wall_ms: int) -> list[Result]:
        """Begin to serve: transactions whose end was decided are brought to it."""
        self._abort_check_ms = now_ms + self._settings.abort_check_interval_ms
        self._expiry_ms = now_ms + self._settings.expiration_check_interval_ms
        return [_ended([], ending.saved, wall_ms) for ending in self._endings.values()]

    def unload(self) -> list[tuple[Ticket, object]]:
        """Stop serving. Nobody waits here: every request is answered when it comes."""
        self._abort_check_ms = self._expiry_ms = None
        return []


def _ended(
    records: list[Record],
    saved: TransactionSaved,
    wall_ms: int,
    replies: Sequence[tuple[Ticket, object]] = (),
) -> Result:
    """Write the markers of a decided end; where there is no partition, it is complete at once."""
    ending = Ending(saved)
    if ending.is_written:
        return Result([*records, transaction.completed(saved, wall_ms)], list(replies))
    return Result(records, list(replies), ending.markers())


def _is_known_producer(now: TransactionSaved, request: InitRequest) -> bool:
    """Tell whether a producer that names itself is the one of now, or of before its epochs were used up."""
    if request.producer_id == now.producer_id:
        return True
    return request.producer_id == now.previous_producer_id and transaction.is_exhausted(
        request.producer_epoch
    )


def _validate_add(now: TransactionSaved | None, request: PartitionsRequest) -> ErrorCode:
    if now is None:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if now.state in PREPARED:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    return _validate_producer(now, request)


def _validate_verify(now: TransactionSaved | None, request: PartitionsRequest) -> ErrorCode:
    if now is None:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    code = _validate_producer(now, request)
    if not code and now.state in PREPARED:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    return code


def _validate_producer(now: TransactionSaved, request: PartitionsRequest) -> ErrorCode:
    if now.producer_id != request.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if now.producer_epoch != request.producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    return ErrorCode.NONE


def _for_all(ticket: Ticket, request: PartitionsRequest, code: ErrorCode) -> Result:
    return Result(replies=[(ticket, PartitionsReply([code] * len(request.partitions)))])


def _refusal(ticket: Ticket, code: ErrorCode) -> Result:
    return Result(replies=[(ticket, ProducerReply(code))])


def _granted(ticket: Ticket, saved: TransactionSaved) -> Result:
    reply = ProducerReply(ErrorCode.NONE, saved.producer_id, saved.producer_epoch)
    return Result([saved], [(ticket, reply)])
