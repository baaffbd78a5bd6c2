"""A log directory whose disk is missing, replaced, moved or new: which is which, and what becomes of its partitions."""

import errno
import json

import pytest
from node_kit import NodeKit

from barnabas.broker.known_directories import ACCEPT_FILE, ZNODE
from barnabas.model.config.broker_config import BrokerConfig
from barnabas.model.errors import ErrorCode
from barnabas.sim.machine import Crash
from barnabas.sim.world import MS
from barnabas.storage import meta_properties
from barnabas.storage.meta_properties import MetaProperties

ONE, TWO, THREE, AWAY = "/one", "/two", "/three", "/away"
FAILED = ErrorCode.KAFKA_STORAGE_ERROR


@pytest.fixture
def kit():
    """Four partitions: the even ones in the first directory, the odd ones in the second."""
    kit = NodeKit(log_dirs=f"{ONE},{TWO}")
    kit.create("t", partitions=4)
    for index in range(4):
        assert kit.produce("t", index).base_offset == 0
    return kit


def start_after(kit, *changes, dirs=None):
    """Kill the process, let somebody do this to its files, and start it again."""
    kit.machine.crash(Crash.PROCESS, MS)
    kit.disk.is_off = False
    for change in changes:
        change()
    if dirs:
        kit.machine.config = BrokerConfig({"log.dirs": ",".join(dirs), "node.id": "1"})
    kit.run(lambda: kit.machine.is_up or kit.machine.failed_starts)
    if kit.machine.is_up:
        kit.client = kit.new_client()


def ends(kit):
    """The end of each partition; None for those that cannot be asked."""
    return [
        None if kit.node.replicas.get("t", index) is None else kit.offset("t", -1, index)
        for index in range(4)
    ]


def online(kit):
    return [directory.path for directory in kit.node.directories if directory.is_online]


def known(kit):
    return list(json.loads(kit.machine.store.tree[f"{ZNODE}/1"].data)["directories"])


def unmount(kit):
    return lambda: kit.disk.rename(TWO, AWAY)


def mount(kit, path=TWO):
    return lambda: kit.disk.rename(AWAY, path)


def accept(kit, path):
    return lambda: kit.disk.write_file_atomically(f"{path}/{ACCEPT_FILE}", b"")


def test_a_disk_that_is_not_mounted_is_no_new_directory(kit, caplog):
    start_after(kit, unmount(kit), lambda: kit.disk.make_dir(TWO))
    assert online(kit) == [ONE]
    assert ends(kit) == [1, None, 1, None]
    assert kit.disk.list(TWO) == []
    assert "/two has no meta.properties" in caplog.text
    assert f"{TWO}/{ACCEPT_FILE}" in caplog.text
    start_after(kit, lambda: kit.disk.remove_tree(TWO), mount(kit))
    assert online(kit) == [ONE, TWO]
    assert ends(kit) == [1, 1, 1, 1]


def test_another_disk_in_its_place_is_refused(kit, caplog):
    meta = MetaProperties(1, kit.node.cluster_id, 1, bytes(range(16)))
    start_after(
        kit,
        unmount(kit),
        lambda: kit.disk.make_dir(TWO),
        lambda: kit.disk.write_file_atomically(
            f"{TWO}/meta.properties", meta_properties.encode(meta)
        ),
    )
    assert online(kit) == [ONE]
    assert "has the id AAECAwQFBgcICQoLDA0ODw" in caplog.text


def test_a_replaced_disk_is_taken_when_somebody_says_so(kit):
    start_after(kit, unmount(kit), lambda: kit.disk.make_dir(TWO), accept(kit, TWO))
    assert online(kit) == [ONE, TWO]
    assert ends(kit) == [1, 0, 1, 0]
    assert ACCEPT_FILE not in kit.disk.list(TWO)
    kit.restart()
    assert ends(kit) == [1, 0, 1, 0]


def test_one_more_directory_is_welcome(kit):
    start_after(kit, dirs=[ONE, TWO, THREE])
    assert ends(kit) == [1, 1, 1, 1]
    kit.create("u")
    assert kit.node.replicas.get("u", 0).directory.path == THREE
    start_after(kit, lambda: kit.disk.rename(THREE, AWAY))
    assert online(kit) == [ONE, TWO], "it is known from then on"


def test_disks_may_change_their_places(kit):
    start_after(kit, unmount(kit), mount(kit, THREE), dirs=[THREE, ONE])
    assert ends(kit) == [1, 1, 1, 1]
    assert sorted(known(kit)) == [ONE, THREE]


def test_what_is_in_a_directory_left_out_does_not_begin_anew(kit, caplog):
    start_after(kit, dirs=[ONE])
    assert ends(kit) == [1, None, 1, None]
    assert "/two is not in log.dirs" in caplog.text
    kit.restart()
    kit.advance(20_000)
    assert ends(kit) == [1, None, 1, None]
    kit.create("u")
    start_after(kit, dirs=[ONE, TWO])
    assert ends(kit) == [1, 1, 1, 1]


def test_a_directory_left_out_is_given_up_when_somebody_says_so(kit):
    start_after(kit, accept(kit, ONE), dirs=[ONE])
    assert ends(kit) == [1, 0, 1, 0]
    assert known(kit) == [ONE]


def test_a_directory_left_out_that_is_not_missed_is_forgotten(kit):
    for index in (1, 3):
        start_after(kit, lambda i=index: kit.disk.rename(f"{TWO}/t-{i}", f"{ONE}/t-{i}"))
    start_after(kit, dirs=[ONE])
    assert ends(kit) == [1, 1, 1, 1]
    assert known(kit) == [ONE]


def test_a_directory_that_cannot_be_read_stays_known(kit):
    start_after(kit, lambda: kit.disk.fail_path(TWO, errno.EIO))
    assert online(kit) == [ONE]
    assert known(kit) == [ONE, TWO]


def test_a_directory_of_before_kafka_had_ids_is_known_by_its_path(kit):
    meta = MetaProperties(0, kit.node.cluster_id, 1, None)
    start_after(
        kit,
        lambda: kit.disk.write_file_atomically(
            f"{TWO}/meta.properties", meta_properties.encode(meta)
        ),
        accept(kit, TWO),
    )
    assert ends(kit) == [1, 1, 1, 1]
    kit.restart()
    assert ends(kit) == [1, 1, 1, 1]
    start_after(kit, unmount(kit))
    assert online(kit) == [ONE]


def test_a_store_that_is_lost_with_the_first_directory_is_not_made_anew(kit):
    lose = [lambda: kit.disk.rename(ONE, AWAY), kit.machine.store.tree.clear]
    start_after(kit, *lose)
    assert str(kit.machine.last_failure).startswith("/one has no meta.properties")
    assert not kit.disk.exists(ONE)
    assert not kit.machine.store.tree
    kit.disk.is_off = False
    kit.disk.make_dir(ONE)
    accept(kit, ONE)()
    kit.run(lambda: kit.machine.is_up)
    kit.client = kit.new_client()
    assert ends(kit) == [0, 1, 0, 1]


def test_a_store_that_cannot_be_written_keeps_no_broker_from_starting(kit):
    def fill():
        kit.disk.make_dir(THREE)
        kit.machine.store.out_of_order = True

    start_after(kit, fill, dirs=[ONE, TWO, THREE])
    assert online(kit) == [ONE, TWO, THREE]
    assert known(kit) == [ONE, TWO]
