"""What a client says to log in, and what it must not believe."""

import base64

import pytest

from barnabas.client.errors import AuthenticationFailed
from barnabas.client.sasl import ITERATIONS_MAX, exchange, oauthbearer, plain, scram
from barnabas.client.settings import ClientSettings

#: The exchange of RFC 7677, section 3.
NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_NONCE = f"{NONCE}%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
FIRST = f"r={SERVER_NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
FINAL = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def start(nonce=NONCE):
    talk = scram("sha256", "user", "pencil", base64.b64decode(nonce))
    return talk, next(talk)


def test_plain():
    assert list(plain("u", "pä")) == [b"\0u\0p\xc3\xa4"]


def test_scram_as_in_its_rfc():
    talk, first = start()
    assert first == f"n,,n=user,r={NONCE}".encode()
    final = talk.send(FIRST.encode())
    proof = "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    assert final == f"c=biws,r={SERVER_NONCE},p={proof}".encode()
    with pytest.raises(StopIteration):
        talk.send(FINAL.encode())


def test_names_are_escaped():
    assert next(scram("sha256", "a=b,c", "p", b"123")).startswith(b"n,,n=a=3Db=2Cc,r=")


@pytest.mark.parametrize(
    ("first", "words"),
    [
        (FIRST.replace(NONCE, "x" * 20), "does not belong"),
        (f"r={NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "does not belong"),
        (f"m=ext,{FIRST}", "does not belong"),
        (FIRST.replace("4096", "4095"), "4095 SCRAM iterations"),
        (FIRST.replace("4096", str(ITERATIONS_MAX + 1)), "SCRAM iterations"),
        (FIRST.replace("4096", "many"), "cannot be read"),
        (FIRST.replace("W22Z", "!!!!"), "cannot be read"),
        (f"r={SERVER_NONCE}", "cannot be read"),
        ("", "does not belong"),
    ],
)
def test_a_hostile_first_answer(first, words):
    talk, _ = start()
    with pytest.raises(AuthenticationFailed, match=words):
        talk.send(first.encode())


@pytest.mark.parametrize("final", ["v=AAAA", "v=!", "", "x=1", FINAL.replace("6rri", "7rri")])
def test_a_broker_that_does_not_know_the_password(final):
    talk, _ = start()
    talk.send(FIRST.encode())
    with pytest.raises(AuthenticationFailed, match="could not prove"):
        talk.send(final.encode())


def test_a_broker_that_refuses():
    talk, _ = start()
    talk.send(FIRST.encode())
    with pytest.raises(AuthenticationFailed, match="does not accept"):
        talk.send(b"e=invalid-proof")


def test_tokens():
    talk = oauthbearer("a.b.c")
    assert next(talk) == b"n,,\x01auth=Bearer a.b.c\x01\x01"
    with pytest.raises(StopIteration):
        talk.send(b"")


def test_a_token_that_is_refused():
    talk = oauthbearer("a.b.c")
    next(talk)
    assert talk.send(b'{"status":"invalid_token"}') == b"\x01"
    with pytest.raises(AuthenticationFailed, match="does not accept the token"):
        talk.send(b"")


@pytest.mark.parametrize("token", ["", "a b", "a\x01auth=x", "ä"])
def test_what_is_no_token(token):
    with pytest.raises(AuthenticationFailed, match="no token"):
        next(oauthbearer(token))


@pytest.mark.parametrize(
    ("mechanism", "says"),
    [
        ("PLAIN", b"\0u\0p"), ("SCRAM-SHA-256", b"n,,n=u,r=bg=="), ("SCRAM-SHA-512", b"n,,n=u,r=bg=="),
        ("OAUTHBEARER", b"n,,\x01auth=Bearer t\x01\x01"),
    ],
)  # fmt: skip
def test_the_mechanism_decides(mechanism, says):
    settings = ClientSettings(sasl_mechanism=mechanism, sasl_username="u", sasl_password="p")
    assert next(exchange(settings, b"n", lambda: "t")) == says
