"""What a change of one member, of topics or of expressions does to a consumer group."""

import pytest
from consumer_kit import SETTINGS, Client, Fleet, Topics, topic_id_of

from barnabas.core.group import records as r
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


@pytest.mark.parametrize(
    "reads", [{"topics": None, "regex": "t"}, {"topics": ("t",)}], ids=["expression", "name"]
)
def test_who_goes_to_an_expression_that_matches_nothing_leaves_its_topics_to_others(fleet, reads):
    anna = fleet.join("anna", **reads)
    bob = fleet.join("bob", topics=None, regex="t")
    fleet.settle()
    assert len(bob.owned[T]) == 2
    fleet.send(bob, bob.beat(subscribed_topic_regex="nothing"))
    fleet.machine.advance(10_001)
    fleet.settle()
    assert fleet.group.resolved["nothing"].topics == ()
    assert (anna.owned, bob.owned) == ({T: (0, 1, 2, 3)}, {})
    assert fleet.group.state_name == "Stable"


def test_who_comes_with_an_expression_that_matches_nothing_moves_nobody(fleet):
    anna = fleet.join("anna")
    fleet.join("bob", topics=None, regex="nothing")
    fleet.settle()
    assert fleet.group.resolved["nothing"].topics == ()
    assert (fleet.group.group_epoch, anna.epoch) == (2, 2)


def test_new_topics_are_looked_for_again_when_what_was_found_could_not_be_written(fleet):
    anna = fleet.join("anna", topics=None, regex="t.*")
    fleet.settle()
    fleet.machine.advance(10_001)
    fleet.topics.make("tt", 1)
    changed(fleet, "tt")
    fleet.beat(anna)
    fleet.machine.fail_appends_with = ErrorCode.NOT_ENOUGH_REPLICAS
    fleet.machine.advance(0)
    fleet.machine.fail_appends_with = None
    fleet.beat(anna)
    fleet.settle()
    assert topic_id_of("tt") in anna.owned


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


# A wall clock that is set back


def set_clock_back(fleet):
    fleet.machine.wall_ms -= 3_600_000


def test_a_clock_set_back_does_not_keep_a_group_from_its_next_target():
    fleet = Fleet(Topics(t=2), GroupSettings())
    anna = fleet.join("anna")
    set_clock_back(fleet)
    bob = fleet.join("bob")
    fleet.settle()
    assert sorted(map(len, (anna.owned[T], bob.owned[T]))) == [1, 1]


def test_a_clock_set_back_does_not_keep_expressions_from_being_tried(fleet):
    anna = fleet.join("anna", topics=None, regex="t.*")
    fleet.settle()
    set_clock_back(fleet)
    fleet.topics.make("t2", 1)
    changed(fleet, "t2")
    fleet.beat(anna)
    fleet.settle()
    assert anna.owned[topic_id_of("t2")] == (0,)
