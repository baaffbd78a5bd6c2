"""Events: what each leads to, where the stories in tests/scenarios/controller do not show it."""

from __future__ import annotations

from dataclasses import replace

from controller_kit import Host

from barnabas.core.controller.controller import Controller
from barnabas.core.controller.effects import EPOCH_DURING_DELETE, Ask, Effects, Stop, Tell
from barnabas.core.controller.settings import ControllerSettings
from barnabas.core.controller.view import ElectionType, LogEnd
from barnabas.model.cluster import LiveBroker
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import TopicPartition

E = ErrorCode
T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


def test_a_new_controller_tells_everybody_everything():
    host = Host(1, 2, 3).create("t", [1, 2], [2, 3]).run()
    host.take_office()
    assert sorted((b, order.partition) for b, lane in host.lanes.items() for order in lane) == [
        (1, T0),
        (2, T0),
        (2, T1),
        (3, T1),
    ]
    assert not host.writes


def test_who_restarted_while_there_was_no_controller_is_passed_over():
    host = Host(1, 2, 3).create("t", [1, 2, 3], [2, 1, 3], [3]).run()
    host.start_unseen(1).take_office()
    host.run()
    assert host.state(T0) == "2 leads, epoch 1, in sync 2,3"
    assert host.state(T1) == "2 leads, epoch 1, in sync 2,3"
    assert host.state(TopicPartition("t", 2)) == "3 leads, epoch 0, in sync 3"
    host.take_office()
    assert not host.writes


def test_a_leader_that_restarted_while_there_was_no_controller_leads_in_a_new_epoch():
    # It may have lost what was not on disk: records of its old epoch would stand twice at the same offsets.
    host = Host(1, 2).create("t", [1]).create("u", [1, 2]).run()
    host.start_unseen(1, 2).take_office()
    assert not host.lanes
    host.run()
    assert host.state(T0) == "1 leads, epoch 1, in sync 1"
    assert host.state(U0) == "1 leads, epoch 1, in sync 1,2"
    assert host.brokers[1].heard[T0].leadership == host.leadership(T0)


def test_an_in_sync_set_that_was_written_before_a_member_restarted_does_not_count_it():
    host = Host(1, 2).create("t", [1, 2]).run()
    host.change_in_sync(T0, (1,))
    stored, version = host.states[T0]
    host.states[T0] = replace(stored, in_sync=(1, 2)), version + 1
    host.written[T0] = host.zxid
    host.start(2)  # the notice of what the leader wrote has not come yet
    host.run()
    host.do(host.controller.on_states({T0: host.read_state(T0)}))
    host.run()
    assert host.state(T0) == "1 leads, epoch 1, in sync 1"


def test_a_broker_that_comes_is_told_everything_and_the_others_that_it_is_there():
    host = Host(1).create("t", [1, 2], [1]).run()
    effects = host.controller.on_brokers([*host.live.values(), LiveBroker(2, 9)])
    assert effects.announce_brokers
    assert effects.announce_all_to == [2]
    assert effects.tell == [Tell(2, T0, is_new=False)]
    assert list(effects.announce) == [T0]


def test_a_broker_that_changes_its_address_is_announced():
    host = Host(1).create("t", [1]).run()
    effects = host.controller.on_brokers([LiveBroker(1, host.live[1].epoch, "another rack")])
    assert effects == Effects(announce_brokers=True)


def test_a_broker_that_went_and_came_while_its_death_was_written_is_still_passed_over():
    host = Host(1, 2).create("t", [1, 2]).run().kill(2).start(2)
    host.write(fate="lost")
    host.run()
    assert host.state(T0) == "1 leads, epoch 1, in sync 1"


def test_a_restart_ends_a_shutdown_and_a_failed_directory():
    host = Host(1, 2).create("t", [1, 2]).run()
    host.do(host.controller.on_shutdown_request(1, host.live[1].epoch)[1])
    host.do(host.controller.on_replica_errors(1, [T0]))
    host.run()
    host.start(1).run()
    host.catch_up(T0)
    host.run()
    assert host.state(T0) == "2 leads, epoch 1, in sync 2,1"


def test_a_restart_ends_a_failed_directory_also_of_a_partition_that_moves_there_later():
    host = Host(1, 2).create("t", [1]).run()
    host.do(host.controller.on_replica_errors(2, [T0]))  # a late answer: it had been moved away
    host.start(2).run()
    host.do(host.controller.on_reassign({T0: (2,)})[1])
    host.run()
    host.catch_up(T0)
    host.run()
    assert host.leadership(T0).in_sync == (2,)


def test_partitions_are_added():
    host = Host(1, 2).create("t", [1, 2]).run()
    topic_id, version, partitions = host.topics["t"]
    host.topics["t"] = (topic_id, version + 1, {**partitions, 1: partitions[0]})
    host.notify_topic("t").run()
    assert host.state(T1) == "1 leads, epoch 0, in sync 1,2"
    assert host.leadership(T0).leader_epoch == 0


def test_states_of_unknown_partitions_are_ignored():
    host = Host(1).create("t", [1]).run()
    assert host.controller.on_states({U0: host.read_state(T0)}) == Effects()
    assert host.controller.on_replica_errors(1, [U0], [U0]) == Effects()
    assert host.controller.on_stopped([Stop(1, U0, 0, delete=True)]) == Effects()


def test_settings_that_allow_unclean_elections_hold_one_where_nobody_leads():
    host = Host(1, 2).create("t", [1, 2]).create("u", [1, 2]).run().kill(2).run()
    host.kill(1).start(2).run()
    host.is_cautious = False
    host.do(host.controller.on_topic_settings("u", True))
    host.run()
    assert host.leadership(U0).leader == 2
    assert host.leadership(T0).leader == -1
    host.do(host.controller.on_topic_settings("u", None))
    host.do(host.controller.on_topic_settings("nobody knows it", True))
    host.do(host.controller.on_settings(ControllerSettings(unclean_leader_election_enable=True)))
    host.run()
    assert host.leadership(T0).leader == 2


def test_a_lost_directory_is_asked_for_and_announced():
    host = Host(1, 2).create("t", [1, 2], [2, 1]).run()
    effects = host.controller.on_log_dir_failure(1)
    assert effects.tell == [Tell(1, T0, is_new=False), Tell(1, T1, is_new=False)]
    effects = host.controller.on_replica_errors(1, [T1], [T0])
    assert list(effects.announce) == [T1]
    assert host.controller.on_replica_errors(1, [T1]) == Effects()
    host.do(effects)
    host.run()
    assert host.leadership(T1).in_sync == (2,)
    assert list(host.controller.on_replica_errors(1, [], [T1]).announce) == [T1]


def test_names_that_are_not_there_are_not_deleted():
    host = Host(1).create("t", [1]).run()
    assert host.controller.on_topic_deletion(["u"]) == Effects(drop_deletions=["u"])
    host.controller.on_settings(ControllerSettings(delete_topic_enable=False))
    assert host.controller.on_topic_deletion(["t"]) == Effects(drop_deletions=["t"])


def test_a_deletion_is_begun_once():
    host = Host(1, 2).create("t", [1, 2]).run()
    effects = host.controller.on_topic_deletion(["t"])
    orders = [Stop(broker, T0, EPOCH_DURING_DELETE, delete=True) for broker in (1, 2)]
    assert effects.stop == orders
    assert list(effects.announce) == [T0]
    assert host.controller.on_topic_deletion(["t"]) == Effects()
    assert host.controller.on_stopped(orders[:1]) == Effects()
    assert host.controller.on_stopped(orders[1:]).delete_topics == ["t"]
    assert host.controller.on_stopped(orders).delete_topics == []


def test_a_log_that_cannot_be_deleted_is_tried_again_when_its_broker_comes_back():
    host = Host(1, 2).create("t", [1, 2]).run()
    host.delete("t")
    (order,) = host.lanes.pop(2)
    effects = host.controller.on_stop_errors([order])
    assert list(effects.announce) == [T0]
    host.do(effects)
    host.run()
    assert "t" in host.topics
    host.start(2).run()
    assert "t" not in host.topics


def test_a_broker_that_restarts_after_it_has_deleted_a_log_is_told_again():
    """The store still has the topic when it starts: it made the log anew and hosted it for good."""
    host = Host(1, 2, 3).create("t", [2, 3]).run().kill(2).run()
    host.delete("t").run()
    assert "t" in host.topics, "broker 2 has its log"
    host.kill(3).start(3)
    assert Stop(3, T0, EPOCH_DURING_DELETE, delete=True) in host.lanes[3]
    host.start(2).run()
    assert "t" not in host.topics


def test_answers_to_orders_of_before_do_not_count():
    host = Host(1, 2).create("t", [1]).run()
    host.do(host.controller.on_reassign({T0: (2,)})[1])
    host.run()
    host.catch_up(T0)
    host.write()
    old = [Stop(1, T0, 0, delete=True)]
    assert not host.controller.on_stopped(old).write_topics
    assert host.controller.on_stop_errors(old) == Effects()
    assert host.controller.on_stopped([Stop(1, T0, 2, delete=True)]).write_topics


def test_electing_everywhere_leaves_out_what_is_well():
    host = Host(1, 2).create("t", [1, 2], [2, 1]).run().kill(1).run()
    verdicts, effects = host.controller.on_elect(ElectionType.PREFERRED, None)
    assert {id_: v.code for id_, v in verdicts.items()} == {T0: E.PREFERRED_LEADER_NOT_AVAILABLE}
    assert effects == Effects()
    verdicts, _ = host.controller.on_elect(ElectionType.PREFERRED, [T1, U0])
    assert verdicts[T1].code is E.ELECTION_NOT_NEEDED
    assert verdicts[U0].code is E.UNKNOWN_TOPIC_OR_PARTITION


def test_only_a_broker_that_is_there_can_shut_down():
    host = Host(1)
    assert host.controller.on_shutdown_request(2, 1)[0] is E.BROKER_NOT_AVAILABLE
    stale = host.live[1].epoch - 1
    assert host.controller.on_shutdown_request(1, stale)[0] is E.STALE_BROKER_EPOCH
    assert not host.controller.view.shutting_down


def test_who_shuts_down_stops_following_and_what_it_holds_alone_stays():
    host = Host(1, 2).create("t", [2, 1], [1]).create("u", [1, 2]).run()
    code, effects = host.controller.on_shutdown_request(1, host.live[1].epoch)
    assert code is E.NONE
    assert effects.stop == [Stop(1, T0, 0, delete=False)]
    assert [write.partition for write in effects.write_states] == [T0, U0]


def test_a_new_controller_finds_partitions_that_nobody_led_yet():
    host = Host(1).create("t", [1])
    host.take_office()
    host.run()
    assert host.state(T0) == "1 leads, epoch 0, in sync 1"


def test_a_wish_that_cannot_be_does_not_hold_up_another():
    host = Host(1, 2).create("t", [1], [1]).run()
    verdicts, effects = host.controller.on_reassign({T0: (2,), T1: (7,), U0: (1,)})
    assert [verdicts[id_].code for id_ in (T0, T1, U0)] == [
        E.NONE,
        E.INVALID_REPLICA_ASSIGNMENT,
        E.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    host.do(effects)
    host.run()
    assert host.assignment(T0).is_moving
    assert not host.assignment(T1).is_moving


def test_a_topic_write_for_another_topic_of_that_name_is_ignored():
    host = Host(1, 2).create("t", [1]).run()
    (write,) = host.controller.on_reassign({T0: (2,)})[1].write_topics
    host.controller.on_topics_gone(["t"])
    assert host.controller.on_topic_written(write, 1) == Effects()


def test_effects_come_one_behind_the_other():
    first, second = Effects(delete_topics=["a"], announce={T0: None}), Effects()
    second.extend(first)
    second.extend(Effects(delete_topics=["b"], announce_brokers=True))
    assert second == Effects(delete_topics=["a", "b"], announce={T0: None}, announce_brokers=True)


# A store that was put back


def in_doubt():
    """The store says that 1 leads in epoch 0; 2 knows better."""
    host = Host(1, 2, 3).create("t", [1, 2, 3]).run()
    effects = host.controller.on_roles_refused([T0])
    assert effects.ask == [Ask(broker, T0) for broker in (1, 2, 3)]
    assert host.controller.on_roles_refused([T0]) == Effects(), "they are being asked"
    return host


def test_who_refuses_a_role_makes_the_controller_look_into_all_logs():
    host = in_doubt()
    host.do(host.controller.on_log_ends(2, {T0: LogEnd(4, True, 9)}))
    host.do(host.controller.on_log_ends(1, {T0: LogEnd(0, False, 9)}))
    assert host.run().state(T0) == "1 leads, epoch 0, in sync 1,2,3"
    host.do(host.controller.on_log_ends(3, {T0: LogEnd(4, False, 8)}))
    assert host.run().state(T0) == "2 leads, epoch 5, in sync 2"
    assert host.controller.on_log_ends(1, {T0: LogEnd(9, False, 9)}) == Effects(), "it is decided"


def test_who_comes_back_in_doubt_is_asked_again_and_not_told_to_lead():
    host = in_doubt()
    for broker in (1, 2, 3):
        if broker != 1:
            host.do(host.controller.on_log_ends(broker, {T0: LogEnd(4, False, 8)}))
    ghost = [LiveBroker(1, 99), *(each for each in host.live.values() if each.id != 1)]
    effects = host.controller.on_brokers(ghost)
    assert effects.ask == [Ask(1, T0)]
    assert not effects.tell
    effects = host.controller.on_log_ends(1, {T0: LogEnd(3, False, 20)})
    assert [write.leadership.leader for write in effects.write_states] == [2]


def test_what_a_new_controller_doubts_is_asked_before_anybody_is_told_to_lead():
    host = Host(1, 2).create("t", [1, 2]).run()
    snapshot = host.snapshot()
    effects = Controller(ControllerSettings(), 7).load(replace(snapshot, doubted=[T0, U0]))
    assert effects.ask == [Ask(1, T0), Ask(2, T0)]
    assert effects.tell == [Tell(2, T0, is_new=False)]
