"""Heartbeats that no group could make sense of."""

import pytest
from consumer_kit import Fleet, Topics, topic_id_of

from barnabas.core.group.consumer.requests import ConsumerHeartbeatRequest
from barnabas.model.errors import ErrorCode

T, U = topic_id_of("t"), topic_id_of("u")


@pytest.fixture
def fleet():
    return Fleet(Topics(t=4, u=2))


def ask(fleet, request):
    return fleet.machine.answer("consumer_heartbeat", request)


def first(**changes):
    fields = {
        "rebalance_timeout_ms": 1000,
        "subscribed_topic_names": ["t"],
        "topic_partitions": {},
    }
    return ConsumerHeartbeatRequest("g", "anna", 0, **{**fields, **changes})


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (ConsumerHeartbeatRequest("g", " ", 0), "MemberId can't be empty."),
        (
            ConsumerHeartbeatRequest("g", "", 3, requires_member_id=False),
            "MemberId can't be empty.",
        ),
        (
            ConsumerHeartbeatRequest("g", "", -1, requires_member_id=False),
            "MemberId can't be empty.",
        ),
        (ConsumerHeartbeatRequest("", "anna", 0), "GroupId can't be empty."),
        (first(instance_id=""), "InstanceId can't be empty."),
        (first(rack_id=" "), "RackId can't be empty."),
        (first(rebalance_timeout_ms=-1), "RebalanceTimeoutMs must be provided in first request."),
        (first(topic_partitions=None), "TopicPartitions must be empty when (re-)joining."),
        (first(topic_partitions={T: (0,)}), "TopicPartitions must be empty when (re-)joining."),
        (
            first(subscribed_topic_names=None),
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
        ),
        (ConsumerHeartbeatRequest("g", "anna", -2), "InstanceId can't be null."),
        (ConsumerHeartbeatRequest("g", "anna", -3), "MemberEpoch is invalid."),
    ],
)
def test_a_request_that_makes_no_sense_is_invalid(fleet, request_, message):
    reply = ask(fleet, request_)
    assert (reply.error_code, reply.error_message) == (ErrorCode.INVALID_REQUEST, message)
    assert fleet.machine.log == []


def test_an_assignor_that_is_not_there_is_not_supported(fleet):
    reply = ask(fleet, first(server_assignor="mine"))
    assert reply.error_code is ErrorCode.UNSUPPORTED_ASSIGNOR
    assert "Supported assignors: uniform, range." in reply.error_message
