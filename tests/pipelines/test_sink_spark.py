"""The sink under a real Spark: batches, streams whose last epoch is replayed, mistakes."""

import os

import pytest
from topic_kit import consume_all, make_topic, produce

pytest.importorskip("pyspark", reason="pyspark is not installed (extra spark)")


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
    assert query.awaitTermination(120)


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


def test_a_batch_with_an_identity_is_written_once(spark, bootstrap, topic):
    make_topic(bootstrap, topic)
    frame = spark.range(0, 3, 1, 1).selectExpr("CAST(id AS STRING) AS value")
    for epoch in ("0", "0", "1"):
        save(frame, bootstrap, topic=topic, sinkId=topic, epoch=epoch)
    assert values(bootstrap, topic) == ["0", "0", "1", "1", "2", "2"]


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
def test_mistakes_are_told_without_a_traceback(spark, bootstrap, columns, options, words):
    with pytest.raises(Exception) as caught:  # noqa: PT011  # Spark's own, by phase
        save(spark.range(0, 1, 1, 1).selectExpr(columns), bootstrap, **options)
    told = str(caught.value)
    assert words in told
    assert "Traceback" not in told
