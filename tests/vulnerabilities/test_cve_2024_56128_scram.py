"""CVE-2024-56128: the server did not look whether its own nonce came back, so that what was heard once could be played again. CVE-2026-10143: a client carried out as many
iterations as a hostile server asked for."""

import pytest

from barnabas.core.sasl.mechanism import SCRAM_SHA_256, LoginRefused
from barnabas.core.sasl.scram import ScramClient, ScramServer
from barnabas.core.sasl.scram_credential import ITERATIONS_MAX, ITERATIONS_MIN, derive

STORED = {"alice": derive(SCRAM_SHA_256, "wonder", b"salt of 16 bytes", 4096)}


def server(nonce):
    return ScramServer(SCRAM_SHA_256, STORED.get, nonce, b"secret")


def test_what_was_heard_once_cannot_be_played_again():
    client, heard = ScramClient(SCRAM_SHA_256, "alice", "wonder", "client"), server("first")
    first = client.next_token(None)
    final = client.next_token(heard.answer(first, 0))
    heard.answer(final, 0)
    assert heard.identity is not None
    again = server("second")
    again.answer(first, 0)
    with pytest.raises(LoginRefused):
        again.answer(final, 0)
    assert again.identity is None


@pytest.mark.parametrize("iterations", [0, 1, ITERATIONS_MIN - 1, ITERATIONS_MAX + 1, 999_999_999])
def test_a_client_carries_out_neither_too_few_nor_too_many_iterations(iterations):
    client = ScramClient(SCRAM_SHA_256, "alice", "wonder", "client")
    client.next_token(None)
    with pytest.raises(LoginRefused):
        client.next_token(f"r=clientserver,s=c2FsdHNhbHRzYWx0,i={iterations}".encode())
