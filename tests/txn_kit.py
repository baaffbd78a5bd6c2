"""What the tests of the transaction machine share: a host in small, with a log, partitions that take markers, and a clock set by hand."""

from __future__ import annotations

import itertools

from barnabas.core.txn.requests import EndRequest, InitRequest, PartitionsRequest
from barnabas.core.txn.result import Result
from barnabas.core.txn.settings import TransactionSettings
from barnabas.core.txn.shard import TransactionShard
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import TopicPartition

NOW_MS = 1_000_000
WALL_MS = 1_700_000_000_000
TIMEOUT_MS = 60_000
A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


class Host:
    """Does with a result what the broker does. Partitions answer at once unless `holds_markers`."""

    def __init__(self, settings=None, first_producer_id=1000):
        self.settings = settings or TransactionSettings()
        self.now_ms, self.wall_ms = NOW_MS, WALL_MS
        self.log = []
        self.written = []
        #: Records and markers in the order in which they were written.
        self.events = []
        self.held = []
        self.holds_markers = False
        self.answers = {}
        self.fail_appends_with = None
        self.has_producer_ids = True
        self._ids = itertools.count(first_producer_id)
        self.shard = self._new_shard()
        self.shard.on_loaded(self.now_ms, self.wall_ms)

    def _new_shard(self):
        return TransactionShard(self.settings, self._take)

    def _take(self):
        return next(self._ids) if self.has_producer_ids else None

    def now(self, transactional_id="t"):
        return self.shard.transactions[transactional_id]

    # Requests

    def init(self, transactional_id="t", timeout_ms=TIMEOUT_MS, producer_id=-1, epoch=-1):
        request = InitRequest(transactional_id, timeout_ms, producer_id, epoch)
        return self._ask(self.shard.init_producer_id, request, self.wall_ms)

    def add(self, partitions, epoch=None, producer_id=None, version=0, transactional_id="t"):
        request = self._partitions(partitions, epoch, producer_id, version, transactional_id)
        reply = self._ask(self.shard.add_partitions, request, self.wall_ms)
        if isinstance(reply, ErrorCode):
            return reply
        (code,) = set(reply.codes)
        return code

    def verify(self, partitions, epoch=None, producer_id=None, transactional_id="t"):
        request = self._partitions(partitions, epoch, producer_id, 0, transactional_id)
        return self._ask(self.shard.verify_partitions, request).codes

    def _partitions(self, partitions, epoch, producer_id, version, transactional_id):
        known = self.shard.transactions.get(transactional_id)
        if epoch is None:
            epoch = known.producer_epoch
        if producer_id is None:
            producer_id = known.producer_id
        return PartitionsRequest(transactional_id, producer_id, epoch, tuple(partitions), version)

    def end(self, is_commit, epoch=None, producer_id=None, version=0, transactional_id="t"):
        known = self.shard.transactions.get(transactional_id)
        epoch = known.producer_epoch if epoch is None else epoch
        producer_id = known.producer_id if producer_id is None else producer_id
        request = EndRequest(transactional_id, producer_id, epoch, is_commit, version)
        return self._ask(self.shard.end, request, self.wall_ms)

    def _ask(self, entry, request, *moments):
        ticket = object()
        replies = []
        self.apply(entry(ticket, request, *moments), replies)
        ((given, reply),) = replies
        assert given is ticket
        return reply

    # What a host does

    def apply(self, result, replies=None):
        assert isinstance(result, Result)
        if result.records and self.fail_appends_with is not None:
            result = self.shard.on_append_failed(result, self.fail_appends_with, self.now_ms)
            assert not result.records
        for record in result.records:
            self.log.append(record)
            self.events.append(record)
            self.shard.replay(record)
        if replies is not None:
            replies += result.replies
        for markers in result.markers:
            self.held.append(markers)
        if not self.holds_markers:
            self.write_markers()

    def write_markers(self):
        while self.held:
            markers = self.held.pop(0)
            answers = [(one, self.write_one(one, markers)) for one in markers.partitions]
            self.apply(self.shard.on_markers(markers, answers, self.now_ms, self.wall_ms))

    def write_one(self, partition, markers):
        """What a partition answers to a marker."""
        code = self.answers.get(partition, ErrorCode.NONE)
        if not code:
            producer = (markers.producer_id, markers.producer_epoch)
            self.written.append((partition, *producer, markers.is_commit))
            self.events.append(self.written[-1])
        return code

    def advance(self, duration_ms):
        """Let time pass, stopping at every deadline on the way."""
        end_ms = self.now_ms + duration_ms
        for _ in range(100_000):
            due_ms = self.shard.next_deadline_ms()
            if due_ms is None or due_ms > end_ms:
                break
            self._set_clock(max(due_ms, self.now_ms))
            for result in self.shard.on_time(self.now_ms, self.wall_ms):
                self.apply(result)
        else:
            raise AssertionError("deadlines come up again and again without time passing")
        self._set_clock(end_ms)

    def _set_clock(self, now_ms):
        self.wall_ms += now_ms - self.now_ms
        self.now_ms = now_ms

    def restart(self):
        """Load a fresh shard from the log; markers on their way are lost."""
        self.held.clear()
        assert self.shard.unload() == []
        self.shard = self._new_shard()
        for record in self.log:
            self.shard.replay(record)
        for result in self.shard.on_loaded(self.now_ms, self.wall_ms):
            self.apply(result)
