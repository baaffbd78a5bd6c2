"""The client's side of SASL: what is said to the broker, and what must be true of its answers.

Job: one generator per mechanism; it yields bytes for SaslAuthenticate and is sent the broker's. Must not know frames or sockets.

Invariants (a hostile broker is part of the game): a SCRAM nonce must start with ours; the iteration count is 4096 or more and bounded, as work is done
for it; the server's signature is compared in constant time, and without it nobody is taken for authenticated.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Generator
from typing import TYPE_CHECKING, Final, TypeAlias

from barnabas.client.errors import AuthenticationFailed

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.client.settings import ClientSettings

Exchange: TypeAlias = Generator[bytes, bytes, None]

ITERATIONS_MIN: Final = 4096
#: Kafka's own bound for what an administrator may set is 16,384; a million takes half a second of work.
ITERATIONS_MAX: Final = 1_000_000
NONCE_BYTES: Final = 24
_HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}


def exchange(settings: ClientSettings, nonce: bytes, token: Callable[[], str]) -> Exchange:
    """Choose the conversation for the mechanism; `nonce` is fresh random bytes, `token` gives a bearer token."""
    name, password = settings.sasl_username, settings.sasl_password
    if settings.sasl_mechanism in _HASHES:
        return scram(_HASHES[settings.sasl_mechanism], name, password, nonce)
    if settings.sasl_mechanism == "OAUTHBEARER":
        return oauthbearer(token())
    return plain(name, password)


def plain(username: str, password: str) -> Exchange:
    """Say name and password (RFC 4616)."""
    yield b"\0".join((b"", username.encode(), password.encode()))


def oauthbearer(token: str) -> Exchange:
    """Show a token (RFC 7628); an answer with content is a failure, which is to be confirmed."""
    if not token or any(ord(each) <= 0x20 or ord(each) > 0x7E for each in token):
        raise AuthenticationFailed("the token for OAUTHBEARER is empty or no token")
    answer = yield b"n,,\x01auth=Bearer " + token.encode() + b"\x01\x01"
    if answer:
        yield b"\x01"
        raise AuthenticationFailed("the broker does not accept the token for OAUTHBEARER")


def scram(algorithm: str, username: str, password: str, nonce: bytes) -> Exchange:
    """Prove the password without saying it, and have the broker prove that it knows it, too (RFC 5802)."""
    own = base64.b64encode(nonce).decode()
    name = username.replace("=", "=3D").replace(",", "=2C")
    first_bare = f"n={name},r={own}"
    server_first = (yield f"n,,{first_bare}".encode()).decode(errors="replace")
    combined, salt, iterations = _read_server_first(server_first, own)
    salted = hashlib.pbkdf2_hmac(algorithm, password.encode(), salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", algorithm)
    stored_key = hashlib.new(algorithm, client_key).digest()
    final_bare = f"c=biws,r={combined}"
    signed = f"{first_bare},{server_first},{final_bare}".encode()
    signature = hmac.digest(stored_key, signed, algorithm)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    answer = yield f"{final_bare},p={base64.b64encode(proof).decode()}".encode()
    server_key = hmac.digest(salted, b"Server Key", algorithm)
    _check_server_final(answer, hmac.digest(server_key, signed, algorithm))


def _read_server_first(message: str, own_nonce: str) -> tuple[str, bytes, int]:
    parts = dict(part.split("=", 1) for part in message.split(",") if "=" in part)
    combined = parts.get("r", "")
    if "m" in parts or not combined.startswith(own_nonce) or combined == own_nonce:
        raise AuthenticationFailed("the broker's SCRAM answer does not belong to this exchange")
    try:
        salt = base64.b64decode(parts["s"], validate=True)
        iterations = int(parts["i"])
    except (KeyError, ValueError, binascii.Error):
        raise AuthenticationFailed("the broker's SCRAM answer cannot be read") from None
    if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
        raise AuthenticationFailed(
            f"the broker asks for {iterations} SCRAM iterations; {ITERATIONS_MIN} to {ITERATIONS_MAX} are accepted"
        )
    return combined, salt, iterations


def _check_server_final(message: bytes, expected: bytes) -> None:
    kind, _, value = message.partition(b"=")
    if kind == b"e":
        raise AuthenticationFailed("the broker does not accept name and password")
    try:
        given = base64.b64decode(value.split(b",")[0], validate=True)
    except binascii.Error:
        given = b""
    if kind != b"v" or not hmac.compare_digest(given, expected):
        raise AuthenticationFailed("the broker could not prove that it knows the password")
