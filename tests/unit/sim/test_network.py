"""Connections to a simulated node: order, delays, cuts, half-open ones."""

import pytest

from barnabas.broker.node import Node
from barnabas.model.config.broker_config import BrokerConfig
from barnabas.sim.client import Client
from barnabas.sim.machine import Crash, Machine
from barnabas.sim.network import Network
from barnabas.sim.world import SECOND, Scheduler
from barnabas.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.wire.messages.metadata import MetadataRequest


class Talker(Client):
    """Sends what the test says and keeps what comes back."""

    def __init__(self, network):
        super().__init__("talker", network)
        self.answers = []

    def step(self):
        pass

    def metadata(self, version=12):
        request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
        self.ask(request, version, self.answers.append)

    def create(self, name):
        topic = CreatableTopic(
            name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[]
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=1000, validate_only=False)
        self.ask(request, 7, self.answers.append)


@pytest.fixture(params=range(3))
def talker(request):
    scheduler = Scheduler(request.param)
    machine = Machine(scheduler, BrokerConfig({"log.dirs": "/data", "broker.id": "1"}), Node)
    network = Network(scheduler, machine)
    machine.start()
    talker = Talker(network)
    talker.wake()
    assert run(talker, lambda: talker.connection is not None)
    return talker


def run(talker, until):
    return talker.scheduler.run(until, talker.scheduler.now_us + 20 * SECOND)


def test_replies_come_in_the_order_of_the_requests(talker):
    for name in ("a", "b", "c"):
        talker.create(name)
        talker.metadata()
    assert run(talker, lambda: len(talker.answers) == 6)
    counts = [len(answer.topics) for answer in talker.answers[1::2]]
    assert counts == [1, 2, 3]


def test_a_half_open_connection_brings_requests_and_no_replies(talker):
    talker.connection.loses_replies = True
    talker.create("a")
    assert run(talker, lambda: talker.answers == [None])
    assert run(talker, lambda: talker.connection is not None)
    talker.metadata()
    assert run(talker, lambda: len(talker.answers) == 2)
    assert [topic.name for topic in talker.answers[1].topics] == ["a"]


def test_a_cut_connection_brings_nothing(talker):
    talker.connection.cut()
    talker.create("a")
    assert run(talker, lambda: talker.answers == [None])
    assert run(talker, lambda: talker.connection is not None)
    talker.metadata()
    assert run(talker, lambda: len(talker.answers) == 2)
    assert talker.answers[1].topics == []


def test_a_crash_answers_what_was_asked_with_nothing(talker):
    talker.create("a")
    talker.network.machine.crash(Crash.PROCESS, SECOND)
    assert run(talker, lambda: talker.answers == [None])
    assert run(talker, lambda: talker.connection is not None)
    assert talker.connection.life.number == 2


def test_a_cut_network_lets_nobody_in(talker):
    talker.network.is_cut = True
    talker.hang_up()
    assert not run(talker, lambda: talker.connection is not None)
    talker.network.is_cut = False
    assert run(talker, lambda: talker.connection is not None)
