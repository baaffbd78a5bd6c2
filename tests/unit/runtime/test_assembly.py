"""A broker of real parts: what it says of open listeners."""

import logging

import pytest

from barnabas.model.config.listeners import Listener
from barnabas.runtime.assembly import _warn_if_open


@pytest.mark.parametrize(
    ("protocol", "host", "is_told"),
    [
        ("PLAINTEXT", "0.0.0.0", True),
        ("PLAINTEXT", "::", True),
        ("PLAINTEXT", "10.0.0.1", True),
        ("PLAINTEXT", "127.0.0.1", False),
        ("PLAINTEXT", "::1", False),
        ("SSL", "0.0.0.0", False),
        ("SASL_PLAINTEXT", "0.0.0.0", False),
    ],
)
def test_an_open_listener_is_told_of(protocol, host, is_told, caplog):
    with caplog.at_level(logging.WARNING):
        _warn_if_open(Listener("L", protocol, "", 9092), host)
    assert ("open to everybody" in caplog.text) == is_told
