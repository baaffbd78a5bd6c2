"""Decisions are written, confirmed and told: one at a time, and never twice."""

from __future__ import annotations

from dataclasses import replace

import pytest
from controller_kit import Host

from barnabas.core.controller.assignment import Assignment
from barnabas.core.controller.effects import Stop, Tell
from barnabas.core.controller.progress import StoreGoneBack
from barnabas.core.controller.view import ElectionType, ReadState, ReadTopic
from barnabas.model.ids import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def led(*live, replicas=(1, 2, 3)):
    return Host(*live).create("t", replicas).run()


def view_of(host):
    return host.controller.view.partition(T0)


def test_the_view_changes_when_the_store_has():
    host = led(1, 2, 3).kill(1)
    assert view_of(host).leader == 1
    assert not any(host.lanes.values())
    host.write()
    assert view_of(host).leader == 2
    assert sorted(host.lanes) == [2, 3]


def test_one_write_at_a_time_then_what_is_right_by_then():
    host = led(1, 2, 3).kill(1).kill(2)
    assert len(host.writes) == 1
    host.run()
    assert host.state(T0) == "3 leads, epoch 2, in sync 3"


def test_a_refused_write_is_decided_again_from_what_is_there():
    host = led(1, 2, 3).kill(3)
    host.put_state(T0, replace(host.leadership(T0), in_sync=(1, 3)))
    host.run()
    assert host.state(T0) == "1 leads, epoch 1, in sync 1"


def test_a_write_whose_answer_was_lost_counts():
    host = led(1, 2, 3).kill(1)
    host.write(fate="unheard")
    assert view_of(host).leader == 2
    assert not host.writes
    assert host.lanes[2] == [Tell(2, T0, is_new=False)]


def test_a_write_that_was_lost_is_made_again():
    host = led(1, 2, 3).kill(1)
    host.write(fate="lost")
    assert len(host.writes) == 1
    host.run()
    assert host.state(T0) == "2 leads, epoch 1, in sync 2,3"


def test_the_first_state_of_a_partition_may_be_there_already():
    host = Host(1, 2).create("t", [1, 2])
    (write,) = host.writes
    host.put_state(T0, replace(write.leadership, controller_epoch=0), is_ours=True)
    host.run()
    # Who wrote it may not have told it: it is told with an epoch of our own.
    assert host.state(T0) == "1 leads, epoch 1, in sync 1,2"
    assert host.brokers[2].heard[T0].leadership == host.leadership(T0)


def test_a_state_of_another_epoch_is_told_with_one_of_our_own():
    host = led(1, 2)
    another = replace(host.leadership(T0), leader=2, leader_epoch=1, controller_epoch=0)
    host.put_state(T0, another, is_ours=True)
    host.do(host.controller.on_states({T0: host.read_state(T0)}))
    host.run()
    assert host.state(T0) == "2 leads, epoch 2, in sync 1,2"
    assert host.brokers[2].heard[T0].leadership == host.leadership(T0)


def test_who_restarts_while_a_death_is_written_is_passed_over_next():
    host = led(1, 2, 3).kill(3).start(2)
    host.write()
    assert host.state(T0) == "1 leads, epoch 1, in sync 1,2"
    host.run()
    assert host.state(T0) == "1 leads, epoch 2, in sync 1"


def test_who_restarts_is_told_its_role_though_the_leader_took_it_out_first():
    """What was to be written to pass it over is refused, and nothing else is to be written: no epoch of ours tells it."""
    host = led(1, 2, 3).start(3)
    assert not any(host.lanes.values())
    host.put_state(T0, replace(host.leadership(T0), in_sync=(1, 2)))
    host.run()
    assert host.state(T0) == "1 leads, epoch 0, in sync 1,2"
    assert host.brokers[3].heard[T0].leadership == host.leadership(T0)


def test_who_is_gone_again_when_a_write_is_refused_is_not_told():
    host = led(1, 2, 3).start(3).kill(3)
    host.put_state(T0, replace(host.leadership(T0), in_sync=(1, 2)))
    host.run()
    assert 3 not in host.lanes


def test_who_was_told_with_a_write_is_not_told_again():
    host = led(1, 2, 3).start(3)
    host.write()
    assert host.lanes[3] == [Tell(3, T0, is_new=False)]
    host.run()
    host.do(host.controller.on_states({T0: host.read_state(T0)}))
    assert not any(host.lanes.values())


def test_a_first_state_that_was_lost_is_made_again():
    host = Host(1).create("t", [1])
    host.write(fate="lost")
    host.run()
    assert host.state(T0) == "1 leads, epoch 0, in sync 1"


def test_news_that_is_older_than_what_is_known_is_no_news():
    host = led(1, 2)
    old = host.read_state(T0)
    host.change_in_sync(T0, (1,))
    effects = host.controller.on_states({T0: old})
    assert not effects.announce
    assert view_of(host).in_sync == (1,)
    # Nor is that there is none, when we did not write.
    host.controller.on_states({T0: None})
    assert view_of(host).in_sync == (1,)


def test_an_in_sync_set_of_the_leader_is_announced_and_told_to_nobody():
    host = led(1, 2, 3)
    stored = replace(host.leadership(T0), in_sync=(1, 2))
    effects = host.controller.on_states({T0: ReadState(stored, 1, host.zxid + 1)})
    assert list(effects.announce) == [T0]
    assert not effects.tell


def test_confirmations_of_what_is_gone_or_passed_are_ignored():
    host = led(1, 2, 3).kill(1)
    (write,) = host.writes
    assert host.controller.on_written([(write, 0)]).tell == []
    host.controller.on_topics_gone(["t"])
    assert host.controller.on_written([(write, 7)]).tell == []


def test_new_replicas_are_told_that_they_are_new():
    host = led(1, 2, replicas=(1, 2))
    host.start(3).run()
    assert host.brokers[2].heard[T0].is_new
    host.do(host.controller.on_reassign({T0: (3, 1)})[1])
    host.run()
    heard = {broker: host.brokers[broker].heard[T0].is_new for broker in (1, 2, 3)}
    assert heard == {1: False, 2: False, 3: True}


def test_after_a_failover_those_that_a_move_brings_are_new_still():
    host = led(1, 2, replicas=(1,))
    host.do(host.controller.on_reassign({T0: (2,)})[1])
    host.write()
    host.take_office()
    host.run()
    assert host.brokers[2].heard[T0].is_new
    assert not host.brokers[1].heard[T0].is_new


def test_who_shuts_down_hears_who_leads_instead_and_stops():
    host = led(1, 2, 3)
    host.do(host.controller.on_shutdown_request(1, host.live[1].epoch)[1])
    host.write()
    assert host.lanes[1] == [Tell(1, T0, is_new=False), Stop(1, T0, 1, delete=False)]


def test_who_shuts_down_and_leads_on_hears_that():
    host = led(1, 2, replicas=(1, 2))
    host.change_in_sync(T0, (1,))
    host.do(host.controller.on_shutdown_request(1, host.live[1].epoch)[1])
    host.run()
    host.do(host.controller.on_reassign({T0: (2, 1)})[1])
    host.write()
    host.write()
    assert host.lanes[1] == [Tell(1, T0, is_new=False)]


def test_who_restarts_while_nobody_leads_has_nothing_to_be_passed_over_for():
    host = led(1, replicas=(1,)).kill(1).run().start(1).start(1)
    host.write(fate="lost")
    host.run()
    assert host.state(T0) == "1 leads, epoch 2, in sync 1"


def test_another_move_while_the_end_of_one_is_being_written():
    host = Host(1, 2, 3).create("t", [1]).run()
    host.do(host.controller.on_reassign({T0: (2,)})[1])
    host.run()
    host.catch_up(T0)
    (ending,) = host.writes
    assert ending.settling == Assignment((2,))
    host.do(host.controller.on_reassign({T0: (1,)})[1])
    host.write(1)
    host.write(0)
    # 1 is wanted again: it keeps its log, and must get in sync again.
    host.run()
    assert T0 in host.brokers[1].logs
    host.catch_up(T0)
    host.run()
    assert host.assignment(T0) == Assignment((1,))
    assert host.leadership(T0).in_sync == (1,)


def test_all_partitions_of_a_topic_that_are_done_go_in_one_write():
    host = Host(1, 2).create("t", [1], [1], [1]).run()
    ids = [TopicPartition("t", index) for index in range(3)]
    _, effects = host.controller.on_reassign(dict.fromkeys(ids, (2,)))
    assert len(effects.write_topics) == 1
    assert not host.controller.on_reassign({T1: None})[1].write_topics
    host.do(effects)
    host.run()
    assert [host.assignment(id_).is_moving for id_ in ids] == [True, False, True]


def test_a_topic_of_the_same_name_with_another_id_is_another():
    host = led(1, 2).kill(1)
    effects = host.controller.on_topics([ReadTopic("t", b"another", 0, {0: Assignment((2,))})])
    assert view_of(host).leadership is None
    assert [write.leadership.leader for write in effects.write_states] == [2]


def test_topics_that_are_being_deleted_do_not_change():
    host = led(1, 2, 3).kill(1)
    host.delete("t")
    host.run()
    assert view_of(host).leader == 2
    host.kill(2)
    assert not host.writes
    host.controller.on_topics([ReadTopic("t", *host.topics["t"][:1], 9, {1: Assignment((3,))})])
    assert host.controller.view.partition(T1) is None


def test_elections_are_counted():
    host = led(1, 2)
    assert host.controller.progress.leader_elections == 1
    host.change_in_sync(T0, (1,))
    host.is_cautious = False
    host.kill(1).run()
    assert host.controller.progress.leader_elections == 1
    host.do(host.controller.on_elect(ElectionType.UNCLEAN, [T0])[1])
    host.run()
    assert host.controller.progress.leader_elections == 2
    assert host.controller.progress.unclean_leader_elections == 1


def test_a_store_that_was_put_back_ends_the_term_instead_of_refusing_for_ever():
    host = led(1, 2, 3)
    old_state, old_topic = host.read_state(T0), host.read_topic("t")
    host.change_in_sync(T0, (1, 2))
    host.kill(1)
    with pytest.raises(StoreGoneBack, match="t-0: 0 after version 1"):
        host.controller.on_states({T0: old_state})
    host = led(1, 2, 3)
    host.do(host.controller.on_reassign({T0: (2, 3)})[1])
    host.run()
    host.do(host.controller.on_reassign({T0: (1, 2)})[1])
    with pytest.raises(StoreGoneBack, match="t: 0 after version"):
        host.controller.on_topics([old_topic])
