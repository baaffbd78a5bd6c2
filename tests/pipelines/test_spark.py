"""The source and the sink under a real Spark: found without registering, batches and streams, restarts and replays, mistakes.

One file, so that one process runs them all: a Spark takes its time to start.
"""

import json
import os

import pytest
from topic_kit import committed, consume_all, make_topic, produce

pytest.importorskip("pyspark", reason="pyspark is not installed (extra spark)")

COLUMNS = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
}
HEADERS = "array<struct<key:string,value:binary>>"
# On a machine with ten times the work it can do, a query of two seconds takes a minute, and the first one of a session two.
PATIENCE_S = 400
pytestmark = pytest.mark.timeout(1000)


def reading(spark, bootstrap, **options):
    return _with_options(spark.read, bootstrap, options).load()


def streaming(spark, bootstrap, **options):
    return _with_options(spark.readStream, bootstrap, options).load()


def _with_options(it, bootstrap, options):
    return it.format("barnabas").options(**{"kafka.bootstrap.servers": bootstrap, **options})


def await_end(query):
    """Wait for a query to end by itself, and say what it is at if it does not."""
    assert query.awaitTermination(PATIENCE_S), (query.status, query.lastProgress)


def run_now(frame, checkpoint, path):
    """Run a stream over what is there now, into files; return how many batches it took."""
    query = (
        frame.selectExpr("CAST(value AS STRING) AS value")
        .writeStream.format("text")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start(str(path))
    )
    await_end(query)
    return [each for each in query.recentProgress if each["numInputRows"]]


def lines(spark, path):
    return sorted(each.value for each in spark.read.text(str(path)).collect())


def test_a_topic_is_a_table_also_in_sql(spark, bootstrap, topic):
    make_topic(bootstrap, topic, 2)
    first = {
        "key": "k",
        "value": "v",
        "timestamp": 1_700_000_000_123,
        "headers": [("h", b"1"), ("h", None)],
    }
    produce(bootstrap, topic, [first, {"value": None, "key": None, "timestamp": 1}])
    produce(bootstrap, topic, ["other"], partition=1)
    frame = reading(spark, bootstrap, subscribe=topic, includeHeaders="true")
    assert dict(frame.dtypes) == COLUMNS | {"headers": HEADERS}
    assert list(frame.columns) == [*COLUMNS, "headers"]
    rows = frame.orderBy("partition", "offset").collect()
    assert len(rows) == 3
    assert (bytes(rows[0].key), bytes(rows[0].value), rows[0].topic) == (b"k", b"v", topic)
    assert (rows[0].partition, rows[0].offset, rows[0].timestampType) == (0, 0, 0)
    assert rows[0].timestamp.timestamp() == 1_700_000_000.123
    assert [(each.key, each.value) for each in rows[0].headers] == [("h", b"1"), ("h", None)]
    assert (rows[1].key, rows[1].value, rows[1].headers) == (None, None, None)

    spark.sql(
        f"CREATE TEMPORARY VIEW clicks USING barnabas OPTIONS "
        f"(`kafka.bootstrap.servers` '{bootstrap}', subscribe '{topic}')"
    )
    counted = spark.sql("SELECT topic, count(*) AS n FROM clicks GROUP BY topic").collect()
    assert [(each.topic, each.n) for each in counted] == [(topic, 3)]


def test_an_empty_topic_is_an_empty_table(spark, bootstrap, topic):
    make_topic(bootstrap, topic)
    assert reading(spark, bootstrap, subscribe=topic).collect() == []


def test_a_stream_is_restarted_and_its_lag_is_visible(spark, bootstrap, topic, tmp_path):
    make_topic(bootstrap, topic)
    produce(bootstrap, topic, list("abcde"))
    frame = streaming(
        spark,
        bootstrap,
        subscribe=topic,
        startingOffsets="earliest",
        maxOffsetsPerTrigger="2",
        groupId=f"{topic}-group",
    )
    progress = run_now(frame, tmp_path / "checkpoint", tmp_path / "out")
    assert [each["numInputRows"] for each in progress] == [2, 2, 1]
    source = progress[-1]["sources"][0]
    assert json.loads(source["endOffset"]) == {topic: {"0": 5}}
    assert json.loads(source["latestOffset"]) == {topic: {"0": 5}}
    assert committed(bootstrap, f"{topic}-group", topic) == 5
    produce(bootstrap, topic, ["f"])
    assert len(run_now(frame, tmp_path / "checkpoint", tmp_path / "out")) == 1
    assert lines(spark, tmp_path / "out") == list("abcdef")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"subscribe": "t", "startingOfsets": "x"}, "did you mean 'startingOffsets'?"),
        ({"subscribe": "no-such-topic"}, "there is no topic 'no-such-topic'"),
    ],
)
def test_mistakes_in_a_batch_are_told_without_a_traceback(spark, bootstrap, options, words):
    with pytest.raises(Exception) as caught:  # noqa: PT011  # Spark's own, by phase
        reading(spark, bootstrap, **options).collect()
    told = str(caught.value)
    assert words in told
    assert "Traceback" not in told
    assert "\tat " not in told


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"subscribe": "no-such-topic"}, "there is no topic 'no-such-topic'"),
        ({"subscribe": "t", "endingOffsets": "latest"}, "a stream has no end"),
    ],
)
def test_mistakes_in_a_stream_are_told_without_a_traceback(
    spark, bootstrap, tmp_path, options, words
):
    frame = streaming(spark, bootstrap, **options)
    with pytest.raises(Exception) as caught:  # noqa: PT011
        run_now(frame, tmp_path / "checkpoint", tmp_path / "out")
    told = str(caught.value)
    assert words in told
    assert "Traceback" not in told


# -- the sink ----------------------------------------------------------------------------------


def values(bootstrap, topic, isolation="read_committed"):
    return sorted(each.value().decode() for each in consume_all(bootstrap, topic, isolation))


def save(frame, bootstrap, **options):
    options = {"kafka.bootstrap.servers": bootstrap, **options}
    frame.write.format("barnabas").options(**options).mode("append").save()


def copy_now(spark, bootstrap, source, target, checkpoint):
    """Copy a topic as far as it goes now."""
    servers = {"kafka.bootstrap.servers": bootstrap}
    frame = (
        spark.readStream.format("barnabas")
        .options(**servers, subscribe=source, startingOffsets="earliest")
        .load()
        .select("value")
    )
    query = (
        frame.writeStream.format("barnabas")
        .options(**servers, topic=target, checkpointLocation=str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    await_end(query)


def test_a_batch_is_written_all_or_nothing(spark, bootstrap, topic):
    make_topic(bootstrap, topic, 2)
    frame = spark.range(0, 100, 1, 2).selectExpr(
        "CAST(id AS STRING) AS key",
        "CAST(id AS STRING) AS value",
        "array(named_struct('key', 'n', 'value', CAST('1' AS BINARY))) AS headers",
    )
    save(frame, bootstrap, topic=topic)
    assert values(bootstrap, topic) == sorted(map(str, range(100)))
    assert consume_all(bootstrap, topic)[0].headers() == [("n", b"1")]

    failing = frame.selectExpr(
        "value || IF(key = '77', CAST(raise_error('one row is bad') AS STRING), '') AS value"
    )
    with pytest.raises(Exception, match="one row is bad"):
        save(failing, bootstrap, topic=topic)
    assert len(values(bootstrap, topic)) == 100
    # Tasks that were killed have left nothing open that readers would wait for.
    save(frame, bootstrap, topic=topic)
    assert len(values(bootstrap, topic)) == 200


def test_a_batch_with_an_identity_is_written_once(spark, bootstrap, topic):
    make_topic(bootstrap, topic)
    frame = spark.range(0, 3, 1, 1).selectExpr("CAST(id AS STRING) AS value")
    for epoch in ("0", "0", "1"):
        save(frame, bootstrap, topic=topic, sinkId=topic, epoch=epoch)
    assert values(bootstrap, topic) == ["0", "0", "1", "1", "2", "2"]
    # In foreachBatch one batch may go to several topics.
    other = make_topic(bootstrap, f"{topic}-other")
    save(frame, bootstrap, topic=other, sinkId=topic, epoch="1")
    assert values(bootstrap, other) == ["0", "1", "2"]


def test_a_replayed_epoch_of_a_stream_is_written_once(spark, bootstrap, topic, tmp_path):
    source, target = f"{topic}-in", f"{topic}-out"
    make_topic(bootstrap, source, 2)
    make_topic(bootstrap, target, 2)
    for partition in range(2):
        produce(bootstrap, source, [f"{partition}-{each}" for each in range(5)], partition)
    copy_now(spark, bootstrap, source, target, tmp_path)
    expected = sorted(f"{partition}-{each}" for partition in range(2) for each in range(5))
    assert values(bootstrap, target) == expected

    # As if the driver had died when the tasks were done and before Spark noted it.
    for name in ("0", ".0.crc"):
        (tmp_path / "commits" / name).unlink()
    produce(bootstrap, source, ["next"])
    copy_now(spark, bootstrap, source, target, tmp_path)
    assert values(bootstrap, target) == sorted([*expected, "next"])
    # Nothing was written and aborted either: the epoch was recognised.
    assert values(bootstrap, target, "read_uncommitted") == sorted([*expected, "next"])
    assert sorted(each for each in os.listdir(tmp_path / "commits") if each.isdigit()) == ["0", "1"]


@pytest.mark.parametrize(
    ("columns", "options", "words"),
    [
        ("id AS value", {"topic": "t"}, "the column value is bigint: cast it to string or binary"),
        ("'x' AS value", {"topic": "no-such-topic"}, "there is no topic 'no-such-topic'"),
    ],
)
def test_mistakes_in_a_write_are_told_without_a_traceback(
    spark, bootstrap, columns, options, words
):
    with pytest.raises(Exception) as caught:  # noqa: PT011  # Spark's own, by phase
        save(spark.range(0, 1, 1, 1).selectExpr(columns), bootstrap, **options)
    told = str(caught.value)
    assert words in told
    assert "Traceback" not in told
