"""A consumer group as ConsumerGroupDescribe shows it."""

import pytest
from consumer_kit import Fleet, Topics, topic_id_of

from barnabas.core.group.consumer.requests import DescribedTopicPartitions
from barnabas.model.errors import ErrorCode

T = topic_id_of("t")


@pytest.fixture
def fleet():
    return Fleet(Topics(t=4, u=2))


def ask(fleet, request):
    return fleet.machine.answer("consumer_heartbeat", request)


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
