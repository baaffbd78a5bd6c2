"""The simulated store: whole commits, in order, that outlive the process."""

import pytest

from barnabas.ports import CoordinationError, Create, Delete, SetData
from barnabas.sim.coordination import SimCoordination
from barnabas.sim.store import SimStore
from barnabas.sim.world import Life, Scheduler


class Client:
    def __init__(self, seed=1, store=None):
        self.scheduler = Scheduler(seed)
        self.store = store or SimStore()
        self.life = Life(1)
        self.port = SimCoordination(self.scheduler, self.store, self.life, lambda call: call())

    def commit(self, *operations):
        answers = []
        self.port.commit(operations, lambda _result, error: answers.append(error))
        assert answers == []
        return answers

    def run(self):
        self.scheduler.run(lambda: False, self.scheduler.now_us + 1_000_000)

    def tree(self, path="/"):
        found = []
        self.port.read_tree(path, lambda tree, _error: found.append(dict(tree)))
        self.run()
        return {path: node.data for path, node in found[0].items() if path != "/"}


def test_commits_are_read_back_by_subtree():
    client = Client()
    client.commit(Create("/a/b", b"1"), Create("/a/bc", b"2"))
    client.run()
    assert client.tree() == {"/a": b"", "/a/b": b"1", "/a/bc": b"2"}
    assert client.tree("/a/b") == {"/a/b": b"1"}
    assert client.tree("/x") == {}


@pytest.mark.parametrize(
    ("operation", "kind"),
    [
        (Create("/a"), "NODE_EXISTS"),
        (SetData("/b", b""), "NO_NODE"),
        (Delete("/b"), "NO_NODE"),
        (SetData("/a", b"", 7), "BAD_VERSION"),
    ],
)
def test_a_refusal_leaves_nothing_done(operation, kind):
    client = Client()
    client.commit(Create("/a", b"1"))
    answers = client.commit(Create("/new"), operation)
    client.run()
    assert isinstance(answers[0], CoordinationError)
    assert answers[0].kind == kind
    assert client.tree() == {"/a": b"1"}


def test_data_is_replaced_and_subtrees_deleted():
    client = Client()
    client.commit(Create("/a", b"1"), Create("/a/b"), Create("/ab"))
    client.commit(SetData("/a", b"2", 0), SetData("/a", b"3", 1))
    client.run()
    assert client.tree()["/a"] == b"3"
    client.commit(Delete("/a"))
    client.run()
    assert client.tree() == {"/ab": b""}


def test_answers_come_in_the_order_of_the_commits():
    for seed in range(10):
        client, order = Client(seed), []
        for number in range(5):
            client.port.commit(
                [Create(f"/{number}")],
                lambda _r, _e, number=number, order=order: order.append(number),
            )
        client.run()
        assert order == [0, 1, 2, 3, 4]


def test_a_crash_leaves_a_beginning_of_what_was_under_way_and_no_answers():
    kept = set()
    for seed in range(30):
        client = Client(seed)
        answers = [client.commit(Create(f"/{number}")) for number in range(3)]
        client.life.is_over = True
        client.port.on_crash()
        client.run()
        assert answers == [[], [], []]
        kept.add("".join(sorted(client.store.tree.keys() - {"/"})))
    assert kept == {"", "/0", "/0/1", "/0/1/2"}


def test_a_store_out_of_order_does_nothing_and_says_so():
    client = Client()
    client.store.out_of_order = True
    answers = client.commit(Create("/a"))
    client.run()
    assert isinstance(answers[0], OSError)
    client.store.out_of_order = False
    assert client.tree() == {}
