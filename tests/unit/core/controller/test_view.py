"""Plain questions about the cluster."""

from __future__ import annotations

from controller_kit import Host

from barnabas.core.controller.assignment import Assignment
from barnabas.core.controller.view import NO_LEADER, PartitionView
from barnabas.model.ids import TopicPartition

T0, T1, T9 = (TopicPartition("t", index) for index in (0, 1, 9))


def test_a_partition_without_a_state_is_led_by_nobody():
    partition = PartitionView(T0, Assignment((1, 2)))
    assert (partition.leader, partition.in_sync) == (NO_LEADER, ())
    assert partition.leaving == ()


def test_what_is_not_there_is_not_found():
    view = Host(1).create("t", [1]).run().controller.view
    assert view.partition(T0).leader == 1
    assert view.partition(T9) is None
    assert view.partition(TopicPartition("u", 0)) is None


def test_replicas_on_dead_brokers_and_failed_directories_are_offline():
    host = Host(1, 2, 3).create("t", [1, 2, 3]).run().kill(3).run()
    host.do(host.controller.on_replica_errors(2, [T0]))
    view = host.controller.view
    assert view.offline_replicas(view.partition(T0)) == (2, 3)


def test_who_leads_what_counts_only_what_can_move():
    host = Host(1, 2).create("t", [1, 2], [1], [2, 1]).create("gone", [1, 2]).run()
    host.delete("gone")
    assert host.controller.view.led_by(1) == [T0]


def test_moves_are_listed_until_they_are_done_or_cancelled():
    host = Host(1, 2, 3).create("t", [1], [2]).run()
    view = host.controller.view
    host.do(host.controller.on_reassign({T0: (3,), T1: (3,)})[1])
    host.run()
    assert view.reassignments() == {
        T0: Assignment((3, 1), (3,), (1,)),
        T1: Assignment((3, 2), (3,), (2,)),
    }
    host.do(host.controller.on_reassign({T0: None})[1])
    host.run()
    host.catch_up(T1)
    host.run()
    assert view.reassignments() == {}


def test_another_assignment_ends_what_was_being_settled():
    partition = PartitionView(T0, Assignment((2, 1), (2,), (1,)), settling=Assignment((2,)))
    partition.stopped.add(1)
    partition.reassign(partition.assignment)
    assert partition.leaving == (1,)
    partition.reassign(Assignment((2,)))
    assert partition.settling is None
    assert not partition.stopped
