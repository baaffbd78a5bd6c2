"""CVE-2017-12610: whoever could log in could say to act for somebody else, and did. An authorization id that is not the name of the login is refused."""

import pytest
from chaos.wire_kit import RawClient
from vulnerability_kit import PASSWORD, broker_with_login

from barnabas.core.sasl.mechanism import SCRAM_SHA_256, LoginRefused
from barnabas.core.sasl.scram import ScramServer
from barnabas.core.sasl.scram_credential import derive
from barnabas.model.errors import ErrorCode
from barnabas.wire.messages.metadata import MetadataRequest
from barnabas.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from barnabas.wire.messages.sasl_handshake import SaslHandshakeRequest


@pytest.fixture(scope="module")
def safe():
    with broker_with_login() as (address, _):
        yield address


def login(client, token):
    assert client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0
    return client.ask(SaslAuthenticateRequest(auth_bytes=token), 2)


@pytest.mark.parametrize("acting_for", [b"bob", b"ALICE", b"alice\x01", b"admin"])
def test_plain_lets_nobody_act_for_somebody_else(safe, acting_for):
    with RawClient(safe) as client:
        answer = login(client, acting_for + b"\0alice\0" + PASSWORD.encode())
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert client.is_closed_by_peer()


@pytest.mark.parametrize("acting_for", [b"", b"alice"])
def test_plain_lets_everybody_be_themselves(safe, acting_for):
    with RawClient(safe) as client:
        assert login(client, acting_for + b"\0alice\0" + PASSWORD.encode()).error_code == 0
        assert client.ask(MetadataRequest(topics=[]), 9).brokers


def test_scram_lets_nobody_act_for_somebody_else():
    stored = {"alice": derive(SCRAM_SHA_256, "w", b"salt of 16 bytes", 4096)}
    server = ScramServer(SCRAM_SHA_256, stored.get, "nonce", b"secret")
    with pytest.raises(LoginRefused):
        server.answer(b"n,a=bob,n=alice,r=abc", 0)
    assert server.identity is None
