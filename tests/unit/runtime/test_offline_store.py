import pytest

from barnabas.ports import CoordinationError, Create, SetData
from barnabas.runtime.embedded import EmbeddedStore
from barnabas.runtime.loop import Loop
from barnabas.runtime.offline_store import write_store


def read(path):
    loop = Loop()
    store = EmbeddedStore(loop, path)
    found = {}

    def done(tree, _problem):
        found.update({name: node.data for name, node in tree.items()})
        loop.stop()

    store.read_tree("/", done)
    loop.run_forever()
    store.close()
    loop.close()
    return found


def test_a_store_is_made_and_added_to(tmp_path):
    path = str(tmp_path / "barnabas.db")
    write_store(path, [Create("/a", b"1"), Create("/b", b"2")])
    write_store(path, [SetData("/a", b"3")])
    assert read(path) == {"/": b"", "/a": b"3", "/b": b"2"}


def test_all_or_nothing(tmp_path):
    path = str(tmp_path / "barnabas.db")
    write_store(path, [Create("/a", b"1")])
    with pytest.raises(CoordinationError, match="NODE_EXISTS"):
        write_store(path, [Create("/b", b"2"), Create("/a", b"3")])
    assert read(path) == {"/": b"", "/a": b"1"}


def test_a_file_that_cannot_be_had(tmp_path):
    with pytest.raises(OSError, match="cannot open"):
        write_store(str(tmp_path / "no" / "barnabas.db"), [])
