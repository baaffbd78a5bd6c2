"""Shapes of load in which records once went astray: a broker has them where they belong, and with the old fault planted the oracle names one that is not."""

import contextlib
import functools
import re

import pytest
from chaos.wire_kit import BrokerProcess
from oracle import shapes
from oracle.ledger import Ledger
from oracle.planted_kit import PlantedBroker
from security_kit import make_certificates

#: A planted fault shows in the first pass; in another one where a machine with much else to do came between.
PASSES = 10
#: For an answer of a broker with a planted fault.
ANSWER_S = 10
SHAPES = {
    "lane": (shapes.burst_then_singles, r"single-\d+ \d stands in burst-\d+-0"),
    "by_name": (shapes.made_again_while_opened, r"was sent to life 1 of the topic, and stands in life 2"),
    "second_read": (shapes.requests_in_records, r"carrier-\d+ \d stands in aim-\d+-0"),
}  # fmt: skip


@pytest.fixture(params=SHAPES)
def fault(request):
    return request.param


@pytest.fixture
def home(fault, tmp_path):
    """What a broker is started with, and the shape to run on it."""
    shape, _ = SHAPES[fault]
    if fault != "second_read":
        return {}, shape
    files = make_certificates(tmp_path)
    settings = [
        "listener.security.protocol.map=PLAIN:PLAINTEXT,TLS:SSL", "inter.broker.listener.name=PLAIN",
        "ssl.keystore.type=PEM", f"ssl.keystore.location={files.server}",
        "ssl.truststore.type=PEM", f"ssl.truststore.location={files.authority}",
    ]  # fmt: skip
    options = {"listen": ["PLAIN://127.0.0.1:0", "TLS://127.0.0.1:0"], "settings": settings}
    return options, functools.partial(shape, tls=shapes.client_tls(files))


def test_records_are_where_they_belong(home, tmp_path):
    options, shape = home
    with BrokerProcess(tmp_path / "data", **options) as broker:
        assert shape(broker, Ledger(), 0) is None
        assert broker.terminate() == 0


def test_the_oracle_finds_the_planted_fault(fault, home, tmp_path, monkeypatch):
    options, shape = home
    monkeypatch.setattr("chaos.wire_kit.DEADLINE_S", ANSWER_S)
    with PlantedBroker(fault, tmp_path / "data", **options) as broker:
        found = None
        for tag in range(PASSES):
            # A broker whose memory is not its own may do anything else as well, such as not answer.
            with contextlib.suppress(TimeoutError, AssertionError):
                found = shape(broker, Ledger(), tag)
            if found:
                break
        assert found is not None
        assert re.search(SHAPES[fault][1], found), found
        broker.kill()
