from pyspark.pipelines.output import Sink
from pyspark.pipelines.source_code_location import SourceCodeLocation

from barnabas.pipelines.poison import DEAD_LETTER_COLUMNS
from barnabas.pipelines.sink_topics import topics_of


def sink(**options):
    return Sink("out", None, SourceCodeLocation("x.py", 1), "barnabas", options)


def test_a_topic_is_named_once_whoever_names_it():
    both = sink(deadLetterTopic="a.dlq")
    assert topics_of(both, DEAD_LETTER_COLUMNS, ["b", "a"]) == ["a.dlq", "b.dlq"]


def test_rows_that_are_no_dead_letters_go_where_the_sink_says():
    assert topics_of(sink(topic="t"), DEAD_LETTER_COLUMNS, ["a"]) == ["t"]
    assert topics_of(sink(), ("key", "value", "topic"), ["a"]) == []
