"""The simulated store: whole commits, in order, that outlive the process."""

import pytest

from barnabas.ports import (
    CoordinationError,
    Create,
    Delete,
    NotConnected,
    OutcomeUnknown,
    SetData,
)
from barnabas.sim.coordination import SimCoordination
from barnabas.sim.store import SimStore
from barnabas.sim.world import SECOND, Life, Scheduler


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


class Node:
    """One of several nodes at the same store, with everything it was told."""

    def __init__(self, scheduler, store, name, number=1):
        self.scheduler, self.store, self.name = scheduler, store, name
        self.life = Life(number)
        self.told = []
        self.port = SimCoordination(
            scheduler, store, self.life, lambda call: call(), node=name, session_timeout_ms=6_000
        )
        self.port.on_session(self)

    def on_connected(self, session_id, *, is_new):
        self.told.append(("connected", session_id, is_new))

    def on_suspended(self):
        self.told.append(("suspended",))

    def on_expired(self):
        self.told.append(("expired",))

    def commit(self, *operations):
        outcome = []
        self.port.commit(operations, lambda _paths, error: outcome.append(error))
        return outcome

    def crash(self):
        self.life.is_over = True
        self.port.on_crash()


@pytest.fixture
def scheduler():
    return Scheduler(1)


def run(scheduler, seconds):
    scheduler.run(lambda: False, scheduler.now_us + int(seconds * SECOND))


def test_a_crash_keeps_ephemeral_paths_until_the_session_times_out(scheduler):
    store = SimStore()
    node = Node(scheduler, store, "1")
    node.commit(Create("/ids/1", ephemeral=True))
    run(scheduler, 1)
    node.crash()
    again = Node(scheduler, store, "1", number=2)
    run(scheduler, 5.9)
    refused = again.commit(Create("/ids/1", ephemeral=True))
    run(scheduler, 0.05)
    assert refused[0].kind == "NODE_EXISTS"
    run(scheduler, 0.1)
    assert "/ids/1" not in store.tree
    assert again.told == [("connected", again.told[0][1], True)]


def test_silence_that_is_not_noticed_can_cost_the_session(scheduler):
    store = SimStore()
    node, other = Node(scheduler, store, "1"), Node(scheduler, store, "2")
    node.commit(Create("/ids/1", ephemeral=True))
    run(scheduler, 1)
    store.suspend("1", at_once=False)
    into_nothing = node.commit(Create("/lost"))
    run(scheduler, 20)
    assert isinstance(into_nothing[0], OutcomeUnknown | NotConnected)
    assert set(store.tree) == {"/", "/ids"}
    store.resume("1")
    run(scheduler, 1)
    assert [event[0] for event in node.told] == ["connected", "suspended", "expired", "connected"]
    assert len(other.told) == 1


def test_a_node_that_starts_cut_off_connects_when_it_can(scheduler):
    store = SimStore()
    Node(scheduler, store, "1").crash()
    store.suspend("1")
    node = Node(scheduler, store, "1", number=2)
    outcome = node.commit(Create("/a"))
    run(scheduler, 1)
    assert node.told == outcome == []
    store.resume("1")
    run(scheduler, 1)
    assert outcome == [None]
    assert [event[0] for event in node.told] == ["connected"]


class Ordeal:
    """A node that commits and watches while everything happens to its connection."""

    def __init__(self, seed):
        self.scheduler = Scheduler(seed)
        self.chance = self.scheduler.chance("test")
        self.store = SimStore()
        self.node = Node(self.scheduler, self.store, "1")
        self.outcomes = {}
        self.seen = []
        self.node.port.watch("/n", self.look)

    def look(self):
        self.node.port.read_children("/n", lambda names, error: error or self.seen.append(names))

    def trouble(self):
        kind = self.chance.choice(["suspend", "blind", "resume", "resume", "expire", "lose"])
        if kind in ("suspend", "blind"):
            self.store.suspend("1", at_once=kind == "suspend")
        elif kind == "lose":
            self.store.lose_next_reply("1")
        else:
            getattr(self.store, kind)("1")

    def run(self):
        for number in range(60):
            name = f"{number:02d}"
            self.outcomes[name] = self.node.commit(Create(f"/n/{name}"))
            if self.chance.random() < 0.3:
                self.trouble()
            run(self.scheduler, self.chance.choice([0, 0.001, 0.01, 2]))
        self.store.resume("1")
        run(self.scheduler, 60)


def test_what_is_told_is_true_whatever_happens_to_the_connection():
    unknown = set()
    for seed in range(60):
        ordeal = Ordeal(seed)
        ordeal.run()
        there = {path[3:]: node for path, node in ordeal.store.tree.items() if path > "/n/"}
        for name, [error] in ordeal.outcomes.items():
            if isinstance(error, OutcomeUnknown):
                unknown.add(name in there)
            else:
                assert error is None or isinstance(error, NotConnected)
                assert (name in there) == (error is None), f"seed {seed}, {name}: {error!r}"
        created = [node.created for _, node in sorted(there.items())]
        assert created == sorted(created)
        assert (ordeal.seen[-1] or []) == sorted(there)
    assert unknown == {True, False}


def test_the_same_seed_brings_the_same_troubles():
    digests = []
    for _ in range(2):
        ordeal = Ordeal(7)
        ordeal.run()
        digests.append((ordeal.scheduler.digest, ordeal.node.told))
    assert digests[0] == digests[1]
