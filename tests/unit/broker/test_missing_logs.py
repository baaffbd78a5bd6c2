"""Logs that cannot be opened: nothing is said about them, and they come back by themselves."""

import errno

import pytest

from barnabas.broker import missing_logs, topic_creation
from barnabas.broker.node import Node
from barnabas.broker.tasks import drive
from barnabas.model.config.broker_config import BrokerConfig
from barnabas.sim.machine import Crash, Machine
from barnabas.sim.world import MS, SECOND, Scheduler

CLEAN_MARK = "/data/.kafka_cleanshutdown"
LOG_STARTS = "/data/log-start-offset-checkpoint"


def run(machine, until):
    assert machine.scheduler.run(until, machine.scheduler.now_us + 30 * SECOND)


def finish(machine, task):
    ended = []
    machine.enter(lambda: drive(task, lambda _result, problem: ended.append(problem)))
    run(machine, lambda: ended)
    return ended[0]


def missing(machine):
    return [(topic.name, index) for topic, index in missing_logs.find(machine.node)]


@pytest.fixture
def machine():
    """A machine whose node came up while it could not open one log of its topic."""
    machine = Machine(Scheduler(1), BrokerConfig({"log.dirs": "/data", "broker.id": "1"}), Node)
    machine.start()
    run(machine, lambda: machine.is_up)
    topic = topic_creation.plan_topic(machine.node, "t", [(1,), (1,)])
    assert finish(machine, topic_creation.create(machine.node, topic, 1 << 60)) is None
    machine.disk.write_file_atomically(LOG_STARTS, b"0\n1\nt 0 7\n")
    machine.crash(Crash.PROCESS, MS)
    machine.disk.fail_path("/data/t-0/00000000000000000000.log", errno.ENOSPC)
    run(machine, lambda: machine.is_up)
    return machine


def test_a_log_that_cannot_be_opened_is_missing_and_its_neighbour_is_not(machine):
    assert missing(machine) == [("t", 0)]
    assert machine.node.replicas.get("t", 1) is not None


def test_it_comes_back_when_the_disk_lets_it(machine):
    machine.disk.heal()
    run(machine, lambda: not missing(machine))
    assert machine.node.replicas.get("t", 0).log.log_start_offset == 7


def test_a_directory_with_a_missing_log_is_not_marked_clean(machine):
    machine.stop_cleanly(SECOND)
    run(machine, lambda: machine.is_off)
    assert CLEAN_MARK not in machine.disk.contents()
    machine.disk.heal()
    run(machine, lambda: machine.is_up)
    machine.stop_cleanly(SECOND)
    run(machine, lambda: machine.is_off)
    assert CLEAN_MARK in machine.disk.contents()


def test_checkpoints_keep_what_was_known_of_it(machine):
    machine.stop_cleanly(SECOND)
    run(machine, lambda: machine.is_off)
    assert b"t 0 7" in machine.disk.contents()[LOG_STARTS]


def test_a_topic_that_was_deleted_meanwhile_is_not_hosted_again(machine):
    topic = machine.node.topics.by_name["t"]
    machine.node.topics.drop(topic)
    machine.node.replicas.drop_topic("t")
    machine.disk.heal()
    assert finish(machine, missing_logs.open_again(machine.node)) is None
    assert machine.node.replicas.get("t", 0) is None


def test_the_log_of_a_topic_that_is_deleted_while_it_is_being_opened_goes(machine):
    node, ended = machine.node, []
    machine.disk.heal()
    opening = node.upkeep._open_again()
    machine.enter(lambda: drive(opening, lambda _result, problem: ended.append(problem)))
    node.topics.drop(node.topics.by_name["t"])
    node.replicas.drop_topic("t")
    run(machine, lambda: ended)
    assert ended == [None]
    folders = [name for name in machine.disk.list("/data") if name.startswith("t-0")]
    assert [name.endswith("-delete") for name in folders] == [True]
    assert node.placement.get(("t", 0)) is None


def test_partitions_exist_once_the_store_has_them(machine):
    topic = machine.node.topics.by_name["t"]
    machine.disk.fail_path("/data/t-2", errno.ENOSPC)
    assert finish(machine, topic_creation.add_partitions(machine.node, topic, [(1,)])) is None
    assert missing(machine) == [("t", 0), ("t", 2)]
    machine.disk.heal()
    run(machine, lambda: not missing(machine))
