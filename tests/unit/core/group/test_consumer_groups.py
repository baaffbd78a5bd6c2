"""Consumer groups as a machine: time, topics, expressions, the log, and what happens when it cannot be written."""

import pytest
from consumer_kit import SETTINGS, Client, Fleet, Topics, topic_id_of
from group_kit import Machine

from barnabas.core.group import records as r
from barnabas.core.group.consumer_requests import DescribedTopicPartitions
from barnabas.core.group.settings import GroupSettings
from barnabas.model.errors import ErrorCode

T, U = topic_id_of("t"), topic_id_of("u")


@pytest.fixture
def fleet():
    return Fleet(Topics(t=4, u=2))


def ask(fleet, request):
    return fleet.machine.answer("consumer_heartbeat", request)


def changed(fleet, *names):
    fleet.both.consumer.on_topics_changed(names)


# Time


def test_a_silent_member_is_removed_when_its_session_ends(fleet):
    fleet.join("anna")
    fleet.machine.advance(SETTINGS.consumer_session_timeout_ms - 1)
    assert "anna" in fleet.group.members
    fleet.machine.advance(1)
    assert fleet.group.is_empty
    assert fleet.group.group_epoch == 3


def test_heartbeats_keep_a_session(fleet):
    anna = fleet.join("anna")
    for _ in range(10):
        fleet.machine.advance(40_000)
        assert fleet.beat(anna).error_code is ErrorCode.NONE


def test_members_that_fall_silent_together_go_in_one_result(fleet):
    for name in ("anna", "bob", "carl"):
        fleet.join(name)
    before = fleet.group.group_epoch
    fleet.machine.advance(SETTINGS.consumer_session_timeout_ms)
    assert fleet.group.is_empty
    assert fleet.group.group_epoch == before + 1


def test_a_member_that_does_not_give_up_in_time_is_removed(fleet):
    anna = fleet.join("anna")
    bob = fleet.join("bob")
    ask(fleet, anna.beat())  # told to give up; never says that it did
    for _ in range(3):
        fleet.machine.advance(20_000)
        fleet.beat(bob)
        ask(fleet, anna.beat())
    assert list(fleet.group.members) == ["bob"]
    assert ask(fleet, anna.beat()).error_code is ErrorCode.UNKNOWN_MEMBER_ID
    fleet.beat(bob)
    assert bob.owned == {T: (0, 1, 2, 3)}


def test_a_member_that_gave_up_in_time_stays(fleet):
    anna = fleet.join("anna")
    bob = fleet.join("bob")
    ask(fleet, anna.beat())
    ask(fleet, anna.beat(topic_partitions={T: (0, 1)}))
    anna.epoch = 3
    for _ in range(5):
        fleet.machine.advance(20_000)
        ask(fleet, anna.beat())
        ask(fleet, bob.beat())
    assert len(fleet.group.members) == 2


def test_an_old_rebalance_deadline_does_not_count_against_a_later_epoch(fleet):
    anna = fleet.join("anna")
    fleet.join("bob")
    ask(fleet, anna.beat())
    subject = fleet.both.consumer._ctx.revoking_epochs
    assert subject == {("g", "anna"): 2}
    subject["g", "anna"] = 1
    fleet.machine.advance(44_000)
    ask(fleet, anna.beat())
    ask(fleet, fleet.clients["bob"].beat())
    fleet.machine.advance(16_000)
    assert "anna" in fleet.group.members


def test_deadlines_of_a_group_that_is_gone_mean_nothing(fleet):
    fleet.join("anna")
    for record in fleet.group.removal_records():
        fleet.both.replay(record)
    assert "g" not in fleet.both.groups
    fleet.machine.advance(100_000)
    assert fleet.machine.machine.next_deadline_ms() is None


# Topics


def test_a_topic_that_grows_is_shared_out_again(fleet):
    anna = fleet.join("anna")
    fleet.topics.grow("t", 6)
    assert fleet.beat(anna).assignment is None, "nobody told the group yet"
    changed(fleet, "t")
    assert fleet.beat(anna).assignment == {T: (0, 1, 2, 3, 4, 5)}
    assert anna.epoch == 3


def test_a_topic_that_comes_is_shared_out(fleet):
    anna = fleet.join("anna", topics=("later",))
    fleet.topics.make("later", 1)
    changed(fleet, "later")
    assert fleet.beat(anna).assignment == {topic_id_of("later"): (0,)}


def test_a_topic_that_goes_is_given_up(fleet):
    anna = fleet.join("anna", topics=("t", "u"))
    fleet.topics.delete("u")
    changed(fleet, "u")
    assert fleet.beat(anna).assignment == {T: (0, 1, 2, 3)}
    fleet.settle()
    assert fleet.group.state_name == "Stable"
    assert fleet.group.owners[U] == {}


def test_a_topic_made_anew_is_another_topic(fleet):
    anna = fleet.join("anna")
    fleet.topics.delete("t")
    fleet.topics.make("t", 2)
    changed(fleet, "t")
    fleet.settle()
    assert anna.owned == {topic_id_of("t", 2): (0, 1)}


def test_topics_that_nobody_reads_change_nothing(fleet):
    anna = fleet.join("anna")
    fleet.settle()
    fleet.both.classic.make_simple("c")
    fleet.topics.make("other", 3)
    changed(fleet, "other")
    before = len(fleet.machine.log)
    fleet.beat(anna)
    assert len(fleet.machine.log) == before


# Regular expressions


def test_an_expression_is_resolved_after_the_join(fleet):
    anna = fleet.client("anna", topics=None, regex="[tu]")
    reply = fleet.send(anna, anna.join())
    assert (reply.member_epoch, reply.assignment) == (1, {})
    fleet.machine.advance(0)
    assert fleet.group.resolved["[tu]"].topics == ("t", "u")
    assert fleet.beat(anna).assignment == {T: (0, 1, 2, 3), U: (0, 1)}
    assert anna.epoch == 2


@pytest.mark.parametrize("regex", ["(", r"(t)\1"])
def test_a_bad_expression_is_refused_and_nothing_changes(fleet, regex):
    reply = ask(fleet, Client("anna", topics=None, regex=regex).join())
    assert reply.error_code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert "g" not in fleet.both.groups
    assert fleet.machine.log == []
    assert fleet.both.next_deadline_ms() is None


def test_names_and_an_expression_add_up(fleet):
    anna = fleet.join("anna", topics=("t",), regex="u.*")
    fleet.machine.advance(0)
    fleet.settle()
    assert sorted(anna.owned) == [T, U]


def test_an_expression_that_is_resolved_already_counts_at_once(fleet):
    anna = fleet.join("anna", topics=None, regex="t")
    fleet.machine.advance(0)
    bob = fleet.client("bob", topics=None, regex="t")
    assert fleet.send(bob, bob.join()).member_epoch == 3
    fleet.settle()
    assert sorted(map(len, (anna.owned[T], bob.owned[T]))) == [2, 2]


def test_an_expression_that_waits_to_be_resolved_does_not_count_yet(fleet):
    fleet.join("anna", topics=None, regex="t")
    bob = fleet.client("bob", topics=None, regex="t")
    assert fleet.send(bob, bob.join()).member_epoch == 1
    fleet.settle()
    assert len(fleet.owners()) == 4


def test_new_topics_are_found_but_not_at_every_heartbeat(fleet):
    anna = fleet.join("anna", topics=None, regex="t.*")
    fleet.settle()
    fleet.topics.make("t2", 1)
    changed(fleet, "t2")
    fleet.machine.advance(10_000)
    fleet.beat(anna)
    fleet.settle()
    assert topic_id_of("t2") not in anna.owned
    fleet.machine.advance(1)
    fleet.beat(anna)
    fleet.settle()
    assert anna.owned[topic_id_of("t2")] == (0,)


def test_expressions_are_tried_again_from_time_to_time(fleet):
    anna = fleet.join("anna", topics=None, regex="t")
    fleet.settle()
    tried_ms = fleet.group.resolved["t"].timestamp_ms
    for _ in range(20):
        fleet.machine.advance(31_000)
        fleet.beat(anna)
    fleet.settle()
    assert fleet.group.resolved["t"].timestamp_ms > tried_ms
    assert anna.epoch == 2, "nothing changed"


def test_a_topic_that_changed_is_noticed_when_expressions_are_tried(fleet):
    anna = fleet.join("anna", topics=None, regex="t")
    fleet.settle()
    epoch = fleet.group.group_epoch
    fleet.topics.grow("t", 5)
    changed(fleet, "t")
    fleet.settle()
    assert fleet.group.group_epoch == epoch + 1
    assert anna.owned == {T: (0, 1, 2, 3, 4)}


def test_who_changes_its_expression_takes_the_old_one_back(fleet):
    anna = fleet.join("anna", topics=None, regex="t")
    fleet.settle()
    fleet.machine.advance(10_001)
    fleet.send(anna, anna.beat(subscribed_topic_regex="u"))
    assert list(fleet.group.resolved) == []
    fleet.settle()
    assert anna.owned == {U: (0, 1)}
    assert list(fleet.group.resolved) == ["u"]


def test_an_expression_others_use_too_stays(fleet):
    anna = fleet.join("anna", topics=None, regex="t")
    bob = fleet.join("bob", topics=None, regex="t")
    fleet.settle()
    fleet.send(bob, bob.beat(subscribed_topic_regex="", subscribed_topic_names=["u"]))
    fleet.settle()
    assert list(fleet.group.resolved) == ["t"]
    assert (anna.owned, bob.owned) == ({T: (0, 1, 2, 3)}, {U: (0, 1)})


def test_who_gives_up_its_expression_gives_up_its_topics(fleet):
    anna = fleet.join("anna", topics=("u",), regex="t")
    fleet.settle()
    fleet.send(anna, anna.beat(subscribed_topic_regex=""))
    fleet.settle()
    assert anna.owned == {U: (0, 1)}
    assert fleet.group.resolved == {}


def test_the_last_with_an_expression_takes_it_along(fleet):
    anna = fleet.join("anna", topics=None, regex="t")
    fleet.join("bob")
    fleet.settle()
    ask(fleet, anna.beat(member_epoch=-1))
    assert fleet.group.resolved == {}
    assert not fleet.group.subscriptions.by_regex
    assert fleet.group.is_subscribed_to("t")


def test_one_who_leaves_before_its_expression_was_tried_leaves_nothing(fleet):
    anna = fleet.join("anna", topics=None, regex="t")
    ask(fleet, anna.beat(member_epoch=-1))
    fleet.machine.advance(0)
    assert fleet.group.resolved == {}


def test_topics_that_the_asker_may_not_see_stay_hidden(fleet):
    anna = fleet.join("anna", topics=None, regex=".*", may_describe=lambda name: name == "u")
    fleet.settle()
    assert anna.owned == {U: (0, 1)}


def test_expressions_wait_for_a_removal_at_the_same_moment(fleet):
    fleet.join("anna")
    fleet.machine.advance(SETTINGS.consumer_session_timeout_ms - 1)
    fleet.join("bob", topics=None, regex="t")
    both = fleet.both.consumer
    due = both.on_time(fleet.machine.now_ms + 1, fleet.machine.wall_ms + 1)
    kinds = [[type(record).__name__ for record in result.records] for result in due]
    assert len(kinds) == 1
    assert "ResolvedRegularExpression" not in kinds[0]
    for result in due:
        fleet.machine.apply(result)
    fleet.machine.advance(1)
    assert list(fleet.group.resolved) == ["t"]


# The log


def test_a_restart_finds_the_group_as_it_was(fleet):
    anna = fleet.join("anna", instance_id="one")
    bob = fleet.join("bob", topics=None, regex="t")
    fleet.settle()
    before = fleet.both.consumer.describe("g")
    fleet.restart()
    assert fleet.both.consumer.describe("g") == before
    assert fleet.beat(anna).error_code is ErrorCode.NONE
    assert fleet.beat(bob).assignment is None


def test_after_a_restart_members_have_a_whole_session(fleet):
    anna = fleet.join("anna")
    fleet.join("bob")
    ask(fleet, anna.beat())  # unrevoked when the coordinator moves
    fleet.machine.advance(40_000)
    fleet.restart()
    fleet.machine.advance(44_999)
    assert len(fleet.group.members) == 2
    fleet.machine.advance(1)
    assert fleet.group.is_empty


def test_after_a_restart_a_member_still_has_to_give_up_in_time(fleet):
    anna = fleet.join("anna")
    bob = fleet.join("bob")
    ask(fleet, anna.beat())
    fleet.restart()
    for _ in range(3):
        fleet.machine.advance(20_000)
        ask(fleet, anna.beat())
        ask(fleet, bob.beat())
    assert list(fleet.group.members) == ["bob"]


def test_unloading_leaves_nobody_waiting(fleet):
    fleet.join("anna")
    assert fleet.both.consumer.unload() == []


def test_tombstones_of_what_is_not_there_are_passed_over(fleet):
    fleet.both.classic.make_simple("c")
    for record in [
        r.ConsumerGroupEpochRemoved("c"),
        r.ConsumerGroupEpochRemoved("x"),
        r.CurrentAssignmentRemoved("x", "anna"),
    ]:
        fleet.both.replay(record)
    assert list(fleet.both.groups) == ["c"]


def test_records_of_other_kinds_are_not_its_own(fleet):
    fleet.both.consumer.replay(r.OffsetRemoved("g", "t", 0))
    assert fleet.both.groups == {}


def test_a_group_that_only_had_offsets_becomes_a_consumer_group_in_replay(fleet):
    fleet.both.classic.make_simple("g")
    fleet.both.replay(r.ConsumerGroupEpoch("g", 7, 0))
    assert (fleet.group.group_type, fleet.group.group_epoch) == ("consumer", 7)


# The log cannot be written


def test_a_join_that_cannot_be_written_did_not_happen(fleet):
    fleet.machine.fail_appends_with = ErrorCode.NOT_ENOUGH_REPLICAS
    anna = fleet.client("anna")
    reply = ask(fleet, anna.join())
    assert reply.error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert "g" not in fleet.both.groups
    fleet.machine.fail_appends_with = None
    assert fleet.send(anna, anna.join()).member_epoch == 2


def test_a_change_that_cannot_be_written_is_made_later(fleet):
    anna = fleet.join("anna", topics=None, regex="t")
    fleet.settle()
    fleet.topics.grow("t", 5)
    changed(fleet, "t")
    fleet.machine.fail_appends_with = ErrorCode.KAFKA_STORAGE_ERROR
    assert fleet.beat(anna).error_code is ErrorCode.NOT_COORDINATOR
    fleet.machine.fail_appends_with = None
    fleet.settle()
    assert anna.owned == {T: (0, 1, 2, 3, 4)}


def test_a_removal_that_cannot_be_written_is_tried_a_session_later(fleet):
    fleet.join("anna")
    fleet.machine.fail_appends_with = ErrorCode.NOT_ENOUGH_REPLICAS
    fleet.machine.advance(SETTINGS.consumer_session_timeout_ms)
    assert "anna" in fleet.group.members
    fleet.machine.fail_appends_with = None
    fleet.machine.advance(SETTINGS.consumer_session_timeout_ms)
    assert fleet.group.is_empty


def test_what_is_refused_stays_refused(fleet):
    fleet.join("anna")
    refused = Machine(fleet.both)
    reply = refused.answer("consumer_heartbeat", Client("bob").beat(member_epoch=4))
    assert reply.error_code is ErrorCode.UNKNOWN_MEMBER_ID


# Describe


def test_a_group_is_described_with_what_members_have_and_shall_have(fleet):
    anna = fleet.join("anna", instance_id="one", rack_id="north", client_id="c", client_host="/h")
    fleet.join("bob")
    ask(fleet, anna.beat(client_id="c", client_host="/h"))
    shown = fleet.both.consumer.describe("g")
    assert (shown.error_code, shown.group_state) == (ErrorCode.NONE, "Reconciling")
    assert (shown.group_epoch, shown.assignment_epoch, shown.assignor_name) == (3, 3, "uniform")
    first, second = shown.members
    assert (first.member_id, first.instance_id, first.rack_id) == ("anna", "one", "north")
    assert (first.member_epoch, first.client_id, first.client_host) == (2, "c", "/h")
    assert (first.subscribed_topic_names, first.subscribed_topic_regex) == (("t",), "")
    assert first.assignment == (DescribedTopicPartitions(T, "t", (0, 1, 2, 3)),)
    assert first.target_assignment == (DescribedTopicPartitions(T, "t", (0, 1)),)
    assert (second.assignment, second.member_type) == ((), 1)


def test_topics_that_are_gone_are_not_described(fleet):
    fleet.join("anna")
    fleet.topics.delete("t")
    assert fleet.both.consumer.describe("g").members[0].assignment == ()


def test_what_is_no_consumer_group_is_not_found(fleet):
    shown = fleet.both.consumer.describe("g")
    assert shown.error_code is ErrorCode.GROUP_ID_NOT_FOUND
    assert shown.error_message == "Group g not found."
    fleet.both.classic.make_simple("g")
    assert fleet.both.consumer.describe("g").error_message == "Group g is not a consumer group."


def test_a_record_of_an_older_kafka_is_taken_back():
    fleet = Fleet(Topics(t=1), GroupSettings())
    fleet.both.replay(r.ConsumerGroupPartitionMetadata("g"))
    assert fleet.group.has_partition_metadata_record
    fleet.join("anna")
    assert not fleet.group.has_partition_metadata_record


def test_a_member_between_two_expressions_reads_nothing_of_either(fleet):
    anna = fleet.join("anna", topics=None, regex="t")
    fleet.settle()
    reply = fleet.send(anna, anna.beat(subscribed_topic_regex="u"))
    assert reply.assignment == {}
    fleet.beat(anna)
    assert fleet.group.resolved == {}, "tried again ten seconds after the last time"


def test_a_deleted_topic_is_not_kept_by_a_member_that_changes_its_subscription(fleet):
    anna = fleet.join("anna", topics=("t", "u"))
    fleet.topics.delete("u")
    changed(fleet, "u")
    reply = fleet.send(anna, anna.beat(subscribed_topic_names=["t"]))
    assert reply.assignment == {T: (0, 1, 2, 3)}


def test_a_topic_that_is_gone_is_given_up_before_the_next_target():
    fleet = Fleet(Topics(t=1, u=1, v=1), GroupSettings())
    anna = fleet.join("anna", topics=("t", "u"))
    fleet.topics.delete("u")
    changed(fleet, "u")
    reply = ask(fleet, anna.beat(subscribed_topic_names=["t", "u", "v"]))
    assert fleet.group.assignment_epoch == 2, "a second has not passed"
    assert reply.assignment == {T: (0,)}


def test_expressions_that_are_fresh_are_not_tried_for_a_full_heartbeat(fleet):
    anna = fleet.join("anna", topics=None, regex="t")
    fleet.settle()
    fleet.machine.advance(20_000)
    before = len(fleet.machine.log)
    assert ask(fleet, anna.full()).assignment == {T: (0, 1, 2, 3)}
    fleet.machine.advance(0)
    assert len(fleet.machine.log) == before
