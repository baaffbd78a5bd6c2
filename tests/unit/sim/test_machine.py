"""A node on a simulated machine: it starts, dies at any disk call, and comes back."""

import pytest

from barnabas.broker.node import Node
from barnabas.model.config.broker_config import BrokerConfig
from barnabas.sim.machine import Crash, Machine, MachineDisk, ProcessKilled
from barnabas.sim.world import MS, SECOND, Scheduler


@pytest.fixture
def machine():
    scheduler = Scheduler(1)
    return Machine(scheduler, BrokerConfig({"log.dirs": "/data", "broker.id": "1"}), Node)


def run(machine, until):
    return machine.scheduler.run(until, machine.scheduler.now_us + 20 * SECOND)


def test_a_node_starts_and_stops_cleanly(machine):
    machine.start()
    assert run(machine, lambda: machine.is_up)
    machine.stop_cleanly(100 * MS)
    assert run(machine, lambda: machine.is_off)
    assert "/data/.kafka_cleanshutdown" in machine.disk.contents()
    assert run(machine, lambda: machine.is_up)
    assert machine.life.number == 2
    assert "/data/.kafka_cleanshutdown" not in machine.disk.contents()


@pytest.mark.parametrize("crash", list(Crash))
def test_a_node_that_dies_at_any_disk_call_of_its_start_comes_back(crash):
    calls = 1
    while True:
        scheduler = Scheduler(calls)
        machine = Machine(scheduler, BrokerConfig({"log.dirs": "/data", "broker.id": "1"}), Node)
        machine.crash_at_call(crash, calls, 10 * MS)
        machine.start()
        assert run(machine, lambda machine=machine: machine.is_up)
        if machine.life.number == 1:
            break
        assert machine.life.number == 2
        calls += 1
    assert calls > 5


def test_a_disk_is_off_once_its_process_is_dead():
    disk = MachineDisk(Scheduler(1).chance("disk"))
    died = []

    def die():
        died.append(disk.calls)
        disk.is_off = True

    disk.kill_at_call(2, die)
    disk.make_dir("/a")
    for _ in range(2):
        with pytest.raises(ProcessKilled):
            disk.make_dir("/b")
    disk.is_off = False
    assert disk.list("/") == ["a"]
    assert died == [1]


def test_a_start_that_fails_is_tried_again(machine):
    machine.disk.fail_path("/data")
    machine.start()
    assert run(machine, lambda: machine.failed_starts == 2)
    assert isinstance(machine.last_failure, OSError)
    machine.disk.heal()
    assert run(machine, lambda: machine.is_up)


def test_a_crash_of_a_machine_that_is_off_changes_nothing(machine):
    machine.crash(Crash.POWER, 0)
    machine.stop_cleanly(0)
    assert machine.is_off
    assert machine.life.number == 0
