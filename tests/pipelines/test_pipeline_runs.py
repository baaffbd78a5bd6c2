"""A project on a real broker and a real Spark: run to the end, and until it is stopped."""

import json
import re
import shutil

import pytest
from cluster_kit import wait_until
from confluent_kafka import Producer
from pipelines.projects import make
from topic_kit import consume_all, make_topic

from barnabas.client.settings import ClientSettings
from barnabas.runtime.blocking_client import BlockingClient

pytest.importorskip("pyspark", reason="pyspark is not installed (extra spark)")

# Spark, on a machine with much else to do.
pytestmark = pytest.mark.timeout(1000)

CLICKS = """
from pyspark import pipelines as dp
import functions

bootstrap = spark.conf.get("barnabas.bootstrap.servers", "127.0.0.1:9092")
topic = spark.conf.get("clicks.topic")


@dp.temporary_view
def clicks():
    reader = spark.readStream.format("barnabas").option("kafka.bootstrap.servers", bootstrap)
    reader = reader.option("subscribe", topic).option("startingOffsets", "earliest")
    return reader.option("valueFormat", "json").option("valueSchema", "user STRING, ms INT").load()


@dp.table(partition_cols=["user"])
def slow():
    return functions.slow(spark.readStream.table("clicks"))


dp.create_sink("out", "barnabas", {"kafka.bootstrap.servers": bootstrap, "topic": topic + "-slow"})


@dp.append_flow(target="out")
def send_slow():
    return spark.readStream.table("slow").selectExpr("user AS key", "CAST(ms AS STRING) AS value")
"""
FUNCTIONS = """
from pyspark.sql.functions import udf

@udf("int")
def doubled(ms):
    return ms * 2

def slow(clicks):
    good = clicks.where("_error IS NULL AND value.ms > 100").select("value.user", "value.ms")
    return good.withColumn("twice", doubled("ms"))
"""
BY_USER = """
-- how slow for whom
CREATE MATERIALIZED VIEW by_user AS
SELECT user, count(*) AS clicks, sum(twice) AS twice FROM slow GROUP BY user;

CREATE STREAMING TABLE users AS SELECT user FROM STREAM slow;
"""


@pytest.fixture
def project(tmp_path, bootstrap):
    return make(tmp_path / "clicks", bootstrap, transformations__clicks_py=CLICKS, transformations__users_sql=BY_USER, functions_py=FUNCTIONS)  # fmt: skip


def send(bootstrap, topic, users, start=0):
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for number, user in enumerate(users, start):
        value = json.dumps({"user": user, "ms": number * 100})
        producer.produce(topic, value.encode())
    producer.produce(topic, b"oops")
    assert producer.flush(60) == 0


def rows(frame):
    return sorted(tuple(row) for row in frame.collect())


def test_a_project_runs_to_the_end_of_what_is_there_and_goes_on_from_there(
    project, spark, bootstrap, topic
):
    from barnabas.pipelines.continuous import Pipeline

    send(bootstrap, topic, ["ann", "bob", "ann", "bob"])
    settings = {"clicks.topic": topic}
    pipeline = Pipeline(project, spark, settings)
    pipeline.run_available()
    assert rows(pipeline.table("slow").select("user", "ms")) == [("ann", 200), ("bob", 300)]
    assert rows(pipeline.table("by_user")) == [("ann", 1, 400), ("bob", 1, 600)]
    assert rows(pipeline.table("users")) == [("ann",), ("bob",)]
    by_name = {each["name"]: each for each in pipeline.status()}
    assert by_name["slow"]["rows_total"] == 5
    assert by_name["slow"]["place"] == "transformations/clicks.py:15"
    assert by_name["by_user"]["place"] == "transformations/users.sql:2"

    send(bootstrap, topic, ["cem"], start=7)
    again = Pipeline(project, spark, settings)
    assert rows(again.table("by_user")) == [("ann", 1, 400), ("bob", 1, 600)]
    again.run_available()
    assert rows(again.table("by_user")) == [("ann", 1, 400), ("bob", 1, 600), ("cem", 1, 1400)]
    sent = (
        spark.read.format("barnabas")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", f"{topic}-slow")
        .load()
    )
    assert rows(sent.selectExpr("CAST(key AS STRING)", "CAST(value AS STRING)")) == [
        ("ann", "200"),
        ("bob", "300"),
        ("cem", "700"),
    ]
    stored = spark.read.parquet(str(project / ".barnabas/continuous/tables/by_user"))
    assert stored.count() == 3


def test_a_project_runs_until_it_is_stopped_and_outlives_what_fails(
    tmp_path, spark, bootstrap, topic
):
    from barnabas.pipelines.continuous import Pipeline

    broken = """
    from pyspark import pipelines as dp
    from pyspark.sql.functions import udf

    @udf("int")
    def never(ms):
        raise ValueError("this code is poison")

    @dp.table
    def broken():
        return spark.readStream.table("slow").select(never("ms").alias("x"))

    @dp.materialized_view
    def users():
        return spark.read.table("slow").select("user").distinct()
    """
    project = make(tmp_path / "going", bootstrap, transformations__clicks_py=CLICKS, transformations__broken_py=broken, functions_py=FUNCTIONS)  # fmt: skip
    send(bootstrap, topic, ["ann", "bob", "ann"])
    pipeline = Pipeline(project, spark, {"clicks.topic": topic, "barnabas.refresh.seconds": "0.2"})

    def flow(name):
        return next(each for each in pipeline.status() if each["name"] == name)

    def users():
        return rows(pipeline.table("users"))

    pipeline.start()
    try:
        wait_until(lambda: users() == [("ann",)], "the first record is in the view", 240)
        wait_until(lambda: flow("broken")["restarts"] >= 2, "what fails is tried again", 240)
        assert "this code is poison" in flow("broken")["last_error"]
        send(bootstrap, topic, ["cem"], start=5)
        wait_until(lambda: users() == [("ann",), ("cem",)], "the view follows", 240)
        wait_until(lambda: flow("slow")["rows_total"] == 6, "everything is read", 240)
        wait_until(lambda: flow("slow")["lag_seconds"] == 0, "that is known", 240)
        assert flow("slow")["restarts"] == 0
    finally:
        pipeline.stop()
    assert {each["state"] for each in pipeline.status()} == {"ended"}
    assert rows(pipeline.table("slow").select("user", "ms")) == [("ann", 200), ("cem", 500)]


def test_brokers_that_go_away_and_come_back_are_told_of(project, spark, topic, tmp_path):
    from barnabas import Broker
    from barnabas.pipelines.continuous import Pipeline

    data = str(tmp_path / "data")
    with Broker(data_dir=data) as broker:
        here = broker.bootstrap
        send(here, topic, ["ann", "bob", "ann"])
        settings = {"clicks.topic": topic, "barnabas.bootstrap.servers": here}
        pipeline = Pipeline(project, spark, settings)

        def slow(key):
            return next(each for each in pipeline.status() if each["name"] == "slow")[key]

        pipeline.start()
        try:
            wait_until(lambda: slow("lag") == 0, "everything is read", 240)
            assert (slow("brokers"), slow("brokers_silent_since")) == (here, None)
            broker.close()
            wait_until(lambda: slow("brokers_silent_since"), "that is noticed", 240)
            assert (slow("lag"), slow("lag_seconds")) == (None, None)
            with Broker(data_dir=data, port=int(here.rpartition(":")[2])):
                wait_until(lambda: not slow("brokers_silent_since"), "that is noticed, too", 240)
        finally:
            pipeline.stop()


def test_a_damaged_checkpoint_is_told_with_what_to_remove_and_that_helps(project, spark, bootstrap, topic):  # fmt: skip
    from barnabas.pipelines.continuous import Pipeline
    from barnabas.pipelines.problem import PipelineProblem

    def run():
        pipeline = Pipeline(project, spark, {"clicks.topic": topic})
        pipeline.run_available()
        return rows(pipeline.table("slow").select("user", "ms"))

    send(bootstrap, topic, ["ann", "bob", "ann"])
    assert run() == [("ann", 200)]
    state = project / ".barnabas/continuous"
    for flow, places in (
        ("slow", (state / "checkpoints/slow", state / "tables/slow")),
        ("send_slow", (state / "checkpoints/send_slow",)),
    ):
        damaged = state / "checkpoints" / flow / "offsets/0"
        damaged.write_text("oops")
        with pytest.raises(PipelineProblem) as caught:
            run()
        told = str(caught.value)
        assert f"{flow!r} failed: the checkpoint is damaged (Failed to read log file " in told
        assert f"remove {' and '.join(map(str, places))}" in told
        for place in places:
            shutil.rmtree(place)
        assert run() == [("ann", 200)]


def test_everything_that_is_wrong_is_found_before_it_runs(tmp_path, spark, bootstrap, topic):
    from barnabas.pipelines.checking import check

    wrong = """
    from pyspark import pipelines as dp
    import functions

    @dp.table
    def slow():
        return spark.readStream.table("clikcs")

    @dp.table
    def clicks():
        reader = spark.readStream.format("barnabas").option("subscribe", "nowhere")
        return reader.option("kafka.bootstrap.servers", spark.conf.get("barnabas.bootstrap.servers")).load()

    @dp.table
    def counts():
        return spark.readStream.table("clicks").groupBy("topic").count()

    @dp.table
    def one():
        return spark.readStream.table("two")

    @dp.table
    def two():
        return spark.readStream.table("one")

    @dp.table
    def batch():
        return spark.read.table("clicks")

    @dp.materialized_view
    def boom():
        return 1 / 0

    dp.create_sink("alone", "barnabas", {"topic": "x"})
    dp.create_sink("typo", "barnabas", {"topik": "x", "kafka.bootstrap.servers": "127.0.0.1:1"})

    @dp.append_flow(target="typo")
    def send():
        return spark.readStream.table("clicks")

    @dp.append_flow(target="tpyo")
    def lost():
        return spark.readStream.table("clicks")

    for name in ("mine", "yours", "other"):
        dp.create_sink(name, "barnabas", {"topic": "y", "sinkId": "other" if name == "other" else "s"})

    @dp.append_flow(target="mine")
    def to_mine():
        return spark.readStream.table("clicks")

    @dp.append_flow(target="yours")
    def to_yours():
        return spark.readStream.table("clicks")

    @dp.append_flow(target="other")
    def to_other():
        return spark.readStream.table("clicks")
    """
    functions = "from pyspark.sql import SparkSession\nspark = SparkSession.active()\n"
    project = make(tmp_path / "wrong", bootstrap, transformations__wrong_py=wrong, functions_py=functions)  # fmt: skip
    spec = project / "spark-pipeline.yml"
    spec.write_text(f"{spec.read_text()}  spark.sql.warehouse.dir: /elsewhere\n")
    (project / ".barnabas/continuous/checkpoints/old").mkdir(parents=True)
    found = [str(each).replace(bootstrap, "HERE") for each in check(project, spark, {})]
    expected = [
        "functions.py:1: error: workers cannot import it",
        "spark-pipeline.yml:8: error: spark.sql.warehouse.dir is settled when Spark starts",
        "transformations/wrong.py:6: error: 'slow' reads 'clikcs', and there is no such table or view: did you mean 'clicks'?",
        "transformations/wrong.py:13: error: [STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION]",
        "transformations/wrong.py:17: error: 'one' depends on itself: one -> two -> one",
        "transformations/wrong.py:25: error: 'batch' gives a batch, and 'batch' takes a stream",
        "transformations/wrong.py:31: error: ZeroDivisionError: division by zero",
        "transformations/wrong.py:33: error: nothing writes into 'alone'",
        "transformations/wrong.py:36: error: ",
        "transformations/wrong.py:40: error: flow 'lost' writes into 'tpyo', which is not defined: did you mean 'typo'?",
        "transformations/wrong.py:51: error: 'to_yours' writes with the sinkId 's' of 'to_mine' (transformations/wrong.py:47): leave sinkId out",
        "spark-pipeline.yml:1: warning: ",
        "transformations/wrong.py:8: warning: there is no topic 'nowhere' at HERE yet",
    ]
    for each in expected:
        assert any(told.startswith(each) for told in found), f"{each}\n" + "\n".join(found)
    assert sum("with the sinkId" in told for told in found) == 1
    assert not (project / ".barnabas/continuous/tables").exists()


def test_a_batch_that_is_run_again_with_other_cores_is_written_once(project, spark, bootstrap, topic):  # fmt: skip
    from barnabas.pipelines.continuous import Pipeline

    def run(cores):
        settings = {"clicks.topic": topic, "spark.sql.leafNodeDefaultParallelism": str(cores)}
        Pipeline(project, spark, settings).run_available()
        sent = spark.read.format("barnabas").option("kafka.bootstrap.servers", bootstrap)
        sent = sent.option("subscribe", f"{topic}-slow").load()
        return rows(sent.selectExpr("CAST(key AS STRING)"))

    state = project / ".barnabas/continuous"

    def noted():
        return [each.name for each in (state / "file-tasks").iterdir() if each.is_dir()]

    send(bootstrap, topic, ["ann", "bob", "ann", "bob"])
    assert run(1) == [("ann",), ("bob",)]
    # As if it was killed after the tasks of its batch, two files in one, and before Spark noted the end.
    for note in ("0", ".0.crc"):
        (state / "checkpoints/send_slow/commits" / note).unlink()
    assert run(2) == [("ann",), ("bob",)]
    assert noted() == ["1"]
    # What comes after that is cut by the cores there are.
    send(bootstrap, topic, ["cem"], start=7)
    assert run(2) == [("ann",), ("bob",), ("cem",)]
    assert noted() == ["2"]


def test_options_and_settings_that_a_run_would_fail_on_for_ever_are_found_before(tmp_path, spark, bootstrap):  # fmt: skip
    from barnabas.pipelines.checking import check
    from barnabas.pipelines.continuous import Pipeline
    from barnabas.pipelines.problem import PipelineProblem

    wrong = """
    from pyspark import pipelines as dp

    def topic(**options):
        bootstrap = spark.conf.get("barnabas.bootstrap.servers")
        return spark.readStream.format("barnabas").option("kafka.bootstrap.servers", bootstrap).options(**options).load()

    @dp.table
    def nothing():
        return topic()

    @dp.table
    def start():
        return topic(subscribe="t", startingOffsets="earlist")

    @dp.table
    def many():
        return topic(subscribe="t", maxOffsetsPerTrigger="many")

    @dp.table
    def assigned():
        return topic(assign="x")

    @dp.table(spark_conf={"barnabas.trigger.interval": "soon"})
    def often():
        return topic(subscribe="t")

    for kind, options in {"nowhere": {}, "barnabas_search": {}, "noop": {}}.items():
        dp.create_sink(f"to_{kind}", kind, options)

    @dp.append_flow(target="to_nowhere")
    def a():
        return topic(subscribe="t")

    @dp.append_flow(target="to_barnabas_search")
    def b():
        return topic(subscribe="t")

    @dp.append_flow(target="to_noop")
    def c():
        return topic(subscribe="t")
    """
    project = make(tmp_path / "wrong", bootstrap, **{"transformations__in two_py": wrong})
    spec = project / "spark-pipeline.yml"
    spec.write_text(f"{spec.read_text()}  barnabas.refresh.seconds: 30s\n  barnabas.trigger.interval: often\n")  # fmt: skip
    found = [str(each) for each in check(project, spark, {}) if each.level == "error"]
    expected = [
        "spark-pipeline.yml:8: error: barnabas.refresh.seconds='30s': a number of seconds is expected",
        "spark-pipeline.yml:9: error: barnabas.trigger.interval='often': a time is expected",
        "transformations/in two.py:7: error: give one of the options subscribe, subscribePattern, assign",
        "transformations/in two.py:11: error: startingOffsets cannot be read",
        "transformations/in two.py:15: error: maxOffsetsPerTrigger='many': a whole number",
        "transformations/in two.py:19: error: assign cannot be read",
        "transformations/in two.py:23: error: barnabas.trigger.interval='soon': a time is expected",
        "transformations/in two.py:30: error: [DATA_SOURCE_NOT_FOUND]",
        "transformations/in two.py:34: error: the option 'path' of the format barnabas_search is missing",
    ]
    assert len(found) == len(expected), "\n".join(found)
    for told, start in zip(found, expected, strict=True):
        assert told.startswith(start), f"{start}\n" + "\n".join(found)
    with pytest.raises(PipelineProblem, match=r"spark-pipeline.yml:8: barnabas.refresh.seconds='30s'"):  # fmt: skip
        Pipeline(project, spark)
    with pytest.raises(PipelineProblem, match=r"^barnabas.refresh.seconds='-1'"):
        Pipeline(project, spark, {"barnabas.refresh.seconds": "-1"})


def test_a_run_is_told_of_before_its_flows_wait_for_a_cluster_that_is_away(tmp_path, spark, monkeypatch):  # fmt: skip
    from barnabas.pipelines import options
    from barnabas.pipelines.continuous import Pipeline

    monkeypatch.setattr(options, "_FIRST_ANSWER_MS", 100)
    project = make(tmp_path / "away", transformations__clicks_py=CLICKS, functions_py=FUNCTIONS)
    pipeline = Pipeline(project, spark, {"clicks.topic": "t"})
    told = []

    def tell():
        told.append({each["name"]: each["state"] for each in pipeline.status()})

    pipeline.on_look = tell
    pipeline.start()
    try:
        wait_until(lambda: told and told[-1]["send_slow"] == "failing", "its topic cannot be made", 240)  # fmt: skip
    finally:
        pipeline.stop()
    assert told[0] == {"slow": "waiting", "send_slow": "waiting"}


PATTERN = """
from pyspark import pipelines as dp
from barnabas.pipelines import poison

here = {"kafka.bootstrap.servers": spark.conf.get("barnabas.bootstrap.servers")}
dp.create_sink("letters", "barnabas", here)


@dp.append_flow(target="letters")
def bad():
    reader = spark.readStream.format("barnabas").options(**here, subscribePattern=spark.conf.get("clicks.pattern"))
    reader = reader.option("startingOffsets", "earliest").option("valueFormat", "json")
    return poison.dead_letters(reader.option("valueSchema", "user STRING").load())
"""


def test_topics_that_are_found_by_a_pattern_have_dead_letters_also_those_that_come_later(
    tmp_path, spark, bootstrap, topic
):
    from barnabas.pipelines.continuous import Pipeline

    project = make(tmp_path / "pattern", bootstrap, transformations__bad_py=PATTERN)
    pipeline = Pipeline(project, spark, {"clicks.pattern": rf"^{topic}-\w+$"})

    def letters(name):
        with BlockingClient(ClientSettings.parse({"bootstrap.servers": bootstrap})) as client:
            if f"{name}.dlq" not in client.topics():
                return []
        return [each.value() for each in consume_all(bootstrap, f"{name}.dlq")]

    one, two = f"{topic}-one", f"{topic}-two"
    send(bootstrap, make_topic(bootstrap, one), [])
    pipeline.start()
    try:
        wait_until(lambda: letters(one) == [b"oops"], "the first has its letter", 240)
        send(bootstrap, make_topic(bootstrap, two), [])
        wait_until(lambda: letters(two) == [b"oops"], "the later one, too", 240)
    finally:
        pipeline.stop()


AS_TABLE = """
from pyspark import pipelines as dp

@dp.table
def words():
    return spark.readStream.format("rate").load()
"""
AS_VIEW = """
from pyspark import pipelines as dp

@dp.materialized_view
def words():
    return spark.range(3)
"""


@pytest.mark.parametrize(("before", "after", "was"), [(AS_TABLE, AS_VIEW, "a streaming table"), (AS_VIEW, AS_TABLE, "a materialised view")], ids=["to a view", "to a table"])  # fmt: skip
def test_a_table_that_becomes_a_view_and_a_view_that_becomes_a_table_are_refused_before_anything_is_written(
    tmp_path, spark, before, after, was
):
    from barnabas.pipelines.checking import check
    from barnabas.pipelines.continuous import Pipeline
    from barnabas.pipelines.problem import PipelineProblem

    project = make(tmp_path / "changed", transformations__words_py=before)
    pipeline = Pipeline(project, spark)
    if before == AS_VIEW:
        pipeline.run_available()
    make(project, transformations__words_py=after)
    state = project / ".barnabas/continuous"
    stored = sorted(state.rglob("*"))
    told = rf"transformations/words.py:3: .*'words' was {was} until now: .*remove "
    for _ in range(2):
        with pytest.raises(PipelineProblem, match=told.replace(".*'", "'")):
            Pipeline(project, spark)
    assert sorted(state.rglob("*")) == stored
    assert re.match(told, str(check(project, spark, {})[0]))
