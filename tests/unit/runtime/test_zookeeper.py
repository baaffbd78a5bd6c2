"""ZooKeeper's port without a ZooKeeper: what happens when there is none, and the bytes of a multi-read."""

import socket
import struct
import subprocess
import sys

import pytest
from coordination_kit import LoopClient
from kazoo.exceptions import NoNodeError

from barnabas.ports import Create, NotConnected, ZNode
from barnabas.runtime.zookeeper import ZooKeeperStore
from barnabas.runtime.zookeeper_reads import MultiRead


@pytest.fixture
def nowhere():
    """An address where nobody answers: bound, not listening."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


@pytest.fixture
def client(nowhere):
    made = LoopClient(
        lambda loop: ZooKeeperStore(
            loop, f"{nowhere}/root", session_timeout_ms=60_000, connection_timeout_ms=200
        )
    )
    yield made
    made.close()


def test_what_is_asked_of_nobody_fails_with_the_address(client, nowhere):
    outcomes = [client.begin("read", "/a"), client.begin("commit", [Create("/a")])]
    for outcome in [*outcomes, client.begin("read_tree", "/")]:
        with pytest.raises(NotConnected, match=nowhere):
            client.result(outcome)


def test_once_nobody_was_there_new_questions_fail_at_once(client, nowhere):
    for _ in range(2):
        with pytest.raises(NotConnected, match=nowhere):
            client.read("/a")
        with pytest.raises(NotConnected, match=nowhere):
            client.commit(Create("/a"))
        with pytest.raises(NotConnected, match=nowhere):
            client.children("/a")


def test_a_multi_read_on_the_wire():
    request = MultiRead([(4, "/a"), (8, "/é")]).serialize()
    assert request == (
        b"\0\0\0\x04\0\xff\xff\xff\xff\0\0\0\x02/a\0"
        b"\0\0\0\x08\0\xff\xff\xff\xff\0\0\0\x03/\xc3\xa9\0"
        b"\xff\xff\xff\xff\x01\xff\xff\xff\xff"
    )


def test_the_answers_of_a_multi_read():
    stat = struct.pack("!qqqqiiiqiiq", 7, 8, 0, 0, 3, 0, 0, 99, 4, 2, 0)
    buffer = b"head"
    buffer += b"\0\0\0\x04\0\0\0\0\0" + b"\0\0\0\x04data" + stat
    buffer += b"\0\0\0\x08\0\0\0\0\0" + b"\0\0\0\x02" + b"\0\0\0\x01x" + b"\0\0\0\x02yz"
    buffer += b"\xff\xff\xff\xff\0\xff\xff\xff\x9b" + b"\xff\xff\xff\x9b"
    buffer += b"\0\0\0\x04\0\0\0\0\0" + b"\xff\xff\xff\xff" + stat
    buffer += b"\xff\xff\xff\xff\x01\xff\xff\xff\xff"
    found, names, error, empty = MultiRead([]).deserialize(buffer, 4)
    assert found.node == ZNode(b"data", version=3, created=7, owner=99, written=8)
    assert found.children_count == 2
    assert names == ["x", "yz"]
    assert isinstance(error, NoNodeError)
    assert empty.node.data == b""


def test_a_lone_broker_does_without_kazoo():
    check = "import sys, barnabas.runtime.assembly; sys.exit('kazoo' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], timeout=60).returncode == 0


def test_a_member_of_a_cluster_without_kazoo_is_told_what_to_install(tmp_path):
    program = "import sys; sys.modules['kazoo'] = None; from barnabas.cli.main import main; main(['up', *sys.argv[1:]])"
    words = ["--data-dir", str(tmp_path), "--set", "zookeeper.connect=127.0.0.1:1"]
    done = subprocess.run(
        [sys.executable, "-c", program, *words], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1
    assert done.stderr.strip().endswith("needs the package kazoo: pip install 'barnabas[cluster]'")
