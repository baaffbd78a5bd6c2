"""What a client knows of its cluster, and how it finds out again."""

import pytest
from talk_kit import SEED, World

from barnabas.client import topics
from barnabas.client.cluster import GROUP, TRANSACTION
from barnabas.client.errors import AuthenticationFailed, Refused, UnknownTopic, Unreachable
from barnabas.client.retry import UNKNOWN_TOPIC_PATIENCE_MS
from barnabas.model.acl import Operation
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import TopicPartition
from barnabas.wire.messages.describe_configs import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from barnabas.wire.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from barnabas.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseTopic,
)

PLACE = TopicPartition("t", 0)


def test_leaders_are_asked_for_once():
    world = World({"t": [2, 1]})
    world.run(world.cluster.locate([PLACE, TopicPartition("t", 1)]))
    assert world.cluster.leader_address(PLACE) == ("broker-2", 9092)
    assert world.cluster.leader_of(TopicPartition("t", 1)).broker_id == 1
    world.run(world.cluster.locate([PLACE]))
    assert world.names() == ["Metadata"]
    world.topics["t"] = [1, 1]
    world.cluster.forget_leader(PLACE)
    world.run(world.cluster.locate([PLACE]))
    assert world.cluster.leader_of(PLACE).broker_id == 1


def test_never_creates_topics():
    world = World()
    with pytest.raises(UnknownTopic, match="there is no topic 't'"):
        world.run(world.cluster.locate([PLACE]))
    assert not world.requests("Metadata")[0].allow_auto_topic_creation


@pytest.mark.parametrize(
    ("place", "kind", "words"),
    [
        (TopicPartition("t", 5), UnknownTopic, "there is no partition 5 of 't'"),
        (TopicPartition("t", 1), Refused, "leader"),
    ],
)
def test_partitions_without_a_leader(place, kind, words):
    world = World({"t": [1, -1]})
    with pytest.raises(kind, match=words) as raised:
        world.run(world.cluster.locate([place]))
    assert raised.value.retriable


def test_whoever_answers_is_asked():
    world = World({"t": [1]}, brokers=3)
    world.run(world.cluster.metadata(["t"]))
    world.down = {SEED, ("broker-1", 9092)}
    world.run(world.cluster.ask_any(MetadataRequest(topics=[])))
    assert world.asked[-1][2] == ("broker-2", 9092)
    world.down.update(world.brokers.values())
    with pytest.raises(Unreachable, match="broker-2: connection refused"):
        world.run(world.cluster.ask_any(MetadataRequest(topics=[])))


def test_a_wrong_login_is_not_tried_elsewhere():
    world = World()
    world.on["Metadata"] = lambda *_: AuthenticationFailed("no")
    with pytest.raises(AuthenticationFailed):
        world.run(world.cluster.retried(lambda: world.cluster.metadata([])))
    assert len(world.asked) == 1


def test_trying_again_has_growing_pauses_and_an_end():
    world = World(api_timeout_ms=10_000, retry_backoff_ms=100, retry_backoff_max_ms=1000)
    world.down = {SEED}
    started = world.clock.now
    with pytest.raises(Unreachable):
        world.run(world.cluster.retried(lambda: world.cluster.metadata([])))
    assert 9_000 <= world.clock.now - started <= 10_000
    assert 10 <= len(world.asked) <= 16


def test_a_topic_that_is_not_there_is_not_waited_for_as_long():
    world = World()
    started = world.clock.now
    with pytest.raises(UnknownTopic):
        world.run(world.cluster.retried(lambda: world.cluster.locate([PLACE])))
    assert 0 < world.clock.now - started <= UNKNOWN_TOPIC_PATIENCE_MS


def test_coordinators_are_remembered_until_they_are_wrong():
    world = World()
    assert world.run(world.cluster.coordinator(GROUP, "g")) == 1
    world.coordinator_id = 2
    assert world.run(world.cluster.coordinator(TRANSACTION, "g")) == 2
    world.cluster.forget_coordinator(GROUP, "g")
    assert world.run(world.cluster.coordinator(GROUP, "g")) == 2
    refused = world.cluster.coordinator_refusal(TRANSACTION, "g", ErrorCode.NOT_COORDINATOR, "it")
    assert refused.retriable
    world.coordinator_id = 1
    assert world.run(world.cluster.coordinator(TRANSACTION, "g")) == 1


def test_a_coordinator_that_is_gone_is_looked_for_again():
    world = World()
    world.run(world.cluster.coordinator(GROUP, "g"))
    world.down = {("broker-1", 9092)}
    with pytest.raises(Unreachable):
        world.run(world.cluster.ask_coordinator(GROUP, "g", MetadataRequest(topics=[])))
    world.coordinator_id = 2
    world.run(world.cluster.ask_coordinator(GROUP, "g", MetadataRequest(topics=[])))
    assert world.asked[-1][2] == ("broker-2", 9092)


@pytest.mark.parametrize(
    "answer",
    [
        FindCoordinatorResponse(coordinators=[]),
        FindCoordinatorResponse(coordinators=[Coordinator(error_code=15, error_message=None)]),
        FindCoordinatorResponse(coordinators=[Coordinator(error_code=53, error_message="no")]),
    ],
)
def test_no_coordinator(answer):
    world = World()
    world.on["FindCoordinator"] = lambda *_: answer
    with pytest.raises((Unreachable, Refused)):
        world.run(world.cluster.coordinator(TRANSACTION, "x"))


# -- topics --------------------------------------------------------------------------------------


def test_topics_without_internal_ones():
    world = World({"a": [1], "ab": [1], "__offsets": [1]})
    assert world.run(topics.topics(world.cluster)) == ["a", "ab"]


def test_partitions():
    world = World({"a": [1, 2], "b": [-1]})
    assert world.run(topics.partitions(world.cluster, ["b", "a"])) == {"b": [0], "a": [0, 1]}
    with pytest.raises(UnknownTopic):
        world.run(topics.partitions(world.cluster, ["a", "gone"]))


def test_topics_that_cannot_be_written_to_are_named_without_writing():
    reads, writes = 1 << Operation.READ, 1 << Operation.WRITE
    told = {"open": (0, reads | writes), "read": (0, reads), "gone": (3, 0), "hidden": (29, 0), "in!valid": (17, 0), "silent": (0, None)}  # fmt: skip
    answers = [MetadataResponse(topics=[MetadataResponseTopic(error_code=5, name="open")])]
    rights = {name: {} if bits is None else {"topic_authorized_operations": bits} for name, (_, bits) in told.items()}  # fmt: skip
    answers.append(MetadataResponse(topics=[MetadataResponseTopic(error_code=code, name=name, **rights[name]) for name, (code, _) in told.items()]))  # fmt: skip
    world = World()
    world.on["Metadata"] = lambda *_: answers.pop(0)
    found = world.run(topics.closed(world.cluster, told))
    assert {name: problem.code for name, problem in found.items()} == {
        "read": ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        "gone": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "hidden": ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        "in!valid": ErrorCode.INVALID_TOPIC_EXCEPTION,
    }
    assert str(found["read"]) == "topic 'read': no right to Write"
    # The first answer was of a topic without a leader, which passes; and no question makes a topic.
    assert [each.allow_auto_topic_creation for each in world.requests("Metadata")] == [False] * 2


def described(code, **configs):
    results = [
        DescribeConfigsResourceResult(name=name.replace("_", "."), value=value)
        for name, value in configs.items()
    ]
    result = DescribeConfigsResult(error_code=code, error_message="", configs=results)
    return DescribeConfigsResponse(results=[result])


def test_limits():
    world = World({"t": [1]})
    answers = [
        described(14),
        described(0, max_message_bytes="7", cleanup_policy="compact,delete"),
        described(29),
    ]
    world.on["DescribeConfigs"] = lambda *_: answers.pop(0)
    assert world.run(topics.limits(world.cluster, "t")) == (7, True)
    assert world.run(topics.limits(world.cluster, "t")) == (None, None)
