"""The broker inside a process, and the fixture."""

import socket
import sys
import threading
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

import barnabas
from barnabas.core.partition import PartitionState
from barnabas.model.config.types import ConfigProblem
from barnabas.runtime.faults import StateBroken


def produce(bootstrap, topic, *values):
    producer = Producer({"bootstrap.servers": bootstrap})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(10) == 0


def consume(bootstrap, topic, count):
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    messages = consumer.consume(count, 10)
    consumer.close()
    return [message.value() for message in messages]


def test_records_go_in_and_come_out():
    with barnabas.Broker() as broker:
        produce(broker.bootstrap, "t", b"one", b"two")
        assert consume(broker.bootstrap, "t", 2) == [b"one", b"two"]


def test_nothing_is_left_behind():
    before = set(threading.enumerate())
    with barnabas.Broker() as broker:
        data_dir = broker._broker.node.config.log_dirs[0]
        assert Path(data_dir).is_dir()
    assert not Path(data_dir).exists()
    assert set(threading.enumerate()) == before
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((broker.host, broker.port))


def test_starting_and_stopping_is_little_work():
    """A hundred times as much would take the fifth of a second that is promised. Counted, so that other work on the machine does not matter."""
    with barnabas.Broker():
        pass  # what is loaded once
    calls = 0

    def count(_frame, event, _argument):
        nonlocal calls
        calls += event in ("call", "c_call")

    threading.setprofile(count)
    sys.setprofile(count)
    try:
        with barnabas.Broker():
            pass
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    assert 500 < calls < 10_000


def test_a_data_dir_outlives_the_broker(tmp_path):
    data_dir = str(tmp_path / "data")
    with barnabas.Broker(data_dir=data_dir) as broker:
        produce(broker.bootstrap, "t", b"kept")
    with barnabas.Broker(data_dir=data_dir) as broker:
        assert consume(broker.bootstrap, "t", 1) == [b"kept"]


def test_settings_are_taken(tmp_path):
    with barnabas.Broker(
        settings={"num.partitions": 3, "auto.create.topics.enable": True}
    ) as broker:
        produce(broker.bootstrap, "t", b"x")
        assert len(broker._broker.node.topics.by_name["t"].partitions) == 3


def test_wrong_settings_are_refused():
    with pytest.raises(ConfigProblem, match=r"num\.partitions"):
        barnabas.Broker(settings={"num.partitons": 3})


def test_a_directory_in_use_is_refused(tmp_path):
    with barnabas.Broker(data_dir=str(tmp_path)), pytest.raises(OSError, match="use"):
        barnabas.Broker(data_dir=str(tmp_path))


def test_a_taken_port_is_told():
    with (
        barnabas.Broker() as first,
        pytest.raises(OSError, match=f"cannot listen on .*{first.port}"),
    ):
        barnabas.Broker(port=first.port)


def test_two_brokers_run_side_by_side():
    with barnabas.Broker() as one, barnabas.Broker() as two:
        produce(one.bootstrap, "t", b"one")
        produce(two.bootstrap, "t", b"two")
        assert consume(one.bootstrap, "t", 1) == [b"one"]
        assert consume(two.bootstrap, "t", 1) == [b"two"]


def test_closing_twice_is_harmless():
    broker = barnabas.Broker()
    broker.close()
    broker.close()


def test_the_fixture_gives_a_broker(broker):
    produce(broker.bootstrap, "t", b"x")
    assert consume(broker.bootstrap, "t", 1) == [b"x"]


def test_only_the_broker_is_exported():
    with pytest.raises(AttributeError, match="nothing"):
        barnabas.nothing  # noqa: B018


def planted(*_args):
    raise RuntimeError("planted")


def test_faults_in_callbacks_harm_nobody_else(caplog):
    with barnabas.Broker() as broker:
        running = broker._broker
        loop, store = running.loop, running.node.world.coordination
        produce(broker.bootstrap, "t", b"before")
        plants = [
            planted,
            lambda: loop.call_at(0, planted),
            lambda: loop.run(lambda: None, planted),
            lambda: store.read("/brokers", planted),
            lambda: store.watch("/brokers/topics", planted),
        ]
        for plant in plants:
            loop.post(plant)
        produce(broker.bootstrap, "u", b"after")
        produce(broker.bootstrap, "t", b"after")
        assert consume(broker.bootstrap, "t", 2) == [b"before", b"after"]
        assert consume(broker.bootstrap, "u", 1) == [b"after"]
    told = [record for record in caplog.records if record.exc_info]
    assert loop.faults.count >= len(plants)
    assert len(told) == 1  # all of them were raised in the same place
    assert told[0].exc_info[0] is RuntimeError


def test_a_fault_at_the_end_of_turns_keeps_no_answer_back(monkeypatch, caplog):
    with barnabas.Broker() as broker:
        node, left = broker._broker.node, [5]
        at_turn_end = node.on_turn_end

        def fail_a_few_times():
            at_turn_end()
            if left[0]:
                left[0] -= 1
                planted()

        monkeypatch.setattr(node, "on_turn_end", fail_a_few_times)
        produce(broker.bootstrap, "t", b"one")
        assert consume(broker.bootstrap, "t", 1) == [b"one"]
        assert left == [0]
    assert broker._broker.loop.faults.count == 5
    assert len([record for record in caplog.records if record.exc_info]) == 1


def test_a_broken_invariant_ends_the_broker_and_what_was_written_is_there_again(tmp_path, caplog):
    broker = barnabas.Broker(data_dir=str(tmp_path))
    produce(broker.bootstrap, "t", b"one")
    broker._broker.loop.post(lambda: PartitionState(1, (2, 3), 0, 0))
    broker._thread.join()
    assert isinstance(broker._failure, StateBroken)
    [told] = [record for record in caplog.records if record.levelname == "CRITICAL"]
    assert "t-0 of topic id" in told.getMessage()
    assert "log 0 to 1" in told.getMessage()
    with barnabas.Broker(data_dir=str(tmp_path)) as again:
        assert consume(again.bootstrap, "t", 1) == [b"one"]
