"""Generators' records arrive in their order, each once, and what cannot be sent is told."""

import sys

import pytest
from topic_kit import consume_all, make_topic

from barnabas.pipelines import feeding
from barnabas.pipelines.feeding import Event


def test_all_arrive_in_order(bootstrap, topic):
    make_topic(bootstrap, topic)
    seen = []
    assert (
        feeding.feed(
            (Event(topic, "k", str(each)) for each in range(500)), bootstrap, 5000, seen.append
        )
        == 500
    )
    assert [each.value() for each in consume_all(bootstrap, topic)] == [
        b"%d" % each for each in range(500)
    ]


def test_what_is_not_taken_is_told(bootstrap, topic):
    make_topic(bootstrap, topic, **{"max.message.bytes": 1000})
    with pytest.raises(feeding.NotSent, match="too large"):
        feeding.feed([Event(topic, None, "x" * 5000)], bootstrap)


def test_the_command_line(bootstrap, topic, monkeypatch, capsys):
    make_topic(bootstrap, topic)

    def events(seed, count):
        return [Event(topic, None, f"{seed}-{each}") for each in range(count)]

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["generate.py", "--bootstrap", bootstrap, *words])
        with pytest.raises(SystemExit) as end:
            feeding.main(events, "Makes numbers.")
        return end.value.code, capsys.readouterr()

    code, said = run("--rate", "1000", "--seconds", "0.02", "--seed", "7")
    assert (code, said.out) == (0, f"sent 20 records to {bootstrap}\n")
    assert [each.value() for each in consume_all(bootstrap, topic)] == [
        b"7-%d" % each for each in range(20)
    ]
    assert run("--rate", "0", "--count", "3")[0] == 0
    code, said = run("--rate", "0")
    assert code == 2
    assert "--rate 0 needs --count" in said.err
