import socket
import time

import pytest
from pyspark.pipelines.output import Sink
from pyspark.pipelines.source_code_location import SourceCodeLocation
from topic_kit import make_topic

from barnabas.client.errors import ClientError
from barnabas.pipelines import options, sink_topics
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


@pytest.mark.parametrize("look", [
    lambda client: create_missing(sink(topic="t", **{f"kafka.{name}": value for name, value in client.items()}), ["t"]),
    lambda client: topics_found(client, ["a"]),
])  # fmt: skip
def test_a_broker_that_takes_connections_and_never_answers_holds_up_nobody(monkeypatch, look):
    monkeypatch.setattr(options, "_FIRST_ANSWER_MS", 100)
    monkeypatch.setattr(sink_topics, "_ANSWER_MS", 100)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        host, port = mute.getsockname()
        began = time.monotonic()
        with pytest.raises(ClientError, match="no answer"):
            look({"bootstrap.servers": f"{host}:{port}"})
        assert time.monotonic() - began < 10


def test_a_pattern_finds_topics_and_not_their_dead_letters(bootstrap, topic):
    for name in (f"{topic}-a", f"{topic}-b", f"{topic}-a.dlq", f"other-{topic}"):
        make_topic(bootstrap, name)
    found = topics_found({"bootstrap.servers": bootstrap}, [f"^{topic}-[ac]", f"^{topic}-b$"])
    assert found == {f"{topic}-a", f"{topic}-b"}
