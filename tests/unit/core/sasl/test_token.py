"""Tokens: which are good, and OAUTHBEARER around them."""

import json
from collections.abc import Callable
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from barnabas.core.sasl.mechanism import Identity, LoginRefused
from barnabas.core.sasl.oauthbearer import OAuthBearerServer, TokenRefused
from barnabas.core.sasl.token import TokenCheck, TokenRules, read_keys

NOW_S = 1_800_000_000
RSA_KEY = rsa.generate_private_key(65537, 2048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())
OTHER_KEY = ec.generate_private_key(ec.SECP256R1())
RULES = TokenRules("https://issuer", ("kafka",))


def key_set(**extra: Any) -> bytes:
    one = json.loads(RSAAlgorithm.to_jwk(RSA_KEY.public_key())) | {"kid": "r", **extra}
    two = json.loads(ECAlgorithm.to_jwk(EC_KEY.public_key())) | {"kid": "e"}
    return json.dumps({"keys": [one, two]}).encode()


CHECK = TokenCheck(RULES, read_keys(key_set()).get)


def token(key: Any = EC_KEY, algorithm: str = "ES256", kid: str | None = "e", **claims: Any) -> str:
    good = {
        "sub": "alice",
        "iss": "https://issuer",
        "aud": "kafka",
        "exp": NOW_S + 60,
        "iat": NOW_S,
    }
    kept = {name: value for name, value in {**good, **claims}.items() if value is not None}
    headers = {} if kid is None else {"kid": kid}
    return jwt.encode(kept, key, algorithm, headers=headers)


def check(one: str) -> Identity:
    return CHECK.check(one, NOW_S * 1000)


@pytest.mark.parametrize(
    "good",
    [
        lambda: token(),
        lambda: token(RSA_KEY, "RS256", "r"),
        lambda: token(RSA_KEY, "PS512", "r"),
        lambda: token(aud=["other", "kafka"]),
        lambda: token(exp=NOW_S + 60, nbf=NOW_S + 10),
    ],
)
def test_good(good: Callable[[], str]) -> None:
    assert check(good()) == Identity("alice", (NOW_S + 60) * 1000)


def test_expired_within_the_skew_of_clocks() -> None:
    assert check(token(exp=NOW_S - 10)).name == "alice"


def nested() -> str:
    """Lists in lists, deeper than a reader goes."""
    import base64

    deep = b'{"alg":"RS256","kid":' + b"[" * 20_000 + b"]" * 20_000 + b"}"
    return base64.urlsafe_b64encode(deep).rstrip(b"=").decode() + ".e30.AAAA"


def forged_hmac() -> str:
    """Sign with the public key as if it were a shared secret, which the library would not do for us."""
    import base64
    import hmac

    public = RSA_KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    body = token().split(".")[1]
    head = base64.urlsafe_b64encode(b'{"alg":"HS256","kid":"r","typ":"JWT"}').rstrip(b"=").decode()
    signature = hmac.digest(public, f"{head}.{body}".encode(), "sha256")
    return f"{head}.{body}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (lambda: token(None, "none"), "algorithm"),
        (lambda: token(OTHER_KEY), "signature"),
        (lambda: token(kid="unknown"), "key id"),
        (lambda: token(kid=None), "key id"),
        (lambda: token(kid="r"), "algorithm"),
        (forged_hmac, "algorithm"),
        (lambda: token(iss="https://other"), "issuer"),
        (lambda: token(iss=None), "issuer"),
        (lambda: token(aud="other"), "audience"),
        (lambda: token(aud=None), "audience"),
        (lambda: token(exp=NOW_S - 60), "expired"),
        (lambda: token(exp=None), "expires"),
        (lambda: token(exp=float("inf")), "time"),
        (lambda: token(nbf=NOW_S + 60), "not good yet"),
        (lambda: token(iat=NOW_S + 600), "not good yet"),
        (lambda: token(sub=None), "sub"),
        (lambda: token()[:-4] + "AAAA", "signature"),
        (lambda: "a.b.c", "signature"),
        (nested, "signature"),
        (lambda: "x" * 100_000, "too long"),
    ],
)
def test_bad(bad: Callable[[], str], why: str) -> None:
    with pytest.raises(TokenRefused, match=why):
        check(bad())


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"{}", b'{"keys":[]}', b'{"keys":[{"kty":"oct","k":"AAAA","kid":"a"}]}']
)
def test_no_keys(text: bytes) -> None:
    with pytest.raises(ValueError, match="key set"):
        read_keys(text)


def test_a_keys_own_algorithm_is_the_only_one() -> None:
    one = TokenCheck(RULES, read_keys(key_set(alg="RS512")).get)
    with pytest.raises(TokenRefused, match="algorithm"):
        one.check(token(RSA_KEY, "RS256", "r"), NOW_S * 1000)
    assert one.check(token(RSA_KEY, "RS512", "r"), NOW_S * 1000).name == "alice"


def first(bearer: str, head: str = "n,,") -> bytes:
    return f"{head}\x01auth=Bearer {bearer}\x01\x01".encode()


def test_login() -> None:
    server = OAuthBearerServer(CHECK.check)
    assert server.answer(first(token(), "n,a=alice,"), NOW_S * 1000) == b""
    assert server.identity == Identity("alice", (NOW_S + 60) * 1000)


def test_bad_token_is_answered_and_then_refused() -> None:
    server = OAuthBearerServer(CHECK.check)
    bad = token(aud="other")
    assert json.loads(server.answer(first(bad), NOW_S * 1000)) == {"status": "invalid_token"}
    for again in (b"\x01", first(token())):
        with pytest.raises(LoginRefused) as refused:
            server.answer(again, NOW_S * 1000)
        assert bad not in str(refused.value)
    assert server.identity is None


@pytest.mark.parametrize(
    "message",
    [b"", b"\xff", b"n,,\x01\x01", b"n,,\x01auth=Basic x\x01\x01", b"y,,\x01auth=Bearer x\x01\x01"],
)
def test_no_message(message: bytes) -> None:
    with pytest.raises(LoginRefused, match="Invalid OAUTHBEARER"):
        OAuthBearerServer(CHECK.check).answer(message, 0)


def test_acting_for_somebody_else_is_refused() -> None:
    with pytest.raises(LoginRefused, match="authorization id"):
        OAuthBearerServer(CHECK.check).answer(first(token(), "n,a=bob,"), NOW_S * 1000)
