"""The source and the sink of Spark against Apache Kafka, as they are tested against a broker of ours."""

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed (extra spark)")

from pipeline_kit import Sink, Stream, rows
from topic_kit import add_partitions, committed, make_topic, produce_in_transaction

from barnabas.pipelines import delivery
from barnabas.pipelines.problem import PipelineProblem

pytestmark = pytest.mark.java


def test_exactly_once_through_apache_kafka(session_kafka):
    bootstrap = session_kafka
    make_topic(bootstrap, "pipeline-in", 1)
    make_topic(bootstrap, "pipeline-out", 2)
    produce_in_transaction(bootstrap, "pipeline-in", ["a", "b"], commit=True)
    produce_in_transaction(bootstrap, "pipeline-in", ["never"], commit=False)
    query = Stream(
        bootstrap,
        subscribePattern="pipeline-i.",
        startingOffsets="earliest",
        isolation="read_committed",
        groupId="pipeline",
    )
    sink = Sink(bootstrap, "pipeline-out")
    first = rows(*query.next())
    assert sink.write(0, first) == 2
    assert sink.write(0, first) == 0
    add_partitions(bootstrap, "pipeline-in", 2)
    produce_in_transaction(bootstrap, "pipeline-in", ["c"], commit=True, partition=1)
    (second,) = query.everything()
    assert committed(bootstrap, "pipeline", "pipeline-in", 1) == 2

    def zombie():
        yield rows(*second)
        assert sink.write(1, rows(*second)) == 1

    with sink.client() as client, pytest.raises(PipelineProblem, match="taken over"):
        delivery.write_epoch(client, sink.options, sink.name, 1, zombie())
    assert sorted(sink.values()) == ["a", "b", "c"]
    query.stop()
