"""Options of the source and the sink: Spark's names, a sentence for each mistake."""

import pickle

import pytest

from barnabas.model.ids import TopicPartition
from barnabas.pipelines.offsets import (
    FROM_EARLIEST,
    FROM_LATEST,
    AtOffsets,
    AtTime,
    AtTimes,
    from_json,
    to_json,
)
from barnabas.pipelines.options import Subscription, sink_options, source_options
from barnabas.pipelines.problem import PipelineProblem

BASE = {"kafka.bootstrap.servers": "127.0.0.1:9092", "subscribe": "clicks"}
SINK = {"kafka.bootstrap.servers": "127.0.0.1:9092", "topic": "clicks"}


def batch(**more):
    return source_options(BASE | more, streaming=False)


def stream(**more):
    return source_options(BASE | more, streaming=True)


def refusal(make, *args, **kwargs):
    with pytest.raises(PipelineProblem) as caught:
        make(*args, **kwargs)
    return str(caught.value)


def test_defaults_are_those_of_the_kafka_format():
    assert (batch().starting, batch().ending) == (FROM_EARLIEST, FROM_LATEST)
    assert stream().starting == FROM_LATEST
    assert stream().fails_on_data_loss
    assert not stream().headers
    assert stream().isolation == "read_uncommitted"
    assert stream().group == ""
    assert stream().trigger_delay_ms_max == 15 * 60 * 1000


def test_names_are_known_in_any_case_as_spark_gives_them():
    options = source_options(
        {"KAFKA.Bootstrap.Servers": "h:1", "SUBSCRIBEPATTERN": "cl.*", "includeheaders": "TRUE"},
        streaming=True,
    )
    assert options.subscription == Subscription(pattern="cl.*")
    assert options.headers
    assert options.settings.bootstrap == (("h", 1),)


def test_subscriptions():
    assert batch(subscribe=" a, b,,a ").subscription.topics == ("a", "b")
    assigned = source_options(
        {"kafka.bootstrap.servers": "h:1", "assign": '{"b":[2,0],"a":[1]}'}, streaming=False
    ).subscription.assigned
    assert assigned == (TopicPartition("a", 1), TopicPartition("b", 0), TopicPartition("b", 2))


def test_where_to_start():
    assert batch(startingOffsets='{"a":{"0":23,"1":-2}}').starting == AtOffsets(
        {TopicPartition("a", 0): 23, TopicPartition("a", 1): -2}
    )
    by_time = '{"a":{"0":1000}}'
    assert batch(startingOffsetsByTimestamp=by_time).starting == AtTimes(
        {TopicPartition("a", 0): 1000}
    )
    assert batch(
        startingTimestamp="5", startingOffsetsByTimestamp=by_time, startingOffsets="earliest"
    ).starting == AtTime(5)


@pytest.mark.parametrize(
    ("text", "ms"),
    [("15m", 900_000), ("30s", 30_000), ("500ms", 500), ("7", 7), ("2 h", 7_200_000)],
)
def test_times_with_units(text, ms):
    assert stream(maxTriggerDelay=text).trigger_delay_ms_max == ms


def test_group_and_isolation_under_both_names():
    assert stream(groupId="g").group == "g"
    assert stream(**{"kafka.group.id": "h"}).group == "h"
    assert stream(isolation="read_committed").isolation == "read_committed"
    assert stream(**{"kafka.isolation.level": "read_committed"}).isolation == "read_committed"


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"startingOfsets": "latest"}, "did you mean 'startingOffsets'?"),
        ({"bootstrap.servers": "h:1"}, "did you mean 'kafka.bootstrap.servers'?"),
        ({"kafka.securty.protocol": "SSL"}, "did you mean 'security.protocol'?"),
        ({"kafka.bootstrap.servers": " "}, "kafka.bootstrap.servers is missing"),
        ({"subscribe": " , "}, "the option subscribe is empty"),
        ({"assign": '{"a":[0]}'}, "only one of the options subscribe, subscribePattern, assign"),
        ({"subscribe": None, "subscribePattern": "[ab"}, "'[ab' is no regular expression: unterm"),
        ({"startingOffsets": "first"}, 'expected is e.g. {"topicA"'),
        ({"startingOffsets": '{"a":{"0":"1"}}'}, "startingOffsets cannot be read"),
        ({"startingOffsets": '{"a":{"0":-3}}'}, "startingOffsets has -3 for a-0"),
        ({"startingTimestamp": "yesterday"}, "startingTimestamp='yesterday': a whole number"),
        ({"failOnDataLoss": "no"}, "allowed are true and false"),
        ({"maxOffsetsPerTrigger": "0"}, "a whole number from 1 on"),
        ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"}, "is more than"),
        ({"maxTriggerDelay": "soon"}, "such as 30s or 15m"),
        ({"endingOffsets": "latest"}, "a stream has no end"),
        ({"isolation": "serializable"}, "allowed are read_uncommitted and read_committed"),
        ({"kafka.auto.offset.reset": "latest"}, "set the option startingOffsets"),
        ({"kafka.enable.auto.commit": "true"}, "set the option groupId"),
    ],
)
def test_mistakes_are_told_in_one_sentence(more, words):
    given = {name: value for name, value in (BASE | more).items() if value is not None}
    told = refusal(source_options, given, streaming=True)
    assert words in told
    assert "\n" not in told


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"startingOffsets": "latest"}, "startingOffsets=latest is for streams"),
        ({"startingOffsets": '{"a":{"0":-1}}'}, "-1 (latest) for a-0"),
        ({"endingOffsets": "earliest"}, "endingOffsets=earliest cannot be"),
        ({"endingOffsets": '{"a":{"0":-2}}'}, "-2 (earliest) for a-0"),
    ],
)
def test_a_batch_has_a_start_and_an_end(more, words):
    assert words in refusal(source_options, BASE | more, streaming=False)


def test_no_options_at_all():
    """As Spark hands them on for tables in a catalog that cannot be used so."""
    told = refusal(source_options, {"owner": "me"}, streaming=False)
    assert "if it was created without a list of columns; write with df.write" in told


def test_no_subscription_at_all():
    told = refusal(source_options, {"kafka.bootstrap.servers": "h:1"}, streaming=True)
    assert told == "give one of the options subscribe, subscribePattern, assign"


def test_what_sparks_kafka_format_takes_and_spark_adds_is_accepted():
    stream(
        **{
            "groupIdPrefix": "x",
            "kafkaConsumer.pollTimeoutMs": "1",
            "fetchOffset.numRetries": "3",
            "checkpointLocation": "/tmp/x",
            "queryName": "q",
        }
    )


def test_a_sink_is_exactly_once_unless_told():
    assert sink_options(SINK, streaming=True).exactly_once
    assert not sink_options(SINK | {"delivery": "at-least-once"}, streaming=True).exactly_once
    assert sink_options(SINK, streaming=True).settings.transaction_timeout_ms == 900_000
    shorter = sink_options(SINK | {"kafka.transaction.timeout.ms": "1000"}, streaming=True)
    assert shorter.settings.transaction_timeout_ms == 1000


def test_a_sink_has_one_identity():
    both = {"sinkId": "s", "epoch": "3"}
    options = sink_options(SINK | both, streaming=False)
    assert (options.sink_id, options.epoch) == ("s", 3)
    assert "known by its checkpoint" in refusal(sink_options, SINK | both, streaming=True)
    assert "belong together" in refusal(sink_options, SINK | {"epoch": "3"}, streaming=False)


def test_options_go_to_tasks_without_their_secrets_being_shown():
    secured = {
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.username": "u",
        "kafka.sasl.password": "hush-hush",
    }
    options = stream(**secured)
    assert pickle.loads(pickle.dumps(options)) == options
    assert "hush" not in repr(options)


def test_offsets_keep_the_form_of_the_kafka_format():
    offsets = {TopicPartition("b", 10): 1, TopicPartition("b", 2): 2, TopicPartition("a", 0): 3}
    nested = to_json(offsets)
    assert nested == {"a": {"0": 3}, "b": {"2": 2, "10": 1}}
    assert list(nested["b"]) == ["2", "10"]
    assert from_json(nested) == offsets
