import time

import pytest
from pyspark.pipelines.output import Sink
from pyspark.pipelines.source_code_location import SourceCodeLocation
from topic_kit import make_topic

from barnabas.client.errors import ClientError
from barnabas.pipelines import options
from barnabas.pipelines.poison import DEAD_LETTER_COLUMNS
from barnabas.pipelines.sink_topics import create_missing, topics_found, topics_of


def sink(**options):
    return Sink("out", None, SourceCodeLocation("x.py", 1), "barnabas", options)


def test_a_topic_is_named_once_whoever_names_it():
    both = sink(deadLetterTopic="a.dlq")
    assert topics_of(both, DEAD_LETTER_COLUMNS, ["b", "a"]) == ["a.dlq", "b.dlq"]


def test_rows_that_are_no_dead_letters_go_where_the_sink_says():
    assert topics_of(sink(topic="t"), DEAD_LETTER_COLUMNS, ["a"]) == ["t"]
    assert topics_of(sink(), ("key", "value", "topic"), ["a"]) == []


def test_a_cluster_that_is_away_does_not_hold_up_who_creates_topics(monkeypatch):
    monkeypatch.setattr(options, "_FIRST_ANSWER_MS", 100)
    away = sink(topic="t", **{"kafka.bootstrap.servers": "127.0.0.1:1"})
    began = time.monotonic()
    with pytest.raises(ClientError):
        create_missing(away, ["t"])
    assert time.monotonic() - began < 10


def test_a_pattern_finds_topics_and_not_their_dead_letters(bootstrap, topic):
    for name in (f"{topic}-a", f"{topic}-b", f"{topic}-a.dlq", f"other-{topic}"):
        make_topic(bootstrap, name)
    found = topics_found({"bootstrap.servers": bootstrap}, [f"^{topic}-[ac]", f"^{topic}-b$"])
    assert found == {f"{topic}-a", f"{topic}-b"}
