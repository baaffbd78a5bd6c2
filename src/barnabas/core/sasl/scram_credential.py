"""What is kept of a SCRAM user's password, and the text of it that Kafka keeps in ZooKeeper.

Job: from a password to what is kept, and back from its text. Must not know: where it is kept.
Invariants: what is kept does not let anybody log in; iterations are within bounds that are safe for both sides: fewer give
the password away, more let a client be kept busy for as long as somebody likes (kafka-python's CVE-2026-10143).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from dataclasses import dataclass
from typing import Final

from barnabas.core.sasl.mechanism import SCRAM_SHA_256, SCRAM_SHA_512

#: The hash of each mechanism.
HASHES: Final = {SCRAM_SHA_256: "sha256", SCRAM_SHA_512: "sha512"}
#: The mechanisms' numbers in requests.
MECHANISM_NUMBERS: Final = {SCRAM_SHA_256: 1, SCRAM_SHA_512: 2}
ITERATIONS_MIN: Final = 4096
#: As Kafka's.
ITERATIONS_MAX: Final = 16_384
#: What a password is given unless somebody says otherwise.
ITERATIONS: Final = 8192
_FIELDS: Final = ("salt", "stored_key", "server_key", "iterations")


@dataclass(slots=True, frozen=True)
class ScramCredential:
    """RFC 5802's words: from `stored_key` a login is checked, with `server_key` the broker proves that it knows."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


def derive(mechanism: str, password: str, salt: bytes, iterations: int) -> ScramCredential:
    """Make what is kept of a password. Takes milliseconds."""
    name = HASHES[mechanism]
    salted = hashlib.pbkdf2_hmac(name, password.encode(), salt, iterations)
    return from_salted(mechanism, salted, salt, iterations)


def from_salted(mechanism: str, salted: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """Make what is kept of a password that its owner has salted already."""
    name = HASHES[mechanism]
    client_key = hmac.digest(salted, b"Client Key", name)
    stored_key = hashlib.new(name, client_key).digest()
    return ScramCredential(salt, stored_key, hmac.digest(salted, b"Server Key", name), iterations)


def credential_text(credential: ScramCredential) -> str:
    """Write it as Kafka does."""
    fields = (credential.salt, credential.stored_key, credential.server_key)
    texts = [
        f"{name}={base64.b64encode(value).decode()}"
        for name, value in zip(_FIELDS[:-1], fields, strict=True)
    ]
    return ",".join([*texts, f"iterations={credential.iterations}"])


def parse_credential(text: str) -> ScramCredential:
    """Read such a text; ValueError, without the text, if it is none."""
    found = dict(part.strip().partition("=")[::2] for part in text.split(","))
    if set(found) != set(_FIELDS):
        raise ValueError(f"a SCRAM credential has the fields {', '.join(_FIELDS)}")
    try:
        salt, stored_key, server_key = (
            base64.b64decode(found[name], validate=True) for name in _FIELDS[:-1]
        )
        iterations = int(found["iterations"])
    except (binascii.Error, ValueError):
        raise ValueError("a SCRAM credential's fields cannot be read") from None
    return ScramCredential(salt, stored_key, server_key, iterations)
