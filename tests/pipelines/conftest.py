"""One broker and one Spark for all tests of pipelines."""

import contextlib
import os

import pytest

from barnabas import Broker

# An archive for quick starts is used if there is one; tests leave no process behind that makes it.
os.environ["BARNABAS_SPARK_ARCHIVE"] = "off"


@pytest.fixture(scope="session")
def shared_broker():
    """A broker whose topics tests name after themselves, and which looks for no old records: tests write some of years ago."""
    settings = {
        "offsets.topic.num.partitions": 3,
        "log.initial.task.delay.ms": 86_400_000,
        "log.retention.check.interval.ms": 86_400_000,
    }
    with Broker(settings=settings) as running:
        yield running


@pytest.fixture
def bootstrap(shared_broker):
    """Its address."""
    return shared_broker.bootstrap


@pytest.fixture
def topic(request):
    """A name that is this test's alone."""
    return "".join(each if each.isalnum() else "-" for each in request.node.name)[:100]


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """A Spark that nothing of barnabas is registered with, and that leaves its folders elsewhere."""
    pytest.importorskip("pyspark", reason="pyspark is not installed (extra spark)")
    from barnabas.pipelines import session
    from barnabas.pipelines.java import JavaMissing

    config = {
        "spark.sql.shuffle.partitions": "2",
        "spark.log.level": "OFF",
        "spark.task.maxFailures": "1",
        # Frames are tiny: to write, compile and load a class for each plan takes longer than to interpret it.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }
    try:
        with contextlib.chdir(tmp_path_factory.mktemp("spark")):
            running = session("tests", master="local[2]", quick=True, config=config)
    except JavaMissing as problem:
        pytest.skip(f"Spark has no Java: {problem}")
    yield running
    running.stop()
