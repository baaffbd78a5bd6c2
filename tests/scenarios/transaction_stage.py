"""The stage for transactions. Actors are producers on one transactional id, `t`; each remembers its producer id and epoch as a client does.

> anna init                  options: timeout=, again (she names herself, KIP-360), unheard (the answer is lost)
> anna add a-0 b-1           options: version=2 (her epoch rises with every end), epoch=
> anna verify a-0
> anna commit | abort        options: version=2, epoch=; in version 2 she goes on with the epoch she is told
> hold | write               markers wait | are written
> break a-0 | mend a-0 | fail CODE | work | restart | wait 60s | state
"""

from __future__ import annotations

from scenarios.stage import Stage
from txn_kit import Host

from barnabas.core.txn.records import TransactionRemoved
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import TopicPartition


class TransactionStage(Stage):
    """One transactional id, `t`."""

    def __init__(self):
        self.machine = Host()
        self.producers = {}
        self.seen = 0

    def news(self):
        """Records and markers that were written since the last command."""
        new = self.machine.events[self.seen :]
        self.seen += len(new)
        return [describe(event) for event in new]

    # Commands of the stage

    def do_hold(self):
        self.machine.holds_markers = True
        return []

    def do_write(self):
        self.machine.holds_markers = False
        self.machine.write_markers()
        return []

    def do_break(self, partition):
        self.machine.answers[place(partition)] = ErrorCode.KAFKA_STORAGE_ERROR
        return []

    def do_mend(self, partition):
        del self.machine.answers[place(partition)]
        return []

    def do_fail(self, code):
        self.machine.fail_appends_with = ErrorCode[code]
        return []

    def do_work(self):
        self.machine.fail_appends_with = None
        return []

    def do_restart(self):
        self.machine.restart()
        return []

    def do_state(self):
        now = self.machine.shard.transactions.get("t")
        return ["t is not known" if now is None else describe(now)]

    # Commands of actors

    def act_init(self, actor, *words, timeout="60000"):
        named = self.producers[actor] if "again" in words else (-1, -1)
        reply = self.machine.init("t", int(timeout), *named)
        code = code_of(reply)
        if code:
            return [f"{actor}: {code.name}"]
        if "unheard" not in words:
            self.producers[actor] = (reply.producer_id, reply.producer_epoch)
        return [f"{actor} is {reply.producer_id}:{reply.producer_epoch}"]

    def act_add(self, actor, *partitions, version="0", epoch=None):
        producer_id, own = self.producers[actor]
        epoch = own if epoch is None else int(epoch)
        code = self.machine.add(map(place, partitions), epoch, producer_id, int(version))
        return [f"{actor}: {code.name}"]

    def act_verify(self, actor, *partitions):
        producer_id, epoch = self.producers[actor]
        codes = self.machine.verify(map(place, partitions), epoch, producer_id)
        return [f"{actor}: {', '.join(code.name for code in codes)}"]

    def act_commit(self, actor, version="0", epoch=None):
        return self._end(actor, True, int(version), epoch)

    def act_abort(self, actor, version="0", epoch=None):
        return self._end(actor, False, int(version), epoch)

    def _end(self, actor, is_commit, version, epoch):
        producer_id, own = self.producers[actor]
        epoch = own if epoch is None else int(epoch)
        reply = self.machine.end(is_commit, epoch, producer_id, version)
        code = code_of(reply)
        if code or not version:
            return [f"{actor}: {code.name}"]
        self.producers[actor] = (reply.producer_id, reply.producer_epoch)
        return [f"{actor}: NONE, now {reply.producer_id}:{reply.producer_epoch}"]


def code_of(reply):
    return reply if isinstance(reply, ErrorCode) else reply.error_code


def place(text):
    topic, _, index = text.rpartition("-")
    return TopicPartition(topic, int(index))


def describe(record):
    if isinstance(record, tuple):
        partition, producer_id, epoch, is_commit = record
        return (
            f"marker on {partition}: {'commit' if is_commit else 'abort'} of {producer_id}:{epoch}"
        )
    if isinstance(record, TransactionRemoved):
        return "t is forgotten"
    producer = f"{record.producer_id}:{record.producer_epoch}"
    return " ".join([f"t is {record.state.title} for {producer}", *map(str, record.partitions)])


STAGE = TransactionStage
