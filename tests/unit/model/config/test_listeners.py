"""Listener addresses."""

import pytest

from barnabas.model.config import ConfigProblem, Listener, parse_listeners
from barnabas.model.config.listeners import parse_advertised, parse_protocol_map

TWO = {"PLAINTEXT": "PLAINTEXT", "OTHER": "PLAINTEXT"}


def test_several_addresses():
    assert parse_listeners("PLAINTEXT://127.0.0.1:9092, other://[::1]:9093", TWO) == (
        Listener("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 9092),
        Listener("OTHER", "PLAINTEXT", "::1", 9093),
    )


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("PLAINTEXT://:9092", "", 9092),
        ("PLAINTEXT://0.0.0.0:0", "0.0.0.0", 0),
        ("plaintext://my-host.example_1.com:65535", "my-host.example_1.com", 65535),
        ("PLAINTEXT://[fe80::1%eth0]:1", "fe80::1%eth0", 1),
    ],
)
def test_hosts(text, host, port):
    (listener,) = parse_listeners(text)
    assert (listener.host, listener.port) == (host, port)
    assert parse_listeners(str(listener)) == (listener,)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "at least one"),
        (" , ", "at least one"),
        ("127.0.0.1:9092", "NAME://HOST:PORT"),
        ("PLAINTEXT://127.0.0.1", "NAME://HOST:PORT"),
        ("PLAINTEXT://::1:9092", "NAME://HOST:PORT"),
        ("PLAINTEXT://host:65536", "NAME://HOST:PORT"),
        ("PLAINTEXT://host:-1", "NAME://HOST:PORT"),
        ("PLAINTEXT://a b:1", "NAME://HOST:PORT"),
        ("INSIDE://:9092", "INSIDE:PLAINTEXT to listener.security.protocol.map"),
        ("PLAINTEXT://:1,plaintext://:2", "PLAINTEXT is used twice"),
    ],
)
def test_refused(text, part):
    with pytest.raises(ConfigProblem) as caught:
        parse_listeners(text)
    assert part in caught.value.message
    assert caught.value.name == "listeners"


@pytest.mark.parametrize(
    ("first", "second", "fine"),
    [
        ("127.0.0.1:9092", "127.0.0.1:9092", False),
        ("127.0.0.1:9092", "10.0.0.1:9092", False),
        ("127.0.0.1:9092", "[::1]:9092", True),
        ("[::1]:9092", "127.0.0.1:9092", True),
        ("[::1]:9092", "[::2]:9092", False),
        ("[::1]:9092", "host:9092", False),
        ("host:9092", "[::1]:9092", False),
        (":9092", "[::1]:9092", False),
        ("host:0", "host:0", True),
    ],
)
def test_one_port_for_one_listener(first, second, fine):
    text = f"PLAINTEXT://{first},OTHER://{second}"
    if fine:
        assert len(parse_listeners(text, TWO)) == 2
    else:
        with pytest.raises(ConfigProblem, match="use the same port"):
            parse_listeners(text, TWO)


def test_protocol_map():
    assert parse_protocol_map(" a:plaintext, B:SASL_SSL,") == {"A": "PLAINTEXT", "B": "SASL_SSL"}


@pytest.mark.parametrize("text", ["A", "A:", ":PLAINTEXT", "A:TLS"])
def test_wrong_protocol_map(text):
    with pytest.raises(ConfigProblem, match="is not NAME:PROTOCOL"):
        parse_protocol_map(text)


def test_advertised_addresses_belong_to_listeners():
    listeners = parse_listeners("PLAINTEXT://:9092")
    (told,) = parse_advertised("PLAINTEXT://broker.example.com:19092", listeners)
    assert told == Listener("PLAINTEXT", "PLAINTEXT", "broker.example.com", 19092)
    assert parse_advertised("", listeners) == ()
    with pytest.raises(ConfigProblem, match="'OTHER://h:1' has no security"):
        parse_advertised("OTHER://h:1", listeners)


@pytest.mark.parametrize("host", ["", "0.0.0.0", "[::]"])
def test_advertised_addresses_can_be_connected_to(host):
    with pytest.raises(ConfigProblem, match="no address a client can connect to"):
        parse_advertised(f"PLAINTEXT://{host}:9092", parse_listeners("PLAINTEXT://:9092"))


def test_advertised_addresses_may_share_a_port():
    listeners = parse_listeners("PLAINTEXT://:1,OTHER://:2", TWO)
    assert len(parse_advertised("PLAINTEXT://a:9092,OTHER://b:9092", listeners)) == 2
