"""Consumer groups as a machine: time, topics, expressions, the log, and what happens when it cannot be written."""

import pytest
from consumer_kit import SETTINGS, Client, Fleet, Topics, topic_id_of
from group_kit import Machine
from guest_kit import Guest, mixed

from barnabas.core.group import records as r
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


# Members of both protocols


def test_requests_of_the_classic_protocol_are_taken_while_a_consumer_group_has_members():
    fleet, bob = mixed()
    assert fleet.both.consumer.serves("g")
    assert bob.beat() is ErrorCode.NONE
    assert bob.beat(generation_id=99) is ErrorCode.ILLEGAL_GENERATION
    assert bob.leave() is ErrorCode.NONE
    assert list(fleet.group.members) == ["anna"]
    ask(fleet, fleet.clients["anna"].beat(member_epoch=-1))
    assert not fleet.both.consumer.serves("g")


@pytest.mark.parametrize("joins_first", [False, True])
def test_a_group_that_became_classic_is_handed_over(joins_first):
    fleet, bob = mixed()
    ask(fleet, fleet.clients["anna"].beat(member_epoch=-1))
    if joins_first:
        fleet.machine.ask("join", bob.join_request())
    fleet.machine.advance(0)
    assert fleet.group.members[bob.member_id].deadline_ms > fleet.machine.now_ms


def test_a_group_that_did_not_become_classic_is_not_handed_over():
    fleet, bob = mixed()
    fleet.machine.fail_appends_with = ErrorCode.NOT_ENOUGH_REPLICAS
    ask(fleet, fleet.clients["anna"].beat(member_epoch=-1))
    fleet.machine.advance(0)
    fleet.machine.fail_appends_with = None
    assert fleet.both.consumer.describe("g").group_state == "Stable"
    assert bob.beat() is ErrorCode.NONE


def test_what_is_no_consumer_group_is_not_found(fleet):
    assert fleet.both.consumer.describe("g").error_message == "Group g not found."
    fleet.both.classic.make_simple("g")
    assert fleet.both.consumer.describe("g").error_message == "Group g is not a consumer group."
    fleet.both.consumer.on_topics_changed(["t"])


def test_topics_and_expressions_are_looked_at_again_when_topics_change(fleet):
    fleet.join("anna", topics=None, regex="t")
    ask(fleet, fleet.clients["anna"].beat(member_epoch=-1))
    fleet.machine.advance(0)
    assert fleet.group.resolved == {}, "nobody has the expression any more"
    fleet.join("bob")
    fleet.settle()
    fleet.topics.make("x", 1)
    fleet.both.consumer.on_topics_changed(["x"])
    assert fleet.group.regexes_are_stale
    assert not fleet.group.metadata_is_stale
    fleet.both.consumer.on_topics_changed(["t"])
    assert fleet.group.metadata_is_stale


def test_an_expression_and_a_removal_due_together_are_two_results(fleet):
    fleet.join("anna")
    fleet.machine.advance(SETTINGS.consumer_session_timeout_ms - 1)
    fleet.join("bob", topics=None, regex="t")
    fleet.machine.advance(1)
    assert list(fleet.group.members) == ["bob"]
    assert list(fleet.group.resolved) == ["t"]
    assert Guest(fleet, "carl").join().error_code is ErrorCode.NONE


def test_after_a_failure_a_member_still_has_to_give_up_in_time(fleet):
    anna = fleet.join("anna")
    bob = fleet.join("bob")
    ask(fleet, anna.beat())
    fleet.machine.fail_appends_with = ErrorCode.NOT_ENOUGH_REPLICAS
    ask(fleet, anna.beat(member_epoch=-1))
    fleet.machine.fail_appends_with = None
    for _ in range(3):
        fleet.machine.advance(20_000)
        ask(fleet, bob.beat())
        ask(fleet, anna.beat())
    assert list(fleet.group.members) == ["bob"]
