"""One suite for the three stores behind the Coordination port: what holds on real ZooKeeper holds on the others.

A lone node's store has one client and no connection to lose; it is left out where that matters.
"""

import re

import pytest
from coordination_kit import EmbeddedStores, SimStores, ZooKeeperStores, clients_of

from barnabas.ports import (
    COMMIT_SIZE_MAX,
    Check,
    CoordinationError,
    Create,
    Delete,
    NotConnected,
    OutcomeUnknown,
    SetData,
    operation_size,
)

SHARED = ["simulated", pytest.param("zookeeper", marks=pytest.mark.java)]


@pytest.fixture
def make(request, tmp_path):
    """Makes clients of one store."""
    if request.param == "embedded":
        stores = EmbeddedStores(tmp_path / "store.db")
    elif request.param == "simulated":
        stores = SimStores(seed=1)
    else:
        stores = ZooKeeperStores(request.getfixturevalue("zookeeper"))
    with clients_of(stores) as make_client:
        yield make_client


@pytest.fixture
def client(make):
    return make()


everywhere = pytest.mark.parametrize("make", ["embedded", *SHARED], indirect=True)
shared = pytest.mark.parametrize("make", SHARED, indirect=True)


def data_of(tree):
    return {path: node.data for path, node in tree.items()}


def refused(client, *operations):
    with pytest.raises(CoordinationError) as caught:
        client.commit(*operations)
    return caught.value.kind, caught.value.path


# Commits


@everywhere
def test_what_is_created_is_read_with_its_parents(client):
    assert client.commit(Create("/a/b/c", b"1")) == ["/a/b/c"]
    assert data_of(client.tree("/a")) == {"/a": b"", "/a/b": b"", "/a/b/c": b"1"}
    node = client.read("/a/b/c")
    assert (node.data, node.version, node.owner) == (b"1", 0, 0)
    assert client.children("/a") == ["b"]
    assert client.children("/a/b/c") == []


@everywhere
def test_what_is_not_there(client):
    client.commit(Create("/a"))
    assert client.read("/b") is None
    assert client.children("/b") is None
    assert client.tree("/b") == {}


@everywhere
def test_names_that_begin_alike_are_not_below(client):
    client.commit(*[Create(path) for path in ("/a", "/a/x", "/a-b", "/a0", "/ab", "/a/x/y")])
    assert set(client.tree("/a")) == {"/a", "/a/x", "/a/x/y"}
    assert client.children("/a") == ["x"]
    client.commit(Delete("/a"))
    assert client.children("/") == ["a-b", "a0", "ab"]


@everywhere
def test_versions_count_and_creations_rise(client):
    client.commit(Create("/a", b"1"))
    client.commit(SetData("/a", b"2"))
    client.commit(SetData("/a", b"3", 1))
    client.commit(Create("/b"))
    a, b = client.read("/a"), client.read("/b")
    assert (a.data, a.version) == (b"3", 2)
    assert b.created > a.created > 0
    client.commit(Delete("/a"))
    client.commit(Create("/a"))
    assert client.read("/a").created > b.created


@everywhere
@pytest.mark.parametrize(
    ("operation", "kind", "path"),
    [
        (Create("/there"), "NODE_EXISTS", "/there"),
        (SetData("/nowhere", b""), "NO_NODE", "/nowhere"),
        (SetData("/there", b"", 7), "BAD_VERSION", "/there"),
        (Delete("/nowhere"), "NO_NODE", "/nowhere"),
        (Delete("/there", 7), "BAD_VERSION", "/there"),
        (Check("/nowhere"), "NO_NODE", "/nowhere"),
        (Check("/there", 7), "BAD_VERSION", "/there"),
        (Create("/passing/child"), "NO_CHILDREN_FOR_EPHEMERALS", "/passing/child"),
    ],
)
def test_all_or_nothing(client, operation, kind, path):
    client.commit(Create("/there", b"1"), Create("/there/below"))
    client.commit(Create("/passing", ephemeral=True))
    everything = client.tree("/")
    before = [Create("/new/deep"), SetData("/there", b"2")]
    assert refused(client, *before, operation) == (kind, path)
    assert refused(client, operation, Create("/new/deep")) == (kind, path)
    assert client.tree("/") == everything


@everywhere
def test_operations_of_one_commit_see_each_other(client):
    paths = client.commit(
        Create("/a"), Create("/a/b", b"1"), SetData("/a/b", b"2", 0), Check("/a/b", 1)
    )
    assert paths == ["/a", "/a/b", "/a/b", "/a/b"]
    assert client.read("/a/b").data == b"2"
    assert refused(client, Create("/c/d"), Create("/c")) == ("NODE_EXISTS", "/c")


@everywhere
def test_a_check_guards_a_commit(client):
    client.commit(Create("/epoch", b"1"))
    client.commit(Check("/epoch", 0), Create("/a"))
    client.commit(SetData("/epoch", b"2", 0))
    assert refused(client, Check("/epoch", 0), Create("/b")) == ("BAD_VERSION", "/epoch")
    client.commit(Check("/epoch"), Create("/b"))


@everywhere
def test_commits_keep_their_order(client):
    client.commit(Create("/n"))
    outcomes = [
        client.begin("commit", [SetData("/n", b"%d" % number, number)]) for number in range(300)
    ]
    outcomes += [client.begin("commit", [Create(f"/n/{number}/deep")]) for number in range(20)]
    outcomes += [
        client.begin("commit", [SetData("/n", b"end", 300), SetData(f"/n/{19}/deep", b"")])
    ]
    for outcome in outcomes:
        client.result(outcome)
    assert client.read("/n").version == 301


@everywhere
def test_a_refused_commit_does_not_hold_up_the_next(client):
    outcomes = [
        client.begin("commit", [operation]) for operation in (SetData("/a", b""), Create("/a"))
    ]
    assert client.result(outcomes[1]) == ["/a"]
    with pytest.raises(CoordinationError):
        client.result(outcomes[0])


@everywhere
def test_sequential_paths_rise(client):
    paths = [client.commit(Create("/s/n_", b"1", sequential=True))[0] for _ in range(3)]
    paths += client.commit(*[Create("/s/n_", sequential=True)] * 2)
    assert paths == sorted(set(paths))
    assert all(re.fullmatch(r"/s/n_\d{10}", path) for path in paths)
    assert client.children("/s") == [path[len("/s/") :] for path in paths]
    client.commit(Delete(paths[-1]))
    assert client.commit(Create("/s/n_", sequential=True))[0] > paths[-1]


@shared
def test_a_large_commit_goes_and_a_larger_one_is_refused(client):
    large = [Create(f"/large/{number}", b"x" * 800) for number in range(1000)]
    assert sum(map(operation_size, large)) < COMMIT_SIZE_MAX
    client.commit(*large)
    assert len(client.children("/large")) == 1000
    larger = [SetData(f"/large/{number}", b"y" * 900) for number in range(1000)]
    assert refused(client, *larger)[0] == "TOO_LARGE"
    assert client.read("/large/0").version == 0


@everywhere
def test_thousands_of_paths_are_read_and_deleted(client):
    for start in range(0, 5000, 1000):
        client.commit(*[Create(f"/many/{number}/x") for number in range(start, start + 1000)])
    tree = client.tree("/many")
    assert len(tree) == 10_001
    assert len(client.children("/many")) == 5000
    client.commit(Create("/epoch"), Create("/other"))
    assert refused(client, Check("/epoch", 7), Delete("/many")) == ("BAD_VERSION", "/epoch")
    assert client.tree("/many") == tree
    client.commit(Check("/epoch", 0), Delete("/many"), Delete("/other"))
    assert client.tree("/many") == {}
    assert client.read("/other") is None


# Sessions


@everywhere
def test_ephemeral_paths_belong_to_the_session(client):
    client.follow_session()
    client.wait(lambda: client.events)
    [(_connected, session_id, is_new)] = client.events
    assert is_new
    client.commit(
        Create("/e", b"1", ephemeral=True), Create("/e_", ephemeral=True, sequential=True)
    )
    assert client.read("/e").owner == session_id != 0


@everywhere
def test_ephemeral_paths_go_with_a_client_that_is_closed(make):
    first = make()
    first.commit(Create("/ids/1", ephemeral=True), Create("/stays"))
    first.close()
    second = make()
    assert second.read("/ids/1") is None
    assert second.children("/ids") == []
    assert second.read("/stays") is not None


@shared
def test_a_session_that_expires_takes_its_paths_and_another_begins(make):
    client, other = make(), make()
    client.follow_session()
    client.commit(Create("/ids/1", ephemeral=True))
    other.read("/")  # connected from here on, and that is a reason to be called
    calls = other.watch("/ids")
    assert other.children("/ids") == ["1"]
    client.expire()
    other.wait(lambda: calls)
    assert other.children("/ids") == []
    client.wait(lambda: len(client.events) == 4)
    kinds = [event[0] for event in client.events]
    assert kinds == ["connected", "suspended", "expired", "connected"]
    first, second = client.events[0], client.events[3]
    assert second[2]
    assert first[1] != second[1]
    client.commit(Create("/ids/1", ephemeral=True))
    assert other.read("/ids/1").owner == second[1]


@shared
def test_a_session_outlives_its_connection(make):
    client, other = make(), make()
    client.follow_session()
    client.commit(Create("/ids/1", ephemeral=True))
    client.cut()
    client.wait(lambda: ("suspended",) in client.events)
    waiting = [client.begin("commit", [Create("/later")]), client.begin("read", "/ids/1")]
    assert other.read("/ids/1") is not None
    client.mend()
    assert client.result(waiting[0]) == ["/later"]
    assert client.result(waiting[1]).owner == client.events[0][1]
    assert client.events[-1] == ("connected", client.events[0][1], False)


@shared
def test_who_is_cut_off_for_too_long_loses_the_session(make):
    client, other = make(), make()
    client.follow_session()
    client.commit(Create("/ids/1", ephemeral=True))
    other.read("/")  # connected from here on, and that is a reason to be called
    calls = other.watch("/ids")
    assert other.children("/ids") == ["1"]
    client.cut()
    client.wait(lambda: ("suspended",) in client.events)
    waiting = [
        client.begin("commit", [Create("/never")]),
        client.begin("read", "/ids/1"),
        client.begin("read_children", "/ids"),
        client.begin("read_tree", "/"),
    ]
    for outcome in waiting:
        with pytest.raises(NotConnected):
            client.result(outcome)
    with pytest.raises(NotConnected):
        client.commit(Create("/never"))
    other.wait(lambda: calls)
    client.mend()
    client.wait(lambda: len(client.events) == 4)
    assert [event[0] for event in client.events[2:]] == ["expired", "connected"]
    assert client.read("/never") is None


@shared
def test_a_reply_that_is_lost_leaves_the_outcome_unknown_and_reading_tells(make):
    client, other = make(), make()
    client.follow_session()
    client.commit(Create("/n"))
    outcome = client.lose_reply_to(SetData("/n", b"1"), Create("/made"), seen_by=other)
    with pytest.raises(OutcomeUnknown):
        client.result(outcome)
    assert client.read("/made") is not None
    assert client.read("/n").version == 1
    assert [event[0] for event in client.events][:2] == ["connected", "suspended"]


@shared
def test_every_commit_is_accounted_for(make):
    """Connections break at any moment: what is told is true, and the order of the commits is kept."""
    client, other = make(), make()
    client.follow_session()
    client.commit(Create("/n"))
    names, outcomes, ways = [], [], ["cut", "lose", "expire"] * 2
    for way in ways:
        for _ in range(8):
            names.append(f"/n/{len(names):03d}")
            outcomes.append(client.begin("commit", [Create(names[-1])]))
            names.append(f"/n/{len(names):03d}")
            outcomes.append(client.begin("commit", [SetData("/n", b""), Create(names[-1])]))
        count = len(client.events)
        if way == "cut":
            client.cut()
            client.wait(lambda count=count: len(client.events) > count)
            client.mend()
        elif way == "lose":
            client.wait(
                lambda: all(outcomes)
            )  # commits go one after another: this one must be on its way
            name = f"/n/{len(names):03d}"
            names.append(name)
            outcomes.append(client.lose_reply_to(Create(name), seen_by=other))
        else:
            client.expire()
        client.wait(lambda count=count: "connected" in [e[0] for e in client.events[count:]])
    there = []
    for name, outcome in zip(names, outcomes, strict=True):
        client.wait(lambda outcome=outcome: outcome)
        error = outcome[0][1]
        found = other.read(name)
        assert error is None or isinstance(error, NotConnected | OutcomeUnknown)
        assert isinstance(error, OutcomeUnknown) or (found is not None) == (error is None), name
        there += [found.created] if found else []
    assert there == sorted(there)


# Watches


@everywhere
@pytest.mark.parametrize("watched", ["/a", "/a/b"])
def test_a_watch_is_called_for_creation_data_children_and_deletion(client, watched):
    calls = client.watch(watched)
    steps = [
        Create(watched),
        SetData(watched, b"1"),
        Create(f"{watched}/c"),
        Delete(f"{watched}/c"),
    ]
    for step in [*steps, Delete(watched), Create(watched), Create(f"{watched}/d"), Delete(watched)]:
        # What one step did may be told in several calls: all of them must be in before the next one is waited for.
        client.read(watched)
        before = len(calls)
        client.commit(step)
        client.wait(lambda before=before: len(calls) > before)


@everywhere
def test_a_watch_that_is_cancelled_is_not_called(client):
    client.read("/")  # connected from here on, and that is a reason to be called
    calls, watches = [], []
    client.run(lambda: watches.append(client.port.watch("/a", lambda: calls.append(1))))
    client.run(watches[0].cancel)
    others = client.watch("/a")
    client.commit(Create("/a"))
    client.wait(lambda: others)
    assert calls == []


@everywhere
def test_who_reads_at_every_call_ends_with_what_is_there(client):
    seen = []

    def read():
        client.port.read_children("/w", lambda names, _error: client.note(seen, names))

    client.run(lambda: (client.port.watch("/w", read), read()))
    for number in range(60):
        client.commit(Create(f"/w/{number}"))
        if number % 20 == 10:
            client.commit(Delete("/w"))
    wanted = client.children("/w")
    client.wait(lambda: seen and list(seen[-1] or ()) == wanted)


@shared
def test_others_changes_are_seen_under_churn(make):
    client, other = make(), make()
    seen = []

    def read():
        client.port.read("/w", lambda node, _error: client.note(seen, node))

    client.run(lambda: (client.port.watch("/w", read), read()))
    other.commit(Create("/w"))
    for number in range(100):
        other.commit(SetData("/w", b"%d" % number))
    client.wait(lambda: seen and seen[-1] is not None and seen[-1].data == b"99")


@shared
@pytest.mark.parametrize("way", ["cut", "expire"])
def test_what_happens_without_a_connection_is_told_after_it(make, way):
    client, other = make(), make()
    client.follow_session()
    client.commit(Create("/w"))
    calls = client.watch("/w")
    client.read("/w")
    if way == "cut":
        client.cut()
        client.wait(lambda: ("suspended",) in client.events)
        before = len(calls)
        other.commit(SetData("/w", b"1"), Create("/w/c"))
        client.mend()
    else:
        before = len(calls)
        client.expire()
    client.wait(lambda: len(client.events) > 2)
    client.wait(lambda: len(calls) > before)
    client.read("/w")  # who was called reads, and sees from there on
    before = len(calls)
    other.commit(Create("/w/d"))
    client.wait(lambda: len(calls) > before)


@shared
def test_a_subtree_to_which_others_add_is_deleted_in_the_end(make):
    client, other = make(), make()
    client.commit(*[Create(f"/t/{number}") for number in range(200)])
    adding = [other.begin("commit", [Create(f"/t/{number}/x")]) for number in range(0, 200, 20)]
    client.commit(Delete("/t"))
    for outcome in adding:
        other.result(outcome)
    left = client.tree("/t")
    assert all(re.fullmatch(r"/t(/\d+(/x)?)?", path) for path in left)
