"""PLAIN: names and passwords."""

import pytest

from barnabas.core.sasl.mechanism import Identity, LoginRefused
from barnabas.core.sasl.plain import PlainClient, PlainServer

PASSWORDS = {"alice": "wonder, land", "bob": "builder"}


def refusal(token: bytes) -> str:
    server = PlainServer(PASSWORDS)
    with pytest.raises(LoginRefused) as refused:
        server.answer(token, 0)
    assert server.identity is None
    return str(refused.value)


def test_both_sides_agree() -> None:
    client, server = PlainClient("alice", "wonder, land"), PlainServer(PASSWORDS)
    assert server.answer(client.next_token(None), 0) == b""
    assert server.identity == Identity("alice")
    client.next_token(b"")
    assert client.is_done


def test_own_name_as_authorization_id() -> None:
    server = PlainServer(PASSWORDS)
    server.answer(b"bob\0bob\0builder", 0)
    assert server.identity == Identity("bob")


def test_unknown_name_reads_like_wrong_password() -> None:
    assert refusal(b"\0alice\0guess") == refusal(b"\0carol\0guess")


def test_acting_for_somebody_else_is_refused() -> None:
    assert "authorization id" in refusal(b"alice\0bob\0builder")


@pytest.mark.parametrize(
    "token", [b"", b"\0alice\0", b"\0\0builder", b"a\0b", b"\0a\0b\0c", b"\0a\0\xff"]
)
def test_malformed(token: bytes) -> None:
    assert "Invalid SASL/PLAIN response" in refusal(token)


def test_a_user_without_a_password_cannot_log_in() -> None:
    with pytest.raises(LoginRefused):
        PlainServer({"alice": ""}).answer(b"\0alice\0x", 0)
