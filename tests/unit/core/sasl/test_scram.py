"""SCRAM: both sides, and what each refuses."""

import base64

import pytest

from barnabas.core.sasl.mechanism import SCRAM_SHA_256, SCRAM_SHA_512, Identity, LoginRefused
from barnabas.core.sasl.scram import ScramClient, ScramServer
from barnabas.core.sasl.scram_credential import (
    ScramCredential,
    credential_text,
    derive,
    parse_credential,
)

SALT = b"salt of 16 bytes"
STORED = {
    mechanism: {
        name: derive(mechanism, password, SALT, 4096)
        for name, password in (("alice", "wonder"), ("a=b,c", "odd"))
    }
    for mechanism in (SCRAM_SHA_256, SCRAM_SHA_512)
}


def server(mechanism: str = SCRAM_SHA_256, nonce: str = "server") -> ScramServer:
    return ScramServer(mechanism, STORED[mechanism].get, nonce, b"secret")


def refusal(machine: ScramServer, token: bytes) -> str:
    with pytest.raises(LoginRefused) as refused:
        machine.answer(token, 0)
    assert machine.identity is None
    return str(refused.value)


@pytest.mark.parametrize("mechanism", [SCRAM_SHA_256, SCRAM_SHA_512])
@pytest.mark.parametrize(("name", "password"), [("alice", "wonder"), ("a=b,c", "odd")])
def test_both_sides_agree(mechanism: str, name: str, password: str) -> None:
    client, machine = ScramClient(mechanism, name, password, "client"), server(mechanism)
    challenge = machine.answer(client.next_token(None), 0)
    final = machine.answer(client.next_token(challenge), 0)
    assert client.next_token(final) == b""
    assert client.is_done
    assert machine.identity == Identity(name)


def test_rfc_7677_example() -> None:
    salt = "W22ZaJ0SNY7soEsUEjb6gQ=="
    credential = derive(SCRAM_SHA_256, "pencil", base64.b64decode(salt), 4096)
    machine = ScramServer(
        SCRAM_SHA_256, {"user": credential}.get, "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0", b""
    )
    assert machine.answer(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO", 0) == (
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    assert (
        machine.answer(
            b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
            b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
            0,
        )
        == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    )


def test_unknown_name_reads_like_wrong_password() -> None:
    refusals = []
    for name in ("alice", "carol"):
        client, machine = ScramClient(SCRAM_SHA_256, name, "guess", "client"), server()
        challenge = machine.answer(client.next_token(None), 0)
        refusals.append(refusal(machine, client.next_token(challenge)))
    assert refusals[0] == refusals[1]


def test_salt_of_an_unknown_name_stays() -> None:
    challenges = {server(nonce="s").answer(b"n,,n=carol,r=c", 0) for _ in range(3)}
    assert len(challenges) == 1
    assert challenges != {server(nonce="s").answer(b"n,,n=dave,r=c", 0)}


def test_nonce_that_comes_back_changed_is_refused() -> None:
    client, machine = ScramClient(SCRAM_SHA_256, "alice", "wonder", "client"), server()
    challenge = machine.answer(client.next_token(None), 0)
    final = client.next_token(challenge.replace(b"clientserver", b"clientserver2"))
    refusal(machine, final)


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"\xff",
        b"p=tls-unique,,n=alice,r=c",
        b"n,a=bob,n=alice,r=c",
        b"n,,n=alice,r=c,tokenauth=true",
        b"n,,n=al=41ice,r=c",
        b"n,,m=1,n=alice,r=c",
        b"n,,n=alice,r=" + b"c" * 2000,
    ],
)
def test_first_messages_that_are_refused(first: bytes) -> None:
    refusal(server(), first)


def test_own_name_as_authorization_id() -> None:
    assert server().answer(b"n,a=alice,n=alice,r=c", 0)


@pytest.mark.parametrize(
    "final",
    [
        b"",
        b"c=biws,r=cserver,p=AAAA",
        b"c=biws,r=cserver,p=A",
        b"c=eSws,r=cserver,p=" + b"AAAA" * 10,
    ],
)
def test_final_messages_that_are_refused(final: bytes) -> None:
    machine = server()
    machine.answer(b"n,,n=alice,r=c", 0)
    refusal(machine, final)


@pytest.mark.parametrize(
    "challenge",
    [
        b"r=client,s=AAAA,i=4096",
        b"r=other,s=AAAA,i=4096",
        b"r=clientserver,s=AAAA,i=1",
        b"r=clientserver,s=AAAA,i=999999999",
        b"nonsense",
    ],
)
def test_client_refuses_bad_servers(challenge: bytes) -> None:
    client = ScramClient(SCRAM_SHA_256, "alice", "wonder", "client")
    client.next_token(None)
    with pytest.raises(LoginRefused):
        client.next_token(challenge)


def test_client_wants_the_servers_proof() -> None:
    client = ScramClient(SCRAM_SHA_256, "alice", "wonder", "client")
    client.next_token(server().answer(client.next_token(None), 0))
    with pytest.raises(LoginRefused):
        client.next_token(b"v=AAAA")
    assert not client.is_done


def test_kafkas_text() -> None:
    credential = ScramCredential(b"\0salt", b"\1stored", b"\2server", 8192)
    text = credential_text(credential)
    assert text == "salt=AHNhbHQ=,stored_key=AXN0b3JlZA==,server_key=AnNlcnZlcg==,iterations=8192"
    assert parse_credential(text) == credential


@pytest.mark.parametrize(
    "text", ["", "salt=AA==", "salt=!,stored_key=A,server_key=A,iterations=1", "a=b,c=d,e=f,g=h"]
)
def test_no_credential_and_no_secret_in_the_words(text: str) -> None:
    with pytest.raises(ValueError, match="SCRAM credential") as problem:
        parse_credential(text)
    assert not text or text not in str(problem.value)
