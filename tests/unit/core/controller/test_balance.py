"""Leaders are brought back when too many are away."""

from __future__ import annotations

from controller_kit import Host

from barnabas.core.controller.balance import Counts, count, imbalanced
from barnabas.core.controller.settings import ControllerSettings
from barnabas.core.controller.view import ElectionType
from barnabas.model.ids import TopicPartition


def away(led_elsewhere, of, percentage=10):
    """A cluster in which 1 is preferred for some partitions and 2 leads some of them."""
    host = Host(
        1, 2, settings=ControllerSettings(leader_imbalance_per_broker_percentage=percentage)
    )
    host.create("stay", *[[1, 2]] * (of - led_elsewhere)).run()
    host.kill(1).create("away", *[[1, 2]] * led_elsewhere).run().start(1).run()
    for id_ in list(host.states):
        host.catch_up(id_)
        host.run()
    for index in range(of - led_elsewhere):
        elected = TopicPartition("stay", index)
        host.do(host.controller.on_elect(ElectionType.PREFERRED, [elected])[1])
        host.run()
    return host


def test_more_than_the_allowed_share_must_be_away():
    assert imbalanced(away(1, of=10).controller.view) == []
    assert [p.id.topic for p in imbalanced(away(2, of=10).controller.view)] == ["away"] * 2
    assert imbalanced(away(2, of=10, percentage=20).controller.view) == []
    assert len(imbalanced(away(1, of=10, percentage=0).controller.view)) == 1


def test_only_those_that_can_be_led_are_chosen():
    host = away(3, of=3)
    host.change_in_sync(TopicPartition("away", 0), (2,))
    host.run()
    assert [p.id.partition for p in imbalanced(host.controller.view)] == [1, 2]


def test_the_check_elects():
    host = away(2, of=3)
    host.do(host.controller.on_imbalance_check())
    host.run()
    assert {state.leader for state, _ in host.states.values()} == {1}
    assert count(host.controller.view).preferred_replica_imbalance == 0


def test_counts():
    host = Host(1, 2).create("t", [1, 2], [2, 1], [1]).create("gone", [1, 2]).run()
    host.kill(1).run()
    host.delete("gone").run()
    assert count(host.controller.view) == Counts(
        topics=2,
        partitions=4,
        offline_partitions=1,
        preferred_replica_imbalance=2,
        topics_to_delete=1,
        replicas_to_delete=1,
    )
