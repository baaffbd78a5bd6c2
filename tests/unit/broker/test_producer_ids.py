"""Producer ids over a store that several brokers write to: no id twice, whatever becomes of a write."""

from types import SimpleNamespace

import pytest

from barnabas.broker import znodes
from barnabas.broker.producer_ids import ProducerIds
from barnabas.broker.tasks import drive
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.ports import CoordinationError, Create, NotConnected, OutcomeUnknown, ZNode

BLOCK = znodes.PRODUCER_ID_BLOCK


class Store:
    """One path, and answers that wait until the test lets them go."""

    def __init__(self):
        self.node = None
        self.waiting = []
        self.problems = []
        self.commits = 0

    def read(self, path, done):
        assert path == znodes.PRODUCER_IDS
        self.waiting.append(lambda: done(self.node, None))

    def commit(self, operations, done):
        (operation,) = operations
        self.waiting.append(lambda: done(["path"], self._commit(operation)))

    def _commit(self, operation):
        problem = self.problems.pop(0) if self.problems else None
        if isinstance(problem, NotConnected):
            return problem
        self.commits += 1
        if isinstance(operation, Create):
            if self.node is not None:
                return CoordinationError("NODE_EXISTS", operation.path)
            self.node = ZNode(operation.data, 0)
        elif operation.version != self.node.version:
            return CoordinationError("BAD_VERSION", operation.path)
        else:
            self.node = ZNode(operation.data, self.node.version + 1)
        return problem

    def run(self):
        while self.waiting:
            self.waiting.pop(0)()


@pytest.fixture
def store():
    return Store()


def broker(store, broker_id):
    return ProducerIds(
        SimpleNamespace(broker_id=broker_id, world=SimpleNamespace(coordination=store))
    )


def take(ids):
    taken = []
    drive(ids.take(), lambda number, problem: taken.append(problem or number))
    return taken


def test_brokers_that_race_for_blocks_never_share_an_id(store):
    brokers = [broker(store, number) for number in range(3)]
    taken = []
    for _ in range(2 * BLOCK + 5):
        asked = [take(ids) for ids in brokers]
        store.run()
        taken += [number for [number] in asked]
    assert len(set(taken)) == len(taken) == 3 * (2 * BLOCK + 5)


def test_those_who_wait_together_share_one_block(store):
    ids = broker(store, 1)
    first, second = take(ids), take(ids)
    assert ids.take_now() is None
    store.run()
    assert (first, second, ids.take_now()) == ([0], [1], 2)
    assert store.commits == 1


def test_a_block_that_may_or_may_not_have_been_written_is_not_used(store):
    ids = broker(store, 1)
    store.problems = [OutcomeUnknown("lost")]
    taken = take(ids)
    store.run()
    assert taken == [BLOCK]


def test_without_the_store_clients_are_told_to_come_again(store):
    ids = broker(store, 1)
    store.problems = [NotConnected("away")]
    taken = take(ids)
    store.run()
    (problem,) = taken
    assert isinstance(problem, KafkaError)
    assert problem.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    again = take(ids)
    store.run()
    assert again == [0]
