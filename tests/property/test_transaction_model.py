"""The transaction coordinator against a naive model: producers that lose answers, repeat themselves, are replaced and come late.

Partitions here know only what partitions know: the latest epoch of each producer, and which records no marker has decided yet. Every
record carries the tag of the transaction its producer believes to be in. Checked all the time: what was told to be committed or aborted is so
wherever a marker came; nobody's records are decided in two ways. At the end faults stop, and every transaction must be
over, in one way on all of its partitions. Producers of transaction version 0 send nothing late: that it tears transactions is known
(KAFKA-17754), and why there is version 2.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from txn_kit import A0, A1, B0, TIMEOUT_MS, Host

from barnabas.core.txn import transaction
from barnabas.core.txn.requests import EndRequest
from barnabas.core.txn.states import AT_REST
from barnabas.model.errors import ErrorCode

E = ErrorCode
PARTITIONS = (A0, A1, B0)
NAMES = st.sampled_from(["anna", "bob", "carl"])
#: Who uses which transactional id, in which version: anna and bob fight for one.
USERS = {"anna": ("shared", 2), "bob": ("shared", 2), "carl": ("own", 0)}


class Partition:
    """The latest epoch of each producer, and the records that it wrote since its last marker."""

    def __init__(self):
        self.epochs = {}
        self.open = {}

    def append(self, producer_id, epoch, tag):
        if epoch < self.epochs.get(producer_id, -1):
            return E.INVALID_PRODUCER_EPOCH
        self.epochs[producer_id] = epoch
        self.open.setdefault(producer_id, {})[tag] = None
        return E.NONE

    def mark(self, producer_id, epoch):
        """End the producer's transaction; the tags of its records, or the error code."""
        if epoch < self.epochs.get(producer_id, -1):
            return E.INVALID_PRODUCER_EPOCH
        self.epochs[producer_id] = epoch
        return list(self.open.pop(producer_id, {}))


class Client:
    """What a producer remembers. `asked` is an end whose answer it has not had."""

    def __init__(self, name):
        self.transactional_id, self.version = USERS[name]
        self.producer = None
        self.tag = self.asked = None


class World(Host):
    """A host whose partitions are the model's."""

    def __init__(self, model):
        self.model = model
        super().__init__()

    def write_one(self, partition, markers):
        if partition in self.model.broken:
            return E.KAFKA_STORAGE_ERROR
        found = self.model.partitions[partition].mark(markers.producer_id, markers.producer_epoch)
        if isinstance(found, E):
            return found
        for tag in found:
            outcomes = self.model.outcomes.setdefault(tag, {})
            assert partition not in outcomes, f"{tag} was decided twice on {partition}"
            outcomes[partition] = markers.is_commit
        return E.NONE


class TransactionModel(RuleBasedStateMachine):
    @initialize()
    def start(self):
        self.partitions = {one: Partition() for one in PARTITIONS}
        self.broken = set()
        #: tag -> partition -> whether it was committed there
        self.outcomes = {}
        #: tag -> whether its producer was told that it is committed
        self.told = {}
        self.written = {}
        self.late = []
        self.tags = 0
        self.host = World(self)
        self.clients = {name: Client(name) for name in USERS}

    # What producers do

    @rule(name=NAMES, names_itself=st.booleans())
    def init(self, name, names_itself=False):
        client = self.clients[name]
        again = client.producer if names_itself and client.producer else (-1, -1)
        reply = self.host.init(client.transactional_id, TIMEOUT_MS, *again)
        client.tag = client.asked = None
        if reply is E.NOT_ENOUGH_REPLICAS:
            client.producer = None
        elif reply.error_code:
            assert reply.error_code in (E.CONCURRENT_TRANSACTIONS, E.PRODUCER_FENCED), reply
            client.producer = None
        else:
            client.producer = (reply.producer_id, reply.producer_epoch)

    @rule(name=NAMES, partition=st.sampled_from(PARTITIONS))
    def produce(self, name, partition):
        client = self.clients[name]
        if client.producer is None or client.asked is not None:
            return
        producer_id, epoch = client.producer
        code = self.host.add(
            [partition], epoch, producer_id, client.version, client.transactional_id
        )
        if code:
            self._on_error(client, code)
            return
        if client.tag is None:
            self.tags += 1
            client.tag = f"{name}-{self.tags}"
        if partition in self.broken:
            return
        code = self.partitions[partition].append(producer_id, epoch, client.tag)
        if code:
            client.producer = None
        else:
            self.written.setdefault(client.tag, {})[partition] = None

    @rule(name=NAMES, is_commit=st.booleans(), is_lost=st.booleans())
    def end(self, name, is_commit, is_lost):
        client = self.clients[name]
        if client.producer is None or client.tag is None:
            return
        if client.asked is None:
            client.asked = is_commit
        producer_id, epoch = client.producer
        request = EndRequest(
            client.transactional_id, producer_id, epoch, client.asked, client.version
        )
        if client.version == 2:
            self.late.append(request)
        reply = self.host._ask(self.host.shard.end, request, self.host.wall_ms)
        if is_lost:
            return
        code = reply if isinstance(reply, E) else reply.error_code
        if code:
            self._on_error(client, code)
            return
        self.told[client.tag] = client.asked
        client.tag = client.asked = None
        if client.version == 2:
            client.producer = (reply.producer_id, reply.producer_epoch)

    def _on_error(self, client, code):
        if code in (E.CONCURRENT_TRANSACTIONS, E.NOT_ENOUGH_REPLICAS):
            return  # it asks again
        assert code in (E.PRODUCER_FENCED, E.INVALID_TXN_STATE, E.INVALID_PRODUCER_ID_MAPPING), code
        client.producer = client.tag = client.asked = None

    @rule(
        name=NAMES,
        partitions=st.lists(st.sampled_from(PARTITIONS), min_size=1, max_size=3, unique=True),
        is_commit=st.booleans(),
    )
    def whole_transaction(self, name, partitions, is_commit):
        if self.clients[name].producer is None:
            self.init(name)
        for partition in partitions:
            self.produce(name, partition)
        self.end(name, is_commit, is_lost=False)

    # What comes late

    @precondition(lambda self: self.late)
    @rule(data=st.data())
    def arrives_late(self, data):
        """An EndTxn that its producer has given up on, after others."""
        request = data.draw(st.sampled_from(self.late))
        now = self.host.shard.transactions[request.transactional_id]
        is_older = (request.producer_id, request.producer_epoch) != (
            now.producer_id,
            now.producer_epoch,
        )
        before = len(self.host.log)
        self.host._ask(self.host.shard.end, request, self.host.wall_ms)
        if is_older:
            assert len(self.host.log) == before, "an old EndTxn changed something"

    # What happens to the coordinator

    @rule(partition=st.sampled_from(PARTITIONS), kind=st.sampled_from(["hold", "break", "fail"]))
    def fault(self, partition, kind):
        if kind == "hold":
            self.host.holds_markers = True
        elif kind == "break":
            self.broken.add(partition)
        else:
            self.host.fail_appends_with = E.NOT_ENOUGH_REPLICAS

    @rule()
    def heal(self):
        self.broken.clear()
        self.host.fail_appends_with = None
        self.host.holds_markers = False
        self.host.write_markers()
        self.host.advance(self.host.settings.retry_max_ms)

    @rule()
    def restart(self):
        self.host.restart()

    @rule(duration_ms=st.sampled_from([50, 1000, 15_000, 80_000]))
    def time_passes(self, duration_ms):
        self.host.advance(duration_ms)

    @rule(transactional_id=st.sampled_from(["shared", "own"]))
    def epochs_run_out(self, transactional_id):
        """Bring a resting id close to its last epoch: nobody who has an older one is left."""
        now = self.host.shard.transactions.get(transactional_id)
        users = [one for one in self.clients.values() if one.transactional_id == transactional_id]
        if now is None or now.state not in AT_REST or any(one.producer for one in users):
            return
        if now.producer_epoch < transaction.EPOCH_MAX - 3:
            saved = transaction.with_same_epoch(now, TIMEOUT_MS, self.host.wall_ms)
            record = replace(saved, producer_epoch=transaction.EPOCH_MAX - 3)
            self.host.log.append(record)
            self.host.shard.replay(record)

    # What must hold

    @invariant()
    def told_is_true(self):
        for tag, is_commit in getattr(self, "told", {}).items():
            for partition, outcome in self.outcomes.get(tag, {}).items():
                assert outcome is is_commit, f"{tag} on {partition}: told {is_commit}"

    @invariant()
    def nothing_is_torn(self):
        for tag, outcomes in getattr(self, "outcomes", {}).items():
            assert len(set(outcomes.values())) == 1, f"{tag}: {outcomes}"

    def teardown(self):
        if not hasattr(self, "host"):
            return
        self.heal()
        self.host.restart()  # ends that were fenced are brought to their end by the next coordinator
        self.host.advance(2 * TIMEOUT_MS)
        for now in self.host.shard.transactions.values():
            assert now.state in AT_REST, now
        for tag, partitions in self.written.items():
            outcomes = self.outcomes.get(tag, {})
            assert set(outcomes) == set(partitions), f"{tag} hangs: {outcomes} of {partitions}"
            if tag in self.told:
                assert set(outcomes.values()) == {self.told[tag]}
        self.told_is_true()
        self.nothing_is_torn()


TestTransactions = pytest.mark.timeout(600)(TransactionModel.TestCase)
TestTransactions.settings = settings(max_examples=100, stateful_step_count=40)
