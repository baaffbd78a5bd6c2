"""The store of a single node: all or nothing, in order, there again after it was closed, and never stuck."""

import os
import sqlite3

import pytest

from barnabas.ports import Check, CoordinationError, Create, Delete, SetData, ZNode
from barnabas.runtime.embedded import EmbeddedStore
from barnabas.runtime.loop import Loop


class Opened:
    """A store with its loop, driven until answers are here."""

    def __init__(self, path):
        self.loop = Loop()
        self.store = EmbeddedStore(self.loop, str(path))

    def commit_all(self, *jobs):
        """Commit the jobs together; their errors in order."""
        outcomes = []
        for job in jobs:
            self.store.commit(job, lambda _result, error: outcomes.append(error))
        self._until(lambda: len(outcomes) == len(jobs))
        return outcomes

    def read(self, path):
        trees = []
        self.store.read_tree(path, lambda tree, _error: trees.append(dict(tree)))
        self._until(lambda: trees)
        return trees[0]

    def _until(self, condition):
        while not condition():
            self.loop.call_at(self.loop.clock.monotonic_ms() + 1, self.loop.stop)
            self.loop.run_forever()
            self.loop._stopping = False

    def close(self):
        self.store.close()
        self.loop.close()


@pytest.fixture
def opened(tmp_path):
    made = Opened(tmp_path / "store.db")
    yield made
    made.close()


def kinds(outcomes):
    return [None if each is None else (each.kind, each.path) for each in outcomes]


def test_what_was_committed_is_there_after_opening_again(tmp_path):
    first = Opened(tmp_path / "store.db")
    assert (
        first.commit_all([Create("/a", b"1"), Create("/a/b", b"2")], [SetData("/a", b"3")])
        == [None] * 2
    )
    first.close()
    second = Opened(tmp_path / "store.db")
    found = {path: (node.data, node.version) for path, node in second.read("/").items()}
    assert found == {"/": (b"", 0), "/a": (b"3", 1), "/a/b": (b"2", 0)}
    second.close()


def test_others_cannot_read_what_is_kept(tmp_path):
    """Passwords are: of users, and of brokers among settings."""
    old_mask = os.umask(0)
    try:
        opened = Opened(tmp_path / "store.db")
    finally:
        os.umask(old_mask)
    opened.commit_all([Create("/a", b"secret")])
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    opened.close()
    assert "store.db-wal" in modes
    assert set(modes.values()) == {0o600}, modes


def test_all_or_nothing_and_a_refusal_harms_no_neighbour(opened):
    outcomes = opened.commit_all(
        [Create("/a", b"")],
        [Create("/b", b""), Create("/a", b""), Create("/c", b"")],
        [Create("/d", b"")],
        [SetData("/nowhere", b"")],
        [SetData("/a", b"", 7)],
        [Delete("/nowhere")],
    )
    assert kinds(outcomes) == [
        None, ("NODE_EXISTS", "/a"), None, ("NO_NODE", "/nowhere"), ("BAD_VERSION", "/a"), ("NO_NODE", "/nowhere"),
    ]  # fmt: skip
    assert set(opened.read("/")) == {"/", "/a", "/d"}
    assert all(isinstance(each, CoordinationError) for each in outcomes if each is not None)


def test_delete_takes_what_is_below_and_nothing_beside(opened):
    opened.commit_all(
        [Create(path, b"") for path in ("/a", "/a/x", "/a/x/y", "/a-b", "/a0", "/ab")]
    )
    opened.commit_all([Delete("/a")])
    assert set(opened.read("/")) == {"/", "/a-b", "/a0", "/ab"}


def test_reading_a_part(opened):
    opened.commit_all([Create(path, b"") for path in ("/a", "/a/x", "/ab", "/b")])
    assert set(opened.read("/a")) == {"/a", "/a/x"}
    assert opened.read("/nowhere") == {}


def test_hundreds_of_commits_at_once_keep_their_order(opened):
    opened.commit_all([Create("/n", b"")])
    jobs = [[SetData("/n", b"%d" % number)] for number in range(300)]
    assert opened.commit_all(*jobs) == [None] * 300
    assert opened.read("/n") == {"/n": ZNode(b"299", 300, created=2)}


def test_a_file_that_is_no_store_is_refused(tmp_path):
    path = tmp_path / "store.db"
    path.write_bytes(b"this is no database, and long enough to be told from one" * 100)
    loop = Loop()
    with pytest.raises(OSError, match="coordination store"):
        EmbeddedStore(loop, str(path))
    loop.close()


def test_a_folder_that_is_not_there_is_refused(tmp_path):
    loop = Loop()
    with pytest.raises(OSError, match="coordination store"):
        EmbeddedStore(loop, str(tmp_path / "nowhere" / "store.db"))
    loop.close()


def test_a_store_of_the_first_form_gets_parents_and_goes_on(tmp_path):
    old = sqlite3.connect(tmp_path / "store.db")
    old.execute(
        "create table znode (path text primary key, data blob not null, version integer not null) without rowid"
    )
    rows = [("/a/b/c", b"1", 3), ("/a/b/d", b"2", 0), ("/x", b"3", 1)]
    old.executemany("insert into znode values (?, ?, ?)", rows)
    old.commit()
    old.close()
    for _ in range(2):
        store = Opened(tmp_path / "store.db")
        found = {path: (node.data, node.version) for path, node in store.read("/").items()}
        assert found == {
            "/": (b"", 0), "/a": (b"", 0), "/a/b": (b"", 0), "/a/b/c": (b"1", 3), "/a/b/d": (b"2", 0), "/x": (b"3", 1),
        }  # fmt: skip
        assert store.commit_all([Create("/a/b/e"), Delete("/a/b/e"), Check("/a/b/c", 3)]) == [None]
        store.close()


def test_a_lone_node_may_commit_more_than_zookeeper_takes(opened):
    assert opened.commit_all([Create(f"/n/{n}", b"x" * 1000) for n in range(2000)]) == [None]


def test_what_nobody_foresaw_is_an_answer_and_the_store_goes_on(opened):
    [error, fine] = opened.commit_all([object()], [Create("/a", b"1")])
    assert isinstance(error, OSError)
    if fine is not None:  # in the same transaction
        assert opened.commit_all([Create("/a", b"1")]) == [None]
    outcomes = []
    opened.store.read_tree(None, lambda _found, problem: outcomes.append(problem))
    opened._until(lambda: outcomes)
    assert isinstance(outcomes[0], Exception)
    assert opened.read("/a")["/a"].data == b"1"


def test_a_watch_that_fails_does_not_keep_the_others_from_being_called(opened, caplog):
    called = []

    def fail():
        raise RuntimeError("planted")

    opened.store.watch("/a", fail)
    opened.store.watch("/a", lambda: called.append(1))
    assert opened.commit_all([Create("/a", b"1")]) == [None]
    opened._until(lambda: called)
    [told] = caplog.records
    assert told.exc_info[0] is RuntimeError
