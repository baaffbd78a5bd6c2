"""SCRAM (RFC 5802, RFC 7677): a password that neither side sends nor, on the broker's side, keeps.

Job: both sides. Must not know: where credentials come from, who makes nonces.

| the server has seen | it answers                          |
|---------------------|-------------------------------------|
| nothing             | nonce, salt, iterations             |
| the first message   | its own proof, if the client's fits |

Invariants: a name that nobody has is answered like one that somebody has, with the same salt each time, and refused at the
end in the same words; the nonce that comes back is the whole of the one that was sent (CVE-2024-56128); channel binding, which is
not offered, is not accepted; nobody logs in as one and acts as another.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from typing import TYPE_CHECKING, Final

from barnabas.core.sasl.mechanism import Identity, LoginRefused
from barnabas.core.sasl.scram_credential import (
    HASHES,
    ITERATIONS,
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    ScramCredential,
    derive,
)

if TYPE_CHECKING:
    from collections.abc import Callable

REFUSAL: Final = (
    "Authentication failed during authentication due to invalid credentials with SASL mechanism {}"
)
_MALFORMED: Final = "Authentication failed: the SCRAM message cannot be read"
#: A nonce of the client may have this many characters: it is sent back.
_NONCE_MAX: Final = 1024
_CLIENT_FIRST = re.compile(
    r"(?P<gs2>[ny],(?:a=(?P<authzid>[^,\0]+))?,)"
    r"(?P<bare>n=(?P<name>[^,\0]+),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)(?P<extensions>(?:,[a-zA-Z]+=[^,\0]+)*))"
)
_CLIENT_FINAL = re.compile(
    r"(?P<head>c=(?P<binding>[A-Za-z0-9+/=]+),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)(?:,[a-zA-Z]+=[^,\0]+)*)"
    r",p=(?P<proof>[A-Za-z0-9+/=]+)"
)
_SERVER_FIRST = re.compile(
    r"r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+),s=(?P<salt>[A-Za-z0-9+/=]+),i=(?P<iterations>[0-9]{1,9})(?:,.*)?"
)
_ESCAPE = re.compile(r"=(?!2C|3D)")


class ScramServer:
    """The broker's side of one login."""

    def __init__(
        self,
        mechanism: str,
        find: Callable[[str], ScramCredential | None],
        nonce: str,
        secret: bytes,
    ) -> None:
        """Take who knows credentials, a fresh nonce, and a secret from which salts for unknown names come."""
        self._mechanism = mechanism
        self._hash = HASHES[mechanism]
        self._find = find
        self._nonce = nonce
        self._secret = secret
        self._name = ""
        self._gs2 = ""
        self._messages = ""
        self._credential: ScramCredential | None = None
        self._is_known = False
        self.identity: Identity | None = None

    def answer(self, token: bytes, now_ms: int) -> bytes:
        """Take the first message, then the final one."""
        if self._credential is None:
            return self._answer_first(token)
        return self._answer_final(token, self._credential)

    def _answer_first(self, token: bytes) -> bytes:
        message = _match(_CLIENT_FIRST, token)
        name, authorization_id = _unescape(message["name"]), message["authzid"]
        if authorization_id is not None and _unescape(authorization_id) != name:
            raise LoginRefused(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        if "tokenauth" in message["extensions"]:
            raise LoginRefused("Authentication failed: delegation tokens are not supported here")
        if len(message["nonce"]) > _NONCE_MAX:
            raise LoginRefused(_MALFORMED)
        found = self._find(name)
        self._is_known = found is not None
        self._credential = credential = found or self._invent(name)
        self._name, self._gs2 = name, message["gs2"]
        self._nonce = message["nonce"] + self._nonce
        salt = base64.b64encode(credential.salt).decode()
        answer = f"r={self._nonce},s={salt},i={credential.iterations}"
        self._messages = f"{message['bare']},{answer}"
        return answer.encode()

    def _answer_final(self, token: bytes, credential: ScramCredential) -> bytes:
        message = _match(_CLIENT_FINAL, token)
        binding = base64.b64encode(self._gs2.encode()).decode()
        signed = f"{self._messages},{message['head']}".encode()
        signature = hmac.digest(credential.stored_key, signed, self._hash)
        client_key = _xor(_decode(message["proof"]), signature)
        stored_key = hashlib.new(self._hash, client_key).digest()
        is_right = hmac.compare_digest(stored_key, credential.stored_key)
        is_same = hmac.compare_digest(message["nonce"], self._nonce)
        if not (is_right and is_same and message["binding"] == binding and self._is_known):
            raise LoginRefused(REFUSAL.format(self._mechanism))
        self.identity = Identity(self._name)
        proof = hmac.digest(credential.server_key, signed, self._hash)
        return b"v=" + base64.b64encode(proof)

    def _invent(self, name: str) -> ScramCredential:
        """Make a credential for a name nobody has, always the same, that no password fits."""
        seed = hmac.digest(self._secret, f"{self._mechanism}\0{name}".encode(), "sha512")
        size = hashlib.new(self._hash).digest_size
        return ScramCredential(seed[:26], seed[-size:], seed[-size:], ITERATIONS)


class ScramClient:
    """The other side, for connections that a broker opens."""

    def __init__(self, mechanism: str, name: str, password: str, nonce: str) -> None:
        """Take who logs in, and a fresh nonce."""
        self._mechanism = mechanism
        self._hash = HASHES[mechanism]
        self._password = password
        self._nonce = nonce
        escaped = name.replace("=", "=3D").replace(",", "=2C")
        self._bare = f"n={escaped},r={nonce}"
        self._expected: bytes | None = None
        self.is_done = False

    def next_token(self, challenge: bytes | None) -> bytes:
        """Give the first message, then the proof; then check the server's."""
        if challenge is None:
            return f"n,,{self._bare}".encode()
        if self._expected is None:
            return self._prove(challenge)
        if not hmac.compare_digest(challenge, self._expected):
            raise LoginRefused("the broker does not know the password it checks")
        self.is_done = True
        return b""

    def _prove(self, challenge: bytes) -> bytes:
        message = _match(_SERVER_FIRST, challenge)
        iterations = int(message["iterations"])
        if not message["nonce"].startswith(self._nonce) or message["nonce"] == self._nonce:
            raise LoginRefused("the broker answers with another nonce")
        if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
            raise LoginRefused(
                f"the broker asks for {iterations} iterations; allowed are {ITERATIONS_MIN} to {ITERATIONS_MAX}"
            )
        salt = _decode(message["salt"])
        salted = hashlib.pbkdf2_hmac(self._hash, self._password.encode(), salt, iterations)
        credential = derive(self._mechanism, self._password, salt, iterations)
        head = f"c=biws,r={message['nonce']}"
        signed = f"{self._bare},{challenge.decode()},{head}".encode()
        signature = hmac.digest(credential.stored_key, signed, self._hash)
        client_key = hmac.digest(salted, b"Client Key", self._hash)
        proof = base64.b64encode(_xor(client_key, signature)).decode()
        server_proof = hmac.digest(credential.server_key, signed, self._hash)
        self._expected = b"v=" + base64.b64encode(server_proof)
        return f"{head},p={proof}".encode()


def _match(pattern: re.Pattern[str], token: bytes) -> re.Match[str]:
    try:
        found = pattern.fullmatch(token.decode())
    except UnicodeDecodeError:
        found = None
    if found is None:
        raise LoginRefused(_MALFORMED)
    return found


def _unescape(name: str) -> str:
    if _ESCAPE.search(name):
        raise LoginRefused(_MALFORMED)
    return name.replace("=2C", ",").replace("=3D", "=")


def _decode(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise LoginRefused(_MALFORMED) from None


def _xor(one: bytes, other: bytes) -> bytes:
    if len(one) != len(other):
        raise LoginRefused(_MALFORMED)
    return bytes(a ^ b for a, b in zip(one, other, strict=True))
