"""Redriving without a broker: which letters a topic takes, and transactions that always end."""

from dataclasses import replace

import pytest
from confluent_kafka import KafkaError, KafkaException

from barnabas.cli.connection import Connection
from barnabas.cli.dead_letters import Letter, Wanted
from barnabas.cli.record import Record
from barnabas.cli.redrive import Redrive, Target, plan, without_refused
from barnabas.client.topics import TopicLimits
from barnabas.wire.batch import Record as BatchRecord
from barnabas.wire.batch import build


def letter(offset, value, key=b"k"):
    headers = (("trace", b"7"), ("barnabas.topic", b"a"))
    return Letter.of(Record("a.dlq", 0, offset, 0, None, key, value, headers), ())


def chosen(letters, limits):
    return without_refused(plan(letters, Wanted(), None), {"a": Target(1, limits)})


def test_a_letter_is_refused_from_one_byte_too_many_on():
    fits = len(build([BatchRecord(0, 0, b"k", b"v" * 500, (("trace", b"7"),))]))
    found = chosen([letter(0, b"v" * 500), letter(1, b"v" * 501)], TopicLimits(fits, False))
    assert [each.place for each, _ in found.sent] == [(0, 0)]
    ((refused, why),) = found.refused
    assert refused.place == (0, 1)
    assert why == f"a takes {fits:,} bytes (max.message.bytes), this has {fits + 1:,}"


def test_a_compacted_topic_takes_no_letter_without_a_key():
    found = chosen([letter(0, b"v", None), letter(1, b"v")], TopicLimits(None, True))
    assert [each.place for each, _ in found.sent] == [(0, 1)]
    assert [each.place for each, _ in found.refused] == [(0, 0)]


def test_where_limits_are_not_told_everything_is_tried():
    assert chosen([letter(0, b"v", None)], TopicLimits(None, None)).refused == []


def test_a_topic_that_is_closed_takes_none_and_others_are_not_held_back():
    two = [letter(0, b"v"), letter(1, b"v")]
    told = replace(two[1], told={**two[1].told, "topic": "b"})
    targets = {"a": Target(problem="there is no topic a"), "b": Target(1)}
    found = without_refused(plan([two[0], told], Wanted(), None), targets)
    assert [topic for _, topic in found.sent] == ["b"]
    assert [(each.place, why) for each, why in found.refused] == [((0, 0), "there is no topic a")]


class Transactions:
    """Stands for librdkafka: writes down what is called."""

    def __init__(self):
        self.calls = []

    def begin_transaction(self):
        self.calls.append("begin")

    def flush(self, _timeout):
        return 0

    def commit_transaction(self, _timeout):
        self.calls.append("commit")

    def abort_transaction(self, _timeout):
        self.calls.append("abort")
        raise KafkaException(KafkaError(KafkaError._STATE))


@pytest.mark.parametrize(
    "problem", [KafkaException(KafkaError(10)), BufferError(), KeyboardInterrupt(), None]
)
def test_a_transaction_is_aborted_whatever_goes_wrong(problem):
    driver = Redrive(Connection("127.0.0.1:9", {}, 1, "table"), "a.dlq")
    producer = Transactions()

    def run():
        with driver._transaction(producer):
            if problem is not None:
                raise problem

    if problem is None:
        run()
    else:
        with pytest.raises(type(problem)) as raised:
            run()
        assert raised.value is problem
    assert producer.calls == ["begin", "commit" if problem is None else "abort"]
