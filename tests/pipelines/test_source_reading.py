"""What the readers do, without Spark around them: a real broker, the calls that Spark makes."""

import json

import pytest
from pipeline_kit import Stream, batch_reader, values
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import (
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)
from security_kit import PASSWORDS, plain_jaas
from topic_kit import (
    add_partitions,
    committed,
    consume_all,
    delete_records,
    delete_topic,
    make_topic,
    produce,
    produce_in_transaction,
)

from barnabas import Broker
from barnabas.pipelines import tables
from barnabas.pipelines.problem import PipelineProblem
from barnabas.runtime.lasting_port import lasting_port


@pytest.fixture
def stream(bootstrap):
    started = []

    def start(**options):
        started.append(Stream(bootstrap, **options))
        return started[-1]

    yield start
    for each in started:
        each.stop()


def flat(batches):
    return [each for batch in batches for each in batch]


def read(bootstrap, **options):
    it = batch_reader(bootstrap, **options)
    return values(it, it.partitions())


def refusal(bootstrap, **options):
    with pytest.raises(PipelineProblem) as caught:
        read(bootstrap, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# -- batches -----------------------------------------------------------------------------------


def test_a_batch_reads_what_lies_between_two_offsets(bootstrap, topic):
    make_topic(bootstrap, topic, 2)
    produce(bootstrap, topic, [str(each) for each in range(10)])
    produce(bootstrap, topic, ["x", "y"], partition=1)
    limits = {
        "startingOffsets": json.dumps({topic: {"0": 3, "1": -2}}),
        "endingOffsets": json.dumps({topic: {"0": 6, "1": -1}}),
    }
    assert read(bootstrap, subscribe=topic, **limits) == ["3", "4", "5", "x", "y"]
    assert len(read(bootstrap, subscribe=topic)) == 12
    assert read(bootstrap, assign=json.dumps({topic: [1]})) == ["x", "y"]


def test_a_batch_between_two_times(bootstrap, topic):
    make_topic(bootstrap, topic, 2)
    produce(bootstrap, topic, [{"value": str(each), "timestamp": each} for each in (10, 20, 30)])
    produce(bootstrap, topic, [{"value": "p", "timestamp": 25}], partition=1)
    times = {"startingTimestamp": "20", "endingTimestamp": "30"}
    assert read(bootstrap, subscribe=topic, **times) == ["20", "p"]
    each = json.dumps({topic: {"0": 30, "1": 1}})
    assert read(bootstrap, subscribe=topic, startingOffsetsByTimestamp=each) == ["30", "p"]
    told = refusal(bootstrap, subscribe=topic, startingTimestamp="28")
    assert f"no record of {topic}-1 is of the time 28 or later" in told
    late = {"startingTimestamp": "28", "startingOffsetsByTimestampStrategy": "latest"}
    assert read(bootstrap, subscribe=topic, **late) == ["30"]


def test_topics_by_a_pattern_that_is_found_in_their_names(bootstrap, topic):
    names = [f"{topic}.a", f"{topic}.b", f"{topic}.b.more"]
    for name in names:
        make_topic(bootstrap, name)
        produce(bootstrap, name, [name])
    assert read(bootstrap, subscribePattern=f"{topic}[.].") == names
    assert read(bootstrap, subscribePattern=f"^{topic}[.].$") == names[:2]
    assert read(bootstrap, subscribePattern=f"{topic}[.](?!a)") == names[1:]
    told = refusal(bootstrap, subscribePattern=f"{topic}[.]c")
    assert f"no topic has a name in which subscribePattern='{topic}[.]c' is found" in told


def test_a_pattern_takes_no_internal_topics(bootstrap, topic, stream):
    make_topic(bootstrap, topic)
    query = stream(subscribe=topic, startingOffsets="earliest", groupId=f"{topic}-group")
    produce(bootstrap, topic, ["a"])
    assert query.everything() == [["a"]]
    assert committed(bootstrap, f"{topic}-group", topic) == 1
    told = refusal(bootstrap, subscribePattern="^__consumer_offsets$")
    assert "no topic has a name" in told


def test_an_empty_topic_is_an_empty_table(bootstrap, topic):
    make_topic(bootstrap, topic)
    it = batch_reader(bootstrap, subscribe=topic)
    assert it.partitions() == []
    # A batch without tasks has one in Spark all the same.
    assert list(it.read(InputPartition(None))) == []


def test_tasks_are_cut_and_read_alike(bootstrap, topic):
    make_topic(bootstrap, topic)
    produce(bootstrap, topic, [str(each) for each in range(10)])
    whole = [str(each) for each in range(10)]
    for more in ({"minPartitions": "3"}, {"maxRecordsPerPartition": "4"}):
        it = batch_reader(bootstrap, subscribe=topic, **more)
        tasks = it.partitions()
        assert len(tasks) == 3
        assert values(it, tasks) == whole
        assert values(it, tasks[1:2]) == whole[3:6]


def test_aborted_records_are_removed_on_request(bootstrap, topic):
    make_topic(bootstrap, topic)
    produce_in_transaction(bootstrap, topic, ["good"], commit=True)
    produce_in_transaction(bootstrap, topic, ["bad"], commit=False)
    produce(bootstrap, topic, ["last"])
    assert read(bootstrap, subscribe=topic) == ["good", "bad", "last"]
    assert read(bootstrap, subscribe=topic, isolation="read_committed") == ["good", "last"]


def test_a_log_that_ends_with_markers_is_no_false_alarm(bootstrap, topic, stream):
    make_topic(bootstrap, topic)
    produce_in_transaction(bootstrap, topic, ["bad"], commit=False)
    query = stream(subscribe=topic, startingOffsets="earliest", isolation="read_committed")
    assert query.everything() == [[]]
    produce_in_transaction(bootstrap, topic, ["good"], commit=True)
    assert query.everything() == [["good"]]


@pytest.mark.parametrize(
    ("offsets", "words"),
    [
        ({"0": 99}, "has 99 for {0}-0, whose log has 2 to 5"),
        ({"0": 1}, "has 1 for {0}-0, whose log has 2 to 5"),
        ({}, "must name every partition that is read, and lacks {0}-0"),
        ({"0": 2, "7": 2}, "names {0}-7, which is not among the partitions that are read"),
    ],
)
def test_offsets_out_of_range(bootstrap, topic, offsets, words):
    make_topic(bootstrap, topic)
    produce(bootstrap, topic, list("abcde"))
    delete_records(bootstrap, topic, 0, 2)
    starting = {"startingOffsets": json.dumps({topic: offsets})}
    assert words.format(topic) in refusal(bootstrap, subscribe=topic, **starting)


def test_going_on_without_what_is_lost(bootstrap, topic):
    make_topic(bootstrap, topic)
    produce(bootstrap, topic, list("abcde"))
    delete_records(bootstrap, topic, 0, 2)
    limits = {
        "startingOffsets": json.dumps({topic: {"0": 1}}),
        "endingOffsets": json.dumps({topic: {"0": 99}}),
    }
    assert read(bootstrap, subscribe=topic, failOnDataLoss="false", **limits) == ["c", "d", "e"]


def test_who_cannot_be_read(bootstrap, topic):
    assert f"there is no topic '{topic}'" in refusal(bootstrap, subscribe=topic)
    make_topic(bootstrap, topic)
    told = refusal(bootstrap, assign=json.dumps({topic: [4]}))
    assert f"assign names {topic}-4, and the topic has 1 partitions" in told
    nobody = {"kafka.default.api.timeout.ms": "300", "kafka.retry.backoff.ms": "50"}
    told = refusal("127.0.0.1:9", subscribe=topic, **nobody)
    assert told.startswith("no broker answers (127.0.0.1:9: ")
    assert told.endswith("check kafka.bootstrap.servers, and that brokers run there")


# -- streams -----------------------------------------------------------------------------------


def test_a_stream_starts_at_the_end_and_goes_on_where_it_was(bootstrap, topic, stream):
    make_topic(bootstrap, topic)
    produce(bootstrap, topic, ["before"])
    query = stream(subscribe=topic)
    assert query.next() is None
    produce(bootstrap, topic, ["a", "b"])
    assert query.next() == ["a", "b"]
    query.stop()
    produce(bootstrap, topic, ["c"])
    query.restart()
    assert query.everything() == [["c"]]
    assert query.offset == {topic: {"0": 4}}


def test_a_trigger_takes_so_many_offsets(bootstrap, topic, stream):
    make_topic(bootstrap, topic, 2)
    produce(bootstrap, topic, [str(each) for each in range(6)])
    produce(bootstrap, topic, [str(each) for each in range(3)], partition=1)
    query = stream(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="3")
    assert query.next() == ["0", "1", "0"]
    assert query.reader.reportLatestOffset() == {topic: {"0": 6, "1": 3}}
    everything = query.reader.latestOffset(query.offset, ReadAllAvailable())
    assert everything == {topic: {"0": 6, "1": 3}}
    assert flat(query.everything()) == ["2", "3", "1", "4", "5", "2"]


def test_a_trigger_takes_so_many_bytes(bootstrap, topic, stream):
    make_topic(bootstrap, topic, 2)
    produce(bootstrap, topic, ["x" * 1000] * 40, **{"batch.num.messages": 1})
    produce(bootstrap, topic, ["y" * 10] * 40, partition=1, **{"batch.num.messages": 1})
    query = stream(subscribe=topic, startingOffsets="earliest", maxBytesPerTrigger="11000")
    batches = query.everything()
    assert sorted(flat(batches)) == ["x" * 1000] * 40 + ["y" * 10] * 40
    assert 4 <= len(batches) <= 8
    assert all(sum(map(len, each)) <= 13_000 for each in batches)


def test_a_trigger_waits_for_enough(bootstrap, topic, stream):
    make_topic(bootstrap, topic)
    produce(bootstrap, topic, ["first"])
    query = stream(subscribe=topic, startingOffsets="earliest", minOffsetsPerTrigger="3")
    assert query.next() == ["first"]
    produce(bootstrap, topic, ["a", "b"])
    assert query.next() is None
    produce(bootstrap, topic, ["c"])
    assert query.next() == ["a", "b", "c"]
    hasty = stream(
        subscribe=topic, startingOffsets="latest", minOffsetsPerTrigger="3", maxTriggerDelay="0s"
    )
    assert hasty.next() is None
    produce(bootstrap, topic, ["d"])
    assert hasty.next() == ["d"]


def test_available_now_reads_what_was_there_in_limited_steps(bootstrap, topic, stream):
    make_topic(bootstrap, topic)
    produce(bootstrap, topic, list("abcde"))
    query = stream(
        subscribe=topic,
        startingOffsets="earliest",
        maxOffsetsPerTrigger="3",
        minOffsetsPerTrigger="3",
    )
    query.reader.prepareForTriggerAvailableNow()
    assert query.next() == ["a", "b", "c"]
    produce(bootstrap, topic, ["late"])
    add_partitions(bootstrap, topic, 2)
    assert query.everything() == [["d", "e"]]


def test_new_partitions_and_topics_are_picked_up(bootstrap, topic, stream):
    make_topic(bootstrap, f"{topic}.a")
    produce(bootstrap, f"{topic}.a", ["old"])
    query = stream(subscribePattern=f"{topic}[.].*")
    assert query.next() is None
    add_partitions(bootstrap, f"{topic}.a", 2)
    make_topic(bootstrap, f"{topic}.b")
    produce(bootstrap, f"{topic}.a", ["new partition"], partition=1)
    produce(bootstrap, f"{topic}.b", ["new topic"])
    assert flat(query.everything()) == ["new partition", "new topic"]


def test_a_stream_waits_for_topics_that_match(bootstrap, topic, stream):
    query = stream(subscribePattern=f"^{topic}[.]", groupId=f"{topic}-group")
    assert query.next() is None
    make_topic(bootstrap, f"{topic}.a")
    produce(bootstrap, f"{topic}.a", ["first"])
    assert query.everything() == [["first"]]


def test_a_replayed_batch_has_the_same_tasks(bootstrap, topic, stream):
    make_topic(bootstrap, topic, 2)
    produce(bootstrap, topic, list("abcdef"))
    query = stream(subscribe=topic, startingOffsets="earliest", minPartitions="4")
    end = {topic: {"0": 4, "1": 0}}
    before = query.reader.partitions({topic: {"0": 0}}, end)
    produce(bootstrap, topic, ["later"], partition=1)
    query.restart()
    after = query.reader.partitions({topic: {"0": 0}}, end)
    assert after == before
    assert values(query.reader, after) == list("abcd")


def test_finished_batches_are_committed_to_the_group(bootstrap, topic, stream):
    make_topic(bootstrap, topic)
    produce(bootstrap, topic, ["a", "b"])
    group = f"{topic}-group"
    query = stream(subscribe=topic, startingOffsets="earliest", groupId=group)
    assert query.next() == ["a", "b"]
    assert committed(bootstrap, group, topic) is None
    assert query.next() is None
    assert committed(bootstrap, group, topic) == 2
    produce(bootstrap, topic, ["c"])
    assert query.next() == ["c"]
    query.reader.commit(query.offset)
    assert committed(bootstrap, group, topic) == 3


def test_lost_records_fail_a_stream_unless_told_otherwise(bootstrap, topic, stream):
    make_topic(bootstrap, topic)
    produce(bootstrap, topic, list("abc"))
    careful = stream(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="1")
    easy = stream(
        subscribe=topic,
        startingOffsets="earliest",
        maxOffsetsPerTrigger="1",
        failOnDataLoss="false",
    )
    assert careful.next() == easy.next() == ["a"]
    delete_records(bootstrap, topic, 0, 2)
    with pytest.raises(PipelineProblem, match=r"records may have been lost.*failOnDataLoss=false"):
        careful.next()
    assert flat(easy.everything()) == ["c"]


def test_lost_records_are_not_weighed(bootstrap, topic, stream):
    make_topic(bootstrap, topic)
    options = {"subscribe": topic, "startingOffsets": "earliest", "maxBytesPerTrigger": "100000"}
    careful, easy = stream(**options), stream(failOnDataLoss="false", **options)
    assert careful.next() is easy.next() is None
    produce(bootstrap, topic, list("abc"))
    delete_records(bootstrap, topic, 0, 2)
    with pytest.raises(PipelineProblem, match=r"records may have been lost.*failOnDataLoss=false"):
        careful.next()
    assert flat(easy.everything()) == ["c"]


def test_a_topic_made_anew_is_noticed(bootstrap, topic, stream):
    make_topic(bootstrap, topic)
    produce(bootstrap, topic, list("abc"))
    query = stream(subscribe=topic, startingOffsets="earliest")
    assert query.next() == ["a", "b", "c"]
    delete_topic(bootstrap, topic)
    make_topic(bootstrap, topic)
    produce(bootstrap, topic, ["x"])
    query.stop()
    query.restart()
    with pytest.raises(PipelineProblem, match="ended at 3 and ends at 1 now"):
        query.next()


def test_a_topic_that_goes_away_is_left_behind_on_request(bootstrap, topic, stream):
    names = [f"{topic}.a", f"{topic}.b"]
    for name in names:
        make_topic(bootstrap, name)
        produce(bootstrap, name, [name])
    options = {"startingOffsets": "earliest", "failOnDataLoss": "false"}
    subscribed = stream(subscribe=",".join(names), groupId=f"{topic}-group", **options)
    matched = stream(subscribePattern=f"^{topic}[.]", groupId=f"{topic}-matched", **options)
    assigned = stream(assign=json.dumps({name: [0] for name in names}), **options)
    assert subscribed.next() == matched.next() == assigned.next() == names
    last = subscribed.reader.partitions({}, subscribed.offset)
    delete_topic(bootstrap, names[0])
    produce(bootstrap, names[1], ["more"])
    for query in (subscribed, matched, assigned):
        assert flat(query.everything()) == ["more"]
    assert committed(bootstrap, f"{topic}-group", names[1]) == 2
    # A task that was planned before does not fail either.
    assert values(subscribed.reader, last) == [names[1]]
    delete_topic(bootstrap, names[1])
    for query in (subscribed, matched, assigned):
        assert flat(query.everything()) == []


def test_a_broker_restarts_in_the_middle(tmp_path, topic):
    port = lasting_port("127.0.0.1")
    with Broker(data_dir=str(tmp_path), port=port) as broker:
        bootstrap = broker.bootstrap
        make_topic(bootstrap, topic)
        produce(bootstrap, topic, list("abc"))
        query = Stream(bootstrap, subscribe=topic, startingOffsets="earliest", groupId="g")
        assert query.next() == ["a", "b", "c"]
    with Broker(data_dir=str(tmp_path), port=port):
        produce(bootstrap, topic, ["d"])
        assert query.everything() == [["d"]]
        assert committed(bootstrap, "g", topic) == 4
        query.stop()


def test_wrong_credentials_are_told_without_them(topic):
    listener = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": plain_jaas(),
    }
    login = {
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": (
            "org.apache.kafka.common.security.plain.PlainLoginModule required "
            'username="alice" password="{}";'
        ),
    }

    def as_alice(password):
        return login | {"kafka.sasl.jaas.config": login["kafka.sasl.jaas.config"].format(password)}

    with Broker(settings=listener) as broker:
        told = refusal(broker.bootstrap, subscribe=topic, **as_alice("not-it-9"))
        assert "not-it-9" not in told
        assert "alice" in told or "authentication" in told.lower()
        told = refusal(broker.bootstrap, subscribe=topic, **as_alice(PASSWORDS["alice"]))
        assert f"there is no topic '{topic}'" in told


def test_columns_are_the_formats_own(bootstrap):
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": "t"}
    with pytest.raises(PipelineProblem, match=r"leave out schema\(...\), and set valueFormat"):
        tables.reader(options, StructType().add("user", StringType()))


def test_bad_records_are_not_dropped_when_they_cannot_be_put_aside(bootstrap, topic):
    make_topic(bootstrap, topic)
    produce(bootstrap, topic, ["no json"])
    it = numbers(bootstrap, topic)
    with pytest.raises(PipelineProblem, match=f"there is no topic '{topic}-dead'"):
        list(it.read(it.partitions()[0]))
    make_topic(bootstrap, f"{topic}-dead")
    assert sum(batch.num_rows for batch in it.read(it.partitions()[0])) == 0
    (letter,) = consume_all(bootstrap, f"{topic}-dead")
    assert letter.value() == b"no json"


def test_a_bad_record_that_is_too_large_to_be_put_aside_is_cut(bootstrap, topic):
    make_topic(bootstrap, topic)
    make_topic(bootstrap, f"{topic}-dead")
    produce(bootstrap, topic, ["x" * 1_048_400], **{"message.max.bytes": 1_048_588})
    produce(bootstrap, topic, ['{"n": 7}', "no json"])
    it = numbers(bootstrap, topic)
    assert sum(batch.num_rows for batch in it.read(it.partitions()[0])) == 1
    letters = consume_all(bootstrap, f"{topic}-dead")
    assert sorted(len(each.value()) for each in letters) == [7, 65_536]
    told = [dict(each.headers()) for each in letters]
    assert {each["barnabas.offset"] for each in told} == {b"0", b"2"}
    assert [each["barnabas.value.bytes"] for each in told if "barnabas.value.bytes" in each] == [
        b"1048400"
    ]


def numbers(bootstrap, topic):
    """A reader of {"n": 7}, and of a dead-letter topic for what is none."""
    options = {
        "kafka.bootstrap.servers": bootstrap,
        "subscribe": topic,
        "valueFormat": "json",
        "valueSchema": "n INT",
        "deadLetterTopic": f"{topic}-dead",
    }
    number = StructType().add("n", IntegerType())
    columns = StructType()
    for name, kind in (
        ("key", BinaryType()),
        ("value", number),
        ("topic", StringType()),
        ("partition", IntegerType()),
        ("offset", LongType()),
        ("timestamp", TimestampType()),
        ("timestampType", IntegerType()),
    ):
        columns.add(name, kind)
    return tables.reader(options, columns)
