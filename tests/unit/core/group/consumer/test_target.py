"""The target assignment: who is put before the assignor, and what is written of its answer."""

from consumer_kit import Topics, topic_id_of

from barnabas.core.group import records as r
from barnabas.core.group.consumer.group import ConsumerGroup, Member
from barnabas.core.group.consumer.target import Reading, plan_target

T, U = topic_id_of("t"), topic_id_of("u")


def group_with(*members):
    group = ConsumerGroup("g")
    for member in members:
        group.replay(member.subscription_record("g"))
    return group


def reader(member_id, *names, **fields):
    return Member(member_id, subscribed_topic_names=names, **fields)


def test_only_targets_that_changed_are_written_and_the_epoch_always():
    group = group_with(reader("a", "t"), reader("b", "u"))
    group.replay(r.TargetAssignment("g", "a", {T: (0, 1)}))
    plan = plan_target(group, reader("b", "u"), 7, Topics(t=2, u=1), "uniform", 99)
    assert plan.records == [
        r.TargetAssignment("g", "b", {U: (0,)}),
        r.TargetAssignmentEpoch("g", 7, 99),
    ]
    assert (plan.epoch, plan.of_member) == (7, {U: (0,)})


def test_a_member_without_partitions_has_an_empty_target():
    plan = plan_target(ConsumerGroup("g"), reader("a", "nowhere"), 2, Topics(), "range", 1)
    assert plan.records == [r.TargetAssignment("g", "a", {}), r.TargetAssignmentEpoch("g", 2, 1)]


def test_who_takes_an_instance_id_over_takes_its_target_over():
    old, other = reader("a1", "t", instance_id="i"), reader("b", "t")
    group = group_with(other, old)
    group.replay(r.TargetAssignment("g", "a1", {T: (2, 3)}))
    group.replay(r.TargetAssignment("g", "b", {T: (0, 1)}))
    plan = plan_target(group, reader("a2", "t", instance_id="i"), 5, Topics(t=4), "uniform", 1)
    assert plan.of_member == {T: (2, 3)}
    assert [one.member_id for one in plan.records[:-1]] == ["a2"]


def test_members_with_one_subscription_share_one_answer():
    resolved = {"u.*": r.ResolvedRegularExpression("g", "u.*", ("u", "u2"), 1, 1)}
    reading = Reading(Topics(t=1, u=1), resolved)
    first = reading.topic_ids(reader("a", "t", subscribed_topic_regex="u.*"))
    assert first == (T, U)
    assert reading.topic_ids(reader("b", "t", subscribed_topic_regex="u.*")) is first
    assert reading.topic_ids(reader("c", subscribed_topic_regex="u.*")) == (U,)
    assert reading.topic_ids(reader("d", subscribed_topic_regex="x")) == ()
    assert set(reading.topics) == {T, U}
