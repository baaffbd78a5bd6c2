"""Leaders: new partitions, deaths and returns."""

from __future__ import annotations

from controller_kit import Host

from barnabas.model.ids import TopicPartition

T0, T1, T2 = (TopicPartition("t", index) for index in range(3))


def three(**options):
    return Host(1, 2, 3, **options).create("t", [1, 2, 3], [1, 3, 2], [2, 1, 3]).run()


def test_a_new_partition_is_led_by_its_first_replica_alive_and_all_alive_are_in_sync():
    host = Host(1, 3).create("t", [2, 3, 1]).run()
    assert host.state(T0) == "3 leads, epoch 0, in sync 3,1"


def test_a_new_partition_waits_until_a_replica_is_alive():
    host = Host(1).create("t", [2, 3]).run()
    assert host.state(T0) == "no state"
    host.start(3).run()
    assert host.state(T0) == "3 leads, epoch 0, in sync 3"


def test_the_next_in_sync_replica_leads_when_the_leader_dies():
    host = three().kill(1).run()
    assert [host.leadership(p).leader for p in (T0, T1, T2)] == [2, 3, 2]
    assert host.state(T0) == "2 leads, epoch 1, in sync 2,3"
